//! Figures relative to the fresh first file system, and changes by age with the published ones. Claims decide whether a
//! published change is supported.

use senesce_core::Failure;
use senesce_core::analysis::*;
use senesce_core::published::{self, PublishedValue};
use senesce_study::analysis_of;
use senesce_study::results::{Cell, Results};
use senesce_study::subject::{DRIVE_TIME, modelled_by};

pub(super) fn analyse(results: &Results, variant: &str, csv: &str) -> Result<Analysis, Failure> {
    let published = published::parse(csv).map_err(|error| Failure::usage(error.to_string()))?;
    let spec = &results.spec;
    let mut analysis = analysis_of(results);
    let mut figures = Vec::new();
    for cells in results.by_metric() {
        let known = Published::of(&cells[0].what.metric, variant, &published);
        figures.extend(normalised(results, &cells));
        figures.extend(changes(results, &cells, &known));
    }
    let free = analysis.figures.into_iter().filter(|figure| figure.id.starts_with("free"));
    figures.extend(free);
    analysis.figures = figures;
    analysis.caveats.insert(
        0,
        format!(
            "the images have {} and are in memory if there is space; the published volumes were drives of 64 to 500 \
             GB",
            spec.size
        ),
    );
    analysis.title = spec.name.clone();
    Ok(analysis)
}

struct Published<'a> {
    variant: &'a str,
    drives: &'static [&'static str],
    /// Whether the metric is the time of an operation, while the published one is operations per time.
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

    /// Returns the minimum and maximum published change of throughput (percent), for each drive with a value.
    fn changes(&self, fs: &str) -> impl Iterator<Item = (&'static str, f64, f64)> {
        self.drives.iter().filter_map(move |drive| {
            let condition = format!("{} {drive} {fs}", self.variant);
            let (least, most) = (self.value("change least", &condition)?, self.value("change most", &condition)?);
            Some((*drive, least.min(most), least.max(most)))
        })
    }

    fn converted(&self, change: f64) -> f64 {
        if self.inverse { percent(1.0 / (1.0 + change / 100.0)) } else { change }
    }

    fn value(&self, metric: &str, condition: &str) -> Option<f64> {
        self.values.iter().find(|one| one.metric == metric && one.condition == condition).map(|one| one.value)
    }
}

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

/// Bars relative to the fresh first file system, labelled with the raw values; `None` if it was not measured.
fn normalised(results: &Results, cells: &[&Cell]) -> Option<Figure> {
    let base = cells.iter().find(|cell| cell.id.fs == 0 && cell.id.state == 0 && cell.has_bar())?.middle()?.0;
    let series = results.spec.state.iter().enumerate().map(|(state, spec)| {
        let mut one = Series::new(&spec.name, mark(cells[0]), Vec::new());
        for cell in cells.iter().filter(|cell| cell.id.state == state && cell.has_bar()) {
            let Some((middle, interval)) = cell.middle() else { continue };
            let ends = interval.map_or((f64::NAN, f64::NAN), |interval| (interval.low / base, interval.high / base));
            one.points.push((cell.id.fs as f64, middle / base));
            one.intervals.push(ends);
            one.labels.push(short(middle));
        }
        one
    });
    let first = &results.spec.file_system[0].name;
    Some(Figure {
        id: format!("normalised-{}", slug(&cells[0].what.metric)),
        title: format!("{} relative to fresh {first}", senesce_study::capitalised(&cells[0].what.metric)),
        caption: format!(
            "Geometric means. Bars with 5 or more values have a 95 % interval. The labels on the bars are the \
             values in {}.",
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

/// Changes by age on every file system, with the published changes on a drive of the same class.
fn changes(results: &Results, cells: &[&Cell], published: &Published<'_>) -> Option<Figure> {
    let mut all = Vec::new();
    for (state, spec) in results.spec.state.iter().enumerate().skip(1) {
        let mut one = Series::new(&spec.name, mark(cells[0]), Vec::new());
        for cell in cells.iter().filter(|cell| cell.id.state == state && cell.has_bar()) {
            let Some(ratio) = results.age_of(cell).and_then(|decision| decision.interval) else { continue };
            one.points.push((cell.id.fs as f64, percent(ratio.value)));
            let (low, high) = ratio.drawn_ends();
            one.intervals.push((percent(low), percent(high)));
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
        title: format!("{}: change by age", senesce_study::capitalised(&what.metric)),
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

fn change_caption(published: &Published<'_>) -> String {
    let mut text = String::from("Against the same file system when fresh, with simultaneous 95 % intervals.");
    if !published.drives.is_empty() {
        text += " Grey: published, the whisker spans the published range over profiles.";
    }
    if !published.drives.is_empty() && published.inverse {
        text += " The published change of throughput is converted to the time of an operation.";
    }
    text
}
