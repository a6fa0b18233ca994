//! Cells, figures and tables of compressed agings.

use super::certificate::{self, Cell};
use super::{Aged, AgingKind, Spec};
use crate::aged_image::ImageLayout;
use crate::equal_layouts::{all_equal, answer, compare};
use senesce_core::Measurement;
use senesce_core::Rows;
use senesce_core::analysis::*;
use senesce_volume::FileSystem;
use serde_json::json;

pub(super) fn cells(spec: &Spec, agings: &[Aged]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for profile in &spec.profiles {
        for fs in &spec.fs {
            let mut own = of_profile(spec, agings, profile, *fs);
            certify(&mut own);
            own.reverse();
            cells.append(&mut own);
        }
    }
    cells
}

fn of_profile(spec: &Spec, agings: &[Aged], profile: &str, fs: FileSystem) -> Vec<Cell> {
    let own: Vec<&Aged> = agings.iter().filter(|aged| aged.step.profile == profile && aged.step.fs == fs).collect();
    let layouts = |kind: AgingKind| -> Vec<&ImageLayout> {
        own.iter().filter(|aged| aged.step.kind == kind).map(|aged| &aged.image.layout).collect()
    };
    let (full, half) = (layouts(AgingKind::Full), layouts(AgingKind::Half));
    let unfinished =
        own.iter().any(|aged| aged.step.kind == AgingKind::Full && (aged.virtual_t as f64) < aged.t_bound.floor());
    let stationary = unfinished.then(|| all_equal(compare(&half, &full).as_deref()) == Some(true));
    let mut turnovers = spec.turnovers.clone();
    turnovers.sort_by(|a, b| b.total_cmp(a));
    let cell = |turnovers: f64| {
        let kind = AgingKind::Compressed(turnovers);
        let played = own.iter().find(|aged| aged.step.kind == kind)?;
        let layouts = layouts(kind);
        let numbers = compare(&layouts, &full);
        Some(Cell {
            profile: profile.into(),
            file_system: fs.name().into(),
            size: spec.size.0,
            fullness: spec.fullness,
            threads: spec.threads,
            turnovers,
            saved_factor: played.virtual_t as f64 / played.image.operations.max(1) as f64,
            agings: layouts.len().min(full.len()),
            stationary,
            equivalent: all_equal(numbers.as_deref()),
            certified: false,
            numbers: numbers.unwrap_or_default(),
        })
    };
    turnovers.into_iter().filter_map(cell).collect()
}

/// Fewer agings prove nothing.
const LEAST_AGINGS: usize = 8;

/// Goes from the highest maximum down while layouts are equal. Below the first unequal one nothing is certified.
fn certify(cells: &mut [Cell]) {
    let mut holds = true;
    for cell in cells {
        holds &= cell.equivalent == Some(true) && cell.stationary != Some(false) && cell.agings >= LEAST_AGINGS;
        cell.certified = holds;
    }
}

/// Returns the largest certified factor of each profile on each file system; 1 if none. The factor has no value if too
/// few agings were compared or the reference is not stationary.
pub(super) fn largest_factors(spec: &Spec, cells: &[Cell]) -> Vec<Measurement> {
    let factor = |(profile, fs): (&String, &FileSystem)| {
        let own = || cells.iter().filter(move |cell| cell.profile == *profile && cell.file_system == fs.name());
        own().find(|cell| cell.agings >= LEAST_AGINGS && cell.stationary != Some(false))?;
        let greatest = own().filter(|cell| cell.certified).map(|cell| cell.saved_factor).fold(1.0, f64::max);
        let one = Measurement::new("largest certified factor", "times", Better::Higher, greatest).ok()?;
        Some(one.under("fs", fs.name()).under("profile", &**profile))
    };
    let pairs = spec.profiles.iter().flat_map(|profile| spec.fs.iter().map(move |fs| (profile, fs)));
    pairs.filter_map(factor).collect()
}

pub(super) fn analyse(spec: &Spec, agings: &[Aged]) -> Analysis {
    let cells = cells(spec, agings);
    let certified = cells.iter().filter(|cell| cell.certified).count();
    Analysis {
        title: "Compressed agings compared with full ones".into(),
        summary: format!(
            "{} agings of {} at {:.0} % fullness by {}. {certified} of {} compressions left a layout that is proven equal to the full one's.",
            agings.len(),
            spec.size,
            spec.fullness * 100.0,
            certificate::hands(spec.threads),
            cells.len()
        ),
        figures: spec.fs.iter().map(|fs| figure(spec, &cells, *fs)).collect(),
        tables: vec![table(&cells), numbers(&cells)],
        findings: Vec::new(),
        caveats: Vec::new(),
        result: json!({"cells": cells}),
    }
}

fn figure(spec: &Spec, cells: &[Cell], fs: FileSystem) -> Figure {
    let series = spec.profiles.iter().map(|profile| {
        let own = cells.iter().filter(|cell| cell.profile == *profile && cell.file_system == fs.name());
        let ratio = |cell: &Cell| {
            let extents = cell.numbers.iter().find(|number| number.measure == "free extents")?;
            Some((cell.saved_factor, extents.sample / extents.reference))
        };
        let mut points: Vec<(f64, f64)> = own.filter_map(ratio).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(profile, Mark::Measured, points)
    });
    Figure {
        id: format!("compressed-{fs}"),
        title: format!("{fs}: free extents of compressed agings over those of full ones"),
        caption: "1 is the full aging. Points further right execute fewer operations for the same ages.".into(),
        device: format!("images of {} in memory", spec.size),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: Axis::linear("Times fewer operations").log10(),
            y: Axis::linear("Free extents over those of the full aging").from_zero(),
            series: series.collect(),
        },
    }
}

fn table(cells: &[Cell]) -> Table {
    Rows::of(cells)
        .column("profile", |cell| &cell.profile)
        .column("file system", |cell| &cell.file_system)
        .column("turnovers per bin", |cell| &cell.turnovers)
        .column("times fewer operations", |cell| cell.saved_factor)
        .column("agings", |cell| &cell.agings)
        .column("equal", |cell| answer(cell.equivalent))
        .column("certified", |cell| answer(Some(cell.certified)))
        .column("differs in", |cell| {
            cell.numbers
                .iter()
                .filter(|number| !number.equal)
                .map(|number| &*number.measure)
                .chain(if cell.stationary == Some(false) { Some("the reference is not stationary") } else { None })
                .collect::<Vec<_>>()
                .join(", ")
        })
        .table("cells", "Compressed agings")
}

fn numbers(cells: &[Cell]) -> Table {
    Rows::of(cells.iter().flat_map(|cell| cell.numbers.iter().map(move |number| (cell, number))))
        .column("profile", |(cell, _)| &cell.profile)
        .column("file system", |(cell, _)| &cell.file_system)
        .column("turnovers per bin", |(cell, _)| &cell.turnovers)
        .column("number", |(_, number)| &number.measure)
        .column("compressed", |(_, number)| &number.sample)
        .column("full", |(_, number)| &number.reference)
        .column("margin", |(_, number)| &number.margin)
        .column("p", |(_, number)| &number.p)
        .column("equal", |(_, number)| answer(Some(number.equal)))
        .table("numbers", "Each number")
}

#[cfg(test)]
mod tests {
    use super::super::CompressedAging;
    use super::*;
    use senesce_claims::{ClaimSet, Facts, decide};
    use senesce_core::{Bytes, Level, Verdict};
    use senesce_runner::{Experiment, Run};

    fn cell(turnovers: f64, equivalent: Option<bool>, agings: usize, stationary: Option<bool>) -> Cell {
        Cell {
            profile: "agrawal".into(),
            file_system: "ext4".into(),
            size: Bytes::gib(1),
            fullness: 0.8,
            threads: 1,
            turnovers,
            saved_factor: 2.0,
            agings,
            stationary,
            equivalent,
            certified: false,
            numbers: Vec::new(),
        }
    }

    fn certified(cells: &[(Option<bool>, usize, Option<bool>)]) -> Vec<bool> {
        let mut cells: Vec<Cell> =
            cells.iter().map(|(equal, agings, still)| cell(4.0, *equal, *agings, *still)).collect();
        certify(&mut cells);
        cells.iter().map(|cell| cell.certified).collect()
    }

    #[test]
    fn nothing_is_certified_below_an_unequal_maximum() {
        let (yes, no) = ((Some(true), 8, None), (Some(false), 8, None));
        assert_eq!(certified(&[yes, yes, no, yes]), [true, true, false, false]);
        assert_eq!(certified(&[no, yes]), [false, false]);
    }

    fn verdict(cells: &[Cell]) -> Verdict {
        let spec = Spec {
            profiles: vec!["agrawal".into()],
            fs: vec![FileSystem::Ext4],
            ..CompressedAging::defaults(Level::Quick)
        };
        let set = ClaimSet::parse(CompressedAging::CLAIMS, CompressedAging::PUBLISHED).unwrap();
        let values = largest_factors(&spec, cells);
        decide(&set, &values, &Facts::of(Level::Quick))[0].verdict
    }

    #[test]
    fn need_for_all_operations_depends_on_certified_factors() {
        let kept = Cell { certified: true, ..cell(4.0, Some(true), 8, None) };
        let lost = cell(2.0, Some(false), 8, None);
        assert_eq!(verdict(&[kept, lost.clone()]), Verdict::NotSupported);
        // Equal below an unequal maximum: not certified.
        assert_eq!(verdict(&[cell(1.0, Some(true), 8, None), lost.clone()]), Verdict::Supported);
        assert_eq!(verdict(&[lost]), Verdict::Supported);
        assert_eq!(verdict(&[cell(1.0, Some(true), 2, None)]), Verdict::NotTestable, "too few agings");
        assert_eq!(verdict(&[cell(1.0, Some(true), 8, Some(false))]), Verdict::NotTestable, "a reference that moves");
    }

    #[test]
    fn few_agings_or_a_moving_reference_certify_nothing() {
        assert_eq!(certified(&[(Some(true), 7, None)]), [false]);
        assert_eq!(certified(&[(None, 8, None)]), [false]);
        assert_eq!(certified(&[(Some(true), 8, Some(false))]), [false]);
        assert_eq!(certified(&[(Some(true), 8, Some(true))]), [true]);
    }
}
