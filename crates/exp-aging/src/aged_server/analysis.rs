//! Figures normalised to the fresh first file system, and changes by age beside the published ones.

use senesce_core::analysis::*;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Failure, Seed};
use senesce_runs::study::analysis_of;
use senesce_runs::study::results::{Cell, Results};
use senesce_runs::study::subject::{DRIVE_TIME, MODELLED, modelled_by};
use senesce_stats::{Outcome, hierarchical_mean, rank_order};

pub(super) fn analyse(results: &Results, variant: &str, csv: &str) -> Result<Analysis, Failure> {
    let published = published::parse(csv).map_err(|error| Failure::usage(error.to_string()))?;
    let spec = &results.spec;
    let mut analysis = analysis_of(results);
    let mut figures = Vec::new();
    let mut findings = Vec::new();
    for cells in results.by_metric() {
        let known = Published::of(&cells[0].what.metric, variant, &published);
        figures.extend(normalised(results, &cells));
        figures.extend(changes(results, &cells, &known));
        findings.extend(change_findings(results, &cells, &known));
        findings.extend(rank_finding(results, &cells, &known));
    }
    let free = analysis.figures.into_iter().filter(|figure| figure.id.starts_with("free"));
    figures.extend(free);
    analysis.figures = figures;
    // What the models say of each cell is in the table; the claims above are held against the published values.
    findings.extend(analysis.findings.into_iter().filter(|finding| !finding.claim.contains(MODELLED)));
    analysis.findings = findings;
    analysis.caveats.insert(
        0,
        format!(
            "the images are of {} and lie in memory where there is room; the published volumes were drives of 64 to 500 GB",
            spec.size
        ),
    );
    analysis.title = spec.name.clone();
    Ok(analysis)
}

/// Published values that a metric can be held against.
struct Published<'a> {
    variant: &'a str,
    drives: &'static [&'static str],
    /// Whether the metric is the time of an operation, where the published one is operations over time.
    inverse: bool,
    values: &'a [PublishedValue],
}

impl<'a> Published<'a> {
    fn of(metric: &str, variant: &'a str, values: &'a [PublishedValue]) -> Self {
        let drives: &'static [&'static str] = match modelled_by(metric) {
            Some("st500dm002") => &["hdd"],
            Some(_) => &["ssd", "ssd-120"],
            None => &[],
        };
        Self { variant, drives, inverse: metric.starts_with(DRIVE_TIME), values }
    }

    /// Least and greatest published change of throughput (percent), for each drive with a value.
    fn changes(&self, fs: &str) -> impl Iterator<Item = (&'static str, f64, f64)> {
        self.drives.iter().filter_map(move |drive| {
            let condition = format!("{} {drive} {fs}", self.variant);
            let (least, most) = (self.value("change least", &condition)?, self.value("change most", &condition)?);
            Some((*drive, least.min(most), least.max(most)))
        })
    }

    /// A published change of throughput as a change of this metric.
    fn converted(&self, change: f64) -> f64 {
        if self.inverse { percent(1.0 / (1.0 + change / 100.0)) } else { change }
    }

    fn value(&self, metric: &str, condition: &str) -> Option<f64> {
        self.values.iter().find(|one| one.metric == metric && one.condition == condition).map(|one| one.value)
    }
}

/// A published drive in words.
fn drive_words(drive: &str) -> &str {
    match drive {
        "hdd" => "disk drive",
        "ssd" => "64 GB SSD",
        "ssd-120" => "120 GB SSD",
        other => other,
    }
}

fn mark(cell: &Cell) -> Mark {
    if Results::is_modelled(cell) { Mark::Modelled } else { Mark::Measured }
}

fn mean(cell: &Cell) -> Option<senesce_stats::Estimate> {
    let mut rng = Seed(0).stream(&format!("aged/{}/{}/{}", cell.what.metric, cell.fs, cell.state));
    hierarchical_mean(&cell.groups, &mut rng)
}

fn device(results: &Results, cell: &Cell) -> String {
    match modelled_by(&cell.what.metric) {
        Some(model) => format!("modelled {model}, from block traces of images of {}", results.spec.size),
        None => format!("images of {} on a loop device", results.spec.size),
    }
}

fn file_systems(results: &Results) -> Vec<String> {
    results.spec.file_system.iter().map(|one| one.name.clone()).collect()
}

fn slug(metric: &str) -> String {
    metric.replace([',', ' ', '/'], "-")
}

/// Bars relative to the fresh first file system, with the raw values on them; `None` without that one.
fn normalised(results: &Results, cells: &[&Cell]) -> Option<Figure> {
    let base =
        cells.iter().find(|cell| cell.fs == 0 && cell.state == 0 && cell.has_bar()).and_then(|cell| mean(cell))?.value;
    let series = results.spec.state.iter().enumerate().map(|(state, spec)| {
        let mut one = Series::new(&spec.name, mark(cells[0]), Vec::new());
        for cell in cells.iter().filter(|cell| cell.state == state && cell.has_bar()) {
            let Some(mean) = mean(cell) else { continue };
            one.points.push((cell.fs as f64, mean.value / base));
            one.intervals.push((mean.low / base, mean.high / base));
            one.labels.push(short(mean.value));
        }
        one
    });
    let first = &results.spec.file_system[0].name;
    Some(Figure {
        id: format!("normalised-{}", slug(&cells[0].what.metric)),
        title: format!("{} relative to fresh {first}", senesce_runs::study::capitalised(&cells[0].what.metric)),
        caption: format!(
            "Means with their 95 % interval; the words on the bars are the values in {}. Cells that cannot be judged have \
             no bar.",
            cells[0].what.unit
        ),
        device: device(results, cells[0]),
        better: cells[0].what.better,
        kind: FigureKind::Bars {
            x: Axis::categories("File system", file_systems(results)),
            y: Axis::linear(&format!("Relative to fresh {first}")),
            series: series.filter(|one| !one.points.is_empty()).collect(),
        },
    })
}

fn short(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{:.1}k", value / 1000.0)
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// What age does to every file system, beside what was published for a drive of the same class.
fn changes(results: &Results, cells: &[&Cell], published: &Published<'_>) -> Option<Figure> {
    let mut all = Vec::new();
    for (state, spec) in results.spec.state.iter().enumerate().skip(1) {
        let mut one = Series::new(&spec.name, mark(cells[0]), Vec::new());
        for cell in cells.iter().filter(|cell| cell.state == state && cell.has_bar()) {
            let Some(ratio) = cell.judgement.as_ref().and_then(|judged| judged.ratio) else { continue };
            one.points.push((cell.fs as f64, percent(ratio.value)));
            one.intervals.push((percent(ratio.low), percent(ratio.high)));
        }
        all.push(one);
    }
    for drive in published.drives {
        let mut one = Series::new(format!("published, {}", drive_words(drive)), Mark::Published, Vec::new());
        for (fs, spec) in results.spec.file_system.iter().enumerate() {
            for (_, least, most) in published.changes(&spec.name).filter(|(name, ..)| name == drive) {
                let (one_end, other) = (published.converted(least), published.converted(most));
                one.points.push((fs as f64, f64::midpoint(one_end, other)));
                one.intervals.push((one_end.min(other), one_end.max(other)));
            }
        }
        all.push(one);
    }
    all.retain(|one| !one.points.is_empty());
    let what = &cells[0].what;
    (!all.is_empty()).then(|| Figure {
        id: format!("change-{}", slug(&what.metric)),
        title: format!("{}: change by age", senesce_runs::study::capitalised(&what.metric)),
        caption: change_caption(published),
        device: device(results, cells[0]),
        better: what.better,
        kind: FigureKind::Bars {
            x: Axis::categories("File system", file_systems(results)),
            y: Axis::linear("Change against fresh (%)"),
            series: all,
        },
    })
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

const TRANSLATION_LAYER: &str = "the published loss was put down to the drive's flash translation layer, which the model \
                                 does not have: not expected here";

/// Least loss that the published text puts down to the flash translation layer.
const BY_TRANSLATION_LAYER: f64 = -50.0;

fn change_caption(published: &Published<'_>) -> String {
    let mut text = String::from("Against the same file system when fresh, with 95 % intervals.");
    if !published.drives.is_empty() {
        text += " Grey: published, the whisker spans the published range over profiles.";
    }
    if !published.drives.is_empty() && published.inverse {
        text += " Published is throughput: shown is the time of an operation that it means.";
    }
    text
}

fn change_findings(results: &Results, cells: &[&Cell], published: &Published<'_>) -> Vec<Finding> {
    let aged = cells.iter().filter(|cell| cell.state > 0 && cell.judgement.is_some());
    aged.flat_map(|cell| {
        let (fs, ..) = results.names(cell);
        published.changes(fs).map(|change| change_finding(results, cell, published, change))
    })
    .collect()
}

fn change_finding(
    results: &Results,
    cell: &Cell,
    published: &Published<'_>,
    (drive, low, high): (&str, f64, f64),
) -> Finding {
    let (fs, state, workload) = results.names(cell);
    let range = if low == high { format!("{low} %") } else { format!("{high} to {low} %") };
    let means = if published.inverse {
        format!(", so {:+.0} % time", published.converted(f64::midpoint(low, high)))
    } else {
        String::new()
    };
    let judged = cell.judgement.as_ref();
    let measured = judged.and_then(|judged| Some((judged, judged.ratio?))).map_or_else(
        || "–".into(),
        |(judged, ratio)| {
            let (value, low, high) = (percent(ratio.value), percent(ratio.low), percent(ratio.high));
            format!("{value:+.1} % ({low:+.1} to {high:+.1}), {}", judged.outcome.words())
        },
    );
    let beyond = low <= BY_TRANSLATION_LAYER;
    let (verdict, note) = match (judged.map(|judged| &judged.outcome), beyond) {
        (Some(Outcome::Invalid(reason)), _) => (Verdict::Invalid, reason.clone()),
        (_, true) => (Verdict::NotTestable, TRANSLATION_LAYER.to_string()),
        (Some(Outcome::Slower), false) => (Verdict::Seen, String::new()),
        (_, false) => (Verdict::NotSeen, why_not_seen(results, cell, published.converted(f64::midpoint(low, high)))),
    };
    Finding {
        claim: format!("{fs}, {workload}: slower when {state} ({}).", cell.what.metric),
        published: format!("{range} throughput{means}; {}, {}", drive_words(drive), published.variant),
        measured,
        verdict,
        note,
        ..Finding::default()
    }
}

/// A wide interval that holds the published change does not speak against it.
fn why_not_seen(results: &Results, cell: &Cell, published: f64) -> String {
    let holds = cell
        .judgement
        .as_ref()
        .and_then(|judged| judged.ratio)
        .is_some_and(|ratio| ratio.contains(1.0 + published / 100.0));
    match holds {
        true => "the interval holds the published change too: longer runs or more of them would tell".into(),
        false => format!("noise floor {:.1} %", results.noise_of(cell) * 100.0),
    }
}

/// Whether the order of file systems changes with age, where that was published.
fn rank_finding(results: &Results, cells: &[&Cell], published: &Published<'_>) -> Option<Finding> {
    let (drive, flips) = published
        .drives
        .iter()
        .find_map(|drive| Some((*drive, published.value("rank flips", &format!("{} {drive}", published.variant))?)))?;
    let order = |state: usize| -> Vec<&str> {
        let of: Vec<&&Cell> = cells.iter().filter(|cell| cell.state == state).collect();
        let groups: Vec<_> = of.iter().map(|cell| cell.groups.clone()).collect();
        let mut order = rank_order(&groups);
        if cells[0].what.better == Better::Lower {
            order.reverse();
        }
        order.into_iter().map(|place| results.names(of[place]).0).collect()
    };
    let fresh = order(0);
    let aged: Vec<Vec<&str>> = (1..results.spec.state.len()).map(order).collect();
    if fresh.len() < 2 || aged.iter().any(|order| order.len() != fresh.len()) {
        return None;
    }
    let flipped = aged.iter().any(|order| *order != fresh);
    let theirs = if flips > 0.0 { "changes" } else { "is kept" };
    Some(Finding {
        claim: format!("The order of the file systems {theirs} with age ({}).", cells[0].what.metric),
        published: format!("the order {theirs}; {}, {}", drive_words(drive), published.variant),
        measured: format!(
            "fresh: {}; aged: {}",
            fresh.join(" > "),
            aged.iter().map(|order| order.join(" > ")).collect::<Vec<_>>().join("; ")
        ),
        verdict: match (flips > 0.0, flipped) {
            (true, false) => Verdict::NotTestable,
            (theirs, ours) if theirs == ours => Verdict::Seen,
            _ => Verdict::NotSeen,
        },
        note: if flips > 0.0 { TRANSLATION_LAYER.into() } else { "how sure: see the table of changes of order".into() },
        ..Finding::default()
    })
}
