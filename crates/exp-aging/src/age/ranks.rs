//! Ages with several ranks. Rank 0 claims the target, keeps the record and gives orders. Every rank computes the plan and
//! executes its share of the directories in step with the others.

use super::Age;
use super::events::{Event, RankRow};
use super::execution::{Execution, ExecutionResult, Watch, process_cpu_seconds, since};
use super::extended_spec::ExtendedSpec;
use super::parts::{Own, PartState, parts_of};
use super::rehearse::Rehearsed;
use super::run::peak_rss_bytes;
use senesce_aging::execute::{Pace, PlanTarget};
use senesce_aging::{
    AgingError, DirectoryTarget, ExecuteOptions, ExecuteOutcome, FileComparison, Interleaved, Shard, Stop,
    execute_parts,
};
use senesce_cluster::{Cluster, ClusterError, Halt};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Progress, Silent};
use senesce_runner::{Context, Outcome};
use senesce_runs::shared_directory::Token;
use senesce_volume::{ClaimedDirectory, TargetSpec};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Orders of rank 0 to the others.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Check whether this directory is the one of rank 0.
    Look(Token),
    /// Rehearse the parts of this aging without the target.
    Rehearse(Box<ExtendedSpec>),
    /// Execute the plan of this aging.
    Age(Box<Assignment>),
    /// Leave: the run is over.
    Leave,
}

#[derive(Debug, Serialize, Deserialize)]
struct Assignment {
    course: ExtendedSpec,
    restores: Option<FileComparison>,
    from: u64,
    len: u64,
    window: u64,
}

const WINDOW_OF_A_RANK: u64 = 4096;
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// Runs `lead` on rank 0, where it ages with this cluster in its hooks. Other ranks follow orders and return `None`.
///
/// # Errors
/// The failure of `lead`, or the reason why another rank ended the run; the same on every rank.
pub fn run_by_ranks(
    cluster: &Cluster,
    lead: impl FnOnce() -> Result<Outcome, Failure>,
) -> Result<Option<Outcome>, Failure> {
    if !cluster.is_first() {
        return follow(cluster).map(|()| None).map_err(|failure| give_up(cluster, failure));
    }
    let outcome = lead().map_err(|failure| give_up(cluster, failure))?;
    cluster.broadcast(Some(&Order::Leave))?;
    Ok(Some(outcome))
}

fn give_up(cluster: &Cluster, failure: Failure) -> Failure {
    if cluster.ending().is_none() {
        cluster.fail(&failure);
    }
    // Returns as soon as this rank knows of the end.
    let Err(ended) = cluster.barrier() else { return failure };
    match ended {
        ClusterError::Ended(ending) if ending.rank != cluster.rank() => ClusterError::Ended(ending).into(),
        _ => failure,
    }
}

fn follow(cluster: &Cluster) -> Result<(), Failure> {
    let mut root = None;
    loop {
        match cluster.broadcast::<Order>(None)? {
            Order::Leave => return Ok(()),
            Order::Look(token) => {
                token.compare(cluster)?;
                root = Some(ClaimedDirectory::claim(token.directory(), None)?);
            }
            Order::Rehearse(course) => {
                let rehearsed = rehearse_own(cluster, &course, &Silent, &|| false)?;
                cluster.gather(&rehearsed)?;
            }
            Order::Age(assignment) => {
                let root = root.as_ref().ok_or_else(|| {
                    Failure::usage(
                        "aging began before the directory was \
                    checked",
                    )
                })?;
                let share = play(cluster, &assignment, root, &mut |_| {})?;
                cluster.gather(&(share.row, share.states))?;
            }
        }
    }
}

/// Checks on rank 0 that all ranks see `root`, and arranges that the failure of a rank is recorded.
pub(crate) fn share(
    cluster: &Cluster,
    root: &ClaimedDirectory,
    course: &ExtendedSpec,
    context: &mut Context<'_, Age>,
) -> Result<(), Failure> {
    if course.spec.writers > 1 {
        return Err(Failure::usage(
            "--writers: files of one plan are written concurrently on one machine; omit --writers or --mpi",
        ));
    }
    let witness = context.witness()?;
    cluster.on_end(Box::new(move |ending| {
        // The record itself may be on the lost target.
        let _ = witness.append("failed", &serde_json::json!({ "step": null, "reason": ending.to_string() }));
    }));
    context.record_now(Event::Ranks(cluster.members()))?;
    let token = Token::place(root)?;
    let order = cluster.broadcast(Some(&Order::Look(token)))?;
    let Order::Look(token) = order else { return Ok(()) };
    token.compare(cluster)?;
    let summary = course.spec.summary()?;
    let (shares, what) =
        if summary.parts > 1 { (summary.parts, "parts") } else { (summary.directories, "directories") };
    if cluster.size() > shares {
        let last = cluster.size() - 1;
        let idle = if shares == last { format!("rank {last} has") } else { format!("ranks {shares} to {last} have") };
        let words = format!("{} ranks share {shares} {what}: {idle} nothing to do", cluster.size());
        context.progress.say(&words);
        context.caveat(words);
    }
    Ok(())
}

/// Refuses other targets than a directory, because only a directory is visible to several machines.
pub fn check_target(target: Option<&TargetSpec>) -> Result<(), Failure> {
    match target {
        Some(TargetSpec::Directory(_)) => Ok(()),
        _ => {
            Err(Failure::usage("cannot share this target among ranks: --mpi needs a directory on a shared file system"))
        }
    }
}

/// Makes each rank rehearse the parts of an aging that it will execute. Runs on rank 0.
pub(crate) fn rehearse(
    cluster: &Cluster,
    course: &ExtendedSpec,
    context: &Context<'_, Age>,
) -> Result<Vec<Rehearsed>, Failure> {
    cluster.broadcast(Some(&Order::Rehearse(Box::new(course.clone()))))?;
    let own = rehearse_own(cluster, course, context.progress, &|| context.interrupt.requested())?;
    Ok(cluster.gather(&own)?.unwrap_or_default())
}

fn rehearse_own(
    cluster: &Cluster,
    course: &ExtendedSpec,
    progress: &dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<Rehearsed, Failure> {
    let parts = parts_of(course.spec.parts, cluster.rank(), cluster.size());
    super::rehearse::rehearse(course, &parts, progress, &|| stop() || cluster.ending().is_some())
}

pub(crate) fn lead(
    cluster: &Cluster,
    execution: &Execution<'_>,
    root: &ClaimedDirectory,
    context: &mut Context<'_, Age>,
) -> Result<ExecutionResult, Failure> {
    let window = WINDOW_OF_A_RANK * u64::from(cluster.size());
    let order = Order::Age(Box::new(Assignment {
        course: execution.course.clone(),
        restores: execution.restores,
        from: execution.from,
        len: execution.len,
        window,
    }));
    let Order::Age(assignment) = cluster.broadcast(Some(&order))? else {
        return Err(Failure::new(ExitCode::RunFailed, "an order was decoded to a different one"));
    };
    let mut watch = Watch::begin(execution, context)?;
    let mut enough = false;
    let Share { outcome, row, states } = play(cluster, &assignment, root, &mut |parts| {
        let completed = cluster.floor().unwrap_or(execution.from);
        if !enough && watch.sample(parts, completed).is_break() {
            enough = true;
            cluster.want_stop();
        }
    })?;
    let shares = cluster.gather(&(row, states))?.unwrap_or_default();
    let (rows, states): (Vec<RankRow>, Vec<Vec<PartState>>) = shares.into_iter().unzip();
    let (timed_out, estimated_seconds) = watch.end(outcome.completed, outcome.seconds)?;
    let sum = |pick: fn(&RankRow) -> f64| rows.iter().map(pick).sum();
    Ok(ExecutionResult {
        stop: outcome.result?,
        completed: outcome.completed,
        executed: rows.iter().map(|row| row.operations).sum(),
        states: states.into_iter().flatten().collect(),
        timed_out,
        settled: false,
        estimated_seconds,
        seconds: outcome.seconds,
        cpu_seconds: (sum(|row| row.cpu_seconds.0), sum(|row| row.cpu_seconds.1)),
        unasked_commits: None,
        changes: None,
        ranks: rows,
        window,
    })
}

struct Share {
    outcome: ExecuteOutcome,
    row: RankRow,
    states: Vec<PartState>,
}

fn play(
    cluster: &Cluster,
    assignment: &Assignment,
    root: &ClaimedDirectory,
    look: &mut dyn FnMut(&Interleaved<'_>),
) -> Result<Share, Failure> {
    let spec = &assignment.course.spec;
    let shard = Shard { index: cluster.rank(), count: cluster.size() };
    let mut own = Own::new(&assignment.course, Some(shard), assignment.from)?;
    // The directories and state of an undivided plan belong to one rank for all.
    let answers = spec.parts > 1 || cluster.is_first();
    let backends = own.backends(root, spec.data, 1);
    make_ready(cluster, assignment, &own, &backends, answers)?;
    let options = ExecuteOptions {
        fsync_every: spec.fsync_every,
        threads: spec.threads,
        shard: own.shard,
        window: assignment.window,
        ..spec.arrivals()
    };
    let backends: Vec<_> = backends.into_iter().map(DirectoryTarget::prepared).collect();
    let step = Step { cluster, root, checked: Mutex::new(Instant::now()), lost: Mutex::default() };
    let cpu_before = process_cpu_seconds();
    cluster.begin_operations(assignment.from, assignment.window);
    let mut operations = own.operations(assignment.from, assignment.len);
    // Signals reach the execution through rank 0, so that all ranks stop at the same operation.
    let outcome = execute_parts(&mut operations, &backends, &options, &step, &Interrupt::new(), &mut |parts, _| {
        look(parts);
        ControlFlow::Continue(())
    });
    step.lost()?;
    if let Some(ending) = cluster.ending() {
        return Err(ClusterError::Ended(ending).into());
    }
    if let Err(error) = outcome.result {
        return Err(error.into());
    }
    let row = row(cluster, &outcome, cpu_before);
    let states = if answers { own.states() } else { Vec::new() };
    Ok(Share { outcome, row, states })
}

fn make_ready(
    cluster: &Cluster,
    assignment: &Assignment,
    own: &Own,
    backends: &[DirectoryTarget<'_>],
    makes_directories: bool,
) -> Result<(), Failure> {
    if makes_directories {
        backends.iter().try_for_each(PlanTarget::prepare)?;
    }
    cluster.barrier()?;
    if let Some(comparison) = assignment.restores {
        let cleared = own.clear(backends, comparison, &mut |_| ControlFlow::Continue(()))?;
        // Files removed by other ranks may free the space for files missing here.
        cluster.barrier()?;
        own.restore(backends, cleared)?;
        cluster.barrier()?;
    }
    Ok(())
}

fn row(cluster: &Cluster, outcome: &ExecuteOutcome, cpu_before: (f64, f64)) -> RankRow {
    RankRow {
        rank: cluster.rank(),
        host: cluster.host().to_string(),
        operations: outcome.executed,
        seconds: outcome.seconds,
        waited_seconds: cluster.waited_seconds(),
        cpu_seconds: since(cpu_before),
        stalls: outcome.stalls,
        peak_rss_bytes: peak_rss_bytes(),
    }
}

struct Step<'a> {
    cluster: &'a Cluster,
    root: &'a ClaimedDirectory,
    checked: Mutex<Instant>,
    lost: Mutex<Option<AgingError>>,
}

impl Step<'_> {
    fn lost(&self) -> Result<(), AgingError> {
        let lost = self.lost.lock().ok().and_then(|mut lost| lost.take());
        lost.map_or(Ok(()), Err)
    }

    fn is_lost(&self) -> bool {
        let Ok(mut checked) = self.checked.lock() else { return false };
        if checked.elapsed() < BETWEEN_CHECKS {
            return false;
        }
        *checked = Instant::now();
        let Err(error) = senesce_aging::execute::check(self.root) else { return false };
        if let Ok(mut lost) = self.lost.lock() {
            *lost = Some(error);
        }
        true
    }
}

impl Pace for Step<'_> {
    fn begin(&self, end: u64) -> Option<Stop> {
        if self.is_lost() {
            return Some(Stop::Observer);
        }
        match self.cluster.permit(end) {
            Ok(()) => None,
            Err(Halt::Interrupted) => Some(Stop::Interrupted),
            Err(Halt::Wanted | Halt::Ended) => Some(Stop::Observer),
        }
    }

    fn reached(&self, position: u64) {
        self.cluster.reached(position);
    }

    fn earlier_done(&self, position: u64) -> bool {
        self.cluster.all_reached(position)
    }
}
