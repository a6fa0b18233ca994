//! Sustained write bandwidth of F2FS on a conventional drive and on a zoned one of the same size, with cleaning.

use clap::Args;
use senesce_claims::Facts;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::failure::failed;
use senesce_core::parameter::real;
use senesce_core::published;
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size, Span, Table};
use senesce_runs::drives;
use senesce_runs::run::{Context, Experiment, Guest, Planned, Recorded, Run, run_in_guest};
use senesce_volume::guest::{Wanted, find};
use senesce_volume::{BlockDevice, ClaimedDevice, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The experiment: the drives that this very process has taken.
pub struct F2fsBandwidth(Vec<PathBuf>);

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
    /// times that each drive is made anew and written; claims need five
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    #[serde(default = "once")]
    pub repeats: u32,
    /// ends the guest
    #[arg(long)]
    pub time_limit: Span,
}

/// Of a record without a number of repeats.
fn once() -> u32 {
    1
}

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    #[serde(default)]
    repeat: u32,
    seconds: f64,
    bytes: u64,
    elapsed: f64,
}

/// The whole of a drive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DriveResult {
    drive: String,
    #[serde(default)]
    repeat: u32,
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
    /// The conventional drive of this machine, and which time.
    Conventional(u32),
    /// The zoned drive of this machine, and which time.
    Zoned(u32),
}

impl Run for F2fsBandwidth {
    const KIND: &'static str = "f2fs-bandwidth";
    const PUBLISHED: &'static str = include_str!("../data/published/f2fs-bandwidth.csv");
    const CLAIMS: &'static str = include_str!("../data/published/f2fs-bandwidth.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn facts(_spec: &Spec, recorded: &Recorded<Self>, facts: Facts) -> Facts {
        crate::lab_drives::facts(&recorded.environment, facts)
    }

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
            let bytes = Bytes(2 * bytes.0 * u64::from(spec.repeats));
            let seconds = 10.0 + bytes.0 as f64 / 60e6;
            let target = "a conventional and a zoned drive of the guest";
            return Ok(vec![Planned::new(Step::Guest, words, target).costing(bytes, seconds)]);
        }
        let on = |step, name: &str, drive: &str| {
            Planned::new(step, words.clone(), format!("{name}: {drive}")).costing(bytes, 0.0)
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
            Step::Conventional(repeat) => {
                let drive = find(&spec.conventional, Wanted::Largest)?;
                write_on(("conventional", *repeat), &drive, None, spec, &mut self.0, context)
            }
            Step::Zoned(repeat) => {
                context.add_environment(&crate::lab_drives::zoned(&spec.zoned)?)?;
                let zoned = find(&spec.zoned, Wanted::Zoned)?;
                let metadata = find(&spec.metadata, Wanted::Smallest)?;
                write_on(("zoned", *repeat), &metadata, Some(&zoned), spec, &mut self.0, context)
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
            &["drive", "repeat", "written (MiB)", "overwrites", "mean (MiB/s)", "published (MiB/s)"],
        );
        for result in &results {
            table.row(vec![
                json!(result.drive),
                json!(result.repeat + 1),
                json!(result.bytes >> 20),
                json!(result.overwrites),
                json!(result.mean_mib_s),
                json!(published_mean(&result.drive)),
            ]);
        }
        let repeats: BTreeSet<u32> = samples.iter().map(|sample| sample.repeat).collect();
        let lines = repeats.iter().flat_map(|repeat| ["conventional", "zoned"].map(|drive| (drive, *repeat)));
        let series: Vec<Series> = lines.map(|(drive, repeat)| over_time(drive, repeat, &samples)).collect();
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
            result: json!({"drives": results}),
            ..Analysis::default()
        })
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        recorded.events().filter_map(measurement).collect()
    }
}

/// The mean over all of what was written to a drive at one time.
fn measurement(event: &Event) -> Option<Measurement> {
    let Event::Drive(result) = event else { return None };
    let one = Measurement::new("mean write bandwidth", "MiB/s", Better::Higher, result.mean_mib_s).ok()?;
    Some(Measurement { repetition: result.repeat, ..one.under("drive", &*result.drive) })
}

impl Experiment for F2fsBandwidth {
    const TITLE: &'static str = "Sustained write bandwidth of F2FS on a conventional and on a zoned drive";
    const PAGE: &'static str = include_str!("../docs/experiments/f2fs-bandwidth.md");

    fn defaults(level: Level) -> Spec {
        Spec {
            size: Size(Bytes::gib(level.of([1, 1, 8]))),
            overwrites: level.of([0.1, 2.5, 4.0]),
            fullness: level.of([0.5, 0.7, 0.8]),
            file_size: Size(Bytes::mib(1)),
            conventional: LAB.into(),
            zoned: LAB.into(),
            metadata: LAB.into(),
            repeats: level.of([1, 1, 5]),
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

fn over_time(drive: &str, repeat: u32, samples: &[Sample]) -> Series {
    let points = samples
        .iter()
        .filter(|sample| sample.drive == drive && sample.repeat == repeat && sample.seconds > 0.0)
        .map(|sample| (sample.elapsed, sample.bytes as f64 / sample.seconds / 1_048_576.0))
        .collect();
    let name = if repeat == 0 { drive.to_string() } else { format!("{drive}, again {repeat}") };
    Series { name, mark: Mark::Measured, points, ..Series::default() }
}

/// Makes F2FS anew on drives that are empty, or in `ours`: what an earlier step of this very process made. Those that it
/// takes are added.
fn write_on(
    (name, repeat): (&str, u32),
    device: &Path,
    zoned: Option<&Path>,
    spec: &Spec,
    ours: &mut Vec<PathBuf>,
    context: &mut Context<'_, F2fsBandwidth>,
) -> Result<(), Failure> {
    let size = BlockDevice::open(zoned.unwrap_or(device))?.size();
    let known = |path: &Path| ours.iter().any(|known| known == path).then(|| path.display().to_string());
    let claimed = zoned.map(|path| ClaimedDevice::claim(path, known(path).as_deref())).transpose()?;
    let mut options = OpenOptions { erase: known(device), ..OpenOptions::fresh(FileSystem::F2fs) };
    if let Some(zoned) = &claimed {
        options.mkfs_options = format!("-m -c {}", zoned.path().display());
    }
    // mkfs and mount take the zoned drive themselves.
    drop(claimed);
    let target = open(&TargetSpec::Device(device.into()), &options)?;
    ours.extend([Some(device), zoned].into_iter().flatten().map(Path::to_path_buf));
    let outcome = overwrite((name, repeat), &target, size, spec, context);
    target.close()?;
    outcome
}

/// Fills to the fullness, then replaces files in random order; records bandwidth per sync interval.
fn overwrite(
    (name, repeat): (&str, u32),
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
            repeat,
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
        repeat,
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
    use senesce_claims::{ClaimSet, decide, untested};
    use senesce_core::Verdict;

    #[test]
    fn the_published_means_are_found_by_drive() {
        assert_eq!(published_mean("conventional").map(f64::round), Some(719.0));
        assert_eq!(published_mean("zoned").map(f64::round), Some(637.0));
    }

    fn values(repeats: u32) -> Vec<Measurement> {
        let result = |drive: &str, mean_mib_s, repeat| {
            Event::Drive(DriveResult {
                drive: drive.into(),
                repeat,
                bytes: 1,
                seconds: 1.0,
                overwrites: 1.0,
                mean_mib_s,
            })
        };
        let round = |repeat| {
            let more = f64::from(repeat) * 0.1;
            [result("conventional", 700.0 + more, repeat), result("zoned", 620.0 + more, repeat)]
        };
        (0..repeats).flat_map(round).filter_map(|event| measurement(&event)).collect()
    }

    #[test]
    fn every_claim_finds_the_values_that_it_needs() {
        let set = ClaimSet::parse(F2fsBandwidth::CLAIMS, F2fsBandwidth::PUBLISHED).unwrap();
        assert_eq!(untested(&set, &values(1)), Vec::<String>::new());
    }

    #[test]
    fn one_value_against_one_decides_nothing_and_emulated_drives_never_do() {
        let set = ClaimSet::parse(F2fsBandwidth::CLAIMS, F2fsBandwidth::PUBLISHED).unwrap();
        let verdict = |repeats, facts: &Facts| {
            let found = decide(&set, &values(repeats), facts);
            found.into_iter().find(|finding| finding.id == "zoned-is-slower").unwrap().verdict
        };
        let real = Facts::of(Level::Paper);
        assert_eq!(verdict(1, &real), Verdict::Undecided);
        assert_eq!(verdict(5, &real), Verdict::Seen);
        let mut environment = senesce_core::Environment::default();
        environment.put("lab.accelerator", "kvm");
        assert_eq!(verdict(5, &crate::lab_drives::facts(&environment, real)), Verdict::NotTestable);
    }
}
