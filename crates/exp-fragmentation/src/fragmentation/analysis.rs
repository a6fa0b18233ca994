//! Makes tables and figures from a record.

use super::correlations::{self, ScoreCost, overall};
use super::estimate::Estimate;
use super::experiment::{Event, Fragmentation};
use super::models::Models;
use super::parameters::Spec;
use super::point::{Clock, Point, Reading, TracedRead, read_ahead_text};
use super::rounds::{Sequential, first_mode};
use super::sketch::Sketch;
use super::{Procedure, figures, published_table};
use senesce_core::Rows;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{Analysis, Failure, Finite, Table};
use senesce_runner::Recorded;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct RoundData {
    pub round: &'static str,
    /// Points of all images, written in the first mode.
    pub points: Vec<Point>,
    /// Points of the other modes.
    pub others: Vec<Point>,
    pub sketches: Vec<Sketch>,
    pub sequential: Vec<Sequential>,
    pub systems: Vec<String>,
    pub settings: Vec<Option<u64>>,
    pub correlations: Vec<ScoreCost>,
    pub device: String,
    pub models: Models,
}

impl RoundData {
    /// Reads events; `round` is the name of a round, and `mode` is the write mode that figures show.
    pub(crate) fn of<'e>(events: impl Iterator<Item = &'e Event>, round: &'static str, mode: Option<&str>) -> Self {
        let mut data = Self { round, ..Self::default() };
        let (mut points, mut sketches) = (BTreeMap::new(), BTreeMap::new());
        for event in events.cloned() {
            match event {
                // The guest's description comes after the one of this machine.
                Event::VolumeSource(text) if data.device.is_empty() => data.device = text,
                Event::VolumeSource(_) => {}
                Event::Sequential(one) => data.sequential.push(one),
                Event::Sketch(one) => {
                    sketches.insert((one.fs.clone(), one.round, one.aged), one);
                }
                Event::Point(point) => {
                    let key = (data.place_of(&point), point.mode.clone(), point.round, !point.aged, point.image);
                    points.insert(key, point);
                }
            }
        }
        // Older records have no mode.
        let is_first = |point: &Point| point.mode.is_none() || point.mode.as_deref() == mode;
        (data.points, data.others) = points.into_values().partition(is_first);
        data.sketches = sketches.into_values().collect();
        data.correlations = correlations::all(&data);
        data
    }

    /// Returns the index of a point's file system; adds it and its read-ahead settings if new.
    fn place_of(&mut self, point: &Point) -> usize {
        for reading in &point.readings {
            if !self.settings.contains(&reading.read_ahead_kib) {
                self.settings.push(reading.read_ahead_kib);
            }
        }
        self.systems.iter().position(|fs| *fs == point.fs).unwrap_or_else(|| {
            self.systems.push(point.fs.clone());
            self.systems.len() - 1
        })
    }

    /// Returns a value over rounds: its mean over the images.
    pub(crate) fn over_rounds(
        &self,
        fs: &str,
        aged: bool,
        value: impl Fn(&Point) -> Option<f64>,
    ) -> BTreeMap<u64, Estimate> {
        let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for point in self.points.iter().filter(|point| point.fs == fs && point.aged == aged) {
            rounds.entry(point.round).or_default().extend(value(point));
        }
        rounds.into_iter().filter_map(|(round, values)| Some((round, Estimate::of(&values)?))).collect()
    }

    fn costs_over_rounds(&self, fs: &str, aged: bool, clock: Clock) -> BTreeMap<u64, Estimate> {
        let setting = figures::usual(self, clock);
        self.over_rounds(fs, aged, |point| point.mean(setting, |reading| point.cost(reading, clock)))
    }

    /// Returns the read time of aged files over that of their copy, in the last round with both.
    pub(crate) fn slowdown(&self, fs: &str, clock: Clock) -> Option<f64> {
        let (aged, unaged) = (self.costs_over_rounds(fs, true, clock), self.costs_over_rounds(fs, false, clock));
        let times = |(round, aged): (&u64, &Estimate)| Finite::per(aged.mean, unaged.get(round)?.mean).ok();
        aged.iter().rev().find_map(times).map(Finite::get)
    }

    pub(crate) fn last_cost(&self, fs: &str, aged: bool, clock: Clock) -> Option<f64> {
        self.costs_over_rounds(fs, aged, clock).into_values().last().map(|one| one.mean)
    }

    pub(crate) fn costs(&self, fs: &str, clock: Clock) -> impl Iterator<Item = f64> + use<> {
        self.costs_over_rounds(fs, true, clock).into_values().map(|one| one.mean)
    }
}

pub(crate) fn analyse<P: Procedure>(
    spec: &Spec<P::Parameters>,
    recorded: &Recorded<Fragmentation<P>>,
) -> Result<Analysis, Failure> {
    let data = RoundData {
        models: spec.common.models(),
        ..RoundData::of(recorded.events(), P::STORY.round, first_mode::<P>(&spec.own))
    };
    let published = published_of::<P>(&spec.own)?;
    let mut caveats = vec![format!(
        "modelled: seconds on {} and {}; the flash drive first replayed the writes of the files",
        spec.common.disk, spec.common.flash
    )];
    caveats.extend(by_bytes_read(&data));
    caveats.extend(under_emulation(&data));
    let mut tables = vec![table(&data), correlation_table(&data), published_table::table(&data, &published)];
    tables.extend(P::tables(&data));
    Ok(Analysis {
        title: P::STORY.title.into(),
        summary: format!("{}\n\n{}", text_of(&data), P::STORY.summary),
        figures: figures::all(&data),
        tables,
        caveats,
        result: result(&data),
        ..Analysis::default()
    })
}

/// Returns a note about file systems whose times are per GiB of read bytes instead of allocated ones.
fn by_bytes_read(data: &RoundData) -> Option<String> {
    let is_one = |point: &Point| point.readings.iter().any(|reading| point.is_by_bytes_read(reading));
    systems_with(data, is_one).map(|names| {
        format!(
            "s/GiB counts the bytes read, not the allocated ones, in rounds of {names}: the file system reports \
             less than half of them as allocated (not accounted yet, compressed, or sparse)"
        )
    })
}

fn under_emulation(data: &RoundData) -> Option<String> {
    systems_with(data, |point| point.emulated).map(|names| {
        format!(
            "{names}: read in the guest under emulation (TCG); layouts, requests and modelled times are valid, \
             the guest's own seconds are omitted"
        )
    })
}

fn systems_with(data: &RoundData, is_one: impl Fn(&Point) -> bool) -> Option<String> {
    let found: BTreeSet<&str> =
        data.points.iter().filter(|point| is_one(point)).map(|point| point.fs.as_str()).collect();
    (!found.is_empty()).then(|| found.into_iter().collect::<Vec<_>>().join(", "))
}

fn published_of<P: Procedure>(own: &P::Parameters) -> Result<Vec<PublishedValue>, Failure> {
    let mut values = published::parse(P::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
    if let Some((ours, others)) = P::variant(own) {
        values.retain(|one| !one.condition.ends_with(others));
        for one in &mut values {
            one.condition = one.condition.trim_end_matches(ours).trim_end().into();
        }
    }
    Ok(values)
}

fn text_of(data: &RoundData) -> String {
    let found: Vec<String> =
        data.systems.iter().filter_map(|fs| Some(format!("{fs} {:.1}", data.slowdown(fs, Clock::Hdd)?))).collect();
    match found.is_empty() {
        true => format!("{} points were measured.", data.points.len()),
        false => format!(
            "Modelled on the disk drive, the last {} takes this many times as long as its unaged copy: {}.",
            data.round,
            found.join(", ")
        ),
    }
}

fn result(data: &RoundData) -> Value {
    let slowdown = |clock| -> BTreeMap<&String, f64> {
        data.systems.iter().filter_map(|fs| Some((fs, data.slowdown(fs, clock)?))).collect()
    };
    let analysis = data.points.iter().flat_map(|point| &point.readings).filter_map(|one| one.traced.as_ref());
    json!({
        "points": data.points,
        "points_of_other_modes": data.others,
        "sequential": data.sequential,
        "correlations": data.correlations,
        "correlation": {
            "hdd": overall(&data.correlations, Clock::Hdd, figures::usual(data, Clock::Hdd)),
            "ssd": overall(&data.correlations, Clock::Ssd, figures::usual(data, Clock::Ssd)),
            "volume": overall(&data.correlations, Clock::Wall, figures::usual(data, Clock::Wall)),
        },
        "slowdown": {"hdd": slowdown(Clock::Hdd), "ssd": slowdown(Clock::Ssd), "volume": slowdown(Clock::Wall)},
        "longest_trace_analysis_seconds": analysis.map(|one| one.analysis_seconds).fold(0.0, f64::max),
    })
}

/// Points that differ only in their image, with one read-ahead setting.
struct Row<'a> {
    setting: Option<u64>,
    images: Vec<&'a Point>,
}

impl<'s> Row<'s> {
    fn all(data: &'s RoundData) -> Vec<Self> {
        let mut groups: Vec<Vec<&'s Point>> = Vec::new();
        for point in data.points.iter().chain(&data.others) {
            let state = |point: &Point| (point.fs.clone(), point.mode.clone(), point.round, point.aged);
            match groups.last_mut().filter(|group| state(group[0]) == state(point)) {
                Some(group) => group.push(point),
                None => groups.push(vec![point]),
            }
        }
        let has = |group: &Vec<&Point>, setting| group.iter().any(|point| point.reading(setting).is_some());
        let with_settings = |group: Vec<&'s Point>| {
            let settings = data.settings.iter().copied().filter(|setting| has(&group, *setting)).collect::<Vec<_>>();
            settings.into_iter().map(|setting| Row { setting, images: group.clone() }).collect::<Vec<_>>()
        };
        groups.into_iter().flat_map(with_settings).collect()
    }

    fn of_reads(&self, value: impl Fn(&Point, &Reading) -> Option<f64>) -> Option<Estimate> {
        self.of_points(|point| point.mean(self.setting, |reading| value(point, reading)))
    }

    fn of_traces(&self, value: impl Fn(&TracedRead) -> Option<f64>) -> Option<Estimate> {
        self.of_reads(|_, reading| value(reading.traced.as_ref()?))
    }

    fn of_points(&self, value: impl Fn(&Point) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(&self.images.iter().filter_map(|point| value(point)).collect::<Vec<_>>())
    }
}

fn table(data: &RoundData) -> Table {
    let (rows, mean) = (Row::all(data), |one: Option<Estimate>| one.map(|one| one.mean));
    let hdd = |row: &Row<'_>| row.of_reads(|point, reading| point.cost(reading, Clock::Hdd));
    Rows::of(&rows)
        .column("file system", |row| row.images[0].fs.as_str())
        .column(data.round, |row| row.images[0].round)
        .column("state", |row| row.images[0].state())
        .column("written with", |row| row.images[0].mode.as_deref())
        .column("read-ahead", |row| read_ahead_text(row.setting))
        .column("images", |row| row.images.len())
        .column("modelled disk drive (s/GiB)", |row| mean(hdd(row)))
        .column("from", |row| hdd(row).map(|one| one.low))
        .column("to", |row| hdd(row).map(|one| one.high))
        .column("modelled solid-state drive (s/GiB)", |row| {
            mean(row.of_reads(|point, one| point.cost(one, Clock::Ssd)))
        })
        .column("volume itself (s/GiB)", |row| mean(row.of_reads(|point, one| point.cost(one, Clock::Wall))))
        .column("dynamic layout score", |row| mean(row.of_traces(|one| one.dynamic_layout_score)))
        .column("tree layout score", |row| mean(row.of_points(|point| point.tree_layout_score)))
        .column("static layout score", |row| mean(row.of_points(|point| point.static_layout_score)))
        .column("discontinuities", |row| mean(row.of_traces(|one| Some(one.discontinuities as f64))))
        .column("seek distance (MiB)", |row| {
            mean(row.of_traces(|one| Some(one.seek_distance_bytes as f64 / f64::from(1 << 20))))
        })
        .column("requests", |row| mean(row.of_traces(|one| Some(one.requests as f64))))
        .table("points", "Cold reads: means over the images, 95 % intervals of the disk drive")
}

fn correlation_table(data: &RoundData) -> Table {
    Rows::of(data.correlations.iter().filter_map(|one| Some((one, one.pearson?))))
        .column("file systems", |(one, _)| &one.fs)
        .column("device", |(one, _)| one.device)
        .column("read-ahead", |(one, _)| read_ahead_text(one.read_ahead_kib))
        .column("Pearson", |(_, pearson)| pearson.value)
        .column("from", |(_, pearson)| pearson.low)
        .column("to", |(_, pearson)| pearson.high)
        .column("Spearman", |(one, _)| one.spearman.map(|spearman| spearman.value))
        .column("points", |(_, pearson)| pearson.count)
        .table("correlations", "Correlation of layout score and cost, 95 % intervals")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::point;

    #[test]
    fn times_per_gib_of_read_bytes_are_marked() {
        let of = |allocated| by_bytes_read(&point::tests::round_data(vec![point::tests::read_of_a_gib(allocated)]));
        assert_eq!(of(1 << 30), None);
        assert!(of(5120).unwrap().contains("in rounds of zfs:"));
    }

    #[test]
    fn emulated_times_are_reported() {
        let of = |emulated| {
            under_emulation(&point::tests::round_data(vec![Point { emulated, ..point::tests::read_of_a_gib(1 << 30) }]))
        };
        assert_eq!(of(false), None);
        assert!(of(true).unwrap().starts_with("zfs: read in the guest"));
    }
}
