//! Sustained write bandwidth of F2FS on a conventional drive and on a zoned one of the same size, with cleaning.

use clap::Args;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::failure::failed;
use senesce_core::parameter::real;
use senesce_core::published;
use senesce_core::{Analysis, Bytes, Failure, Finding, Level, Seed, Size, Span, Table, Verdict};
use senesce_runs::drives;
use senesce_runs::run::{Context, Experiment, Guest, Planned, Recorded, Run, run_in_guest};
use senesce_volume::guest::{Wanted, find};
use senesce_volume::{BlockDevice, ClaimedDevice, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The experiment.
pub struct F2fsBandwidth;

/// What is written, and on which drives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// capacity of each drive in the lab
    #[arg(long)]
    pub size: Size,
    /// bytes written per drive over its capacity
    #[arg(long, value_parser = real(0.1..=1000.0))]
    pub overwrites: f64,
    /// share of the file system that holds files
    #[arg(long, value_parser = real(0.05..=0.9))]
    pub fullness: f64,
    /// size of each file
    #[arg(long)]
    pub file_size: Size,
    /// conventional drive of this machine, or lab to boot the guest
    #[arg(long)]
    pub conventional: String,
    /// zoned drive of this machine, or lab
    #[arg(long)]
    pub zoned: String,
    /// small conventional drive beside the zoned one, or lab
    #[arg(long)]
    pub metadata: String,
    /// ends the guest
    #[arg(long)]
    pub time_limit: Span,
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Event {
    /// Bandwidth over one stretch of the run.
    Sample(Sample),
    /// A drive was written.
    Drive(DriveResult),
}

/// Bandwidth over one stretch of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    drive: String,
    seconds: f64,
    bytes: u64,
    elapsed: f64,
}

/// The whole of a drive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DriveResult {
    drive: String,
    bytes: u64,
    seconds: f64,
    overwrites: f64,
    mean_mib_s: f64,
}

/// What is done whole or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Both drives, in a guest.
    Guest,
    /// The conventional drive of this machine.
    Conventional,
    /// The zoned drive of this machine.
    Zoned,
}

impl Run for F2fsBandwidth {
    const KIND: &'static str = "f2fs-bandwidth";
    const PUBLISHED: &'static str = include_str!("../../../data/published/f2fs-bandwidth.csv");
    const CLAIMS: &'static str = include_str!("../../../data/published/f2fs-bandwidth.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let (size, file) = (spec.size.0, spec.file_size.0);
        if file.0 == 0 || file.0 * 8 > size.0 {
            return Err(Failure::usage(format!(
                "file-size {file} must be above 0 and at most an eighth of size {size}"
            )));
        }
        let words = format!("make f2fs and write {} times its capacity", spec.overwrites);
        let bytes = Bytes((size.0 as f64 * spec.overwrites) as u64);
        if spec.conventional == LAB {
            senesce_lab::kernel::choose(None)?;
            // About 60 MiB/s pass through an emulated drive and the translated kernel.
            let (bytes, seconds) = (Bytes(2 * bytes.0), 10.0 + 2.0 * bytes.0 as f64 / 60e6);
            let target = "a conventional and a zoned drive of the guest";
            return Ok(vec![Planned::new(Step::Guest, words, target).costing(bytes, seconds)]);
        }
        let on = |step, name: &str, drive: &str| {
            Planned::new(step, words.clone(), format!("{name}: {drive}")).costing(bytes, 0.0)
        };
        Ok(vec![on(Step::Conventional, "conventional", &spec.conventional), on(Step::Zoned, "zoned", &spec.zoned)])
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match step {
            Step::Guest => {
                let guest = Guest {
                    kernel: None,
                    drives: drives::emulated(spec.size.0),
                    memory: Bytes::gib(1),
                    time_limit: spec.time_limit.0,
                };
                let auto = || drives::AUTO.to_string();
                let inside = Spec { conventional: auto(), zoned: auto(), metadata: auto(), ..spec.clone() };
                run_in_guest::<Self, Self>(&guest, &inside, None, context).map(|_| ())
            }
            Step::Conventional => {
                let drive = find(&spec.conventional, Wanted::Largest)?;
                write_on("conventional", &drive, None, spec, context)
            }
            Step::Zoned => {
                let zoned = find(&spec.zoned, Wanted::Zoned)?;
                let metadata = find(&spec.metadata, Wanted::Smallest)?;
                write_on("zoned", &metadata, Some(&zoned), spec, context)
            }
        }
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let (mut samples, mut results) = (Vec::new(), Vec::new());
        for event in recorded.events().cloned() {
            match event {
                Event::Sample(sample) => samples.push(sample),
                Event::Drive(result) => results.push(result),
            }
        }
        let device = if recorded.environment.0.contains_key("lab.accelerator") {
            "drives emulated by QEMU in the lab guest"
        } else {
            "drives of this machine"
        };
        let mut table = Table::new(
            "means",
            "Mean bandwidth",
            &["drive", "written (MiB)", "overwrites", "mean (MiB/s)", "published (MiB/s)"],
        );
        for result in &results {
            table.row(vec![
                json!(result.drive),
                json!(result.bytes >> 20),
                json!(result.overwrites),
                json!(result.mean_mib_s),
                json!(published_mean(&result.drive)),
            ]);
        }
        let series = ["conventional", "zoned"].map(|drive| over_time(drive, &samples));
        Ok(Analysis {
            title: "Sustained write bandwidth of F2FS".into(),
            summary:
                "The same files are written and replaced at random on F2FS over a conventional drive and over a zoned \
                      drive of the same capacity, for several times the capacity, so that the cleaner runs."
                    .into(),
            figures: vec![Figure {
                id: "bandwidth".into(),
                title: "Write bandwidth over time".into(),
                caption: "Each point is the mean over one sync interval.".into(),
                device: device.into(),
                better: Better::Higher,
                kind: FigureKind::Lines {
                    x: Axis::linear("time (s)").from_zero(),
                    y: Axis::linear("bandwidth (MiB/s)").from_zero(),
                    series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
                },
            }],
            tables: vec![table],
            findings: findings(&results, device),
            result: json!({"drives": results}),
            ..Analysis::default()
        })
    }
}

impl Experiment for F2fsBandwidth {
    const TITLE: &'static str = "Sustained write bandwidth of F2FS on a conventional and on a zoned drive";
    const PAGE: &'static str = include_str!("../../../docs/experiments/f2fs-bandwidth.md");

    fn defaults(level: Level) -> Spec {
        Spec {
            size: Size(Bytes::gib(level.of([1, 1, 8]))),
            overwrites: level.of([0.1, 2.5, 4.0]),
            fullness: level.of([0.5, 0.7, 0.8]),
            file_size: Size(Bytes::mib(1)),
            conventional: LAB.into(),
            zoned: LAB.into(),
            metadata: LAB.into(),
            time_limit: Span::from_millis(level.of([120_000, 900_000, 10_800_000])),
        }
    }
}

/// A drive of the guest.
const LAB: &str = "lab";

fn published_mean(drive: &str) -> Option<f64> {
    let values = published::parse(F2fsBandwidth::PUBLISHED).ok()?;
    values.into_iter().find(|value| value.condition == drive).map(|value| value.value)
}

fn over_time(drive: &str, samples: &[Sample]) -> Series {
    let points = samples
        .iter()
        .filter(|sample| sample.drive == drive && sample.seconds > 0.0)
        .map(|sample| (sample.elapsed, sample.bytes as f64 / sample.seconds / 1_048_576.0))
        .collect();
    Series { name: drive.into(), mark: Mark::Measured, points, ..Series::default() }
}

fn findings(results: &[DriveResult], device: &str) -> Vec<Finding> {
    let mean = |drive: &str| results.iter().find(|result| result.drive == drive).map(|result| result.mean_mib_s);
    let (Some(conventional), Some(zoned)) = (mean("conventional"), mean("zoned")) else { return Vec::new() };
    let emulated = device.contains("emulated");
    vec![Finding {
        claim: "F2FS sustains less write bandwidth on the zoned drive than on the conventional one".into(),
        published: published::words_of(F2fsBandwidth::PUBLISHED, "mean write bandwidth"),
        measured: format!("{conventional:.1} against {zoned:.1} MiB/s (ratio {:.3})", zoned / conventional),
        verdict: match (emulated, zoned < conventional) {
            (true, _) => Verdict::NotTestable,
            (false, true) => Verdict::Seen,
            (false, false) => Verdict::NotSeen,
        },
        note: if emulated {
            "emulated drives have no flash: the ratio is of the software's paths only".into()
        } else {
            String::new()
        },
        ..Finding::default()
    }]
}

fn write_on(
    name: &str,
    device: &Path,
    zoned: Option<&Path>,
    spec: &Spec,
    context: &mut Context<'_, F2fsBandwidth>,
) -> Result<(), Failure> {
    let size = BlockDevice::open(zoned.unwrap_or(device))?.size();
    let claimed = zoned.map(|path| ClaimedDevice::claim(path, None)).transpose()?;
    let mut options = OpenOptions::fresh(FileSystem::F2fs);
    if let Some(zoned) = &claimed {
        options.mkfs_options = format!("-m -c {}", zoned.path().display());
    }
    // mkfs and mount take the zoned drive themselves.
    drop(claimed);
    let target = open(&TargetSpec::Device(device.into()), &options)?;
    let outcome = overwrite(name, &target, size, spec, context);
    target.close()?;
    outcome
}

/// Fills to the fullness, then replaces files in random order; records bandwidth per sync interval.
fn overwrite(
    name: &str,
    target: &MountedTarget,
    drive_size: Bytes,
    spec: &Spec,
    context: &mut Context<'_, F2fsBandwidth>,
) -> Result<(), Failure> {
    use rand::RngExt;
    let file_size = spec.file_size.bytes();
    let root = target.directory().path().to_path_buf();
    let stat = rustix::fs::statvfs(&root).map_err(|errno| failed("look at", &root)(errno.into()))?;
    let space = (stat.f_bavail * stat.f_frsize) as f64 * spec.fullness;
    let slots = ((space / file_size as f64) as u64).max(4);
    let wanted = (drive_size.0 as f64 * spec.overwrites) as u64;
    let mut random = context.seed.stream("f2fs-bandwidth/victims");
    let mut content = vec![0u8; file_size as usize];
    rand::Rng::fill_bytes(&mut context.seed.stream("f2fs-bandwidth/content"), &mut content);
    context.progress.phase(&format!("writing on the {name} drive"), wanted, "bytes");
    // A sync every 32 MiB bounds what the page cache hides.
    let files_per_sync = (32 << 20) / file_size.max(1) + 1;
    let begin = Instant::now();
    let (mut written, mut number) = (0u64, 0u64);
    while written < wanted {
        context.check_interrupt()?;
        let interval = Instant::now();
        for _ in 0..files_per_sync {
            let slot = if number < slots { number } else { random.random_range(0..slots) };
            replace(&root.join(format!("{slot:08}")), &content)?;
            number += 1;
        }
        target.sync()?;
        let bytes = files_per_sync * file_size;
        written += bytes;
        let sample = Sample {
            drive: name.into(),
            seconds: interval.elapsed().as_secs_f64(),
            bytes,
            elapsed: begin.elapsed().as_secs_f64(),
        };
        context.record(Event::Sample(sample));
        context.progress.position(written, "");
    }
    let seconds = begin.elapsed().as_secs_f64();
    let result = DriveResult {
        drive: name.into(),
        bytes: written,
        seconds,
        overwrites: written as f64 / drive_size.0 as f64,
        mean_mib_s: written as f64 / seconds / 1_048_576.0,
    };
    context.record(Event::Drive(result));
    Ok(())
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed("remove", path)(error)),
        _ => {}
    }
    let mut file = File::create(path).map_err(failed("create", path))?;
    file.write_all(content).map_err(failed("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_means_are_found_by_drive() {
        assert_eq!(published_mean("conventional").map(f64::round), Some(719.0));
        assert_eq!(published_mean("zoned").map(f64::round), Some(637.0));
    }

    #[test]
    fn bandwidth_is_never_judged_on_emulated_drives() {
        let result = |drive: &str, mean_mib_s| DriveResult {
            drive: drive.into(),
            bytes: 1,
            seconds: 1.0,
            overwrites: 1.0,
            mean_mib_s,
        };
        let results = [result("conventional", 100.0), result("zoned", 90.0)];
        assert_eq!(findings(&results, "drives emulated by QEMU")[0].verdict, Verdict::NotTestable);
        assert_eq!(findings(&results, "drives of this machine")[0].verdict, Verdict::Seen);
    }
}
