//! The subject of a cell: a workload of the engine, one file operation, or a cold read of everything.

use crate::command::Program;
use crate::launched::LaunchedWorkload;
use crate::ready::ReadyWorkload;
use crate::spec::WorkloadSpec;
use senesce_core::analysis::Better;
use senesce_core::failure::errno_message;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Finite, Measurement, NoValue, Progress, Seed};
use senesce_devmodel::replay::closed_loop_rate;
use senesce_runs::cold::{self, ColdAccount};
use senesce_runs::measurements::{MODELLED, THROUGHPUT};
use senesce_runs::thread_memory::memory_of_threads;
use senesce_volume::MountedTarget;
use senesce_workload::micro::{ColdRead, FileOpsOptions, file_ops};
use senesce_workload::{Bench, Length, Options, Repetition, Workload, builtin};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Workload(Box<Workload>, Duration),
    Launched(LaunchedWorkload, Box<Workload>, Duration),
    FileOperation(String, Duration),
    Ready(ReadyWorkload),
    Program(Program),
    ColdRead,
}

/// Busy time of the drive per operation. It shows the effect of age on the drive, even if the CPU limits the
/// throughput.
pub const DRIVE_TIME: &str = "drive time";

pub fn modelled_by(metric: &str) -> Option<&str> {
    metric.split_once(MODELLED).map(|(_, drive)| drive)
}

const DEFAULT_SECONDS: f64 = 10.0;

pub(crate) struct SubjectMeasurement {
    pub metrics: Vec<Measurement>,
    /// Operations done, for modelled rates; GiB read for a cold read.
    pub amount: f64,
    pub seconds: f64,
    pub account: Option<ColdAccount>,
    pub caveat: Option<&'static str>,
}

impl SubjectMeasurement {
    fn of(metrics: Vec<Measurement>, amount: f64, seconds: f64) -> Self {
        Self { metrics, amount, seconds, account: None, caveat: None }
    }

    fn of_cold_read(read: &ColdRead, account: ColdAccount) -> Result<Self, Failure> {
        let caveat = account.judge(read)?;
        let gib = read.allocated_bytes as f64 / f64::from(1u32 << 30);
        let metrics = vec![
            Measurement::new("cold read time", "s/GiB", Better::Lower, Finite::per(read.seconds, gib)?)?,
            Measurement::new("cold read time, whole", "s", Better::Lower, read.seconds)?,
        ];
        Ok(Self { account: Some(account), caveat, ..Self::of(metrics, gib, read.seconds) })
    }
}

impl Subject {
    /// Creates the subject, and also reads the file of a workload. A usage error names the nearest workload or
    /// microbenchmark for an unknown one.
    pub(crate) fn of(spec: &WorkloadSpec) -> Result<Self, Failure> {
        let time = Duration::from_secs_f64(spec.seconds.unwrap_or(DEFAULT_SECONDS));
        let launched = LaunchedWorkload::of(spec)?;
        if spec.cold_read {
            return Ok(Self::ColdRead);
        }
        if let Some(program) = Program::of(spec)? {
            return Ok(Self::Program(program));
        }
        if let Some(ready) = ReadyWorkload::of(spec)? {
            return Ok(Self::Ready(ready));
        }
        if !spec.microbenchmark.is_empty() {
            let known: Vec<&str> = senesce_workload::micro::operations::all().map(|one| one.name).collect();
            if !known.contains(&spec.microbenchmark.as_str()) {
                let hint = senesce_core::parameter::suggest(&spec.microbenchmark, known.iter().copied());
                let problem =
                    format!("unknown microbenchmark '{}'{hint}; choose from {}", spec.microbenchmark, known.join(", "));
                return Err(Failure::usage(problem));
            }
            return Ok(Self::FileOperation(spec.microbenchmark.clone(), time));
        }
        let workload = match spec.file.as_str() {
            "" => builtin(&spec.personality, spec.scale.unwrap_or(1.0), &spec.set)?,
            file => {
                let text = senesce_core::input::text(file.as_ref())
                    .map_err(|error| Failure::usage(format!("read workload {file}: {}", errno_message(&error))))?;
                Workload::parse(file, &text, &spec.set)?
            }
        };
        let workload = Box::new(workload);
        Ok(match launched {
            Some(launched) => Self::Launched(launched, workload, time),
            None => Self::Workload(workload, time),
        })
    }

    fn workload(&self) -> Option<(&Workload, Duration)> {
        match self {
            Self::Workload(workload, time) | Self::Launched(_, workload, time) => Some((workload, *time)),
            Self::FileOperation(..) | Self::Ready(_) | Self::Program(_) | Self::ColdRead => None,
        }
    }

    pub(crate) fn missing(&self) -> Option<String> {
        match self {
            Self::Ready(ready) => {
                let (program, package) = ready.missing()?;
                Some(format!("{program} is not installed (apt-get install {package})"))
            }
            Self::Program(program) => Some(format!("{} is not installed", program.missing()?)),
            _ => None,
        }
    }

    /// Returns the bytes of files that the subject needs in addition to the image's content; of many ranks, those of
    /// one.
    pub(crate) fn bytes_needed(&self, seed: Seed) -> Result<u64, Failure> {
        match self {
            Self::Ready(ready) => return Ok(ready.needs().0),
            Self::Program(program) => return Ok(program.space().0),
            _ => {}
        }
        let Some((workload, time)) = self.workload() else { return Ok(0) };
        let filesets = senesce_workload::draw(workload, &options(seed, time))?;
        Ok(filesets.iter().map(|fileset| fileset.existing_bytes).sum())
    }

    /// Returns the bytes of memory into which the threads of a workload read; of many ranks, those of one.
    pub(crate) fn thread_memory(&self) -> u64 {
        self.workload().map_or(0, |(workload, _)| memory_of_threads(workload))
    }

    /// Estimates roughly the seconds of a run; a cold read as for 500 MiB/s.
    pub(crate) fn seconds(&self, live_bytes: f64) -> f64 {
        match self {
            Self::Workload(_, time) | Self::Launched(_, _, time) | Self::FileOperation(_, time) => time.as_secs_f64(),
            Self::Ready(ready) => ready.needs().1,
            Self::Program(program) => program.seconds(),
            Self::ColdRead => live_bytes / (500.0 * 1048576.0),
        }
    }

    /// Prepares on the target, makes it cold, calls `ready`, and measures. Fails for a repetition that is not valid, or
    /// a cold read that was not cold.
    pub(crate) fn run(
        &self,
        target: &mut MountedTarget,
        seed: Seed,
        progress: &dyn Progress,
        interrupt: &Interrupt,
        ready: impl FnOnce(&mut MountedTarget) -> Result<(), Failure>,
    ) -> Result<SubjectMeasurement, Failure> {
        let mut heartbeat = None;
        let measured = self.measure(target, seed, progress, interrupt, |target| {
            ready(target)?;
            heartbeat = Some(Heartbeat::begin());
            Ok(())
        })?;
        heartbeat.map_or(Ok(()), |heartbeat| heartbeat.end().check())?;
        Ok(measured)
    }

    fn measure(
        &self,
        target: &mut MountedTarget,
        seed: Seed,
        progress: &dyn Progress,
        interrupt: &Interrupt,
        ready: impl FnOnce(&mut MountedTarget) -> Result<(), Failure>,
    ) -> Result<SubjectMeasurement, Failure> {
        match self {
            Self::Workload(workload, time) => {
                let bench = Bench::prepare(workload, target.directory(), options(seed, *time), progress, interrupt)?;
                ready(target)?;
                let finished = bench.run(target.directory(), progress, interrupt)?.repetition;
                throughput(finished)
            }
            Self::Launched(launched, _, time) => {
                ready(target)?;
                throughput(launched.run(target, seed, *time, interrupt)?)
            }
            Self::FileOperation(name, time) => {
                ready(target)?;
                let asked = file_operation(name, *time, seed);
                let result = file_ops(target.directory(), &asked, progress, interrupt)?.valid()?;
                let Some(one) = result.operations.first() else {
                    return Err(Failure::new(ExitCode::RunFailed, format!("'{name}' gave no result")));
                };
                let metrics = vec![Measurement::new("mean time", "us", Better::Lower, one.mean_us)?];
                Ok(SubjectMeasurement::of(metrics, one.iterations as f64, time.as_secs_f64()))
            }
            Self::Ready(workload) => {
                let metrics = workload.run(target, progress, interrupt, ready)?;
                let seconds = metrics.iter().find(|one| one.unit == "s").map_or(0.0, |one| one.value.get());
                Ok(SubjectMeasurement::of(metrics, 1.0, seconds))
            }
            Self::Program(program) => {
                let (metrics, seconds) = program.run(target, seed, progress, interrupt, ready)?;
                Ok(SubjectMeasurement::of(metrics, 1.0, seconds))
            }
            Self::ColdRead => {
                ready(target)?;
                let (read, account) = cold::read(target, target.mount_point(), progress, interrupt)?;
                SubjectMeasurement::of_cold_read(&read, account)
            }
        }
    }

    /// Computes the cost of a run's trace on a modelled drive that is busy for `busy` seconds.
    pub(crate) fn modelled(
        &self,
        drive: &str,
        measured: &SubjectMeasurement,
        busy: f64,
    ) -> Result<Vec<Measurement>, NoValue> {
        if measured.amount <= 0.0 {
            return Ok(Vec::new());
        }
        let metric = |name: &str, unit: &str, better: Better, value: f64| {
            Measurement::new(&format!("{name}{MODELLED}{drive}"), unit, better, value)
        };
        let each = busy / measured.amount;
        match self {
            Self::Ready(_) | Self::Program(_) => {
                [metric("time of the drive", "s", Better::Lower, busy).map(Measurement::modelled)].into_iter().collect()
            }
            Self::ColdRead => [metric("cold read time", "s/GiB", Better::Lower, each).map(Measurement::modelled)]
                .into_iter()
                .collect(),
            _ => closed_loop_rate(measured.amount as u64, busy, measured.seconds)
                .map(|rate| metric(THROUGHPUT, "operations/s", Better::Higher, rate))
                .into_iter()
                // Throughput includes CPU time, the drive's own time does not.
                .chain([metric(DRIVE_TIME, "us/operation", Better::Lower, each * 1e6).map(Measurement::modelled)])
                .collect(),
        }
    }
}

fn throughput(finished: Repetition) -> Result<SubjectMeasurement, Failure> {
    if !finished.valid {
        let reason = finished.reason.unwrap_or_else(|| "no reason was given".into());
        return Err(Failure::new(ExitCode::RunFailed, format!("the run does not count: {reason}")));
    }
    let metrics = vec![
        Measurement::new(THROUGHPUT, "operations/s", Better::Higher, finished.ops_per_second)?,
        Measurement::new("bandwidth", "MiB/s", Better::Higher, finished.mb_per_second)?,
        Measurement::new("mean latency", "us", Better::Lower, finished.mean_us)?,
    ];
    Ok(SubjectMeasurement::of(metrics, finished.ops as f64, finished.seconds))
}

/// Selects one operation without fsync, because fsync would be another metric.
fn file_operation(name: &str, time: Duration, seed: Seed) -> FileOpsOptions {
    FileOpsOptions { operations: vec![name.into()], sync: vec![false], time, seed, ..FileOpsOptions::default() }
}

fn options(seed: Seed, time: Duration) -> Options {
    Options { seed, length: Some(Length::Time(time)), ..Options::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_operation_count_matches_its_result() {
        let temporary = tempfile::tempdir().unwrap();
        let claimed = senesce_volume::ClaimedDirectory::claim(temporary.path(), None).unwrap();
        let asked = file_operation("create", Duration::from_millis(1), Seed(1));
        let result = file_ops(&claimed, &asked, &senesce_core::progress::Silent, &Interrupt::new()).unwrap();
        let passes: Vec<(&str, bool)> = result.operations.iter().map(|one| (one.name.as_str(), one.fsync)).collect();
        assert_eq!(passes, [("create", false)]);
    }

    #[test]
    fn gap_in_cold_read_cross_check_is_a_caveat() {
        let read = ColdRead { bytes_read: 1 << 20, allocated_bytes: 1 << 20, seconds: 1.0, ..ColdRead::default() };
        let of = |device_bytes: Option<u64>| {
            let (device_requests, extents) = (None, Some(1 << 20));
            let account = ColdAccount {
                device_bytes,
                device_requests,
                extent_bytes: extents,
                content_bytes: extents,
                in_memory: false,
                image_cached_bytes: None,
                device_busy_ms: None,
                counted_ms: None,
                lost: None,
            };
            SubjectMeasurement::of_cold_read(&read, account).map(|measured| measured.caveat)
        };
        assert_eq!(of(Some(1 << 20)).unwrap(), None);
        assert!(of(Some(4 << 20)).unwrap().is_some_and(|message| message.contains("delivered more than")));
        assert!(of(None).unwrap().is_some_and(|message| message.contains("without a cross-check")));
        assert!(of(Some(1000)).is_err());
    }
}
