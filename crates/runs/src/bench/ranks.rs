//! `bench --mpi`: all ranks start the workload at one moment; rank 0 merges and records.
//!
//! All ranks execute the same steps; the parts of rank 0 are marked.

use super::plan::of_repetition;
pub(crate) use super::rank_repetitions::RankRepetition;
pub use super::rank_repetitions::RankRepetitions;
use super::spec::{Spec, Subject};
use super::{Bench, Event, PreparedFacts, same_target};
use crate::shared_directory::Token;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use senesce_cluster::{Cluster, epoch_seconds};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Progress, Record, Seed, Silent};
use senesce_runner::{Conduct, Context, Outcome, conduct, interrupted};
use senesce_volume::{AppliedLimits, ClaimedDirectory, MountedTarget, TargetSpec};
use senesce_workload::together::merge;
use senesce_workload::{Bench as Prepared, Execution, FinishedBench, Length, Options, Repetition, Workload};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between the start message and the start, so that it reaches every rank.
const LEAD_TIME: Duration = Duration::from_millis(200);

/// Returns the workload of a subject that ranks can run. Fails with a usage error for subjects of one process, a steady
/// state, and a shared file set that changes.
pub fn accept(subject: &Subject, shared: bool) -> Result<(&Workload, Options), Failure> {
    let Subject::Workload(workload, options) = subject else {
        return Err(Failure::usage(
            "--mpi runs workloads; file-ops, append, random-write and cold-read run on one node",
        ));
    };
    if matches!(options.length, Some(Length::Steady(_))) {
        return Err(Failure::usage("--steady would end each rank at a different time: use --time with --mpi"));
    }
    if let Some(flowop) = Prepared::changes_names(workload).filter(|_| shared) {
        return Err(Failure::usage(format!(
            "flowop {flowop} of {} creates or deletes files: ranks on one file set would interfere with each other; \
             omit --shared, so that every rank has its own file set",
            workload.name
        )));
    }
    Ok((workload, *options))
}

pub(crate) fn accept_spec(spec: &Spec, subject: &Subject) -> Result<(), Failure> {
    accept(subject, spec.is_shared())?;
    match spec.target {
        TargetSpec::Directory(_) => Ok(()),
        _ => Err(Failure::usage(
            "--mpi needs a directory that all ranks can access, on a shared or parallel file system",
        )),
    }
}

/// Runs a workload on all ranks; rank 0 conducts. `None` on other ranks.
pub fn run(
    spec: &Spec,
    seed: Seed,
    how: &Conduct<'_>,
    out: &Path,
    cluster: &Cluster,
) -> Result<Option<Outcome>, Failure> {
    let done = match cluster.is_first() {
        true => lead(spec, seed, how, out, cluster).map(Some),
        false => follow(spec, seed, cluster, how.interrupt).map(|()| None),
    };
    let Err(failure) = done else { return done };
    if cluster.ending().is_none() {
        cluster.fail(&failure);
    }
    // Returns with the end as soon as it is known here.
    match cluster.barrier() {
        Err(ended) if cluster.ending().is_some_and(|ending| ending.rank != cluster.rank()) => Err(ended.into()),
        _ => Err(failure),
    }
}

fn lead(spec: &Spec, seed: Seed, how: &Conduct<'_>, out: &Path, cluster: &Cluster) -> Result<Outcome, Failure> {
    let is_finished = Record::open(out).is_ok_and(|record| !record.is_partial());
    if is_finished {
        cluster.broadcast(Some(&None::<Token>))?;
    }
    let how = Conduct {
        out: Some(out.into()),
        runs: how.runs.clone(),
        again: false,
        erase: how.erase.clone(),
        scale: how.scale,
        only: None,
        progress: how.progress,
        interrupt: how.interrupt,
        peers: Some(cluster),
    };
    conduct::<Bench>(spec, seed, &how)
}

fn follow(spec: &Spec, seed: Seed, cluster: &Cluster, interrupt: &Interrupt) -> Result<(), Failure> {
    let Some(token) = cluster.broadcast::<Option<Token>>(None)? else { return Ok(()) };
    let mut rank = Rank::join(spec, seed, cluster, &token)?;
    while let Some(number) = cluster.broadcast::<Option<u64>>(None)? {
        rank.repetition(number, cluster, &Silent, interrupt)?;
    }
    Ok(())
}

pub struct LeadRank {
    target: MountedTarget,
    rank: Rank,
}

impl LeadRank {
    pub(super) fn begin(spec: &Spec, cluster: &Cluster, context: &mut Context<'_, Bench>) -> Result<Self, Failure> {
        let witness = context.witness()?;
        cluster.on_end(Box::new(move |ending| {
            // The record itself may lie on the failed storage.
            let _ = witness.append("failed", &serde_json::json!({ "step": null, "reason": ending.to_string() }));
        }));
        let target = same_target::open(spec, context)?;
        context.add_environment(&target.environment())?;
        context.record(Event::Members(cluster.members()));
        let token = Token::place(target.directory())?;
        cluster.broadcast(Some(&Some(token.clone())))?;
        let rank = Rank::join(spec, context.seed, cluster, &token)?;
        context.add_environment(rank.limits.environment())?;
        Ok(Self { target, rank })
    }

    pub(super) fn repetition(&mut self, number: u64, context: &mut Context<'_, Bench>) -> Result<(), Failure> {
        let Some(cluster) = Cluster::among(context.peers) else { return Ok(()) };
        cluster.broadcast(Some(&Some(number)))?;
        let done = self.rank.repetition(number, cluster, context.progress, context.interrupt)?;
        context.record_now(Event::Prepared(done.prepared))?;
        done.note.into_iter().for_each(|note| context.caveat(note));
        Prepared::directio_warning(&self.rank.workload).into_iter().for_each(|warning| context.caveat(warning));
        let Some((rows, whole)) = done.whole else { return Ok(()) };
        for (name, histogram) in &whole.histograms {
            context.write_histogram(&format!("{}-{}", rows.repetition, name.replace('/', "_")), histogram)?;
        }
        rows.stragglers().into_iter().for_each(|message| context.caveat(message));
        let is_whole = !whole.repetition.interrupted;
        let events = [Event::Ranks(rows), Event::Repetition(Box::new(whole.repetition))];
        if is_whole {
            events.into_iter().for_each(|event| context.record(event));
            return Ok(());
        }
        events.into_iter().try_for_each(|event| context.record_now(event))?;
        Err(interrupted())
    }

    pub(super) fn end(self, context: &Context<'_, Bench>) -> Result<MountedTarget, Failure> {
        if let Some(cluster) = Cluster::among(context.peers).filter(|cluster| cluster.ending().is_none()) {
            cluster.broadcast(Some(&None::<u64>))?;
        }
        Ok(self.target)
    }
}

struct Rank {
    workload: Workload,
    options: Options,
    shared: bool,
    populate_only: bool,
    keep_caches: bool,
    own: ClaimedDirectory,
    limits: AppliedLimits,
}

struct RankDone {
    prepared: PreparedFacts,
    note: Option<&'static str>,
    whole: Option<(RankRepetitions, FinishedBench)>,
}

impl Rank {
    fn join(spec: &Spec, seed: Seed, cluster: &Cluster, token: &Token) -> Result<Self, Failure> {
        let subject = spec.subject(seed)?;
        let (workload, options) = accept(&subject, spec.is_shared())?;
        token.compare(cluster)?;
        let limits = spec.limits().apply()?;
        let path: PathBuf = match spec.is_shared() {
            true => token.directory().into(),
            false => token.directory().join(format!("rank-{:04}", cluster.rank())),
        };
        Ok(Self {
            workload: workload.clone(),
            options,
            shared: spec.is_shared(),
            populate_only: spec.how.populate_only,
            keep_caches: spec.how.keep_caches,
            own: ClaimedDirectory::claim(&path, None)?,
            limits,
        })
    }

    fn repetition(
        &mut self,
        number: u64,
        cluster: &Cluster,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<RankDone, Failure> {
        let options = of_repetition(self.options, number);
        let together = CoordinatedBench { rank: self, cluster, progress, interrupt };
        let prepared = together.prepare(options)?;
        let populate_seconds = together.longest(prepared.populate_seconds)?;
        let facts = PreparedFacts { filesets: prepared.filesets(), populate_seconds };
        if self.populate_only {
            return Ok(RankDone { prepared: facts, note: None, whole: None });
        }
        let note = together.drop_caches(options)?;
        let moment = together.agree()?;
        moment.wait();
        let begin_seconds = moment.seconds_since();
        let finished = prepared.run(&self.own, progress, interrupt)?;
        let row = RankRepetition {
            rank: cluster.rank(),
            host: cluster.host().to_string(),
            clock_offset_seconds: moment.offset,
            clock_error_seconds: moment.error,
            begin_seconds,
            end_seconds: moment.seconds_since(),
            result: finished.repetition.clone(),
        };
        let rows = cluster.gather(&row)?;
        let parts = together.gather_finished(finished)?;
        let whole = rows.zip(parts).map(|(ranks, parts)| {
            let (rows, mut whole) = (RankRepetitions { repetition: number + 1, ranks }, merge(parts));
            whole.repetition.refute(rows.contradiction(&whole));
            (rows, whole)
        });
        Ok(RankDone { prepared: facts, note, whole })
    }
}

struct CoordinatedBench<'a> {
    rank: &'a Rank,
    cluster: &'a Cluster,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
}

impl CoordinatedBench<'_> {
    fn agree(&self) -> Result<AgreedMoment, Failure> {
        let offsets = self.cluster.clock_offsets()?;
        let stated = (offsets, epoch_seconds() + LEAD_TIME.as_secs_f64());
        let (offsets, at) = self.cluster.broadcast(Some(&stated).filter(|_| self.cluster.is_first()))?;
        let (offset, error) = offsets.get(self.cluster.rank() as usize).copied().unwrap_or_default();
        Ok(AgreedMoment { at, offset, error })
    }

    fn longest(&self, seconds: f64) -> Result<f64, Failure> {
        let all = self.cluster.gather(&seconds)?;
        let most = all.map(|all| all.into_iter().fold(0.0, f64::max));
        Ok(self.cluster.broadcast(most.as_ref())?)
    }

    fn prepare(&self, options: Options) -> Result<Prepared, Failure> {
        let (cluster, Rank { workload, own, .. }) = (self.cluster, self.rank);
        let mine = Options { seed: options.seed.child(&format!("rank/{}", cluster.rank())), ..options };
        if !self.rank.shared {
            return Ok(Prepared::prepare(workload, own, mine, self.progress, self.interrupt)?);
        }
        let mut populate_seconds = 0.0;
        if cluster.is_first() {
            let written = Prepared::prepare(workload, own, options, self.progress, self.interrupt)?;
            populate_seconds = written.populate_seconds;
        }
        cluster.barrier()?;
        let mut prepared = Prepared::adopt(workload, own, mine, options.seed)?;
        prepared.populate_seconds = populate_seconds;
        Ok(prepared)
    }

    /// Makes the caches cold on every host, by its first rank. Returns a caveat if they are not.
    fn drop_caches(&self, options: Options) -> Result<Option<&'static str>, Failure> {
        let Rank { workload, own, .. } = self.rank;
        let members = self.cluster.members();
        let first = members.iter().find(|member| member.host == self.cluster.host()).map(|member| member.rank);
        let note = if options.execution == Execution::Null {
            None
        } else if self.rank.keep_caches {
            Some("caches were kept as the preparation left them (--keep-caches)")
        } else if workload.filesets.iter().any(|fileset| fileset.cached) {
            Some("a file set requests cached files: caches were not dropped")
        } else if !rustix::process::geteuid().is_root() {
            Some("caches were not dropped before the measurement: that needs root")
        } else {
            if first == Some(self.cluster.rank()) {
                rustix::fs::syncfs(own.as_fd()).map_err(|errno| {
                    let message = senesce_core::failure::errno_message(&errno.into());
                    Failure::new(ExitCode::RunFailed, format!("sync {}: {message}", own.path().display()))
                })?;
                senesce_volume::drop_caches()?;
            }
            Some("the target is a directory: caches were dropped on every node, the file system was not remounted")
        };
        self.cluster.barrier()?;
        Ok(note)
    }

    fn gather_finished(&self, finished: FinishedBench) -> Result<Option<Vec<FinishedBench>>, Failure> {
        let unreadable = |what: String| Failure::new(ExitCode::RunFailed, format!("histograms of a rank: {what}"));
        let mut packed: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, histogram) in &finished.histograms {
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(histogram, &mut bytes).map_err(|error| unreadable(error.to_string()))?;
            packed.push((name.clone(), bytes));
        }
        let Some(all) = self.cluster.gather(&(finished.repetition, packed))? else { return Ok(None) };
        let unpack = |(repetition, packed): (Repetition, Vec<(String, Vec<u8>)>)| {
            let histogram = |(name, bytes): (String, Vec<u8>)| {
                let read = Deserializer::new().deserialize(&mut bytes.as_slice());
                Ok((name, read.map_err(|error| unreadable(error.to_string()))?))
            };
            let histograms = packed.into_iter().map(histogram).collect::<Result<_, Failure>>()?;
            Ok(FinishedBench { repetition, histograms })
        };
        all.into_iter().map(unpack).collect::<Result<Vec<_>, Failure>>().map(Some)
    }
}

/// The agreed moment by the clock of rank 0, and this rank's clock offset.
struct AgreedMoment {
    at: f64,
    offset: f64,
    error: f64,
}

impl AgreedMoment {
    fn seconds_since(&self) -> f64 {
        epoch_seconds() - self.offset - self.at
    }

    fn wait(&self) {
        let left = -self.seconds_since();
        if left > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(left));
        }
    }
}
