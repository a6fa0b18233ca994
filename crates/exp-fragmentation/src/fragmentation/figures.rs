//! Figures of points: where blocks are, how they were read, and the cost.

use super::analysis::RoundData;
use super::correlations::{overall, pairs, text_of};
use super::models::{self, Models};
use super::point::{Clock, Point, Reading, read_ahead_text};
use super::sketch::Sketch;
use super::strips::{Lens, blocks, strips};
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_devmodel::DeviceModel;
use std::collections::BTreeSet;

pub(crate) fn all(data: &RoundData) -> Vec<Figure> {
    let mut figures: Vec<Figure> = strips(data).into_iter().collect();
    for (clock, setting) in views(data) {
        figures.extend(cost(data, clock, setting));
    }
    figures.extend(dynamic_score(data));
    figures.extend(extent_scores(data));
    for (clock, setting) in views(data) {
        figures.extend(scatter(data, clock, setting));
    }
    for fs in &data.systems {
        figures.extend(requests(data, fs));
    }
    for fs in &data.systems {
        figures.extend(discontinuities(data, fs));
    }
    figures
}

pub(super) fn figure(
    id: String,
    title: String,
    caption: String,
    device: String,
    better: Better,
    kind: FigureKind,
) -> Figure {
    Figure { id, title, caption, device, better, kind }
}

/// Returns the read-ahead setting of a device's figures: on for a disk drive, off for an SSD, as published.
pub(crate) fn usual(data: &RoundData, clock: Clock) -> Option<u64> {
    match clock {
        Clock::Ssd if data.settings.contains(&Some(0)) => Some(0),
        _ => data.settings.iter().copied().max().flatten(),
    }
}

pub(crate) fn sequential(data: &RoundData, clock: Clock) -> Option<f64> {
    let measured = || data.sequential.iter().map(|one| one.seconds_per_gib.get()).collect::<Vec<_>>();
    match modelled_sequential(&data.models).iter().find(|(modelled, _)| *modelled == clock) {
        Some((_, cost)) => *cost,
        None => senesce_stats::mean(&measured()),
    }
}

pub(crate) fn modelled_sequential(drives: &Models) -> [(Clock, Option<f64>); 2] {
    let cost = |model: &DeviceModel| models::sequential_seconds_per_gib(model);
    let (disk, flash) = (drives.disk().ok(), drives.flash().ok());
    [(Clock::Hdd, disk.as_ref().and_then(cost)), (Clock::Ssd, flash.as_ref().and_then(cost))]
}

/// Returns the devices with the read-ahead settings of their figures. The SSD is also shown with read-ahead.
fn views(data: &RoundData) -> Vec<(Clock, Option<u64>)> {
    let mut views: Vec<_> = Clock::ALL.into_iter().map(|clock| (clock, usual(data, clock))).collect();
    let on = usual(data, Clock::Hdd);
    if usual(data, Clock::Ssd) != on {
        views.insert(2, (Clock::Ssd, on));
    }
    views
}

fn view_text(data: &RoundData, clock: Clock, setting: Option<u64>) -> (String, String) {
    match setting == usual(data, clock) {
        true => (clock.key().into(), short(clock).into()),
        false => (format!("{}-read-ahead", clock.key()), format!("{}, with read-ahead", short(clock))),
    }
}

fn short(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "the volume itself",
        Clock::Hdd => "disk drive",
        Clock::Ssd => "solid-state drive",
    }
}

pub(crate) fn device_text(data: &RoundData, clock: Clock) -> String {
    match clock {
        Clock::Wall => format!("measured on {}", data.device),
        Clock::Hdd => format!("modelled: disk drive {}", data.models.disk),
        Clock::Ssd => format!("modelled: solid-state drive {} after the traced writes", data.models.flash),
    }
}

fn mark(clock: Clock) -> Mark {
    if clock == Clock::Wall { Mark::Measured } else { Mark::Modelled }
}

fn rounds(data: &RoundData) -> Axis {
    let rounds: BTreeSet<u64> = data.points.iter().map(|point| point.round).collect();
    match (0..rounds.len().min(12) as u64).eq(rounds.iter().copied()) {
        true => Axis::categories(data.round, rounds.iter().map(u64::to_string).collect()),
        false => Axis::linear(data.round).from_zero(),
    }
}

/// Makes a series of means over the images, with intervals if there are several.
fn over_rounds(
    data: &RoundData,
    (name, mark): (String, Mark),
    (fs, aged): (&str, bool),
    value: impl Fn(&Point) -> Option<f64>,
) -> Series {
    let found = data.over_rounds(fs, aged, value);
    let points = found.iter().map(|(round, one)| (*round as f64, one.mean)).collect();
    let is_several = found.values().any(|one| one.images > 1);
    let intervals = found.values().filter(|_| is_several).map(|one| (one.low, one.high)).collect();
    Series { intervals, ..Series::new(name, mark, points) }
}

fn name_of(fs: &str, aged: bool) -> String {
    if aged { fs.into() } else { format!("{fs}, unaged copy") }
}

fn cost(data: &RoundData, clock: Clock, setting: Option<u64>) -> Option<Figure> {
    let mut series = Vec::new();
    for aged in [true, false] {
        for fs in &data.systems {
            let cost = |point: &Point| point.mean(setting, |reading| point.cost(reading, clock));
            series.push(over_rounds(data, (name_of(fs, aged), mark(clock)), (fs, aged), cost));
        }
    }
    series.retain(|one| !one.points.is_empty());
    let last = data.points.iter().map(|point| point.round).max()? as f64;
    if series.is_empty() {
        return None;
    }
    if let Some(cost) = sequential(data, clock) {
        series.push(Series::new("sequential bandwidth", Mark::Predicted, vec![(0.0, cost), (last.max(1.0), cost)]));
    }
    let (id, title) = view_text(data, clock, setting);
    Some(figure(
        format!("cost-{id}"),
        format!("Cost of the cold read over {}s: {title}", data.round),
        format!(
            "Read-ahead {}. The dashed line is a sequential read of the same number of bytes.",
            read_ahead_text(setting)
        ),
        device_text(data, clock),
        Better::Lower,
        FigureKind::Lines { x: rounds(data), y: Axis::linear("Cost (s/GiB)").log10(), series },
    ))
}

fn dynamic_score(data: &RoundData) -> Option<Figure> {
    let setting = usual(data, Clock::Hdd);
    let dynamic = |point: &Point| point.mean(setting, |reading| reading.traced.as_ref()?.dynamic_layout_score);
    let mut series = Vec::new();
    for aged in [true, false] {
        for fs in &data.systems {
            series.push(over_rounds(data, (name_of(fs, aged), Mark::Measured), (fs, aged), dynamic));
        }
    }
    let caption = "From the requests of the cold read, including those for metadata: 1 is a single sequential \
        run, 0 a jump before every block of 4 KiB.";
    scores(data, "score", "Dynamic layout score", caption, series)
}

fn extent_scores(data: &RoundData) -> Option<Figure> {
    let mut series = Vec::new();
    for fs in &data.systems {
        let inside = (format!("{fs}, inside files"), Mark::Measured);
        series.push(over_rounds(data, inside, (fs, true), |point| point.static_layout_score));
        let tree = (format!("{fs}, tree"), Mark::Measured);
        series.push(over_rounds(data, tree, (fs, true), |point| point.tree_layout_score));
    }
    let caption = "From the extents, without a trace. Inside files: the static layout score, the share of blocks \
        that follow the previous block of their file. Tree: the same over all files in the order of reading.";
    scores(data, "score-extents", "Static and tree layout score", caption, series)
}

fn scores(data: &RoundData, id: &str, what: &str, caption: &str, mut series: Vec<Series>) -> Option<Figure> {
    series.retain(|one| !one.points.is_empty());
    (!series.is_empty()).then(|| {
        figure(
            id.into(),
            format!("{what} over {}s", data.round),
            caption.into(),
            data.device.clone(),
            Better::Higher,
            FigureKind::Lines { x: rounds(data), y: Axis { max: Some(1.0), ..Axis::linear("Layout score") }, series },
        )
    })
}

fn scatter(data: &RoundData, clock: Clock, setting: Option<u64>) -> Option<Figure> {
    let series: Vec<Series> = data
        .systems
        .iter()
        .map(|fs| Series::new(fs.clone(), mark(clock), pairs(data, fs, clock, setting)))
        .filter(|one| !one.points.is_empty())
        .collect();
    let found = overall(&data.correlations, clock, setting);
    let (id, title) = view_text(data, clock, setting);
    (!series.is_empty()).then(|| {
        figure(
            format!("score-cost-{id}"),
            format!("Layout score against cost: {title}"),
            match found {
                Some(found) => format!(
                    "Read-ahead {}. Pearson's correlation over all points with its 95 % interval: {}.",
                    read_ahead_text(setting),
                    text_of(&found)
                ),
                None => "Too few points, or no spread, for a correlation.".into(),
            },
            device_text(data, clock),
            Better::Lower,
            FigureKind::Scatter {
                x: Axis::linear("Layout score"),
                y: Axis::linear("Cost (s/GiB)").from_zero(),
                series,
            },
        )
    })
}

fn requests(data: &RoundData, fs: &str) -> Option<Figure> {
    let aged: Vec<&Sketch> =
        data.sketches.iter().filter(|one| one.fs == fs && one.aged && !one.requests.is_empty()).collect();
    let chosen: BTreeSet<usize> = [0, aged.len() / 2, aged.len().checked_sub(1)?].into();
    let chosen: Vec<&Sketch> = chosen.into_iter().map(|index| aged[index]).collect();
    let mut stretches = blocks(chosen.iter());
    stretches.extend(chosen.iter().flat_map(|one| one.requests.iter().map(|(_, block)| (*block, block + 1))));
    let lens = Lens::of(stretches);
    let series = chosen.iter().map(|one| {
        let places = one.requests.iter().filter_map(|(order, block)| Some((*order, lens.place(*block)?)));
        let points = places.map(|(order, place)| (order as f64, place as f64 * 4096.0));
        Series::new(format!("{} {}", data.round, one.round), Mark::Measured, points.collect())
    });
    let setting = data.settings.last().copied().flatten();
    Some(figure(
        format!("requests-{fs}"),
        format!("{fs}: address against order of requests"),
        format!(
            "Read requests of the cold read, read-ahead {}; a sample if there are many. Stretches of the address \
             space without requests are omitted. One rising line is a sequential read.",
            read_ahead_text(setting)
        ),
        data.device.clone(),
        Better::Neither,
        FigureKind::Scatter {
            x: Axis::linear("Request").from_zero(),
            y: Axis::linear("Address, gaps omitted").in_bytes().from_zero(),
            series: series.collect(),
        },
    ))
}

fn discontinuities(data: &RoundData, fs: &str) -> Option<Figure> {
    let last = data.points.iter().filter(|point| point.fs == fs).map(|point| point.round).max()?;
    let setting = usual(data, Clock::Hdd);
    let buckets = |point: &Point, reading: Option<&Reading>| match reading.and_then(|one| one.traced.as_ref()) {
        Some(traced) => traced.log2_blocks.clone(),
        None => point.tree_log2_blocks.clone(),
    };
    let is_chosen = |point: &&Point| point.fs == fs && point.round == last && point.image == 0;
    let chosen = data.points.iter().filter(is_chosen);
    let series: Vec<Series> = chosen
        .map(|point| {
            let counts = buckets(point, point.reading(setting));
            let mut points: Vec<(f64, f64)> = (0..).zip(&counts).map(|(k, n)| (2f64.powi(k), *n as f64)).collect();
            points.push((2f64.powi(counts.len() as i32), 0.0));
            Series::new(if point.aged { "aged" } else { "unaged copy" }, Mark::Measured, points)
        })
        .collect();
    series.iter().any(|one| one.points.len() > 1).then(|| {
        figure(
            format!("discontinuities-{fs}"),
            format!("{fs}: discontinuities by length, {} {last}", data.round),
            format!(
                "Jumps between requests of the cold read, read-ahead {}. On SSDs only their number matters, on \
                 disk drives also their length.",
                read_ahead_text(setting)
            ),
            data.device.clone(),
            Better::Lower,
            FigureKind::Steps {
                x: Axis::linear("Length (blocks of 4 KiB)").log2(),
                y: Axis::linear("Discontinuities").from_zero(),
                series,
            },
        )
    })
}
