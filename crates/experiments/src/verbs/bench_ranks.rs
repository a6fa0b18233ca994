//! `bench --mpi`: every rank runs the workload, all begin at one moment, rank 0 merges and records.
//!
//! All ranks take the same steps; what only rank 0 does is marked so.

use crate::shared_directory::{Token, judge};
use crate::verbs::bench::{self, PreparedFacts, Request, Subject};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use senesce_cluster::{Cluster, epoch_seconds};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, ExitCode, Failure, Progress, RunDirectory};
use senesce_target::{ClaimedDirectory, MountedTarget, TargetSpec, open};
use senesce_workload::together::merge;
use senesce_workload::{Bench as Prepared, Execution, Finished, Length, Options, Repetition, Workload};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What one rank did in one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankRepetition {
    /// Its number.
    pub rank: u32,
    /// Its machine.
    pub host: String,
    /// Its clock minus that of rank 0, in seconds.
    pub clock_offset_seconds: f64,
    /// The offset is known to within this.
    pub clock_error_seconds: f64,
    /// When it began, in seconds after the agreed moment, by the clock of rank 0.
    pub begin_seconds: f64,
    /// When it was done, likewise.
    pub end_seconds: f64,
    /// What it measured.
    pub result: Repetition,
}

/// All ranks of one repetition, in the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankRepetitions {
    /// Which repetition, from 1.
    pub repetition: u64,
    /// A row for each rank.
    pub ranks: Vec<RankRepetition>,
}

/// The event of [`RankRepetitions`].
pub const EVENT: &str = "ranks";

/// A rank below this share of the median rate of all ranks is a straggler.
const STRAGGLER: f64 = 0.9;
/// From the last message before a start to the start: every rank must have heard of it.
const LEAD_TIME: Duration = Duration::from_millis(200);

impl RankRepetitions {
    /// The ranks that are slower than the others, in words.
    pub fn stragglers(&self) -> Vec<String> {
        let mut rates: Vec<f64> = self.ranks.iter().map(|row| row.result.ops_per_second).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
        let slow = self.ranks.iter().filter(|row| row.result.ops_per_second < STRAGGLER * median);
        slow.map(|row| {
            let share = row.result.ops_per_second / median * 100.0;
            format!(
                "repetition {}: rank {} on {} reached {share:.0} % of the median rate",
                self.repetition, row.rank, row.host
            )
        })
        .collect()
    }
}

/// What is to be done by all ranks.
pub struct Together<'a> {
    /// The benchmark.
    pub request: &'a Request,
    /// One file set for all ranks instead of one for each.
    pub shared: bool,
    /// The ranks.
    pub cluster: &'a Cluster,
    /// Whom to tell; nobody on other ranks than 0.
    pub progress: &'a dyn Progress,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

/// Runs a workload on all ranks. `None` on other ranks than 0.
pub fn run(together: &Together<'_>) -> Result<Option<bench::Outcome>, Failure> {
    let cluster = together.cluster;
    let done = together.run();
    let Err(failure) = done else { return done };
    if cluster.ending().is_none() {
        cluster.fail(&failure);
    }
    // Comes back with the end as soon as it is known here.
    match cluster.barrier() {
        Err(ended) if cluster.ending().is_some_and(|ending| ending.rank != cluster.rank()) => Err(ended.into()),
        _ => Err(failure),
    }
}

/// On rank 0: the record and the claim of the directory.
struct Lead {
    directory: RunDirectory,
    target: MountedTarget,
}

impl Together<'_> {
    fn run(&self) -> Result<Option<bench::Outcome>, Failure> {
        let cluster = self.cluster;
        let (workload, options) = self.workload()?;
        let mut lead = if cluster.is_first() { self.begin()? } else { None };
        let token = lead.as_ref().map(|lead| Token::place(lead.target.directory())).transpose()?;
        let told = cluster.broadcast(Some(&token).filter(|_| cluster.is_first()))?;
        let Some(told) = told else {
            return if cluster.is_first() { Ok(Some(bench::outcome(self.request)?)) } else { Ok(None) };
        };
        let seen = cluster.gather(&told.is_seen())?;
        if let (Some(lead), Some(seen)) = (&lead, seen) {
            told.remove();
            judge(lead.target.mount_point(), &seen, &cluster.members())?;
        }
        cluster.barrier()?;
        let own = self.place(told.directory())?;
        for number in 0..self.request.repetitions {
            let seed = if number == 0 { options.seed } else { options.seed.child(&format!("repetition/{number}")) };
            let going_on = self.repetition(&workload, Options { seed, ..options }, &own, number, lead.as_mut())?;
            if !cluster.broadcast(Some(&going_on).filter(|_| cluster.is_first()))? {
                break;
            }
        }
        lead.map(|lead| self.end(lead)).transpose()
    }

    fn workload(&self) -> Result<(Workload, Options), Failure> {
        let Subject::Workload(workload, options) = &self.request.subject else {
            return Err(Failure::usage(
                "--mpi runs workloads; file-ops, append, random-write and cold-read run on one node",
            ));
        };
        if !matches!(self.request.target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "--mpi needs a directory that all ranks see, on a shared or parallel file system",
            ));
        }
        if matches!(options.length, Some(Length::Steady(_))) {
            return Err(Failure::usage("--steady would end each rank at another moment: use --time with --mpi"));
        }
        if let Some(flowop) = Prepared::changes_names(workload).filter(|_| self.shared) {
            return Err(Failure::usage(format!(
                "flowop {flowop} of {} creates or deletes files: on one file set the ranks would meet each other's changes; \
                 leave --shared away, and every rank gets a file set of its own",
                workload.name
            )));
        }
        Ok((Workload::clone(workload), *options))
    }

    /// On rank 0: opens record and target; `None` when the run is finished already.
    fn begin(&self) -> Result<Option<Lead>, Failure> {
        let plan = bench::plan(self.request)?;
        let mut directory = RunDirectory::open(&self.request.out, &plan, &Environment::capture())?;
        if directory.is_finished() {
            return Ok(None);
        }
        let mut witness = directory.witness()?;
        self.cluster.on_end(Box::new(move |ending| {
            // The record itself may lie on what is lost.
            let _ = witness.append("failed", &serde_json::json!({ "reason": ending.to_string() }));
        }));
        let target = open(&self.request.target, &self.request.open)?;
        directory.add_environment(&target.environment())?;
        directory.append("members", &self.cluster.members())?;
        Ok(Some(Lead { directory, target }))
    }

    fn end(&self, mut lead: Lead) -> Result<bench::Outcome, Failure> {
        let warnings = lead.target.kernel_warnings();
        if !warnings.is_empty() {
            lead.directory.append("kernel-warnings", &warnings)?;
        }
        lead.target.close()?;
        let outcome = bench::outcome(self.request)?;
        if outcome.exit != ExitCode::Interrupted {
            lead.directory.finish(&outcome.analysis.result)?;
        }
        Ok(outcome)
    }

    /// The directory that this rank works in.
    fn place(&self, top: &Path) -> Result<ClaimedDirectory, Failure> {
        let path: PathBuf = match self.shared {
            true => top.into(),
            false => top.join(format!("rank-{:04}", self.cluster.rank())),
        };
        Ok(ClaimedDirectory::claim(&path, None)?)
    }

    /// One repetition; on rank 0, whether another should follow.
    fn repetition(
        &self,
        workload: &Workload,
        options: Options,
        own: &ClaimedDirectory,
        number: u64,
        mut lead: Option<&mut Lead>,
    ) -> Result<bool, Failure> {
        let cluster = self.cluster;
        let prepared = self.prepare(workload, options, own)?;
        let facts = PreparedFacts { filesets: prepared.filesets(), populate_seconds: prepared.populate_seconds };
        if let Some(lead) = &mut lead {
            lead.directory.append("prepared", &facts)?;
        }
        if self.request.populate_only {
            cluster.barrier()?;
            return Ok(false);
        }
        let note = self.chill(workload, options, own)?;
        if let (Some(lead), Some(note)) = (&mut lead, note) {
            lead.directory.append("note", &serde_json::json!({ "text": note }))?;
        }
        let offsets = cluster.clock_offsets()?;
        let moment = (offsets, epoch_seconds() + LEAD_TIME.as_secs_f64());
        let (offsets, moment) = cluster.broadcast(Some(&moment).filter(|_| cluster.is_first()))?;
        let (offset, error) = offsets.get(cluster.rank() as usize).copied().unwrap_or_default();
        wait_until(moment + offset);
        let begin = epoch_seconds() - offset - moment;
        let finished = prepared.run(own, self.progress, self.interrupt)?;
        let row = RankRepetition {
            rank: cluster.rank(),
            host: cluster.host().to_string(),
            clock_offset_seconds: offset,
            clock_error_seconds: error,
            begin_seconds: begin,
            end_seconds: epoch_seconds() - offset - moment,
            result: finished.repetition.clone(),
        };
        let rows = cluster.gather(&row)?;
        let parts = self.gather_finished(finished)?;
        let (Some(lead), Some(ranks), Some(parts)) = (lead, rows, parts) else { return Ok(false) };
        let Finished { repetition, histograms } = merge(parts);
        for (name, histogram) in &histograms {
            let file = format!("{}-{}", number + 1, name.replace('/', "_"));
            lead.directory.write_histogram(&file, histogram)?;
        }
        let rows = RankRepetitions { repetition: number + 1, ranks };
        for words in rows.stragglers() {
            lead.directory.append("note", &serde_json::json!({ "text": words }))?;
        }
        lead.directory.append(EVENT, &rows)?;
        lead.directory.append("repetition", &repetition)?;
        Ok(!repetition.interrupted)
    }

    /// Writes this rank's file sets, or takes the shared ones after rank 0 has written them.
    fn prepare(&self, workload: &Workload, options: Options, own: &ClaimedDirectory) -> Result<Prepared, Failure> {
        let cluster = self.cluster;
        let mine = Options { seed: options.seed.child(&format!("rank/{}", cluster.rank())), ..options };
        if !self.shared {
            let prepared = Prepared::prepare(workload, own, mine, self.progress, self.interrupt)?;
            cluster.barrier()?;
            return Ok(prepared);
        }
        if cluster.is_first() {
            Prepared::prepare(workload, own, options, self.progress, self.interrupt)?;
        }
        cluster.barrier()?;
        Ok(Prepared::adopt(workload, own, mine, options.seed)?)
    }

    /// On every machine, the first of its ranks makes the caches cold. What a reader must know, if they are not.
    fn chill(&self, workload: &Workload, options: Options, own: &ClaimedDirectory) -> Result<Option<&str>, Failure> {
        let members = self.cluster.members();
        let first = members.iter().find(|member| member.host == self.cluster.host()).map(|member| member.rank);
        let note = if options.execution == Execution::Null {
            None
        } else if self.request.keep_caches {
            Some("caches were kept as the preparation left them (--keep-caches)")
        } else if workload.filesets.iter().any(|fileset| fileset.cached) {
            Some("a file set asks for cached files: caches were not dropped")
        } else if !rustix::process::geteuid().is_root() {
            Some("measured without dropping the caches before: that needs root")
        } else {
            if first == Some(self.cluster.rank()) {
                rustix::fs::syncfs(own.as_fd()).map_err(|errno| {
                    let words = senesce_core::failure::errno_words(&errno.into());
                    Failure::new(ExitCode::RunFailed, format!("sync {}: {words}", own.path().display()))
                })?;
                senesce_target::drop_caches()?;
            }
            Some("the target is a directory: caches were dropped on every node, the file system was not remounted")
        };
        self.cluster.barrier()?;
        Ok(note)
    }

    /// Results and histograms of all ranks to rank 0.
    fn gather_finished(&self, finished: Finished) -> Result<Option<Vec<Finished>>, Failure> {
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
            Ok(Finished { repetition, histograms })
        };
        all.into_iter().map(unpack).collect::<Result<Vec<_>, Failure>>().map(Some)
    }
}

fn wait_until(epoch: f64) {
    let left = epoch - epoch_seconds();
    if left > 0.0 {
        std::thread::sleep(Duration::from_secs_f64(left));
    }
}
