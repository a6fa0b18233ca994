//! Layouts as tables and figures.

use crate::free::FreeSpace;
use crate::map::{self, LayoutMap};
use crate::score::Discontinuities;
use crate::summary::{FileLayout, LayoutSummary};
use senesce_core::{Analysis, Axis, Better, Figure, FigureKind, Mark, Rows, Series, Table, number_of};
use serde_json::{Value, json};

pub fn analysis(summary: &LayoutSummary, files: &[FileLayout]) -> Analysis {
    let mut analysis = Analysis {
        title: format!("Layout of {} ({})", summary.target, summary.file_system),
        summary: format!("Extents read with {}; {}{}.", summary.method, examined(&summary.view), summary.view),
        caveats: caveats(summary),
        ..Analysis::default()
    };
    analysis.tables.push(overview(summary));
    analysis.tables.push(size_classes(summary));
    analysis.tables.push(discontinuities(&summary.discontinuities));
    if let Some(free) = &summary.free_space {
        analysis.tables.push(free_space(free));
    }
    if !files.is_empty() {
        analysis.tables.push(per_file(files));
    }
    analysis
}

/// Completes the view of a directory: `examined as mounted`.
fn examined(view: &str) -> &'static str {
    if view.starts_with("as mounted") { "examined " } else { "" }
}

fn caveats(summary: &LayoutSummary) -> Vec<String> {
    let mut notes = summary.reservations();
    if summary.free_space.is_none() {
        notes.push(format!("free space: {}", summary.free_space_note));
    }
    let counts = [
        (
            summary.vanished,
            "files or directories were deleted during the examination or are damaged; they are not counted",
        ),
        (summary.denied, "files or directories may not be opened by this user and are not counted (use sudo)"),
        (summary.other_file_systems, "mount points or subvolumes inside the target were not entered"),
        (summary.delayed.extents, "extents were not allocated yet and have no position"),
    ];
    notes.extend(counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")));
    notes
}

fn overview(summary: &LayoutSummary) -> Table {
    let mut table = Table::new("layout", "Files and scores", &["measure", "value"]);
    let per_file = summary.extents as f64 / summary.files.max(1) as f64;
    let rows: [(&str, Value); 12] = [
        ("files", json!(summary.files)),
        ("extents", json!(summary.extents)),
        ("extents per file (empty ones count)", json!(per_file)),
        ("fragmented files", json!(summary.fragmented_files)),
        ("static layout score", json!(summary.static_layout_score)),
        ("tree layout score", json!(summary.tree_layout_score)),
        ("4 KiB blocks", json!(summary.blocks)),
        ("discontinuities of the tree", json!(summary.discontinuities.count)),
        ("discontinuities inside files", json!(summary.discontinuities_inside_files.count)),
        ("unwritten extents", json!(summary.unwritten.extents)),
        ("shared extents", json!(summary.shared.extents)),
        ("inline files", json!(summary.inline.extents)),
    ];
    rows.into_iter().for_each(|(name, value)| table.row((name, value)));
    table
}

fn size_classes(summary: &LayoutSummary) -> Table {
    Rows::of(&summary.size_classes)
        .column("size (KiB), from", |class| class.from_bytes >> 10)
        .column("below", |class| class.to_bytes >> 10)
        .column("files", |class| &class.files)
        .column("4 KiB blocks", |class| &class.blocks)
        .column("static layout score", |class| &class.static_layout_score)
        .table("size-classes", "By allocated size of the file")
}

fn discontinuities(found: &Discontinuities) -> Table {
    let title = "Discontinuities of the tree read in find order";
    Rows::of(found.log2_blocks.iter().enumerate().filter(|(_, count)| **count > 0))
        .column("length (4 KiB blocks), from", |(power, _)| 1u64 << power)
        .column("below", |(power, _)| 1u128 << (power + 1))
        .column("count", |(_, count)| count)
        .table("discontinuities", title)
}

fn free_space(free: &FreeSpace) -> Table {
    let blocks = number_of(free.free_blocks, "block");
    let title = format!("Free space: {blocks} of {} bytes in {}", free.block_size, number_of(free.extents, "extent"));
    Rows::of(&free.buckets)
        .column("size (KiB), from", |bucket| bucket.from_bytes >> 10)
        .column("below", |bucket| bucket.to_bytes >> 10)
        .column("free extents", |bucket| &bucket.extents)
        .column("free blocks", |bucket| &bucket.blocks)
        .column("percent", |bucket| &bucket.percent)
        .table("free-space", &title)
}

fn per_file(files: &[FileLayout]) -> Table {
    let mut table =
        Table::new("files", "Files in find order", &["file", "extents", "4 KiB blocks", "static layout score"]);
    for file in files {
        let FileLayout { path, extents, blocks, static_layout_score, .. } = file;
        table.row((path, extents, blocks, static_layout_score));
    }
    table
}

/// Draws the layout map of one target, or of several states next to each other.
pub fn map_figure(states: &[(String, LayoutMap)], device: &str) -> Figure {
    map::figure("layout-map", "Layout map", device, states)
}

/// Draws the free space of several states: blocks by size of free extent.
pub fn free_space_figure(states: &[(String, FreeSpace)], device: &str) -> Figure {
    let series = states.iter().map(|(name, free)| Series {
        name: name.clone(),
        mark: Mark::Measured,
        points: free
            .buckets
            .iter()
            .map(|bucket| (bucket.from_bytes as f64, (bucket.blocks * free.block_size) as f64))
            .collect(),
        ..Series::default()
    });
    Figure {
        id: "free-space".into(),
        title: "Free space by size of free extent".into(),
        caption: "Bytes in free extents of each power-of-two size range. Aging moves free space to the left.".into(),
        device: device.into(),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: Axis::linear("minimum size of free extent").log2().in_bytes(),
            y: Axis::linear("free space").in_bytes().from_zero(),
            series: series.collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two files of one extent and two empty ones.
    fn summary() -> LayoutSummary {
        let none = json!({"extents": 0, "bytes": 0});
        let jumps = json!({"count": 0, "log2_blocks": []});
        let summary = json!({
            "target": "t", "file_system": "ext4", "view": "mounted", "method": "fiemap", "files": 4, "extents": 2,
            "fragmented_files": 0, "static_layout_score": 1.0, "tree_layout_score": 1.0, "discontinuities": jumps,
            "free_space": null, "free_space_note": "none", "elapsed_seconds": 0.0, "peak_rss_bytes": 0, "blocks": 4,
            "discontinuities_inside_files": jumps, "size_classes": [],
            "extents_per_file": [{"extents": 0, "files": 2}, {"extents": 1, "files": 2}],
            "unwritten": none, "shared": none, "encoded": none, "inline": none, "delayed": none, "extra_links": 0,
            "vanished": 0, "other_file_systems": 0, "directories": 1, "denied": 0,
        });
        serde_json::from_value(summary).unwrap()
    }

    #[test]
    fn empty_files_count_in_the_extents_per_file_and_its_label() {
        let table = overview(&summary());
        let row = table.rows.iter().find(|row| row[1] == json!(0.5)).unwrap();
        assert!(row[0].as_str().unwrap().contains("empty"), "{row:?}");
    }
}
