//! Each kernel against the one before, and the last against the first.

use super::{AgedStep, Spec, Step};
use senesce_core::analysis::{Analysis, Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Measurement, Rows};
use senesce_gate::aged::Aged;
use senesce_gate::metric::{METRICS, Metric};
use senesce_guest::kernel::is_of;
use senesce_stats::verdict::{Decision, Direction, FAMILY_ERROR, Rule, Verdict, decide, decide_all};
use senesce_stats::{Arm, Interval, Mean, Ratio, Untestable};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Changes up to this are irrelevant, a share of the older kernel's value.
const MARGIN: f64 = 0.03;

fn rule(metric: &Metric) -> Rule {
    let direction = match metric.better {
        Better::Higher => Direction::HigherIsBetter,
        _ => Direction::LowerIsBetter,
    };
    Rule { direction, margin: MARGIN }
}

fn primaries() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| metric.primary)
}

/// Agings of one file system by one profile at one pace.
struct Cell<'a> {
    fs: String,
    profile: &'a str,
    rate: f64,
    all: Vec<&'a AgedStep>,
}

impl<'a> Cell<'a> {
    fn all(agings: &'a [AgedStep]) -> Vec<Self> {
        let mut cells: Vec<Self> = Vec::new();
        for one in agings {
            let (fs, profile, rate) = one.step.cell();
            let is_same = |cell: &&mut Self| cell.fs == fs.name() && cell.profile == profile && cell.rate == rate;
            match cells.iter_mut().find(is_same) {
                Some(cell) => cell.all.push(one),
                None => cells.push(Self { fs: fs.name().into(), profile, rate, all: vec![one] }),
            }
        }
        cells
    }

    fn of(&self, kernel: &str, sham: bool) -> impl Iterator<Item = &'a AgedStep> {
        self.all.iter().copied().filter(move |one| one.step.kernel == kernel && one.step.sham == sham)
    }

    fn values(&self, kernel: &str, sham: bool, metric: &Metric) -> Vec<f64> {
        self.of(kernel, sham).filter_map(|one| (metric.value)(&one.aged)).collect()
    }

    fn ratio(&self, (new, sham): (&str, bool), old: &str, metric: &Metric) -> Result<Ratio, Untestable> {
        // Each seed is an image.
        let arm = |kernel, sham| {
            let values = self.values(kernel, sham, metric);
            Arm::of(&values.iter().map(std::slice::from_ref).collect::<Vec<_>>(), Mean::Geometric)
        };
        Ok(Ratio::of(&arm(new, sham)?, &arm(old, false)?))
    }

    /// Returns the number of seeds whose layouts are the same in both kernels, and of seeds that both have.
    fn identical(&self, new: &str, old: &str) -> (usize, usize) {
        let digest = |one: &AgedStep| one.aged.digest.clone();
        let partner = |one: &&AgedStep| self.of(old, false).find(|other| other.step.seed == one.step.seed);
        let pairs: Vec<_> =
            self.of(new, false).filter_map(|one| Some((digest(one)?, digest(partner(&one)?)?))).collect();
        (pairs.iter().filter(|(one, other)| one == other).count(), pairs.len())
    }

    fn pace(&self) -> String {
        if self.rate > 0.0 { format!("{}/s", self.rate) } else { "none".into() }
    }
}

/// A metric of a newer kernel compared with that of an older one.
#[derive(Debug, Serialize)]
struct Comparison {
    fs: String,
    profile: String,
    pace: String,
    metric: &'static str,
    old: String,
    new: String,
    verdict: String,
    interval: Option<Interval>,
    agings: [usize; 2],
    /// Seeds with the same layout, and seeds compared.
    identical: (usize, usize),
}

impl Comparison {
    fn has_changed(&self) -> bool {
        self.verdict == Verdict::Better.word() || self.verdict == Verdict::Worse.word()
    }

    fn change(&self) -> String {
        self.interval.map_or_else(String::new, |interval| {
            let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
            format!("{} % ({})", percent(interval.value), interval.ends_text(percent))
        })
    }
}

/// Returns the kernels of the record in the order of the specification.
fn kernels(spec: &Spec, agings: &[AgedStep]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in &spec.kernels {
        let one = agings.iter().map(|one| &one.step.kernel).find(|kernel| is_of(kernel, name));
        found.extend(one.filter(|one| !found.contains(one)).cloned());
    }
    found
}

/// Pairs each kernel with the one before it, and the last with the first.
fn steps_of(kernels: &[String]) -> Vec<(&str, &str)> {
    let mut pairs: Vec<(&str, &str)> = kernels.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    if let ([first, .., last], true) = (kernels, kernels.len() > 2) {
        pairs.push((first, last));
    }
    pairs
}

/// Returns the release of a kernel without the digest of its build.
fn release(kernel: &str) -> &str {
    kernel.split("-uml-").next().unwrap_or(kernel)
}

fn compare(cells: &[Cell<'_>], kernels: &[String]) -> Vec<Comparison> {
    let mut family = Vec::new();
    let mut comparisons = Vec::new();
    for cell in cells {
        for (old, new) in steps_of(kernels) {
            for metric in primaries() {
                family.push((cell.ratio((new, false), old, metric), rule(metric)));
                comparisons.push(comparison(cell, metric, old, new));
            }
        }
    }
    for (comparison, decision) in comparisons.iter_mut().zip(decide_all(&family, FAMILY_ERROR)) {
        comparison.decided(&decision);
    }
    comparisons
}

fn comparison(cell: &Cell<'_>, metric: &'static Metric, old: &str, new: &str) -> Comparison {
    Comparison {
        fs: cell.fs.clone(),
        profile: cell.profile.into(),
        pace: cell.pace(),
        metric: metric.name,
        old: release(old).into(),
        new: release(new).into(),
        verdict: String::new(),
        interval: None,
        agings: [old, new].map(|kernel| cell.of(kernel, false).count()),
        identical: cell.identical(new, old),
    }
}

impl Comparison {
    fn decided(&mut self, decision: &Decision) {
        let is_identical =
            self.identical.1 == self.agings[0] && self.identical.0 == self.agings[0] && self.identical.0 > 1;
        self.verdict = if is_identical { "identical" } else { decision.verdict.word() }.into();
        self.interval = decision.interval;
    }
}

/// Compares shams of the oldest kernel with its agings: nothing may change. Each is decided at the level of the family.
fn controls(cells: &[Cell<'_>], kernels: &[String], family: usize) -> Vec<Comparison> {
    let Some(oldest) = kernels.first() else { return Vec::new() };
    let mut all = Vec::new();
    for cell in cells {
        for metric in primaries() {
            let ratio = cell.ratio((oldest, true), oldest, metric);
            let mut one = comparison(cell, metric, oldest, oldest);
            one.identical = (0, 0);
            one.decided(&decide(&ratio, rule(metric), FAMILY_ERROR / family.max(1) as f64));
            all.push(one);
        }
    }
    all
}

pub(super) fn analyse(spec: &Spec, agings: &[AgedStep]) -> Analysis {
    let (kernels, cells) = (kernels(spec, agings), Cell::all(agings));
    let all = compare(&cells, &kernels);
    let controls = controls(&cells, &kernels, all.len());
    Analysis {
        title: "Do newer kernels age file systems differently?".into(),
        summary: summary(&kernels, &all, &controls),
        figures: figures(spec, &cells, &kernels),
        tables: vec![
            changes(&all),
            verdicts(&all),
            means(&cells, &kernels),
            sham_table(&controls),
            options(&cells, &kernels),
        ],
        findings: Vec::new(),
        caveats: Vec::new(),
        result: json!({
            "kernels": kernels,
            "margin": MARGIN,
            "family_error": FAMILY_ERROR,
            "comparisons": all,
            "controls": controls,
            "layouts": layouts(agings),
        }),
    }
}

fn summary(kernels: &[String], all: &[Comparison], controls: &[Comparison]) -> String {
    let count = |all: &[Comparison], word: &str| all.iter().filter(|one| one.verdict == word).count();
    let names: Vec<&str> = kernels.iter().map(|kernel| release(kernel)).collect();
    if names.len() < 2 {
        return format!("Linux {}: nothing to compare, because --kernels names only one kernel.", names.join(", "));
    }
    let largest = all.iter().filter(|one| one.has_changed()).max_by(|one, other| size(one).total_cmp(&size(other)));
    let largest = largest.map_or_else(
        || "No value was found to change.".to_string(),
        |one| {
            let Comparison { fs, profile, metric, old, new, .. } = one;
            format!("The largest change: {metric} of {fs} by {profile}, from {old} to {new}: {}.", one.change())
        },
    );
    let [worse, better, equivalent, identical, undecided] =
        ["worse", "better", "equivalent", "identical", "undecided"].map(|word| count(all, word));
    let alarms = controls.iter().filter(|one| one.has_changed()).count();
    format!(
        "Linux {}: {} comparisons of a value between two kernels. {worse} worse, {better} better, {equivalent} equivalent \
         within {:.0} %, {identical} with identical layouts, {undecided} undecided. {largest} Shams changed {alarms} of {} values.",
        names.join(", "),
        all.len(),
        MARGIN * 100.0,
        controls.len()
    )
}

fn size(one: &Comparison) -> f64 {
    one.interval.map_or(0.0, |interval| interval.value.ln().abs())
}

/// Tabulates the values that changed, the largest first.
fn changes(all: &[Comparison]) -> Table {
    let mut changed: Vec<&Comparison> = all.iter().filter(|one| one.has_changed()).collect();
    changed.sort_by(|one, other| size(other).total_cmp(&size(one)));
    table_of(&changed, "changes", "Values that changed").leading()
}

fn verdicts(all: &[Comparison]) -> Table {
    table_of(&all.iter().collect::<Vec<_>>(), "comparisons", "All comparisons")
}

fn sham_table(controls: &[Comparison]) -> Table {
    table_of(&controls.iter().collect::<Vec<_>>(), "shams", "Control: the oldest kernel against itself after a sham")
}

fn table_of(all: &[&Comparison], id: &str, title: &str) -> Table {
    Rows::of(all)
        .column("file system", |one| &one.fs)
        .column("profile", |one| &one.profile)
        .column("pace", |one| &one.pace)
        .column("metric", |one| one.metric)
        .column("from", |one| &one.old)
        .column("to", |one| &one.new)
        .column("verdict", |one| &one.verdict)
        .column("change (interval)", |one| one.change())
        .column("agings", |one| format!("{}, {}", one.agings[0], one.agings[1]))
        .column("same layout", |one| format!("{} of {}", one.identical.0, one.identical.1))
        .table(id, title)
}

/// Tabulates geometric means of every metric.
fn means(cells: &[Cell<'_>], kernels: &[String]) -> Table {
    let names = METRICS.iter().map(|metric| metric.name);
    let columns: Vec<&str> = ["file system", "profile", "pace", "kernel", "agings"].into_iter().chain(names).collect();
    let mut table = Table::new("means", "Geometric means of each kernel", &columns);
    for cell in cells {
        for kernel in kernels {
            let count = cell.of(kernel, false).count();
            let mut row: Vec<Value> = vec![
                cell.fs.clone().into(),
                cell.profile.into(),
                cell.pace().into(),
                kernel.clone().into(),
                count.into(),
            ];
            row.extend(METRICS.iter().map(|metric| json!(geometric(&cell.values(kernel, false, metric)))));
            table.row(row);
        }
    }
    table
}

fn geometric(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    senesce_stats::mean(&logs).filter(|_| logs.len() == values.len()).map(f64::exp)
}

/// Tabulates mount options, once if they are the same in all agings of a kernel.
fn options(cells: &[Cell<'_>], kernels: &[String]) -> Table {
    let mut found: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for (at, kernel) in kernels.iter().enumerate() {
        for cell in cells {
            let entry = found.entry((at, cell.fs.clone())).or_default();
            for one in cell.of(kernel, false) {
                let options = &one.aged.mount_options;
                if !entry.contains(options) {
                    entry.push(options.clone());
                }
            }
        }
    }
    let mut table =
        Table::new("mount-options", "Mount options with each kernel's defaults", &["kernel", "file system", "options"]);
    for ((at, fs), options) in found {
        table.row((&kernels[at], fs, options.join(" or ")));
    }
    table
}

/// Returns every layout, so that a reader can check that it repeats.
fn layouts(agings: &[AgedStep]) -> Vec<Value> {
    let one = |one: &AgedStep| json!({"step": one.step, "digest": one.aged.digest});
    agings.iter().map(one).collect()
}

/// Draws the ratio to the oldest kernel, by file system: the read on a disk, and free extents.
fn figures(spec: &Spec, cells: &[Cell<'_>], kernels: &[String]) -> Vec<Figure> {
    let Some(oldest) = kernels.first().filter(|_| kernels.len() > 1) else { return Vec::new() };
    let mut figures = Vec::new();
    for metric in primaries() {
        let bar = |kernel: &String| {
            let ratio = |cell: &Cell<'_>| {
                cell.ratio((kernel, false), oldest, metric).ok().map(|ratio| ratio.interval(FAMILY_ERROR))
            };
            let shown: Vec<(usize, Interval)> =
                cells.iter().enumerate().filter_map(|(at, cell)| Some((at, ratio(cell)?))).collect();
            Series {
                intervals: shown.iter().map(|(_, interval)| interval.drawn_ends()).collect(),
                ..Series::new(
                    release(kernel),
                    Mark::Measured,
                    shown.iter().map(|(at, one)| (*at as f64, one.value)).collect(),
                )
            }
        };
        let name = |cell: &Cell<'_>| match spec.rates.len() {
            1 => format!("{} {}", cell.fs, cell.profile),
            _ => format!("{} {} {}", cell.fs, cell.profile, cell.pace()),
        };
        figures.push(Figure {
            id: metric.name.split(' ').next().unwrap_or(metric.name).into(),
            title: format!("{} over that of Linux {}", metric.name, release(oldest)),
            caption: "1: as in the oldest kernel. Lines are 95 % intervals of each ratio separately.".into(),
            device: format!("images of {} in the memory of user-mode kernels", spec.size),
            better: Better::Lower,
            kind: FigureKind::Bars {
                x: Axis::categories("file system and profile", cells.iter().map(name).collect()),
                y: Axis::linear("ratio").from_zero(),
                series: kernels.iter().skip(1).map(bar).collect(),
            },
        });
    }
    figures
}

pub(super) fn measurements(one: &AgedStep) -> Vec<Measurement> {
    let AgedStep { step, aged } = one;
    METRICS.iter().filter_map(|metric| measurement(metric, step, aged)).collect()
}

fn measurement(metric: &Metric, step: &Step, aged: &Aged) -> Option<Measurement> {
    let measured = metric.measurement((metric.value)(aged)?)?;
    let measured = measured.under("fs", step.fs.name()).under("profile", &*step.profile);
    let measured = measured.under("pace", step.rate.to_string()).under("kernel", release(&step.kernel));
    Some(Measurement { image: step.seed, ..measured.of_layout(aged.layout()) })
}

#[cfg(test)]
mod tests;
