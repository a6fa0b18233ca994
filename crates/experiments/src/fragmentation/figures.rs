//! Figures of points: where blocks lie, how they were read, what that cost.

use super::analysis::Seen;
use super::correlations::{overall, pairs, words};
use super::point::{Clock, Point, Reading, read_ahead_words};
use super::sketch::Sketch;
use senesce_core::analysis::{Axis, Better, CellRow, Figure, FigureKind, Mark, Series};
use senesce_devmodel::{DeviceModel, Parameters};
use std::collections::BTreeSet;

/// Cells of one strip over all file systems: many strips are drawn with small cells, few with large ones. And cells between
/// two file systems.
const MANY: usize = 8;
const SMALL_CELLS: usize = 670;
const LARGE_CELLS: usize = 240;
const GAP: usize = 5;
/// Most files with a colour of their own; of more, neighbours in directory order share one.
const COLOURS: u32 = 12;

/// All figures there are data for.
pub fn all(seen: &Seen<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = strips(seen).into_iter().collect();
    for clock in Clock::ALL {
        figures.extend(cost(seen, clock));
    }
    figures.extend(score(seen));
    for clock in Clock::ALL {
        figures.extend(scatter(seen, clock));
    }
    for fs in &seen.systems {
        figures.extend(requests(seen, fs));
    }
    for fs in &seen.systems {
        figures.extend(discontinuities(seen, fs));
    }
    figures
}

fn figure(id: String, title: String, caption: String, device: String, better: Better, kind: FigureKind) -> Figure {
    Figure { id, title, caption, device, better, kind }
}

/// Each block a bar coloured by its file, rounds stacked, file systems side by side.
fn strips(seen: &Seen<'_>) -> Option<Figure> {
    let sketches: Vec<&Sketch> = seen.sketches.iter().filter(|one| !one.extents.is_empty()).collect();
    let systems: Vec<&String> =
        seen.systems.iter().filter(|fs| sketches.iter().any(|sketch| sketch.fs == **fs)).collect();
    let files = sketches.iter().flat_map(|one| &one.extents).map(|extent| extent.2 + 1).max()?;
    // Of the copies the one of the last round stands for all.
    let rounds: BTreeSet<u64> = sketches.iter().map(|one| one.round).collect();
    let mut states: Vec<(u64, bool)> = rounds.iter().map(|round| (*round, true)).collect();
    states.push((*rounds.last()?, false));
    let total = if states.len() > MANY { SMALL_CELLS } else { LARGE_CELLS };
    let cells = (total + GAP) / systems.len().max(1) - GAP;
    let lenses: Vec<Lens> = systems.iter().map(|fs| Lens::over(&sketches, fs, cells)).collect();
    let colours = files.min(COLOURS);
    let rows = states.iter().map(|(round, aged)| {
        let mut row = Vec::new();
        for (fs, lens) in systems.iter().zip(&lenses) {
            if !row.is_empty() {
                row.extend([-1; GAP]);
            }
            let found = sketches.iter().find(|one| one.fs == **fs && (one.round, one.aged) == (*round, *aged));
            row.extend(lens.strip(found.map_or(&[], |one| &one.extents), |file| (file * colours / files) as i32));
        }
        let name = if *aged { format!("{} {round}", seen.story.round) } else { format!("copy of {round}") };
        CellRow { name, cells: row, fill: Vec::new() }
    });
    let rows = rows.collect();
    let legend = match files <= COLOURS {
        true => (1..=files).map(|file| format!("file {file}")).collect(),
        false => (1..=colours).map(|part| format!("files, part {part} of {colours}")).collect(),
    };
    let names: Vec<&str> = systems.iter().map(|name| name.as_str()).collect();
    let words = lenses.iter().map(|lens| lens.per_cell.to_string()).collect::<Vec<_>>().join(", ");
    Some(figure(
        "blocks".into(),
        format!("Where the blocks lie: {}", names.join(", ")),
        format!(
            "From left to right: {}. A strip is the address space with the stretches left out that never hold a block; a \
             cell shows one of every {words} blocks of 4 KiB, coloured by its file in the order of reading. A volume \
             that is read in one run shows each colour once.",
            names.join(", ")
        ),
        seen.device.clone(),
        Better::Neither,
        FigureKind::Cells { rows, legend, unit: "one 4 KiB block of every group".into() },
    ))
}

/// The stretches of an address space that hold blocks in any state, put together.
struct Lens {
    stretches: Vec<(u64, u64)>,
    per_cell: u64,
    cells: usize,
}

impl Lens {
    /// Stretches that lie closer than this many blocks are one.
    const NEAR: u64 = 8;

    fn over(sketches: &[&Sketch], fs: &str, cells: usize) -> Self {
        let mut extents: Vec<(u64, u64)> = sketches
            .iter()
            .filter(|one| one.fs == fs)
            .flat_map(|one| one.extents.iter().map(|(start, blocks, _)| (*start, start + blocks)))
            .collect();
        extents.sort_unstable();
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for (start, end) in extents {
            match stretches.last_mut() {
                Some(last) if start <= last.1 + Self::NEAR => last.1 = last.1.max(end),
                _ => stretches.push((start, end)),
            }
        }
        let total: u64 = stretches.iter().map(|(start, end)| end - start).sum();
        Self { stretches, per_cell: total.div_ceil(cells as u64).max(1), cells }
    }

    /// Number of a block in the joined stretches.
    fn place(&self, block: u64) -> Option<u64> {
        let mut before = 0;
        for (start, end) in &self.stretches {
            if (*start..*end).contains(&block) {
                return Some(before + block - start);
            }
            before += end - start;
        }
        None
    }

    fn strip(&self, extents: &[(u64, u64, u32)], colour: impl Fn(u32) -> i32) -> Vec<i32> {
        let mut cells = vec![-1; self.cells];
        for (start, blocks, file) in extents {
            let Some(first) = self.place(*start) else { continue };
            for place in (first..first + blocks).filter(|place| place % self.per_cell == 0) {
                if let Some(cell) = cells.get_mut((place / self.per_cell) as usize) {
                    *cell = colour(*file);
                }
            }
        }
        cells
    }
}

/// The read-ahead setting that a device's figures are made with: on for a disk drive, off for a solid-state drive, as
/// published.
pub fn usual(seen: &Seen<'_>, clock: Clock) -> Option<u64> {
    match clock {
        Clock::Ssd if seen.settings.contains(&Some(0)) => Some(0),
        _ => seen.settings.iter().copied().max().flatten(),
    }
}

/// Seconds per GiB of a device that reads in one run.
fn sequential(seen: &Seen<'_>, clock: Clock) -> Option<f64> {
    let model = match clock {
        Clock::Wall => {
            return senesce_stats::mean(&seen.sequential.iter().map(|one| one.seconds_per_gib).collect::<Vec<_>>());
        }
        Clock::Hdd => DeviceModel::reference_hdd().ok()?,
        Clock::Ssd => DeviceModel::reference_ssd().ok()?,
    };
    let mb_per_s = match model.parameters {
        Parameters::Hdd(hdd) => hdd.outer_mb_per_s,
        Parameters::Ssd(ssd) => ssd.read_mb_per_s,
        Parameters::ColdStore(store) => store.mb_per_s,
    };
    Some(f64::from(1u32 << 30) / (mb_per_s * 1e6))
}

fn short(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "the volume itself",
        Clock::Hdd => "disk drive",
        Clock::Ssd => "solid-state drive",
    }
}

/// Where times of a clock are from.
pub fn device_words(seen: &Seen<'_>, clock: Clock) -> String {
    match clock {
        Clock::Wall => format!("measured on {}", seen.device),
        Clock::Hdd => "modelled: reference disk drive (Seagate ST500DM002)".into(),
        Clock::Ssd => "modelled: reference solid-state drive (Samsung 850 EVO), no flash translation layer".into(),
    }
}

fn mark(clock: Clock) -> Mark {
    if clock == Clock::Wall { Mark::Measured } else { Mark::Modelled }
}

fn over_rounds<'a>(
    seen: &'a Seen<'_>,
    fs: &'a str,
    aged: bool,
    value: impl Fn(&Point) -> Option<f64> + 'a,
) -> Vec<(f64, f64)> {
    let chosen = seen.points.iter().filter(|point| point.fs == fs && point.aged == aged);
    chosen.filter_map(|point| Some((point.round as f64, value(point)?))).collect()
}

/// Seconds per GiB over rounds.
fn cost(seen: &Seen<'_>, clock: Clock) -> Option<Figure> {
    let setting = usual(seen, clock);
    let mut series = Vec::new();
    for aged in [true, false] {
        for fs in &seen.systems {
            let points = over_rounds(seen, fs, aged, |point| point.cost(point.reading(setting)?, clock));
            let name = if aged { fs.clone() } else { format!("{fs}, unaged copy") };
            series.push(Series::new(name, mark(clock), points));
        }
    }
    series.retain(|one| !one.points.is_empty());
    let last = seen.points.iter().map(|point| point.round).max()? as f64;
    if series.is_empty() {
        return None;
    }
    if let Some(cost) = sequential(seen, clock) {
        series.push(Series::new("sequential bandwidth", Mark::Predicted, vec![(0.0, cost), (last.max(1.0), cost)]));
    }
    Some(figure(
        format!("cost-{}", clock.key()),
        format!("Cost of the cold read over {}s: {}", seen.story.round, short(clock)),
        format!(
            "Read-ahead {}. The dashed line is what the device needs for one run over as many bytes.",
            read_ahead_words(setting)
        ),
        device_words(seen, clock),
        Better::Lower,
        FigureKind::Lines {
            x: Axis::linear(seen.story.round).from_zero(),
            y: Axis::linear("Cost (s/GiB)").log10(),
            series,
        },
    ))
}

/// Layout scores over rounds.
fn score(seen: &Seen<'_>) -> Option<Figure> {
    let setting = usual(seen, Clock::Hdd);
    let mut series = Vec::new();
    for fs in &seen.systems {
        let dynamic = |point: &Point| point.reading(setting)?.traced.as_ref()?.dynamic_layout_score;
        series.push(Series::new(format!("{fs}, dynamic"), Mark::Measured, over_rounds(seen, fs, true, dynamic)));
        let copy = over_rounds(seen, fs, false, dynamic);
        series.push(Series::new(format!("{fs}, dynamic, unaged copy"), Mark::Measured, copy));
        let tree = over_rounds(seen, fs, true, |point| point.tree_layout_score);
        series.push(Series::new(format!("{fs}, tree"), Mark::Measured, tree));
    }
    series.retain(|one| !one.points.is_empty());
    (!series.is_empty()).then(|| {
        figure(
            "score".into(),
            format!("Layout scores over {}s", seen.story.round),
            "1 is one run, 0 a jump before every 4 KiB block. Dynamic: from the requests of the cold read, metadata \
             included; tree: from the extents of the files in the same order."
                .into(),
            seen.device.clone(),
            Better::Higher,
            FigureKind::Lines {
                x: Axis::linear(seen.story.round).from_zero(),
                y: Axis { max: Some(1.0), ..Axis::linear("Layout score") },
                series,
            },
        )
    })
}

/// Score against cost.
fn scatter(seen: &Seen<'_>, clock: Clock) -> Option<Figure> {
    let setting = usual(seen, clock);
    let series: Vec<Series> = seen
        .systems
        .iter()
        .map(|fs| Series::new(fs.clone(), mark(clock), pairs(&seen.points, Some(fs), clock, setting)))
        .filter(|one| !one.points.is_empty())
        .collect();
    let found = overall(&seen.correlations, clock, setting);
    (!series.is_empty()).then(|| {
        figure(
            format!("score-cost-{}", clock.key()),
            format!("Layout score against cost: {}", short(clock)),
            match found {
                Some(found) => format!(
                    "Read-ahead {}. Pearson's correlation over all points with its 95 % interval: {}.",
                    read_ahead_words(setting),
                    words(&found)
                ),
                None => "Too few points, or no spread, for a correlation.".into(),
            },
            device_words(seen, clock),
            Better::Lower,
            FigureKind::Scatter {
                x: Axis::linear("Layout score"),
                y: Axis::linear("Cost (s/GiB)").from_zero(),
                series,
            },
        )
    })
}

/// Address against request order for the first, the middle and the last round.
fn requests(seen: &Seen<'_>, fs: &str) -> Option<Figure> {
    let aged: Vec<&Sketch> =
        seen.sketches.iter().filter(|one| one.fs == fs && one.aged && !one.requests.is_empty()).collect();
    let chosen: BTreeSet<usize> = [0, aged.len() / 2, aged.len().checked_sub(1)?].into();
    let series = chosen.into_iter().map(|index| {
        let points = near(&aged[index].requests).map(|(order, block)| (order as f64, block as f64 * 4096.0));
        Series::new(format!("{} {}", seen.story.round, aged[index].round), Mark::Measured, points.collect())
    });
    let setting = seen.settings.last().copied().flatten();
    Some(figure(
        format!("requests-{fs}"),
        format!("{fs}: address against order of requests"),
        format!(
            "Read requests of the cold read, read-ahead {}; of many requests every so many-th, and none far from where most \
             are. One rising line is one run.",
            read_ahead_words(setting)
        ),
        seen.device.clone(),
        Better::Neither,
        FigureKind::Scatter {
            x: Axis::linear("Request").from_zero(),
            y: Axis::linear("Address").in_bytes(),
            series: series.collect(),
        },
    ))
}

/// Requests whose address lies near those of most: a few of metadata elsewhere would flatten the rest.
fn near(requests: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut blocks: Vec<u64> = requests.iter().map(|request| request.1).collect();
    blocks.sort_unstable();
    let at = |share: usize| blocks.get(blocks.len() * share / 100).copied().unwrap_or(0);
    let (low, high) = (at(3), at(97));
    let margin = (high - low) / 2 + 16;
    let kept = low.saturating_sub(margin)..=high + margin;
    requests.iter().copied().filter(move |request| kept.contains(&request.1))
}

/// Jumps by length, aged and unaged, in the last round.
fn discontinuities(seen: &Seen<'_>, fs: &str) -> Option<Figure> {
    let last = seen.points.iter().filter(|point| point.fs == fs).map(|point| point.round).max()?;
    let setting = usual(seen, Clock::Hdd);
    let buckets = |point: &Point, reading: Option<&Reading>| match reading.and_then(|one| one.traced.as_ref()) {
        Some(traced) => traced.log2_blocks.clone(),
        None => point.tree_log2_blocks.clone(),
    };
    let chosen = seen.points.iter().filter(|point| point.fs == fs && point.round == last);
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
            format!("{fs}: discontinuities by length, {} {last}", seen.story.round),
            format!(
                "Jumps between requests of the cold read, read-ahead {}. Their number matters on solid-state drives, on \
                 disk drives their length too.",
                read_ahead_words(setting)
            ),
            seen.device.clone(),
            Better::Lower,
            FigureKind::Steps {
                x: Axis::linear("Length (blocks of 4 KiB)").log2(),
                y: Axis::linear("Discontinuities").from_zero(),
                series,
            },
        )
    })
}
