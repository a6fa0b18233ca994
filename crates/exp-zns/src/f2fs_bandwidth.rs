//! Sustained write bandwidth of F2FS on a conventional drive and on a zoned one of the same size, with cleaning.

mod analysis;
mod models;
mod overwriting;
mod writing;

use crate::on_model::{HostSpeed, TimedReplay, TracedDrives};
use clap::Args;
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::parameter::real;
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size, Span};
use senesce_guest::carry::{GuestSpec, run_in_guest};
use senesce_guest::{GuestTime, drives};
use senesce_runner::{Context, Experiment, Planned, Run};
use senesce_volume::BlockDevice;
use senesce_volume::guest::{DriveChoice, find};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use writing::write_on;

pub(crate) struct F2fsBandwidth(Vec<PathBuf>);

/// Files, writes, drives and guest of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// capacity of each drive in the guest
    #[arg(long)]
    pub size: Size,
    /// times that all files are overwritten
    #[arg(long, value_parser = real(0.01..=1000.0))]
    pub overwrites: f64,
    /// size of all files over that of the drive
    #[arg(long, value_parser = real(0.01..=0.9))]
    pub fullness: f64,
    /// threads, each of which overwrites ten files of its own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub writers: u32,
    /// conventional drive of this machine, or vm to boot the guest
    #[arg(long)]
    pub conventional: String,
    /// zoned drive of this machine, or vm
    #[arg(long)]
    pub zoned: String,
    /// small conventional drive for the metadata, or vm
    #[arg(long)]
    pub metadata: String,
    /// memory of the guest; its cleaner need not read cached blocks
    #[arg(long)]
    pub guest_memory: Size,
    /// minimum time of a request to the guest's drives, so that concurrent requests overlap although the processor is
    /// emulated
    #[arg(long)]
    #[serde(default)]
    pub guest_latency: Span,
    /// repetitions, each on new file systems; claims need five
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    #[serde(default = "once")]
    pub repeats: u32,
    /// time after which the guest is ended
    #[arg(long)]
    pub time_limit: Span,
}

/// Returns the default for records without this field.
fn once() -> u32 {
    1
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// Bandwidth over one stretch of the run.
    Sample(Sample),
    /// A drive was written.
    Drive(DriveResult),
    /// Requests that emulated drives received meanwhile.
    Recorded(Recorded),
    /// Speed of a machine without its drives.
    Speed(HostSpeed),
    /// The recorded requests on simulated drives.
    OnModel(OnModel),
}

/// Requests that emulated drives received meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    drive: String,
    repeat: u32,
    traced: TracedDrives,
}

/// A run on simulated drives.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct OnModel {
    drive: String,
    repeat: u32,
    bytes: u64,
    /// None: nothing was written to the drive.
    mean_mib_s: Option<f64>,
    write_amplification: f64,
    timed: TimedReplay,
}

/// Bandwidth over one stretch of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    drive: String,
    #[serde(default)]
    repeat: u32,
    seconds: f64,
    bytes: u64,
    elapsed: f64,
}

/// Totals of a drive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DriveResult {
    drive: String,
    #[serde(default)]
    repeat: u32,
    bytes: u64,
    /// Bytes written while the files were laid out.
    #[serde(default)]
    laid_bytes: u64,
    seconds: f64,
    overwrites: f64,
    mean_mib_s: f64,
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Both drives, in a guest.
    Guest,
    /// The guest's requests, timed on simulated drives.
    OnModels,
    /// The conventional drive of this machine, and the repetition.
    Conventional(u32),
    /// The zoned drive of this machine, and the repetition.
    Zoned(u32),
}

impl Run for F2fsBandwidth {
    const KIND: &'static str = "f2fs-bandwidth";
    const PUBLISHED: &'static str = include_str!("../data/published/f2fs-bandwidth.csv");
    const CLAIMS: &'static str = include_str!("../data/published/f2fs-bandwidth.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn facts(_spec: &Spec, recorded: &senesce_runner::Recorded<Self>, facts: Facts) -> Facts {
        let facts = crate::guest_drives::facts(&recorded.environment, facts);
        match recorded.events().any(|event| matches!(event, Event::OnModel(_))) {
            true => crate::on_model::facts(facts),
            false => facts,
        }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let words = format!(
            "make f2fs, lay out files on {:.0} % of it and overwrite them {} times",
            spec.fullness * 100.0,
            spec.overwrites
        );
        let on_drive = |size: Bytes| Bytes((size.0 as f64 * spec.fullness * (1.0 + spec.overwrites)) as u64);
        if spec.conventional == GUEST {
            // mkfs.f2fs is killed by a signal when zones are smaller than a segment of 2 MiB.
            if spec.size.0 < LEAST_SIZE {
                return Err(Failure::usage(format!("size {}: F2FS needs drives of {LEAST_SIZE} or more", spec.size)));
            }
            senesce_guest::kernel::choose(None, Some(senesce_guest::kernel::Engine::Qemu))?;
            // About 25 MB/s in blocks of 4 KiB get through an emulated drive and the translated kernel.
            let bytes = Bytes(2 * on_drive(spec.size.0).0 * u64::from(spec.repeats));
            let seconds = 10.0 + bytes.0 as f64 / 25e6;
            let target = "a conventional and a zoned drive of the guest";
            let models = "time the requests of the guest's drives on models";
            return Ok(vec![
                Planned::new(Step::Guest, words, target).costing(bytes, seconds),
                // The simulator processes about 100,000 commands of 128 KiB per second.
                Planned::new(Step::OnModels, models, crate::on_model::NAMES)
                    .costing(Bytes(0), 6.0 * bytes.0 as f64 / 12e9),
            ]);
        }
        // The step refuses a missing drive. A drive writes about 500 MiB/s.
        let size = |drive: &str, wanted| {
            let found = find(drive, wanted).and_then(|path| Ok(BlockDevice::open(&path)?.size()));
            found.map_or(Bytes(0), on_drive)
        };
        let on = |step, name: &str, drive: &str| {
            let wanted = if name == "zoned" { DriveChoice::Zoned } else { DriveChoice::Largest };
            let bytes = size(drive, wanted);
            Planned::new(step, words.clone(), format!("{name}: {drive}")).costing(bytes, bytes.0 as f64 / 5e8)
        };
        let round = |repeat| {
            [
                on(Step::Conventional(repeat), "conventional", &spec.conventional),
                on(Step::Zoned(repeat), "zoned", &spec.zoned),
            ]
        };
        Ok((0..spec.repeats).flat_map(round).collect())
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self(Vec::new()))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Guest => {
                let guest = GuestSpec {
                    kernel: None,
                    drives: drives::slowed(drives::emulated_with(spec.size.0, ZONES), spec.guest_latency),
                    memory: spec.guest_memory.0,
                    time: GuestTime::Real,
                    time_limit: spec.time_limit.0,
                    events_name_guest: false,
                };
                let auto = || drives::AUTO.to_string();
                let inside = Spec { conventional: auto(), zoned: auto(), metadata: auto(), ..spec.clone() };
                run_in_guest::<Self, Self>(&guest, &inside, context)
            }
            Step::OnModels => models::time_all(context),
            Step::Conventional(repeat) => {
                let drive = find(&spec.conventional, DriveChoice::Largest)?;
                write_on(("conventional", *repeat), &drive, None, spec, &mut self.0, context)
            }
            Step::Zoned(repeat) => {
                context.add_environment(&crate::guest_drives::zoned(&spec.zoned)?)?;
                let zoned = find(&spec.zoned, DriveChoice::Zoned)?;
                let metadata = find(&spec.metadata, DriveChoice::Smallest)?;
                write_on(("zoned", *repeat), &metadata, Some(&zoned), spec, &mut self.0, context)
            }
        }
    }

    fn analyse(_spec: &Spec, recorded: &senesce_runner::Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(recorded))
    }

    fn measurements(_spec: &Spec, recorded: &senesce_runner::Recorded<Self>) -> Vec<Measurement> {
        let emulated = recorded.environment.0.contains_key("vm.accelerator");
        recorded.events().filter_map(|event| measurement(event, emulated)).collect()
    }
}

/// Returns the mean over everything written to a drive in one repetition. Emulated drives use another metric name than
/// real and simulated ones, which decide claims.
fn measurement(event: &Event, emulated: bool) -> Option<Measurement> {
    let (name, drive, repeat, value) = match event {
        Event::Drive(result) if emulated => {
            ("mean write bandwidth in the guest", &result.drive, result.repeat, result.mean_mib_s)
        }
        Event::Drive(result) => (MEAN, &result.drive, result.repeat, result.mean_mib_s),
        Event::OnModel(found) if !found.timed.problems.is_empty() => return None,
        Event::OnModel(found) => (models::metric(found.timed.host)?, &found.drive, found.repeat, found.mean_mib_s?),
        _ => return None,
    };
    let one = Measurement::new(name, "MiB/s", Better::Higher, value).ok()?;
    let one = Measurement { repetition: repeat, ..one.under("drive", &**drive) };
    Some(match event {
        Event::OnModel(_) => one.modelled(),
        _ if emulated => one.under_emulation(),
        _ => one,
    })
}

const MEAN: &str = "mean write bandwidth";

impl Experiment for F2fsBandwidth {
    const TITLE: &'static str = "Sustained write bandwidth of F2FS on a conventional and on a zoned drive";
    const PAGE: &'static str = include_str!("../docs/experiments/f2fs-bandwidth.md");

    fn defaults(level: Level) -> Spec {
        Spec {
            size: Size(Bytes::gib(level.of([1, 1, 8]))),
            overwrites: level.of([0.2, 4.0, 4.0]),
            // The study: 720 GiB on 904 zones of 1077 MiB (and on a conventional drive of 1 TiB).
            fullness: level.of([0.1, 0.757, 0.757]),
            writers: 8,
            // Less memory than the files need, so that the cache cannot hold them.
            guest_memory: Size(Bytes::mib(512)),
            guest_latency: Span::from_millis(2),
            conventional: GUEST.into(),
            zoned: GUEST.into(),
            metadata: GUEST.into(),
            repeats: level.of([1, 5, 5]),
            time_limit: Span::from_millis(level.of([300_000, 7_200_000, 43_200_000])),
        }
    }
}

/// Zones of an emulated drive. With fewer zones F2FS has less space than the files need, because it keeps whole zones
/// free.
const ZONES: u64 = 256;
const LEAST_SIZE: Bytes = Bytes(ZONES * (2 << 20));
const GUEST: &str = "vm";

#[cfg(test)]
mod tests;
