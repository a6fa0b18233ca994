//! Cells, figures and tables of the aging clock.

use super::{Aged, Spec, finest, free_extent_difference};
use crate::aged_image::ImageLayout;
use crate::equal_layouts::{all_equal, answer, compare};
use senesce_aging::CommitShare;
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_volume::FileSystem;
use serde::Serialize;
use serde_json::{Value, json};

/// All agings of one plan on one file system at one share.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    profile: String,
    file_system: String,
    commit_share: Option<f64>,
    agings: usize,
    operations: u64,
    commits: u64,
    operations_per_commit: Option<f64>,
    unasked_commits: Option<u64>,
    extents_per_file: f64,
    fragmented_files: f64,
    static_layout_score: f64,
    free_extents: f64,
    free_extents_least: u64,
    free_extents_most: u64,
    /// Whether all agings at full speed have identical layout values; `null` for a single aging.
    identical: Option<bool>,
    /// Maximum difference of free extents from the first aging, in percent.
    spread_percent: Option<f64>,
    /// The same difference for the slowed aging.
    slowed_percent: Option<f64>,
    slowed_identical: Option<bool>,
    cpu_seconds: f64,
    /// CPU time relative to the agings without a clock.
    cost: Option<f64>,
    /// Commits of the smallest share over those of this one.
    saved_factor: Option<f64>,
    /// Whether the layout is proven equal to that of the smallest share; `null` for the smallest share itself.
    equivalent: Option<bool>,
    is_finest: bool,
}

struct Group<'a> {
    full: Vec<&'a Aged>,
    slowed: Option<&'a Aged>,
}

impl<'a> Group<'a> {
    fn of(agings: &'a [Aged], profile: &str, fs: FileSystem, share: CommitShare) -> Self {
        let here = |aged: &&Aged| aged.step.profile == profile && aged.step.fs == fs && aged.step.share == share;
        let (slowed, full): (Vec<_>, Vec<_>) = agings.iter().filter(here).partition(|aged| aged.step.slowed);
        Self { full, slowed: slowed.first().copied() }
    }

    fn mean(&self, of: impl Fn(&Aged) -> f64) -> f64 {
        self.full.iter().map(|aged| of(aged)).sum::<f64>() / self.full.len().max(1) as f64
    }

    fn layouts(&self) -> Vec<&'a ImageLayout> {
        self.full.iter().map(|aged| &aged.image.layout).collect()
    }
}

fn cell(spec: &Spec, agings: &[Aged], profile: &str, fs: FileSystem, share: CommitShare) -> Option<Cell> {
    let group = Group::of(agings, profile, fs, share);
    let first = *group.full.first()?;
    let fine = finest(spec).map(|share| Group::of(agings, profile, fs, *share));
    let free = Group::of(agings, profile, fs, CommitShare::NONE);
    let extents = group.full.iter().map(|aged| aged.image.layout.free_extents);
    let commits = first.image.commits;
    let is_finest = finest(spec) == Some(&share);
    let others = fine.as_ref().filter(|_| !is_finest);
    let compared = others.and_then(|fine| compare(&group.layouts(), &fine.layouts()));
    let is_compared = group.full.len() > 1;
    let spread = || group.full.iter().map(|aged| free_extent_difference(first, aged)).fold(0.0, f64::max);
    let fine_commits = fine.as_ref().and_then(|fine| fine.full.first()).map(|aged| aged.image.commits);
    let cpu_seconds = group.mean(|aged| aged.image.cpu_seconds);
    let unclocked = free.mean(|aged| aged.image.cpu_seconds);
    Some(Cell {
        profile: profile.into(),
        file_system: fs.name().into(),
        commit_share: share.share(),
        agings: group.full.len(),
        operations: first.image.operations,
        commits,
        operations_per_commit: (commits > 0).then(|| first.image.operations as f64 / commits as f64),
        unasked_commits: group.full.iter().filter_map(|aged| aged.image.unasked_commits).max(),
        extents_per_file: group.mean(|aged| aged.image.layout.extents_per_file()),
        fragmented_files: group.mean(|aged| aged.image.layout.fragmented_files as f64),
        static_layout_score: group.mean(|aged| aged.image.layout.static_layout_score),
        free_extents: group.mean(|aged| aged.image.layout.free_extents as f64),
        free_extents_least: extents.clone().min()?,
        free_extents_most: extents.max()?,
        identical: is_compared.then(|| group.full.iter().all(|aged| aged.image.layout == first.image.layout)),
        spread_percent: is_compared.then(spread),
        slowed_percent: group.slowed.map(|slowed| free_extent_difference(first, slowed)),
        slowed_identical: group.slowed.map(|slowed| slowed.image.layout == first.image.layout),
        cpu_seconds,
        cost: (!free.full.is_empty() && unclocked > 0.0).then_some(cpu_seconds / unclocked),
        saved_factor: fine_commits.filter(|_| commits > 0).map(|fine| fine as f64 / commits as f64),
        equivalent: all_equal(compared.as_deref()),
        is_finest,
    })
}

pub(super) fn analyse(spec: &Spec, agings: &[Aged]) -> Analysis {
    let mut cells = Vec::new();
    for profile in &spec.profiles {
        for fs in &spec.fs {
            cells.extend(spec.shares.iter().filter_map(|share| cell(spec, agings, profile, *fs, *share)));
        }
    }
    let slowed = |aged: &&Aged| aged.step.slowed;
    Analysis {
        title: "The clock of an aging".into(),
        summary: format!(
            "{} agings of {} at {:.0} % fullness, {:.1} overwrites, of the same plan at each share of the free space per commit; \
             {} of them {} times slower.",
            agings.len(),
            spec.size,
            spec.fullness * 100.0,
            spec.overwrites,
            agings.iter().filter(slowed).count(),
            spec.slowed,
        ),
        figures: spec.profiles.iter().flat_map(|profile| figures(spec, &cells, profile)).collect(),
        tables: vec![table(&cells)],
        findings: Vec::new(),
        caveats: vec![
            "agings with commit share 'none' have no clock: the file system freed blocks when it committed by itself"
                .into(),
        ],
        result: json!({"cells": cells}),
    }
}

/// Draws one line per file system over operations per commit. Agings without a clock are placed at the number of all
/// operations.
fn figures(spec: &Spec, cells: &[Cell], profile: &str) -> Vec<Figure> {
    let figure = |id: &str, title: &str, axis: Axis, value: &dyn Fn(&Cell) -> f64| {
        let series = spec.fs.iter().map(|fs| {
            let own = cells.iter().filter(|cell| cell.profile == profile && cell.file_system == fs.name());
            let mut points: Vec<(f64, f64)> =
                own.map(|cell| (cell.operations_per_commit.unwrap_or(cell.operations as f64), value(cell))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series::new(fs.name(), Mark::Measured, points)
        });
        Figure {
            id: format!("{id}-{profile}"),
            title: format!("{title}, {profile}"),
            caption: "Means of agings of the same plan. The rightmost points have no clock: all operations share \
                 one commit, or the commits that the file system makes by itself."
                .into(),
            device: format!("images of {} in memory", spec.size),
            better: Better::Neither,
            kind: FigureKind::Lines {
                x: Axis::linear("Operations per commit").log10(),
                y: axis,
                series: series.collect(),
            },
        }
    };
    vec![
        figure("extents", "Extents per file", Axis::linear("Extents per file"), &|cell| cell.extents_per_file),
        figure("free-extents", "Free extents", Axis::linear("Free extents").from_zero(), &|cell| cell.free_extents),
    ]
}

fn table(cells: &[Cell]) -> Table {
    Rows::of(cells)
        .column("profile", |cell| &cell.profile)
        .column("file system", |cell| &cell.file_system)
        .column("commit share", |cell| {
            cell.commit_share.map_or(json!("none"), |share| json!(format!("{}%", share * 100.0)))
        })
        .column("operations per commit", |cell| cell.operations_per_commit)
        .column("agings", |cell| &cell.agings)
        .column("extents per file", |cell| &cell.extents_per_file)
        .column("fragmented files", |cell| &cell.fragmented_files)
        .column("free extents", |cell| &cell.free_extents)
        .column("from", |cell| cell.free_extents_least)
        .column("to", |cell| cell.free_extents_most)
        .column("spread (%)", |cell| cell.spread_percent)
        .column("slowed (%)", |cell| cell.slowed_percent)
        .column("identical", |cell| answer(cell.identical))
        .column("CPU (s)", |cell| &cell.cpu_seconds)
        .column("times without clock", |cell| cell.cost)
        .column("equal to the smallest share", |cell| {
            if cell.is_finest { Value::Null } else { json!(answer(cell.equivalent)) }
        })
        .table("cells", "Layout by commit share")
}

#[cfg(test)]
mod tests {
    use super::super::{AgingClock, Step};
    use super::*;
    use crate::aged_image::AgedImage;
    use senesce_core::Level;
    use senesce_runner::Experiment;

    fn aged(share: CommitShare, repeat: u32, free_extents: u64) -> Aged {
        let layout = ImageLayout {
            files: 100,
            extents: 120,
            fragmented_files: 10,
            static_layout_score: 0.9,
            tree_layout_score: 0.9,
            free_extents,
            largest_free_bytes: 1 << 20,
            read_seconds: 1.0,
            free_blocks: vec![10.0],
            files_by_extents: vec![100.0],
        };
        let image =
            AgedImage { operations: 1000, commits: 10, unasked_commits: None, seconds: 1.0, cpu_seconds: 0.1, layout };
        Aged { step: Step { profile: "agrawal".into(), fs: FileSystem::Ext4, share, repeat, slowed: false }, image }
    }

    fn stated(agings: &[Aged], name: &str) -> Value {
        let spec = AgingClock::defaults(Level::Smoke);
        let table = analyse(&spec, agings).tables.remove(0);
        let column = table.columns.iter().position(|column| column == name).unwrap();
        assert_eq!(table.rows.len(), 1);
        table.rows[0][column].clone()
    }

    #[test]
    fn single_aging_is_not_compared() {
        let first = aged(CommitShare::NONE, 0, 50);
        assert_eq!(stated(std::slice::from_ref(&first), "identical"), "too few agings");
        assert_eq!(stated(std::slice::from_ref(&first), "spread (%)"), Value::Null);
        let two = |free_extents| [first.clone(), aged(CommitShare::NONE, 1, free_extents)];
        assert_eq!((stated(&two(50), "identical"), stated(&two(60), "identical")), (json!("yes"), json!("no")));
    }

    #[test]
    fn smallest_share_is_not_compared_with_itself() {
        let agings: Vec<Aged> = (0..8).map(|repeat| aged(CommitShare::DEFAULT, repeat, 50)).collect();
        assert_eq!(stated(&agings, "equal to the smallest share"), Value::Null);
    }
}
