//! Runs the fuzz target's body on its committed corpus and on random changes.

use rand_pcg::rand_core::Rng;
use senesce_core::Seed;

#[path = "../../../../fuzz/shared/tier_region.rs"]
mod tier_region;

#[test]
fn corpus_is_checked() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tier_region");
    let mut sound = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        sound += u32::from(tier_region::exercise(&std::fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(sound > 0, "the unchanged image is in the corpus");
}

#[test]
fn random_changes_are_checked() {
    judge(150);
}

#[test]
#[ignore = "long: a minute"]
fn many_random_changes_are_checked() {
    judge(3000);
}

fn judge(rounds: u32) {
    let mut random = Seed(42).stream("tierfs/damaged-regions");
    let mut sound = 0;
    for round in 0..rounds {
        let mut patches = Vec::new();
        for _ in 0..1 + round % 4 {
            // Most of the image is file content or free, so the first blocks are targeted as well.
            let span = if random.next_u32().is_multiple_of(2) { 4 * 4096 } else { 160 * 4096 };
            let at = (random.next_u32() % span) & !7;
            let value = match random.next_u32() % 4 {
                0 => random.next_u64(),
                1 => random.next_u64() % 128,
                2 => 1 << (random.next_u32() % 64),
                _ => u64::MAX,
            };
            patches.extend(at.to_le_bytes());
            patches.extend(value.to_le_bytes());
        }
        sound += u32::from(tier_region::exercise(&patches));
    }
    assert!(sound > 0 && sound < rounds * 49 / 50, "{sound} of {rounds} were called sound");
}
