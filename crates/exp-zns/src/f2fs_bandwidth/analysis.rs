//! Means next to the published ones, bandwidth over time, and the simulated drives.

use super::{DriveResult, Event, F2fsBandwidth, MEAN, OnModel, Sample};
use crate::on_model::{Host, NAMES};
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::{Analysis, Rows, Table, published};
use senesce_runner::{Recorded, Run};
use serde_json::json;
use std::collections::BTreeSet;

const SUMMARY: &str = "Several writers overwrite their files in random order, in blocks of 4 KiB, with an fdatasync \
                       after every 32 blocks. F2FS uses a conventional or a zoned drive, and its cleaner must run.";

pub(crate) fn analyse(recorded: &Recorded<F2fsBandwidth>) -> Analysis {
    let (mut samples, mut results, mut modelled) = (Vec::new(), Vec::new(), Vec::new());
    for event in recorded.events().cloned() {
        match event {
            Event::Sample(sample) => samples.push(sample),
            Event::Drive(result) => results.push(result),
            Event::OnModel(found) => modelled.push(found),
            Event::Recorded(_) | Event::Speed(_) => {}
        }
    }
    let emulated = recorded.environment.0.contains_key("vm.accelerator");
    let device = if emulated { "drives emulated by QEMU in the guest" } else { "drives of this machine" };
    let mut tables = vec![means(&results, emulated)];
    let mut figures = Vec::new();
    if !modelled.is_empty() {
        tables.push(on_models(&modelled));
        figures.push(figure(
            "modelled",
            "Write bandwidth over model time",
            NAMES,
            modelled_series(&modelled, &samples),
        ));
    }
    figures.push(figure("bandwidth", "Write bandwidth over time", device, measured_series(&samples)));
    Analysis {
        title: "Sustained write bandwidth of F2FS".into(),
        summary: SUMMARY.into(),
        figures,
        tables,
        result: json!({"drives": results, "on_models": modelled}),
        ..Analysis::default()
    }
}

fn means(results: &[DriveResult], emulated: bool) -> Table {
    let title = if emulated { "Mean bandwidth in the guest" } else { "Mean bandwidth" };
    Rows::of(results)
        .column("drive", |result| &result.drive)
        .column("repeat", |result| result.repeat + 1)
        .column("written (MiB)", |result| result.bytes >> 20)
        .column("overwrites", |result| &result.overwrites)
        .column("mean (MiB/s)", |result| result.mean_mib_s)
        .column("published (MiB/s)", |result| published_mean(MEAN, &result.drive))
        .column("published, whole job (MiB/s)", |result| published_mean(OF_JOB, &result.drive))
        .table("means", title)
}

/// Totals and shares of time for each host and drive.
fn on_models(modelled: &[OnModel]) -> Table {
    let percent = |found: &OnModel, seconds: f64| 100.0 * seconds / found.timed.recording_seconds;
    Rows::of(modelled)
        .column("drive", |found| &found.drive)
        .column("repeat", |found| found.repeat + 1)
        .column("host takes", |found| found.timed.host_words())
        .column("mean (MiB/s)", |found| found.mean_mib_s)
        .column("published (MiB/s)", |found| published_mean(MEAN, &found.drive))
        .column("published, whole job (MiB/s)", |found| published_mean(OF_JOB, &found.drive))
        .column("drive busy (%)", |found| percent(found, found.timed.busy_seconds))
        .column("host alone (%)", |found| percent(found, found.timed.host_seconds))
        .column("write amplification", |found| found.write_amplification)
        .column("read (MiB)", |found| found.timed.bytes("read") >> 20)
        .column("zone resets", |found| found.timed.commands("reset"))
        .column("accounts", |found| found.timed.accounts())
        .table("on-models", "The same requests on simulated drives")
}

fn figure(id: &str, title: &str, device: &str, series: Vec<Series>) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        caption: "Each point is the mean over 1 % of the written bytes.".into(),
        device: device.into(),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("time (s)").from_zero(),
            y: Axis::linear("bandwidth (MiB/s)").from_zero(),
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        },
    }
}

fn measured_series(samples: &[Sample]) -> Vec<Series> {
    let repeats: BTreeSet<u32> = samples.iter().map(|sample| sample.repeat).collect();
    let lines = repeats.iter().flat_map(|repeat| ["conventional", "zoned"].map(|drive| (drive, *repeat)));
    lines.map(|(drive, repeat)| over_time(drive, repeat, samples)).collect()
}

fn over_time(drive: &str, repeat: u32, samples: &[Sample]) -> Series {
    let points = samples
        .iter()
        .filter(|sample| sample.drive == drive && sample.repeat == repeat && sample.seconds > 0.0)
        .map(|sample| (sample.elapsed, sample.bytes as f64 / sample.seconds / 1_048_576.0))
        .collect();
    Series { name: named(drive, repeat), mark: Mark::Measured, points, ..Series::default() }
}

/// Computes the bandwidth between the times at which the stretches end on the model.
fn modelled_series(modelled: &[OnModel], samples: &[Sample]) -> Vec<Series> {
    let alone = modelled.iter().filter(|found| found.timed.host == Host::None);
    let line = |found: &OnModel| {
        let own = samples.iter().filter(|sample| (&sample.drive, sample.repeat) == (&found.drive, found.repeat));
        let mut before = 0.0;
        let points = own.zip(&found.timed.moments).filter_map(|(sample, at)| {
            let seconds = at - std::mem::replace(&mut before, *at);
            (seconds > 0.0).then(|| (*at, sample.bytes as f64 / seconds / 1_048_576.0))
        });
        Series {
            name: named(&found.drive, found.repeat),
            mark: Mark::Modelled,
            points: points.collect(),
            ..Series::default()
        }
    };
    alone.map(line).collect()
}

fn named(drive: &str, repeat: u32) -> String {
    if repeat == 0 { drive.to_string() } else { format!("{drive}, again {repeat}") }
}

/// The second published mean: all bytes over the whole time. [`MEAN`] is the mean of the logged seconds.
pub(crate) const OF_JOB: &str = "mean write bandwidth of the whole job";

pub(crate) fn published_mean(metric: &str, drive: &str) -> Option<f64> {
    let values = published::parse(F2fsBandwidth::PUBLISHED).ok()?;
    values.into_iter().find(|value| value.metric == metric && value.condition == drive).map(|value| value.value)
}
