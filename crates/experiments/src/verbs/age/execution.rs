//! The execution of a plan on a directory, with its samples, checkpoints and limits.

use super::course::Course;
use super::events::{Checkpoint, Executed, Sample};
use super::run::{Hooks, peak_rss_bytes, plan_ends_by};
use super::spec::AgeSpec;
use senesce_aging::{Data, DirectoryBackEnd, ExecuteOptions, Planner, Shard, Stop, execute, reconcile};
use senesce_core::{ExitCode, Failure, RunDirectory};
use senesce_target::ClaimedDirectory;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What is to be executed.
pub struct Execution<'a> {
    /// The course of the run.
    pub course: &'a Course,
    /// The target holds the state of an earlier part of the run, which may be ahead of its last checkpoint.
    pub continues: bool,
    /// Every operation below this one was done in earlier parts of the run.
    pub from: u64,
    /// Seconds of execution of earlier parts.
    pub seconds_before: f64,
}

const BETWEEN_SAMPLES: Duration = Duration::from_millis(200);
const BETWEEN_CHECKPOINTS: Duration = Duration::from_secs(1);
const BETWEEN_DISTANCES: Duration = Duration::from_secs(2);

/// Plays the plan below `root` from where the run stopped.
pub fn run(
    execution: &Execution<'_>,
    root: &ClaimedDirectory,
    directory: &mut RunDirectory,
    hooks: &Hooks<'_>,
) -> Result<Executed, Failure> {
    let spec = &execution.course.spec;
    let data = data_mode(&spec.data)?;
    let mut planner = execution.course.planner()?;
    planner.skip_to(execution.from);
    let plan = planner.plan().clone();
    if execution.continues {
        let shard = shard(spec);
        let found = reconcile(&planner, root, data, shard)?;
        directory.append("reconciled", &found)?;
    }
    let options = ExecuteOptions {
        fsync_every: spec.fsync_every,
        threads: spec.threads,
        shard: shard(spec),
        ..ExecuteOptions::default()
    };
    hooks.progress.phase("ageing", plan.len(), "operations");
    directory.append("checkpoint", &Checkpoint { operation: execution.from, seconds: execution.seconds_before })?;
    let mut watch = Watch::new(execution, directory, hooks);
    let cpu_before = cpu_seconds();
    let backend = DirectoryBackEnd::new(plan.clone(), root, data);
    let outcome = execute(&mut planner, &backend, &options, hooks.interrupt, &mut |planner, completed| {
        watch.look(planner, completed)
    });
    let (failure, timed_out) = (watch.failure.take(), watch.timed_out);
    let seconds = execution.seconds_before + outcome.seconds;
    directory.append("checkpoint", &Checkpoint { operation: outcome.completed, seconds })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let stop = outcome.result?;
    let stopped_by = match stop {
        Stop::Interrupted => "interrupt",
        Stop::Observer if timed_out => "time",
        Stop::Observer | Stop::Finished => plan_ends_by(&plan),
    };
    let cpu_after = cpu_seconds();
    let done = planner.operations_done() - execution.from;
    Ok(Executed {
        stopped_by: stopped_by.into(),
        execute_seconds: seconds,
        ops_per_second: done as f64 / outcome.seconds.max(1e-9),
        cpu_seconds: (cpu_after.0 - cpu_before.0, cpu_after.1 - cpu_before.1),
        peak_rss_bytes: peak_rss_bytes(),
        measures: planner.measures(),
        namespace_sha256: planner.namespace_sha256(),
    })
}

/// How files get their content, by its word.
pub fn data_mode(word: &str) -> Result<Data, Failure> {
    match word {
        "fallocate" => Ok(Data::Fallocate),
        "write" => Ok(Data::Write),
        "sparse" => Ok(Data::Sparse),
        _ => Err(Failure::new(ExitCode::Usage, format!("--data {word}: write fallocate, write or sparse"))),
    }
}

/// This machine's share of the directories.
pub fn shard(spec: &AgeSpec) -> Option<Shard> {
    spec.shard.map(|(index, count)| Shard { index, count })
}

/// Looks at the execution after each round.
struct Watch<'a> {
    execution: &'a Execution<'a>,
    directory: &'a mut RunDirectory,
    hooks: &'a Hooks<'a>,
    begun: Instant,
    sampled: Option<Instant>,
    checkpointed: Instant,
    measured: Instant,
    distance: Option<f64>,
    timed_out: bool,
    failure: Option<Failure>,
}

impl<'a> Watch<'a> {
    fn new(execution: &'a Execution<'a>, directory: &'a mut RunDirectory, hooks: &'a Hooks<'a>) -> Self {
        let now = Instant::now();
        Self {
            execution,
            directory,
            hooks,
            begun: now,
            sampled: None,
            checkpointed: now,
            measured: now,
            distance: None,
            timed_out: false,
            failure: None,
        }
    }

    fn look(&mut self, planner: &Planner, completed: u64) -> ControlFlow<()> {
        let seconds = self.execution.seconds_before + self.begun.elapsed().as_secs_f64();
        let wanted = self.sampled.is_none_or(|last| last.elapsed() >= BETWEEN_SAMPLES);
        let written = if wanted { self.record(planner, completed, seconds) } else { Ok(()) };
        if let Err(failure) = written {
            self.failure = Some(failure);
            return ControlFlow::Break(());
        }
        if self.execution.course.limits().max_time().is_some_and(|most| seconds >= most.as_secs_f64()) {
            self.timed_out = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn record(&mut self, planner: &Planner, completed: u64, seconds: f64) -> Result<(), Failure> {
        self.sampled = Some(Instant::now());
        if self.measured.elapsed() >= BETWEEN_DISTANCES {
            self.measured = Instant::now();
            let rmse = planner.measures().rmse;
            self.distance = Some(rmse.age.max(rmse.size).max(rmse.depth));
        }
        let sample = Sample {
            operations: planner.operations_done(),
            seconds,
            fullness: planner.fullness(),
            overwrites: planner.overwrites(),
            distance: self.distance,
        };
        let distance = self.distance.map_or(String::new(), |distance| format!(", RMSE {:.3} %", distance * 100.0));
        let note = format!("fullness {:.1} %, {:.1} overwrites{distance}", sample.fullness * 100.0, sample.overwrites);
        self.hooks.progress.position(completed, &note);
        self.directory.append("sample", &sample)?;
        if self.checkpointed.elapsed() >= BETWEEN_CHECKPOINTS {
            self.checkpointed = Instant::now();
            self.directory.append("checkpoint", &Checkpoint { operation: completed, seconds })?;
        }
        Ok(())
    }
}

/// Processor seconds of this process so far: user, system (proc_pid_stat(5), in clock ticks).
fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let read = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0) / ticks;
    (read(11), read(12))
}
