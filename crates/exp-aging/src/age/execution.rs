//! Executes a plan in a directory, with samples, checkpoints and limits.

use super::Age;
use super::events::{Checkpoint, Event, ExecutionEnd, RankRow, Sample};
use super::extended_spec::ExtendedSpec;
use super::extents::ExtentSampler;
use super::own_target::report_repairs;
use super::parts::{Own, PartState, WholePlan};
use super::ranks;
use super::recorded_aging::RecordedAging;
use super::run::peak_rss_bytes;
use super::space;
use senesce_aging::execute::{CommitWitness, SingleRankPace};
use senesce_aging::{ChangeCounts, ExecuteOptions, FileComparison, Interleaved, Stop, Tally, WorkUnit, execute_parts};
use senesce_cluster::Cluster;
use senesce_core::Failure;
use senesce_core::heartbeat::{LostTime, leap, watched};
use senesce_core::machine::time_is_virtual;
use senesce_runner::Context;
use senesce_sys::usage;
use senesce_volume::guest::host_seconds;
use senesce_volume::{ClaimedDirectory, GrowthSpace};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub(crate) struct Execution<'a> {
    pub course: &'a ExtendedSpec,
    /// How to compare the files of an earlier part, which may be ahead of its checkpoint; `None`: no earlier part.
    pub restores: Option<FileComparison>,
    /// Operations below this one were done in earlier parts of the run.
    pub from: u64,
    pub len: u64,
    pub seconds_before: f64,
    /// Start of this part of the run, from which its time limit counts.
    pub begun: Instant,
    /// Number of files in the fill. Operations are slower afterwards.
    pub fill: u64,
    /// The unit of its progress.
    pub unit: WorkUnit,
    /// Reads the space into which the image can grow; `None`: not an image.
    pub space: &'a dyn Fn() -> Option<GrowthSpace>,
}

impl Execution<'_> {
    /// Returns whether the clock stands still while operations run.
    fn is_timeless(&self) -> bool {
        time_is_virtual() && self.course.spec.pace().is_none()
    }

    /// Returns whether the time limit has expired; `passed` is the wall time of this part of the run.
    fn is_out_of_time(&self, passed: impl FnOnce() -> Duration) -> bool {
        self.course.limits().max_time().is_some_and(|most| passed() >= most)
    }

    /// Returns the wall time since the start of this part of the run. In virtual time the host counts it, and the part
    /// began with the guest.
    fn passed(&self) -> Duration {
        match time_is_virtual() {
            false => self.begun.elapsed(),
            true => host_seconds().map_or(Duration::MAX, Duration::from_secs_f64),
        }
    }
}

const BETWEEN_SAMPLES: Duration = Duration::from_millis(200);
/// Number of samples of a run in virtual time.
const VIRTUAL_SAMPLES: f64 = 500.0;
const BETWEEN_CHECKPOINTS: Duration = Duration::from_secs(1);
const BETWEEN_DISTANCES: Duration = Duration::from_secs(2);
/// Measuring many live files takes long; this bounds it to 1/50 of the time.
const DISTANCE_SHARE: u32 = 50;

pub(crate) fn run(
    execution: &Execution<'_>,
    root: &ClaimedDirectory,
    context: &mut Context<'_, Age>,
) -> Result<ExecutionEnd, Failure> {
    let (played, lost) = watched(|| match Cluster::among(context.peers) {
        Some(cluster) => ranks::lead(cluster, execution, root, context),
        None => play(execution, root, context),
    });
    let played = played?;
    let lost = lost.or_else(|| virtual_leap(execution, &played)).or_else(|| earlier_loss(execution, context));
    let WholePlan { ends_by, measures, namespace_sha256, part_sha256, .. } =
        WholePlan::of(execution.course, played.states)?;
    let stopped_by = match played.stop {
        Stop::Interrupted => "interrupt",
        // A limit that expires with the last operation cuts nothing short.
        Stop::Observer if played.settled => "extents-settle",
        Stop::Observer if played.timed_out && played.completed < execution.len => "time",
        Stop::Observer | Stop::Finished => ends_by,
    };
    Ok(ExecutionEnd {
        stopped_by: stopped_by.into(),
        execute_seconds: execution.seconds_before + played.seconds,
        ops_per_second: rate(execution, (played.executed, played.completed, played.seconds), measures.operations),
        cpu_seconds: played.cpu_seconds,
        unasked_commits: played.unasked_commits,
        changes: played.changes,
        estimated_seconds: played.estimated_seconds,
        lost,
        is_timeless: execution.is_timeless(),
        peak_rss_bytes: played.ranks.iter().map(|row| row.peak_rss_bytes).fold(peak_rss_bytes(), u64::max),
        ranks: played.ranks,
        window: played.window,
        measures,
        namespace_sha256,
        part_sha256,
    })
}

/// Operations per second of all parts of the run, which has reached `operations`. With `--shard` only operations of this part
/// of the run are known.
fn rate(execution: &Execution<'_>, (executed, completed, seconds): (u64, u64, f64), operations: u64) -> f64 {
    let rate = operations as f64 / (execution.seconds_before + seconds).max(1e-9);
    match (execution.course.spec.shard(), completed - execution.from) {
        (None, _) => rate,
        (Some(shard), 0) => rate / f64::from(shard.count),
        (Some(_), positions) => rate * executed as f64 / positions as f64,
    }
}

pub(crate) struct ExecutionResult {
    pub stop: Stop,
    pub completed: u64,
    /// Operations executed by this process in this part of the run.
    pub executed: u64,
    pub states: Vec<PartState>,
    pub timed_out: bool,
    pub settled: bool,
    pub seconds: f64,
    pub cpu_seconds: (f64, f64),
    pub unasked_commits: Option<u64>,
    pub changes: Option<ChangeCounts>,
    pub estimated_seconds: Option<f64>,
    pub ranks: Vec<RankRow>,
    pub window: u64,
}

fn play(
    execution: &Execution<'_>,
    root: &ClaimedDirectory,
    context: &mut Context<'_, Age>,
) -> Result<ExecutionResult, Failure> {
    let spec = &execution.course.spec;
    let mut own = Own::new(execution.course, spec.shard(), execution.from)?;
    let backends = own.backends(root, spec.data, spec.writers);
    if let Some(comparison) = execution.restores {
        let done = own.reconcile(&backends, comparison, (context.progress, context.interrupt))?;
        report_repairs(&done, spec, context.progress);
        context.record_now(Event::Reconciled(done))?;
    }
    let options =
        ExecuteOptions { fsync_every: spec.fsync_every, threads: spec.threads, shard: own.shard, ..spec.arrivals() };
    let interrupt = context.interrupt;
    let earlier = RecordedAging::of(context.recorded().events()).extents;
    let earlier = if execution.from == 0 { Vec::new() } else { earlier };
    let mut extents = ExtentSampler::after(root.path(), execution.course.limits().until, earlier);
    let mut watch = Watch::begin(execution, context)?;
    let cpu_before = process_cpu_seconds();
    let witness = CommitWitness::of(root.as_fd());
    let commits_before = witness.as_ref().and_then(CommitWitness::count);
    let mut operations = own.operations(execution.from, execution.len);
    let look = &mut |parts: &Interleaved<'_>, completed| watch.sample_with_extents(&mut extents, parts, completed);
    let outcome = execute_parts(&mut operations, &backends, &options, &SingleRankPace, interrupt, look);
    let cpu_seconds = since(cpu_before);
    let counted = witness.as_ref().and_then(CommitWitness::count).zip(commits_before);
    // Threads whose fsyncs share a commit make this a lower bound.
    let of_fsync = if witness.as_ref().is_some_and(CommitWitness::counts_fsync) { outcome.synced } else { 0 };
    let asked = outcome.commits + outcome.stalls + of_fsync;
    let unasked_commits = counted.map(|(now, before)| (now - before).saturating_sub(asked));
    let (timed_out, estimated_seconds) = watch.end(outcome.completed, outcome.seconds)?;
    let capacity = spec.capacity()?;
    let host = || space::watch(context.path(), (execution.space)(), (outcome.completed, execution.len));
    let stop = outcome.result.map_err(|error| space::explain(error, &host, &operations, capacity, root.path()))?;
    Ok(ExecutionResult {
        stop,
        completed: outcome.completed,
        executed: outcome.executed,
        states: own.states(),
        timed_out,
        settled: extents.has_settled(),
        seconds: outcome.seconds,
        cpu_seconds,
        unasked_commits,
        changes: Some(outcome.changes),
        estimated_seconds,
        ranks: Vec::new(),
        window: 0,
    })
}

pub(crate) struct Watch<'a, 'b> {
    execution: &'a Execution<'a>,
    context: &'a mut Context<'b, Age>,
    begun: Instant,
    /// Time and operation of the last sample.
    sampled: Option<(Instant, u64)>,
    checkpointed: Instant,
    measure_at: Instant,
    distance: Option<f64>,
    /// Seconds and operations at the first check after the fill.
    filled: Option<(f64, u64)>,
    estimate: Option<f64>,
    timed_out: bool,
    failure: Option<Failure>,
}

impl<'a, 'b> Watch<'a, 'b> {
    pub(crate) fn begin(execution: &'a Execution<'a>, context: &'a mut Context<'b, Age>) -> Result<Self, Failure> {
        let (total, name) = execution.unit.total();
        context.progress.phase("aging", total, name);
        let reached = Checkpoint { operation: execution.from, seconds: execution.seconds_before };
        context.record_now(Event::Checkpoint(reached))?;
        let now = Instant::now();
        Ok(Self {
            execution,
            context,
            begun: now,
            sampled: None,
            checkpointed: now,
            measure_at: now + BETWEEN_DISTANCES,
            distance: None,
            filled: None,
            estimate: None,
            timed_out: false,
            failure: None,
        })
    }

    /// Records the final position; returns whether the time limit expired, and the estimated duration.
    pub(crate) fn end(self, completed: u64, seconds: f64) -> Result<(bool, Option<f64>), Failure> {
        let seconds = self.execution.seconds_before + seconds;
        self.context.record_now(Event::Checkpoint(Checkpoint { operation: completed, seconds }))?;
        self.failure.map_or(Ok((self.timed_out, self.estimate)), Err)
    }

    /// In virtual time, operations count: in a guest, each query of the clock is a slow system call.
    fn is_sample_due(&self, (last, operation): (Instant, u64), completed: u64) -> bool {
        if time_is_virtual() {
            let operations = (self.execution.len - self.execution.from) as f64;
            return completed.saturating_sub(operation) as f64 >= operations / VIRTUAL_SAMPLES;
        }
        last.elapsed() >= BETWEEN_SAMPLES
    }

    pub(crate) fn sample(&mut self, parts: &Interleaved<'_>, completed: u64) -> ControlFlow<()> {
        let wanted = self.sampled.is_none_or(|last| self.is_sample_due(last, completed));
        let written = if wanted { self.record(parts, completed) } else { Ok(()) };
        if let Err(failure) = written {
            self.failure = Some(failure);
            return ControlFlow::Break(());
        }
        if self.execution.is_out_of_time(|| self.execution.passed()) {
            self.timed_out = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Samples like [`Self::sample`] and also counts extents; ends when they have settled.
    fn sample_with_extents(
        &mut self,
        extents: &mut ExtentSampler<'_>,
        parts: &Interleaved<'_>,
        completed: u64,
    ) -> ControlFlow<()> {
        self.sample(parts, completed)?;
        let counted = match extents.next_sample(parts, completed) {
            Ok(Some(seen)) => self.context.record_now(Event::Extents(seen)),
            Ok(None) => return ControlFlow::Continue(()),
            Err(failure) => Err(failure),
        };
        match counted {
            Ok(()) if !extents.has_settled() => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    /// Reports the duration of the whole execution, as soon as it is known. A virtual clock does not measure it.
    fn estimate(&mut self, completed: u64, seconds: f64) {
        let is_filling = completed < self.execution.fill.max(self.execution.from);
        if self.estimate.is_some() || is_filling || time_is_virtual() {
            return;
        }
        let (begun, from) = *self.filled.get_or_insert((seconds, completed));
        if seconds - begun >= 1.0 && completed > from {
            let left = (self.execution.len - completed) as f64;
            let whole = seconds + left * (seconds - begun) / (completed - from) as f64;
            self.estimate = Some(whole);
            self.context.progress.say(&format!("about {whole:.0} s for all operations, measured on the target"));
        }
    }

    fn record(&mut self, parts: &Interleaved<'_>, completed: u64) -> Result<(), Failure> {
        let now = Instant::now();
        let seconds = self.execution.seconds_before + now.duration_since(self.begun).as_secs_f64();
        self.sampled = Some((now, completed));
        let position = (completed, self.execution.len);
        space::watch(self.context.path(), (self.execution.space)(), position)?;
        self.estimate(completed, seconds);
        let begun = Instant::now();
        if begun >= self.measure_at {
            self.distance = distance(parts);
            self.measure_at = Instant::now() + BETWEEN_DISTANCES.max(begun.elapsed() * DISTANCE_SHARE);
        }
        let sample = Sample {
            operations: parts.position(),
            seconds,
            fullness: parts.fullness(),
            overwrites: parts.overwrites(),
            distance: self.distance,
        };
        let distance = self.distance.map_or(String::new(), |distance| format!(", RMSE {:.3} %", distance * 100.0));
        let note = format!("fullness {:.1} %, {:.1} overwrites{distance}", sample.fullness * 100.0, sample.overwrites);
        self.context.progress.position(self.execution.unit.done(completed, sample.overwrites), &note);
        self.context.record_now(Event::Sample(sample))?;
        if self.execution.is_timeless() || self.checkpointed.elapsed() >= BETWEEN_CHECKPOINTS {
            self.checkpointed = Instant::now();
            self.context.record_now(Event::Checkpoint(Checkpoint { operation: completed, seconds }))?;
        }
        Ok(())
    }
}

fn virtual_leap(execution: &Execution<'_>, played: &ExecutionResult) -> Option<LostTime> {
    let spec = &execution.course.spec;
    spec.pace().filter(|_| time_is_virtual())?;
    // The first operation starts at once.
    let before_last = (played.completed - execution.from).saturating_sub(1);
    let lasted = Duration::try_from_secs_f64(played.seconds).unwrap_or(Duration::MAX);
    leap(lasted, spec.arrivals().arrival(before_last))
}

/// Returns the time that an earlier part of the run lost: its seconds are included.
fn earlier_loss(execution: &Execution<'_>, context: &Context<'_, Age>) -> Option<LostTime> {
    let mut ends = context.recorded().events().rev().filter_map(|event| match event {
        Event::Executed(executed) => Some(executed.lost),
        _ => None,
    });
    ends.next().flatten().filter(|_| execution.restores.is_some())
}

fn distance(parts: &Interleaved<'_>) -> Option<f64> {
    let mut tally = Tally::default();
    parts.own().for_each(|(_, planner)| tally.add(&planner.tally()));
    let (_, first) = parts.own().next()?;
    let rmse = first.plan().measures(parts.own().len() as u32, &tally).rmse;
    Some(rmse.age.max(rmse.size).max(rmse.depth))
}

pub(crate) fn process_cpu_seconds() -> (f64, f64) {
    let used = usage::this_process();
    (used.user.as_secs_f64(), used.system.as_secs_f64())
}

pub(crate) fn since(before: (f64, f64)) -> (f64, f64) {
    let now = process_cpu_seconds();
    (now.0 - before.0, now.1 - before.1)
}

#[cfg(test)]
mod tests {
    use super::super::spec::AgeSpec;
    use super::super::spec::tests::age_spec;
    use super::*;
    use senesce_aging::Data;

    #[test]
    fn time_limit_counts_from_the_start_of_each_part() {
        let mut spec = age_spec(Data::Sparse, None);
        let begun = Instant::now();
        let is_out_of_time = |spec: &AgeSpec, seconds| {
            let course = ExtendedSpec::new(spec.clone());
            let execution = Execution {
                course: &course,
                restores: Some(FileComparison::Size),
                from: 700,
                len: 9000,
                seconds_before: 3600.0,
                begun,
                fill: 100,
                unit: WorkUnit::Operations(9000),
                space: &|| None,
            };
            execution.is_out_of_time(|| Duration::from_secs(seconds))
        };
        assert!(!is_out_of_time(&spec, 1 << 30));
        spec.limits.max_seconds = Some(60.0);
        // No operation need be done by then, and operations of earlier starts do not count.
        assert!(!is_out_of_time(&spec, 59) && is_out_of_time(&spec, 60));
    }
}
