//! What a cell does: a workload of the engine, one file operation, or a cold read of everything.

use crate::command::Program;
use crate::launched::Launched;
use crate::ready::Ready;
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
pub enum Subject {
    Workload(Box<Workload>, Duration),
    /// The same on many ranks.
    Launched(Launched, Box<Workload>, Duration),
    FileOperation(String, Duration),
    /// A workload that comes with the program.
    Ready(Ready),
    Program(Program),
    ColdRead,
}

/// The time that a drive works, over operations. It tells what age costs the drive, also where the processor sets the pace.
pub const DRIVE_TIME: &str = "drive time";

pub fn modelled_by(metric: &str) -> Option<&str> {
    metric.split_once(MODELLED).map(|(_, drive)| drive)
}

/// Seconds of a workload for which nobody says how long.
const DEFAULT_SECONDS: f64 = 10.0;

pub struct Measured {
    /// The metrics; the first is the one that is judged.
    pub metrics: Vec<Measurement>,
    /// Operations done, for modelled rates; GiB read for a cold read.
    pub amount: f64,
    pub seconds: f64,
    /// What a cold read took from the device.
    pub account: Option<ColdAccount>,
    /// What a reader of the result must know.
    pub caveat: Option<&'static str>,
}

impl Measured {
    /// What a run gave whose account agrees as closely as any.
    fn of(metrics: Vec<Measurement>, amount: f64, seconds: f64) -> Self {
        Self { metrics, amount, seconds, account: None, caveat: None }
    }

    /// What a cold read gave; what its account leaves open is its caveat.
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
    /// Reads what the study says; the file of a workload is read here.
    ///
    /// # Errors
    /// A usage error for an unknown workload or microbenchmark, with the nearest, for a workload file that cannot be read or is
    /// wrong, and for a launcher of what one process measures.
    pub fn of(spec: &WorkloadSpec) -> Result<Self, Failure> {
        let time = Duration::from_secs_f64(spec.seconds.unwrap_or(DEFAULT_SECONDS));
        let launched = Launched::of(spec)?;
        if spec.cold_read {
            return Ok(Self::ColdRead);
        }
        if let Some(program) = Program::of(spec)? {
            return Ok(Self::Program(program));
        }
        if let Some(ready) = Ready::of(spec)? {
            return Ok(Self::Ready(ready));
        }
        if !spec.microbenchmark.is_empty() {
            let known: Vec<&str> = senesce_workload::micro::operations::all().map(|one| one.name).collect();
            if !known.contains(&spec.microbenchmark.as_str()) {
                let hint = senesce_core::parameter::suggest(&spec.microbenchmark, known.iter().copied());
                let problem = format!(
                    "there is no microbenchmark '{}'{hint}; there are {}",
                    spec.microbenchmark,
                    known.join(", ")
                );
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

    /// What it needs and this machine lacks, in words.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Ready(ready) => {
                let (program, package) = ready.missing()?;
                Some(format!("{program} is not installed (apt-get install {package})"))
            }
            Self::Program(program) => Some(format!("{} is not installed", program.missing()?)),
            _ => None,
        }
    }

    /// Bytes of files that it needs beside what the image holds; of many ranks, one of them.
    pub fn bytes_needed(&self, seed: Seed) -> Result<u64, Failure> {
        match self {
            Self::Ready(ready) => return Ok(ready.needs().0),
            Self::Program(program) => return Ok(program.space().0),
            _ => {}
        }
        let Some((workload, time)) = self.workload() else { return Ok(0) };
        let filesets = senesce_workload::draw(workload, &options(seed, time))?;
        Ok(filesets.iter().map(|fileset| fileset.existing_bytes).sum())
    }

    /// Bytes of memory into which the threads of a workload read; of many ranks, one of them.
    pub fn thread_memory(&self) -> u64 {
        self.workload().map_or(0, |(workload, _)| memory_of_threads(workload))
    }

    /// Seconds it takes, roughly; a cold read as for 500 MiB/s.
    pub fn seconds(&self, live_bytes: f64) -> f64 {
        match self {
            Self::Workload(_, time) | Self::Launched(_, _, time) | Self::FileOperation(_, time) => time.as_secs_f64(),
            Self::Ready(ready) => ready.needs().1,
            Self::Program(program) => program.seconds(),
            Self::ColdRead => live_bytes / (500.0 * 1048576.0),
        }
    }

    /// Prepares on the target, makes it cold, calls `ready`, and measures.
    ///
    /// # Errors
    /// Those of preparing and measuring it, and of `ready`; a failure of the run for a repetition that is not valid, or a cold
    /// read that was not cold.
    pub fn run(
        &self,
        target: &mut MountedTarget,
        seed: Seed,
        progress: &dyn Progress,
        interrupt: &Interrupt,
        ready: impl FnOnce(&mut MountedTarget) -> Result<(), Failure>,
    ) -> Result<Measured, Failure> {
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
    ) -> Result<Measured, Failure> {
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
                Ok(Measured::of(metrics, one.iterations as f64, time.as_secs_f64()))
            }
            Self::Ready(workload) => {
                let metrics = workload.run(target, progress, interrupt, ready)?;
                let seconds = metrics.iter().find(|one| one.unit == "s").map_or(0.0, |one| one.value.get());
                Ok(Measured::of(metrics, 1.0, seconds))
            }
            Self::Program(program) => {
                let (metrics, seconds) = program.run(target, seed, progress, interrupt, ready)?;
                Ok(Measured::of(metrics, 1.0, seconds))
            }
            Self::ColdRead => {
                ready(target)?;
                let (read, account) = cold::read(target, target.mount_point(), progress, interrupt)?;
                Measured::of_cold_read(&read, account)
            }
        }
    }

    /// What the trace of a run costs on a modelled drive that works on it for `busy` seconds.
    ///
    /// # Errors
    /// When the time on the drive is no number, so that nothing was modelled.
    pub fn modelled(&self, drive: &str, measured: &Measured, busy: f64) -> Result<Vec<Measurement>, NoValue> {
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
                // Beside requests the throughput holds the processor's time, the drive's own does not.
                .chain([metric(DRIVE_TIME, "us/operation", Better::Lower, each * 1e6).map(Measurement::modelled)])
                .collect(),
        }
    }
}

fn throughput(finished: Repetition) -> Result<Measured, Failure> {
    if !finished.valid {
        let reason = finished.reason.unwrap_or_else(|| "no reason was given".into());
        return Err(Failure::new(ExitCode::RunFailed, format!("the run does not count: {reason}")));
    }
    let metrics = vec![
        Measurement::new(THROUGHPUT, "operations/s", Better::Higher, finished.ops_per_second)?,
        Measurement::new("bandwidth", "MiB/s", Better::Higher, finished.mb_per_second)?,
        Measurement::new("mean latency", "us", Better::Lower, finished.mean_us)?,
    ];
    Ok(Measured::of(metrics, finished.ops as f64, finished.seconds))
}

/// One operation without fsync: one with it would be a metric of its own.
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
    fn a_file_operation_is_done_as_often_as_its_result_tells() {
        let temporary = tempfile::tempdir().unwrap();
        let claimed = senesce_volume::ClaimedDirectory::claim(temporary.path(), None).unwrap();
        let asked = file_operation("create", Duration::from_millis(1), Seed(1));
        let result = file_ops(&claimed, &asked, &senesce_core::progress::Silent, &Interrupt::new()).unwrap();
        let passes: Vec<(&str, bool)> = result.operations.iter().map(|one| (one.name.as_str(), one.fsync)).collect();
        assert_eq!(passes, [("create", false)]);
    }

    #[test]
    fn what_the_account_of_a_cold_read_leaves_open_is_its_caveat() {
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
                lost: None,
            };
            Measured::of_cold_read(&read, account).map(|measured| measured.caveat)
        };
        assert_eq!(of(Some(1 << 20)).unwrap(), None);
        assert!(of(Some(4 << 20)).unwrap().is_some_and(|message| message.contains("delivered more than")));
        assert!(of(None).unwrap().is_some_and(|message| message.contains("without a second account")));
        assert!(of(Some(1000)).is_err());
    }
}
