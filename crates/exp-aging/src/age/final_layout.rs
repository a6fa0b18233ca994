//! The layout at the end of an aging, as values to compare.

use super::events::{ExaminedLayout, ModelledRead};
use super::spec::AgeSpec;
use senesce_core::{Better, Failure, Figure, Measurement};
use senesce_devmodel::DeviceModel;
use senesce_diagnose::reading::{Order, ReadTimes};
use senesce_layout::analysis::map_figure;
use senesce_layout::{FileRuns, Layout, LayoutMap, LayoutSummary, Options};
use senesce_runs::measurements::MODELLED;
use senesce_volume::MountedTarget;
use std::ffi::OsStr;

/// A disk, a SATA SSD and an NVMe drive.
const DRIVES: [&str; 3] = ["st500dm002", "850-evo", "970-evo-plus"];

/// The order in which the modelled reader reads the files.
pub(super) const READ_ORDER: Order = Order::Path;

/// The metric by which agings are compared first.
const LEAD: &str = "discontinuities";

/// Examines the layout, with the modelled times of reading if the specification has a cost. Copies have a map of their own.
pub(super) fn examine(target: &mut MountedTarget, spec: &AgeSpec) -> ExaminedLayout {
    match examined(target, spec) {
        Ok(examined) => examined,
        Err(problem) => ExaminedLayout { problem: problem.to_string(), ..ExaminedLayout::default() },
    }
}

fn examined(target: &mut MountedTarget, spec: &AgeSpec) -> Result<ExaminedLayout, Failure> {
    // The layout that later mounts show: preallocated blocks are free.
    target.settle()?;
    let layout = Layout::examine(target.mount_point(), &Options { map: !spec.copies, ..with_digest() })?;
    let digest = layout.digest();
    let files = layout.runs.unwrap_or_default();
    let births = if spec.has_cost() { births(&files) } else { Vec::new() };
    let read_times = if spec.has_cost() { read_times(&files, &births)? } else { Vec::new() };
    let bytes = |file: u32| files.of(file as usize).iter().map(|run| run.length).sum::<u64>();
    let map = layout.map.and_then(|map| map_with_reference(map, births.iter().map(|file| (*file, bytes(*file)))));
    Ok(ExaminedLayout { layout: Some(layout.summary), problem: String::new(), digest, read_times, map })
}

/// Draws the aged files, below the same files packed in the order of `births`. Returns `None` if no file has data.
fn map_with_reference(aged: LayoutMap, births: impl Iterator<Item = (u32, u64)>) -> Option<Figure> {
    let unaged = aged.packed(births);
    let states: Vec<(String, LayoutMap)> = [("unaged", unaged), ("aged", aged)]
        .into_iter()
        .filter(|(_, map)| !map.is_empty())
        .map(|(name, map)| (name.to_string(), map))
        .collect();
    let mut figure = map_figure(&states, "");
    if states.len() == 2 {
        figure.caption += " Unaged is modelled: packed without gaps, in the order of creation.";
    }
    (!states.is_empty()).then_some(figure)
}

/// Returns the options for a layout that gets a digest.
pub(super) fn with_digest() -> Options {
    Options { runs: true, extents: true, ..Options::default() }
}

fn read_times(files: &FileRuns, births: &[u32]) -> Result<Vec<ModelledRead>, Failure> {
    let mut reads = Vec::new();
    for ReadModel { name, model } in drives()? {
        let times = ReadTimes::of(&model, files, &READ_ORDER.of(files), births);
        reads.extend((times.aged > 0.0).then_some(ModelledRead { drive: name, times }));
    }
    Ok(reads)
}

/// A reference drive.
pub(super) struct ReadModel {
    pub name: String,
    pub model: DeviceModel,
}

impl ReadModel {
    /// Models the seconds to read every file once, in [`READ_ORDER`].
    pub(super) fn seconds(&self, files: &FileRuns) -> f64 {
        let order = READ_ORDER.of(files);
        ReadTimes::of(&self.model, files, &order, &order).aged
    }
}

pub(super) fn drives() -> Result<Vec<ReadModel>, Failure> {
    DRIVES.into_iter().map(|name| Ok(ReadModel { name: name.into(), model: DeviceModel::builtin(name)? })).collect()
}

/// Returns the files in the order of their creation, with which their names begin.
pub(super) fn births(files: &FileRuns) -> Vec<u32> {
    let mut sequence: Vec<u32> = (0..files.len() as u32).collect();
    sequence.sort_by_cached_key(|file| files.path(*file as usize).file_name().map(OsStr::to_os_string));
    sequence
}

pub(super) fn contradiction(examined: &ExaminedLayout) -> Option<String> {
    let of_reads = || {
        let wrong = |seconds: &f64| !(seconds.is_finite() && *seconds > 0.0);
        let times = |times: ReadTimes| [times.in_order, times.created, times.whole, times.aged];
        let of = |read: &ModelledRead| Some((times(read.times).into_iter().find(wrong)?, read.drive.clone()));
        let (seconds, drive) = examined.read_times.iter().find_map(of)?;
        Some(format!("reading takes {seconds} s on {drive}"))
    };
    examined.layout.as_ref().and_then(LayoutSummary::contradiction).or_else(of_reads)
}

/// Returns the values of a layout. The discontinuities come first: they count gaps between files and inside them, and the
/// other values mostly vary with them.
pub(super) fn measurements(examined: &ExaminedLayout) -> Vec<Measurement> {
    let Some(layout) = &examined.layout else { return Vec::new() };
    let extents = layout.extents as f64 / layout.files as f64;
    let free = layout.free_space.as_ref().filter(|free| free.extents > 0).map(|free| free.avg_bytes);
    let values = [
        ("extents per file", "extents/file", Better::Lower, Some(extents)),
        (LEAD, "", Better::Lower, Some(layout.discontinuities.count as f64)),
        ("mean free extent", "bytes", Better::Higher, free),
    ];
    let of_layout = values
        .into_iter()
        .filter_map(|(metric, unit, better, value)| Measurement::new(metric, unit, better, value?).ok());
    let of_reads = examined.read_times.iter().filter_map(|read| {
        let metric = format!("read time{MODELLED}{}", read.drive);
        Some(Measurement::new(&metric, "s", Better::Lower, read.times.aged).ok()?.modelled())
    });
    let judged = |one: Measurement| if one.metric == LEAD { one.lead() } else { one.primary() };
    of_layout.chain(of_reads).map(|one| judged(one).of_layout(examined.digest.clone())).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use senesce_core::FigureKind;

    /// Returns four files in six extents, and three free extents of 64 KiB.
    pub(crate) fn layout_seen() -> ExaminedLayout {
        let read_times = vec![ModelledRead {
            drive: "st500dm002".into(),
            times: ReadTimes { in_order: 1.0, created: 2.0, whole: 3.0, aged: 3.5 },
        }];
        let layout = Some(serde_json::from_value(senesce_layout_summary()).unwrap());
        ExaminedLayout { layout, read_times, ..ExaminedLayout::default() }
    }

    #[test]
    fn layout_values_have_a_direction() {
        let found = measurements(&layout_seen());
        let stated: Vec<_> = found.iter().map(|one| (one.metric.as_str(), one.better, one.value.get())).collect();
        let expected = [
            ("extents per file", Better::Lower, 1.5),
            ("discontinuities", Better::Lower, 7.0),
            ("mean free extent", Better::Higher, 65536.0),
            ("read time, modelled st500dm002", Better::Lower, 3.5),
        ];
        assert_eq!(stated.len(), expected.len());
        for (stated, expected) in stated.iter().zip(expected) {
            assert!(
                (stated.0, stated.1) == (expected.0, expected.1) && (stated.2 - expected.2).abs() < 1e-6,
                "{stated:?}"
            );
        }
        assert!(found.iter().all(|one| one.primary && !one.is_timing()));
        let leading: Vec<_> = found.iter().filter(|one| one.lead).map(|one| &*one.metric).collect();
        assert_eq!(leading, ["discontinuities"]);
        let none = ExaminedLayout { problem: "none".into(), ..ExaminedLayout::default() };
        assert!(measurements(&none).is_empty());
    }

    #[test]
    fn map_has_the_unaged_reference_above_the_aged_files() {
        let map = || {
            let extents =
                serde_json::json!([{"start": 10, "blocks": 1, "file": 0}, {"start": 13, "blocks": 2, "file": 1}]);
            let map = serde_json::json!({"extents": extents, "names": ["a", "b"], "hashes": [1, 2]});
            serde_json::from_value::<LayoutMap>(map).unwrap()
        };
        let rows = |births: &[(u32, u64)]| {
            let figure = map_with_reference(map(), births.iter().copied()).unwrap();
            let FigureKind::Cells { rows, .. } = figure.kind else { panic!("cells") };
            rows.into_iter().map(|row| (row.name, row.cells)).collect::<Vec<_>>()
        };
        let aged = ("aged".to_string(), vec![0, -1, -1, 1, 1]);
        assert_eq!(rows(&[]), std::slice::from_ref(&aged), "without a cost");
        assert_eq!(rows(&[(1, 8192), (0, 4096)]), [("unaged".to_string(), vec![1, 1, 0, -1, -1]), aged]);
        assert!(map_with_reference(LayoutMap::default(), [].into_iter()).is_none());
    }

    fn senesce_layout_summary() -> serde_json::Value {
        let none = serde_json::json!({"extents": 0, "bytes": 0});
        serde_json::json!({
            "target": "t", "file_system": "ext4", "view": "mounted", "method": "fiemap", "files": 4, "extents": 6,
            "fragmented_files": 2, "static_layout_score": 0.9, "tree_layout_score": 0.8,
            "discontinuities": {"count": 7, "log2_blocks": [7]},
            "free_space": {
                "free_blocks": 48, "block_size": 4096, "extents": 3, "min_bytes": 65536, "avg_bytes": 65536.0, "max_bytes": 65536,
                "buckets": [{"from_bytes": 65536, "to_bytes": 131072, "extents": 3, "blocks": 48, "percent": 100.0}],
            },
            "free_space_note": "", "elapsed_seconds": 0.0, "peak_rss_bytes": 0, "blocks": 40,
            "discontinuities_inside_files": {"count": 2, "log2_blocks": [2]}, "size_classes": [], "extents_per_file": [],
            "unwritten": none, "shared": none, "encoded": none, "inline": none, "delayed": none, "extra_links": 0,
            "vanished": 0, "other_file_systems": 0, "directories": 1, "denied": 0,
        })
    }
}
