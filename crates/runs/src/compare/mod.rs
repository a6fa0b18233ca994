//! Compares runs: first the differences of their environments, then every metric under every condition.

mod advice;
mod between_runs;
mod comparable;
mod drift;
mod groups;
mod identical;
mod kept;
mod margin;
mod one_sided;
mod present;
mod round_progress;
mod settings;
mod share;
mod side;
mod until_decided;

pub use share::parse_share;
pub use until_decided::compare_until_decided;

use crate::decided::direction;
use between_runs::BetweenRuns;
use comparable::{comparable, mixed};
use groups::{Group, Groups, Key, Values, agree_on_directions, groups_of, key, units};
use senesce_core::analysis::{Analysis, Better};
use senesce_core::failure::ExitCode;
use senesce_core::measurement::Seconds;
use senesce_core::order::ByNumbers;
use senesce_core::{Failure, Measurement, Record};
use senesce_runner::Registry;
use senesce_stats::arm::{Arm, Mean, Unit, Untestable};
use senesce_stats::floor::Floor;
use senesce_stats::gate::{Gate, gate, gate_all};
use senesce_stats::mean_of_means;
use senesce_stats::ratio::Ratio;
use senesce_stats::recorded::{COMPARISON_ERRORS, Metric, decide_recorded};
use senesce_stats::verdict::{Decision, FAMILY_ERROR, Rule, Verdict, decide};
use serde_json::Value;
use side::Side;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Minimum number of images with which an identical metric passes a gate: as many pairs as a gate of layouts ages at least.
const LEAST_IDENTICAL: usize = 4;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A gate: no primary metric may lose this share (fraction).
    pub fail_on_regression: Option<f64>,
    pub undecided: WhenUndecided,
    pub allow_different: bool,
    /// Difference (fraction) between two single runs of the same plan, if known; `None`: the default. Several runs on
    /// each side show it themselves.
    pub noise: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenUndecided {
    /// Exit code 125, and skipped in JUnit and KTAP.
    #[default]
    CannotTell,
    Fail,
    Pass,
}

#[derive(Debug, Clone)]
pub struct Row {
    pub what: Measurement,
    /// Values of the sample, one group for each unit: each run, or each image of a single run.
    pub sample: Vec<Vec<f64>>,
    pub reference: Vec<Vec<f64>>,
    pub runs: [usize; 2],
    /// Assumed difference (fraction) between two single runs of the same plan.
    pub between_runs: f64,
    /// The verdict, or for a described metric its interval. `None`: no direction is better.
    pub decision: Option<Decision>,
    /// Why it is only described. `None`: it has a verdict.
    pub described: Option<&'static str>,
    pub gate: Option<Gate>,
}

impl Row {
    pub(crate) fn name(&self) -> String {
        match self.what.condition.is_empty() {
            true => self.what.metric.clone(),
            false => format!("{} [{}]", self.what.metric, self.what.condition_text()),
        }
    }

    pub fn judged(&self) -> Option<&Decision> {
        self.decision.as_ref().filter(|_| self.described.is_none())
    }

    /// Returns whether it has an interval, with or without a verdict.
    pub(crate) fn is_testable(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.interval.is_some())
    }

    fn is_identical(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.verdict == Verdict::Identical)
    }

    /// Returns whether its identical images are too few for a gate.
    fn has_few_identical(&self) -> bool {
        self.described.is_none() && self.is_identical() && self.sample.len() < LEAST_IDENTICAL
    }

    /// Returns whether it has an interval that another run could change.
    fn is_uncertain(&self) -> bool {
        self.is_testable() && !self.is_identical()
    }

    /// Returns the mean of the reference and that of the sample. They are geometric, so that the second over the first
    /// is the ratio, but arithmetic if a value is not above zero.
    pub(crate) fn means(&self) -> [Option<f64>; 2] {
        let sides = [&self.reference, &self.sample];
        let has_logarithm = |value: &f64| value.is_finite() && *value > 0.0;
        if !sides.iter().all(|groups| groups.iter().flatten().all(has_logarithm)) {
            return sides.map(|groups| mean_of_means(groups));
        }
        let logs = |groups: &[Vec<f64>]| -> Vec<Vec<f64>> {
            groups.iter().map(|group| group.iter().map(|value| value.ln()).collect()).collect()
        };
        sides.map(|groups| mean_of_means(&logs(groups)).map(f64::exp))
    }
}

#[derive(Debug)]
pub struct Comparison {
    pub sample: Vec<PathBuf>,
    pub reference: Vec<PathBuf>,
    pub environment: Vec<(String, Value, Value)>,
    pub settings: Vec<String>,
    pub rows: Vec<Row>,
    pub caveats: Vec<String>,
    /// Margin of the verdicts, as a fraction.
    pub margin: f64,
    /// Whether a run is on both sides; such a comparison must not pass the gate.
    pub shares_runs: bool,
    pub options: Options,
}

impl Comparison {
    pub(crate) fn gate(&self) -> Gate {
        let Some(limit) = self.options.fail_on_regression else { return Gate::Pass };
        let judged = self.rows.iter().filter_map(|row| Some((row.judged()?.clone(), direction(row.what.better)?)));
        match gate_all(&judged.collect::<Vec<_>>(), limit) {
            Gate::Pass if self.shares_runs || self.rows.iter().any(Row::has_few_identical) => Gate::Undecided,
            gate => gate,
        }
    }

    /// Returns 0; 1 if the gate fails; 125, 1 or 0, as requested, if it is inconclusive.
    pub fn exit_code(&self) -> ExitCode {
        match (self.gate(), self.options.undecided) {
            (Gate::Fail, _) | (Gate::Undecided, WhenUndecided::Fail) => ExitCode::Negative,
            (Gate::Undecided, WhenUndecided::CannotTell) => ExitCode::CannotTell,
            (Gate::Undecided, WhenUndecided::Pass) | (Gate::Pass, _) => ExitCode::Done,
        }
    }

    pub fn analysis(&self) -> Analysis {
        present::analysis(self)
    }

    /// Returns the analysis for a terminal, which counts rows without a verdict instead of listing them.
    pub fn brief_analysis(&self) -> Analysis {
        present::brief(self.analysis())
    }
}

/// Compares the runs in `sample` with those in `reference`. Each run counts as one more image, and copies of a run as
/// one. A usage error if a side is empty, the runs are not comparable, or, without a gate, no metric is in common.
pub fn compare(
    registry: &Registry,
    sample: &[Record],
    reference: &[Record],
    options: &Options,
) -> Result<Comparison, Failure> {
    let (Some(first), Some(base)) = (sample.first(), reference.first()) else {
        return Err(Failure::usage("a comparison needs at least two runs: senesce compare REFERENCE RUN"));
    };
    let all: Vec<&Record> = sample.iter().chain(reference).collect();
    let mut caveats = comparable(&all, options)?;
    caveats.extend([("sample", sample), ("reference", reference)].iter().filter_map(|(name, side)| mixed(name, side)));
    caveats.extend(
        all.iter()
            .filter(|record| record.is_partial())
            .map(|record| format!("{} is partial: the comparison uses its recorded part", record.path.display())),
    );
    caveats.extend(all.iter().filter_map(|record| {
        let reservations = record.environment.0.get(crate::trace::RESERVATIONS)?;
        Some(format!("{}: {reservations}", record.path.display()))
    }));
    let emulated = all.iter().any(|record| record.environment.is_emulated());
    if emulated {
        caveats.push(
            "taken in a guest without real times: times and rates are shown without verdict, only layout gets one"
                .into(),
        );
    }
    let between_runs = BetweenRuns::of(&all, options);
    let emulation = if emulated { Emulation::Somewhere } else { Emulation::Nowhere };
    let sides = [Side::of(registry, "sample", sample)?, Side::of(registry, "reference", reference)?];
    caveats.extend(sides.iter().flat_map(|side| side.caveats.iter().cloned()));
    let shared = sides[0].shared_with(&sides[1]);
    let shares_runs = !shared.is_empty();
    caveats.extend(shared);
    agree_on_directions(&sides[0].groups, &sides[1].groups)?;
    let margin = margin::of_plans(all.iter().map(|record| &record.plan));
    let how = (options, margin);
    let identical = sides[0].layout_values.shared_with(&sides[1].layout_values);
    let mut rows = compared_rows(&sides[0].groups, &sides[1].groups, emulation, how, &between_runs, &identical);
    advice::give(&mut rows, &base.plan);
    if sides.iter().all(|side| side.units == 1) && rows.iter().any(Row::is_uncertain) {
        caveats.push(between_runs.assumed(&rows));
    }
    caveats.extend(between_runs.caveats(&rows).into_iter().chain(between_runs::unknown(&all, &rows)));
    caveats.extend(drift::caveats(&sides, &rows));
    caveats.extend(one_sided::caveats(&sides));
    caveats.extend(rows.iter().filter_map(|row| lacking(row, &sides)));
    if rows.is_empty() {
        let nothing = "the runs do not share a metric under the same condition; nothing to compare";
        if options.fail_on_regression.is_none() {
            return Err(Failure::usage(nothing));
        }
        caveats.push(nothing.into());
    }
    caveats.extend(share::caveat(&rows, options.fail_on_regression));
    Ok(Comparison {
        sample: sample.iter().map(|record| record.path.clone()).collect(),
        reference: reference.iter().map(|record| record.path.clone()).collect(),
        environment: base.environment.differences(&first.environment),
        settings: settings::differences(&base.plan, &first.plan),
        rows,
        caveats,
        margin,
        shares_runs,
        options: options.clone(),
    })
}

/// Returns a caveat for a primary metric that only some runs of a side have: they stand for all.
fn lacking(row: &Row, sides: &[Side<'_>; 2]) -> Option<String> {
    let named = ["sample", "reference"].into_iter().zip(sides).zip(row.runs);
    let short = |((_, side), runs): &((&str, &Side<'_>), usize)| (1..side.units).contains(runs);
    let ((name, side), runs) = named.filter(|_| row.described.is_none()).find(short)?;
    Some(format!("{}: {runs} of {} in the {name} measured it; the others have no such metric", row.name(), side.units))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Emulation {
    Nowhere,
    Somewhere,
}

fn is_emulators(what: &Measurement, other: Option<&Group>) -> bool {
    [Some(what), other.map(|(what, _)| what)].into_iter().flatten().any(|one| one.seconds == Seconds::Emulator)
}

fn rows(sample: &Groups, reference: &Groups, options: &Options, margin: f64) -> Vec<Row> {
    let (between_runs, identical) = (BetweenRuns::default(), BTreeSet::new());
    compared_rows(sample, reference, Emulation::Nowhere, (options, margin), &between_runs, &identical)
}

fn compared_rows(
    sample: &Groups,
    reference: &Groups,
    emulation: Emulation,
    (options, margin): (&Options, f64),
    between_runs: &BetweenRuns,
    identical: &BTreeSet<Key>,
) -> Vec<Row> {
    let has_primary = reference.values().any(|(what, _)| what.primary);
    let mut rows: Vec<Row> = Vec::new();
    for (key, (what, groups)) in reference {
        let ours = sample.get(key).map(|(_, ours)| ours);
        let described =
            if what.is_timing() && (emulation == Emulation::Somewhere || is_emulators(what, sample.get(key))) {
                Some("times have no verdict under emulation")
            } else if what.better == Better::Neither {
                Some("no direction is better")
            } else if has_primary && !what.primary {
                Some("described: only the primary metrics of the workload get verdicts")
            } else {
                None
            };
        // A missing primary metric must not pass the gate; a missing described one is left out.
        if ours.is_none() && described.is_some() {
            continue;
        }
        let ((our_runs, sample), (runs, reference)) = (ours.map(units).unwrap_or_default(), units(groups));
        let (what, runs) = (what.clone(), [our_runs, runs]);
        let between_runs = between_runs.of_row(&what);
        let decision = identical.contains(key).then(Decision::identical);
        rows.push(Row { what, sample, reference, runs, between_runs, decision, described, gate: None });
    }
    judge(&mut rows, options, margin);
    let name_unit = |row: &mut Row| match row.decision.as_mut().and_then(|decision| decision.unit.as_mut()) {
        // Each aging is an image, and no quieter machine changes its layout.
        Some(unit) if *unit == Unit::Image && row.what.layout.is_none() && row.runs.iter().all(|runs| *runs > 1) => {
            *unit = Unit::Run
        }
        _ => {}
    };
    // A described metric gets its own interval.
    for row in rows.iter_mut().filter(|row| row.described.is_some() && row.decision.is_none()) {
        row.decision =
            direction(row.what.better).map(|direction| decide(&ratio(row), Rule { direction, margin }, FAMILY_ERROR));
    }
    rows.iter_mut().for_each(name_unit);
    rows.sort_by_cached_key(|row| {
        let what = &row.what;
        (ByNumbers(what.metric.clone()), what.unit.clone(), ByNumbers(what.condition_text()))
    });
    rows
}

/// Decides all rows that are not described, as one family. Rows with identical layouts are decided already.
fn judge(rows: &mut [Row], options: &Options, margin: f64) {
    rows.iter_mut().filter(|row| row.decision.is_some()).for_each(|row| with_gate(row, options));
    let (mut judged, mut family) = (Vec::new(), Vec::new());
    for row in rows.iter_mut().filter(|row| row.described.is_none() && row.decision.is_none()) {
        let Some(direction) = direction(row.what.better) else { continue };
        family.push(Metric { ratio: ratio(row), rule: Rule { direction, margin }, is_lead: row.what.lead });
        judged.push(row);
    }
    for (row, decision) in judged.into_iter().zip(decide_recorded(&family, COMPARISON_ERRORS)) {
        row.decision = Some(decision);
        with_gate(row, options);
    }
}

fn with_gate(row: &mut Row, options: &Options) {
    let limit = options.fail_on_regression.filter(|_| row.described.is_none());
    let Some((limit, direction)) = limit.zip(direction(row.what.better)) else { return };
    let interval = row.decision.as_ref().and_then(|decision| decision.interval).filter(|_| !row.has_few_identical());
    row.gate = Some(interval.map_or(Gate::Undecided, |interval| gate(&interval, direction, limit)));
}

/// Returns the ratio of the sample to the reference. A single run also gets the variation between runs. It comes from
/// the runs of the other side if there are several, but is at least the assumed one.
fn ratio(row: &Row) -> Result<Ratio, Untestable> {
    one_sided::of_both(row)?;
    let (sample, reference) = (Arm::of(&row.sample, Mean::Geometric)?, Arm::of(&row.reference, Mean::Geometric)?);
    let ratio = Ratio::of(&sample, &reference);
    let several = match row.runs {
        [1, 1] => return Ok(ratio.with_floor(Floor::assumed(row.between_runs))),
        [1, _] => &row.reference,
        [_, 1] => &row.sample,
        _ => return Ok(ratio),
    };
    let means: Vec<f64> = several.iter().filter_map(|run| senesce_stats::mean(run)).collect();
    Ok(ratio.with_floor(Floor::of_runs(&means)?.at_least(row.between_runs)))
}
