use super::*;
use proptest::prelude::*;

const B: u64 = SCORE_BLOCK;

fn extent(logical: u64, physical: u64, blocks: u64) -> Extent {
    Extent::plain(logical * B, physical * B, blocks * B)
}

#[test]
fn one_run_scores_one_and_every_other_block_scores_zero() {
    let mut totals = Totals::default();
    let whole = totals.file(&[extent(0, 100, 8)]);
    assert_eq!(whole.static_parts(), Some((7, 7)));
    let scattered: Vec<_> = (0..8).map(|block| extent(block, 200 + 2 * block, 1)).collect();
    let shape = totals.file(&scattered);
    assert_eq!(shape.static_parts(), Some((0, 7)));
    assert_eq!(shape.extents, 8);
    let scores = tree_scores(&[whole, shape], &totals.inside);
    assert_eq!(scores.static_layout_score, Some(0.5));
    assert_eq!(scores.fragmented_files, 1);
    // 7 jumps inside, one between the files (from block 108 to 200, 92 blocks), 16 blocks.
    assert_eq!(scores.tree_layout_score, Some(0.5));
    assert_eq!(scores.discontinuities.count, 8);
    assert_eq!(scores.discontinuities.log2_blocks, vec![7, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn adjacent_mappings_are_one_extent_and_holes_have_no_blocks() {
    let mut totals = Totals::default();
    let file = [extent(0, 10, 2), extent(2, 12, 2).marked(ExtentKind::UNWRITTEN), extent(8, 14, 1)];
    let shape = totals.file(&file);
    assert_eq!((shape.extents, shape.blocks, shape.breaks), (1, 5, 0));
    assert_eq!(totals.unwritten, Tally { extents: 1, bytes: 2 * B });
}

#[test]
fn hole_with_reserved_space_is_one_extent_but_a_jump() {
    let mut totals = Totals::default();
    let shape = totals.file(&[extent(0, 100, 1), extent(4, 104, 1)]);
    assert_eq!((shape.extents, shape.breaks), (1, 1));
}

#[test]
fn inline_data_are_an_extent_without_blocks() {
    let mut totals = Totals::default();
    let inline = Extent { length: 100, kind: ExtentKind::INLINE, ..Extent::default() };
    let shape = totals.file(&[inline]);
    assert_eq!((shape.extents, shape.blocks, shape.static_parts()), (1, 0, None));
    assert_eq!(totals.inline, Tally { extents: 1, bytes: 100 });
    let scores = tree_scores(&[shape], &totals.inside);
    assert_eq!((scores.static_layout_score, scores.tree_layout_score), (None, None));
}

#[test]
fn single_block_files_are_excluded_from_the_static_score() {
    let mut totals = Totals::default();
    let shapes = [totals.file(&[extent(0, 9, 1)]), totals.file(&[extent(0, 20, 3)])];
    let scores = tree_scores(&shapes, &totals.inside);
    assert_eq!(scores.static_layout_score, Some(1.0));
    let classes: Vec<_> =
        scores.size_classes.iter().map(|class| (class.from_bytes, class.static_layout_score)).collect();
    assert_eq!(classes, vec![(B, None), (2 * B, Some(1.0))]);
}

fn reference(files: &[Vec<Extent>]) -> (Option<f64>, Option<f64>) {
    let blocks = |file: &Vec<Extent>| -> Vec<u64> {
        file.iter().flat_map(|extent| (0..extent.length / B).map(|block| extent.physical / B + block)).collect()
    };
    let (mut following, mut possible) = (0, 0);
    let mut sequence = Vec::new();
    for file in files {
        let blocks = blocks(file);
        possible += blocks.len().saturating_sub(1) as u64;
        following += blocks.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as u64;
        sequence.extend(blocks);
    }
    let jumps = sequence.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let tree = (!sequence.is_empty()).then(|| 1.0 - jumps as f64 / sequence.len() as f64);
    (share(following, possible), tree)
}

fn file() -> impl Strategy<Value = Vec<Extent>> {
    proptest::collection::vec((0u64..40, 1u64..6), 0..8).prop_map(|pieces| {
        let mut logical = 0;
        pieces
            .into_iter()
            .map(|(physical, blocks)| {
                logical += blocks;
                extent(logical - blocks, physical + 1, blocks)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn scores_match_the_definition(files in proptest::collection::vec(file(), 0..12)) {
        let mut totals = Totals::default();
        let shapes: Vec<_> = files.iter().map(|file| totals.file(file)).collect();
        let scores = tree_scores(&shapes, &totals.inside);
        let (static_score, tree_score) = reference(&files);
        prop_assert_eq!(scores.static_layout_score, static_score);
        prop_assert_eq!(scores.tree_layout_score, tree_score);
        prop_assert_eq!(scores.discontinuities.log2_blocks.iter().sum::<u64>(), scores.discontinuities.count);
        prop_assert_eq!(scores.size_classes.iter().map(|class| class.blocks).sum::<u64>(), scores.blocks);
    }
}
