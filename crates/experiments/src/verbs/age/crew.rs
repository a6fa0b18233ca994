//! Ageing by several ranks. Rank 0 leads: it claims the target, keeps the record and says what to do. Every rank computes
//! the plan for itself and plays its share of the directories, in step with the others.

use super::course::Course;
use super::events::RankRow;
use super::execution::{Execution, Played, Watch, cpu_seconds, data_mode, since};
use super::run::{Hooks, peak_rss_bytes};
use crate::conduct::Outcome;
use crate::shared_directory;
use senesce_aging::execute::{BackEnd, Pace};
use senesce_aging::{
    AgingError, DirectoryBackEnd, ExecuteOptions, ExecuteOutcome, Planner, Shard, Stop, execute_in_step, reconcile,
};
use senesce_cluster::{Cluster, ClusterError, Halt};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, RunDirectory};
use senesce_target::{ClaimedDirectory, TargetSpec};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What rank 0 tells the others to do.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// See whether this directory is the one that rank 0 has.
    Look(shared_directory::Token),
    /// Play the plan of this course.
    Age(Box<Assignment>),
    /// There is nothing more to do.
    Leave,
}

#[derive(Debug, Serialize, Deserialize)]
struct Assignment {
    course: Course,
    continues: bool,
    from: u64,
    window: u64,
}

/// Operations in flight for each rank: a round of half of them takes much longer than a message.
const WINDOW_OF_A_RANK: u64 = 4096;
/// How often a rank looks whether its mount is still there.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// On rank 0: runs `lead`, which ages with this cluster in its hooks. On the others: follows, and gives `None`.
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

/// Ends the run everywhere, unless it has ended; the reason that all ranks know.
fn give_up(cluster: &Cluster, failure: Failure) -> Failure {
    if cluster.ending().is_none() {
        cluster.fail(&failure);
    }
    // Comes back with the end as soon as it is known here.
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
                let seen = token.is_seen();
                cluster.gather(&seen)?;
                cluster.barrier()?;
                root = Some(ClaimedDirectory::claim(token.directory(), None)?);
            }
            Order::Age(assignment) => {
                let root = root.as_ref().ok_or_else(|| Failure::usage("ageing began before the directory was seen"))?;
                let mut planner = assignment.course.planner()?;
                planner.skip_to(assignment.from);
                let part = play(cluster, &assignment, &mut planner, root, &mut |_| {})?;
                cluster.gather(&part.row)?;
            }
        }
    }
}

/// On rank 0: makes sure that all ranks see `root`, and that the end of a rank enters the record.
pub fn share(
    cluster: &Cluster,
    root: &ClaimedDirectory,
    course: &Course,
    directory: &mut RunDirectory,
    hooks: &Hooks<'_>,
) -> Result<(), Failure> {
    let mut witness = directory.witness()?;
    cluster.on_end(Box::new(move |ending| {
        // The record itself may lie on what is lost.
        let _ = witness.append("failed", &format!("{ending}"));
    }));
    directory.append("ranks", &cluster.members())?;
    let token = shared_directory::Token::place(root)?;
    let order = cluster.broadcast(Some(&Order::Look(token)))?;
    let Order::Look(token) = order else { return Ok(()) };
    let seen = cluster.gather(&token.is_seen());
    token.remove();
    shared_directory::judge(root.path(), &seen?.unwrap_or_default(), &cluster.members())?;
    cluster.barrier()?;
    let directories = course.planner()?.plan().directories().count();
    if cluster.size() > directories {
        let words = format!(
            "{} ranks share {directories} directories: ranks {directories} to {} have nothing to do",
            cluster.size(),
            cluster.size() - 1
        );
        hooks.progress.say(&words);
        directory.append("note", &words)?;
    }
    Ok(())
}

/// Only a directory is visible on several machines.
pub fn check_target(target: Option<&str>) -> Result<(), Failure> {
    match target.map(str::parse) {
        Some(Ok(TargetSpec::Directory(_))) => Ok(()),
        _ => Err(Failure::usage(
            "--mpi ages a directory that all ranks see, on a shared or parallel file system; images and devices belong to \
             one machine",
        )),
    }
}

/// On rank 0: plays with the others and records.
pub fn lead(
    cluster: &Cluster,
    execution: &Execution<'_>,
    planner: &mut Planner,
    root: &ClaimedDirectory,
    directory: &mut RunDirectory,
    hooks: &Hooks<'_>,
) -> Result<Played, Failure> {
    let window = WINDOW_OF_A_RANK * u64::from(cluster.size());
    let order = Order::Age(Box::new(Assignment {
        course: execution.course.clone(),
        continues: execution.continues,
        from: execution.from,
        window,
    }));
    let Order::Age(assignment) = cluster.broadcast(Some(&order))? else {
        return Err(Failure::new(ExitCode::RunFailed, "an order came back as another"));
    };
    let mut watch = Watch::begin(execution, planner.plan().len(), directory, hooks)?;
    let mut enough = false;
    let part = play(cluster, &assignment, planner, root, &mut |planner| {
        let completed = cluster.floor().unwrap_or(execution.from);
        if !enough && watch.look(planner, completed).is_break() {
            enough = true;
            cluster.want_stop();
        }
    })?;
    let rows = cluster.gather(&part.row)?.unwrap_or_default();
    let timed_out = watch.end(part.outcome.completed, part.outcome.seconds)?;
    let sum = |pick: fn(&RankRow) -> f64| rows.iter().map(pick).sum();
    Ok(Played {
        stop: part.outcome.result?,
        timed_out,
        seconds: part.outcome.seconds,
        cpu_seconds: (sum(|row| row.cpu_seconds.0), sum(|row| row.cpu_seconds.1)),
        ranks: rows,
        window,
    })
}

struct Part {
    outcome: ExecuteOutcome,
    row: RankRow,
}

/// Plays this rank's share of the plan.
fn play(
    cluster: &Cluster,
    assignment: &Assignment,
    planner: &mut Planner,
    root: &ClaimedDirectory,
    look: &mut dyn FnMut(&Planner),
) -> Result<Part, Failure> {
    let spec = &assignment.course.spec;
    let data = data_mode(&spec.data)?;
    let shard = Some(Shard { index: cluster.rank(), count: cluster.size() });
    let backend = DirectoryBackEnd::new(planner.plan().clone(), root, data);
    if cluster.is_first() {
        backend.prepare()?;
    }
    cluster.barrier()?;
    if assignment.continues {
        reconcile(planner, root, data, shard)?;
        cluster.barrier()?;
    }
    let options =
        ExecuteOptions { fsync_every: spec.fsync_every, threads: spec.threads, shard, window: assignment.window };
    let backend = backend.prepared();
    let step = Step { cluster, backend: &backend, checked: Mutex::new(Instant::now()), lost: Mutex::default() };
    let cpu_before = cpu_seconds();
    cluster.begin_operations(assignment.from, assignment.window);
    // Signals reach the execution through rank 0, so that all ranks stop at the same operation.
    let outcome = execute_in_step(planner, &backend, &options, &step, &Interrupt::new(), &mut |planner, _| {
        look(planner);
        ControlFlow::Continue(())
    });
    if let Some(lost) = step.lost.lock().ok().and_then(|mut lost| lost.take()) {
        return Err(lost.into());
    }
    if let Some(ending) = cluster.ending() {
        return Err(ClusterError::Ended(ending).into());
    }
    if let Err(error) = outcome.result {
        return Err(error.into());
    }
    let row = RankRow {
        rank: cluster.rank(),
        host: cluster.host().to_string(),
        operations: outcome.executed,
        seconds: outcome.seconds,
        waited_seconds: cluster.waited_seconds(),
        cpu_seconds: since(cpu_before),
        stalls: outcome.stalls,
        peak_rss_bytes: peak_rss_bytes(),
    };
    Ok(Part { outcome, row })
}

/// Keeps an execution in step with the other ranks.
struct Step<'a, B> {
    cluster: &'a Cluster,
    backend: &'a B,
    checked: Mutex<Instant>,
    /// Why the target is not there any more.
    lost: Mutex<Option<AgingError>>,
}

impl<B: BackEnd> Step<'_, B> {
    fn is_lost(&self) -> bool {
        let Ok(mut checked) = self.checked.lock() else { return false };
        if checked.elapsed() < BETWEEN_CHECKS {
            return false;
        }
        *checked = Instant::now();
        let Err(error) = self.backend.check() else { return false };
        if let Ok(mut lost) = self.lost.lock() {
            *lost = Some(error);
        }
        true
    }
}

impl<B: BackEnd> Pace for Step<'_, B> {
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
