//! Sustained write bandwidth of F2FS on a conventional drive and on a zoned one of the same size, with cleaning.

use crate::drives;
use crate::lab_cell::{LabCell, run_in_lab};
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series};
use senesce_core::published;
use senesce_core::{
    Analysis, Bytes, ExitCode, Experiment, Failure, Finding, Parameter, ParameterKind, Plan, Record, RunContext,
    RunKind, Settings, Table, Verdict,
};
use senesce_target::guest::{Wanted, find};
use senesce_target::{BlockDevice, ClaimedDevice, FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The experiment.
pub struct F2fsBandwidth;

/// Bandwidth over one stretch of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sample {
    drive: String,
    seconds: f64,
    bytes: u64,
    elapsed: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct DriveResult {
    drive: String,
    bytes: u64,
    seconds: f64,
    overwrites: f64,
    mean_mib_s: f64,
}

impl RunKind for F2fsBandwidth {
    fn kind(&self) -> &'static str {
        "f2fs-bandwidth"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let samples: Vec<Sample> = record.events_of("sample").collect();
        let results: Vec<DriveResult> = record.events_of("drive").collect();
        let device = if record.environment.0.contains_key("lab.accelerator") {
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

fn published_mean(drive: &str) -> Option<f64> {
    let values = published::parse(F2fsBandwidth.published()).ok()?;
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
        published: "719.3 against 637.3 MiB/s (ratio 0.886)".into(),
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
    }]
}

impl Experiment for F2fsBandwidth {
    fn title(&self) -> &'static str {
        "Sustained write bandwidth of F2FS on a conventional and on a zoned drive"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "size",
                help: "capacity of each drive in the lab",
                kind: ParameterKind::Size,
                defaults: ["1G", "1G", "8G"],
            },
            Parameter {
                name: "overwrites",
                help: "bytes written per drive over its capacity",
                kind: ParameterKind::Real { min: 0.1, max: 1000.0 },
                defaults: ["0.1", "2.5", "4"],
            },
            Parameter {
                name: "fullness",
                help: "share of the file system that holds files",
                kind: ParameterKind::Real { min: 0.05, max: 0.9 },
                defaults: ["0.5", "0.7", "0.8"],
            },
            Parameter {
                name: "file-size",
                help: "size of each file",
                kind: ParameterKind::Size,
                defaults: ["1M", "1M", "1M"],
            },
            Parameter {
                name: "conventional",
                help: "conventional drive of this machine, or lab to boot the guest",
                kind: ParameterKind::Text,
                defaults: ["lab", "lab", "lab"],
            },
            Parameter {
                name: "zoned",
                help: "zoned drive of this machine, or lab",
                kind: ParameterKind::Text,
                defaults: ["lab", "lab", "lab"],
            },
            Parameter {
                name: "metadata",
                help: "small conventional drive beside the zoned one, or lab",
                kind: ParameterKind::Text,
                defaults: ["lab", "lab", "lab"],
            },
            Parameter {
                name: "time-limit",
                help: "ends the guest",
                kind: ParameterKind::Duration,
                defaults: ["2min", "15min", "3h"],
            },
        ]
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/f2fs-bandwidth.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/f2fs-bandwidth.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let size = settings.size("size")?;
        let file = settings.size("file-size")?;
        if file.0 == 0 || file.0 * 8 > size.0 {
            return Err(Failure::usage(format!(
                "file-size {file} must be above 0 and at most an eighth of size {size}"
            )));
        }
        settings.duration("time-limit")?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        plan.bytes_to_write = 2 * (size.0 as f64 * settings.real("overwrites")?) as u64;
        for drive in ["conventional", "zoned"] {
            plan.step(
                format!("make f2fs and write {} times its capacity", settings.text("overwrites")),
                format!("{drive}: {}", settings.text(drive)),
            );
        }
        if settings.text("conventional") == "lab" {
            kernel_is_set_up()?;
            // About 60 MiB/s pass through an emulated drive and the translated kernel.
            plan.estimated_seconds = 10.0 + plan.bytes_to_write as f64 / 60e6;
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        if settings.text("conventional") == "lab" {
            return run_in_lab(&cell(settings)?, context);
        }
        let zoned = find(settings.text("zoned"), Wanted::Zoned)?;
        let metadata = find(settings.text("metadata"), Wanted::Smallest)?;
        let conventional = find(settings.text("conventional"), Wanted::Largest)?;
        write_on("conventional", &conventional, None, settings, context)?;
        write_on("zoned", &metadata, Some(&zoned), settings, context)
    }
}

fn kernel_is_set_up() -> Result<(), Failure> {
    senesce_lab::kernel::choose(None)?;
    Ok(())
}

fn cell(settings: &Settings) -> Result<LabCell, Failure> {
    let drives = drives::emulated(settings.size("size")?);
    let mut arguments =
        ["reproduce", "f2fs-bandwidth", "--scale", settings.level().name()].map(str::to_string).to_vec();
    for name in ["size", "overwrites", "fullness", "file-size", "seed"] {
        arguments.extend(["--set".to_string(), format!("{name}={}", settings.text(name))]);
    }
    for name in ["conventional", "zoned", "metadata"] {
        arguments.extend(["--set".to_string(), format!("{name}=auto")]);
    }
    Ok(LabCell { drives, memory: Bytes::gib(1), time_limit: settings.duration("time-limit")?, arguments })
}

fn write_on(
    name: &str,
    device: &Path,
    zoned: Option<&Path>,
    settings: &Settings,
    context: &mut RunContext<'_>,
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
    let outcome = overwrite(name, &target, size, settings, context);
    target.close()?;
    outcome
}

/// Fills to the fullness, then replaces files in random order; records bandwidth per sync interval.
fn overwrite(
    name: &str,
    target: &MountedTarget,
    drive_size: Bytes,
    settings: &Settings,
    context: &mut RunContext<'_>,
) -> Result<(), Failure> {
    use rand::RngExt;
    let file_size = settings.size("file-size")?.0;
    let root = target.directory().path().to_path_buf();
    let stat = rustix::fs::statvfs(&root).map_err(|errno| failed("look at", &root, &errno.into()))?;
    let room = (stat.f_bavail * stat.f_frsize) as f64 * settings.real("fullness")?;
    let slots = ((room / file_size as f64) as u64).max(4);
    let wanted = (drive_size.0 as f64 * settings.real("overwrites")?) as u64;
    let mut random = settings.seed().stream("f2fs-bandwidth/victims");
    let mut content = vec![0u8; file_size as usize];
    rand::Rng::fill_bytes(&mut settings.seed().stream("f2fs-bandwidth/content"), &mut content);
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
        context.directory.append("sample", &sample)?;
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
    Ok(context.directory.append("drive", &result)?)
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed("remove", path, &error)),
        _ => {}
    }
    let mut file = File::create(path).map_err(|error| failed("create", path, &error))?;
    file.write_all(content).map_err(|error| failed("write", path, &error))
}

fn failed(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    let words = senesce_core::failure::errno_words(error);
    Failure::new(ExitCode::RunFailed, format!("{operation} {}: {words}", path.display()))
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
