//! `bench --mpi`: every rank runs the workload, all begin at one moment, rank 0 merges and records.
//!
//! All ranks take the same steps; what only rank 0 does is marked so.

use crate::shared_directory::Token;
use crate::verbs::bench::{self, PreparedFacts, Request, Subject};
use crate::verbs::bench_plan::{of_repetition, repetitions_done};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use senesce_cluster::{Cluster, epoch_seconds};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Environment, ExitCode, Failure, Plan, Progress, RunDirectory};
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
    /// The benchmark of [`Request::ranks`].
    pub request: &'a Request,
    /// The ranks.
    pub cluster: &'a Cluster,
    /// Whom to tell; nobody on other ranks than 0.
    pub progress: &'a dyn Progress,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

/// What can be measured by ranks: the workload of a subject. The others are refused.
pub fn accept(subject: &Subject, shared: bool) -> Result<(&Workload, Options), Failure> {
    let Subject::Workload(workload, options) = subject else {
        return Err(Failure::usage(
            "--mpi runs workloads; file-ops, append, random-write and cold-read run on one node",
        ));
    };
    if matches!(options.length, Some(Length::Steady(_))) {
        return Err(Failure::usage("--steady would end each rank at another moment: use --time with --mpi"));
    }
    if let Some(flowop) = Prepared::changes_names(workload).filter(|_| shared) {
        return Err(Failure::usage(format!(
            "flowop {flowop} of {} creates or deletes files: on one file set the ranks would meet each other's changes; \
             leave --shared away, and every rank gets a file set of its own",
            workload.name
        )));
    }
    Ok((workload, *options))
}

/// The plan of a request by ranks, or why it is refused.
pub fn plan(request: &Request) -> Result<Plan, Failure> {
    accept(&request.subject, request.ranks.is_some_and(|ranks| ranks.shared))?;
    if !matches!(request.target, TargetSpec::Directory(_)) {
        return Err(Failure::usage("--mpi needs a directory that all ranks see, on a shared or parallel file system"));
    }
    bench::plan(request)
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

impl Lead {
    /// What all ranks must know: a token in the directory, and how many repetitions are measured already.
    fn start(&self) -> Result<(Token, u64), Failure> {
        Ok((Token::place(self.target.directory())?, repetitions_done(&self.directory, "repetition")))
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.directory.append("note", &serde_json::json!({ "text": text }))?)
    }

    /// Records a repetition of all ranks; whether another should follow.
    fn record(&mut self, rows: RankRepetitions, whole: Finished) -> Result<bool, Failure> {
        for (name, histogram) in &whole.histograms {
            let file = format!("{}-{}", rows.repetition, name.replace('/', "_"));
            self.directory.write_histogram(&file, histogram)?;
        }
        for words in rows.stragglers() {
            self.note(&words)?;
        }
        self.directory.append(EVENT, &rows)?;
        self.directory.append("repetition", &whole.repetition)?;
        Ok(!whole.repetition.interrupted)
    }
}

impl Together<'_> {
    fn run(&self) -> Result<Option<bench::Outcome>, Failure> {
        let cluster = self.cluster;
        let plan = plan(self.request)?;
        let (workload, options) = accept(&self.request.subject, self.shared())?;
        let mut lead = if cluster.is_first() { self.begin(&plan)? } else { None };
        let start = lead.as_ref().map(Lead::start).transpose()?;
        let start = cluster.broadcast(Some(&start).filter(|_| cluster.is_first()))?;
        let Some((token, done)) = start else {
            return if cluster.is_first() { Ok(Some(bench::outcome(self.request)?)) } else { Ok(None) };
        };
        token.compare(cluster)?;
        let limits = self.request.limits.apply()?;
        if let Some(lead) = &lead {
            lead.directory.add_environment(limits.environment())?;
        }
        let own = self.place(token.directory())?;
        for number in done..self.request.repetitions {
            let going_on = self.repetition(workload, of_repetition(options, number), &own, number, lead.as_mut())?;
            if !cluster.broadcast(Some(&going_on).filter(|_| cluster.is_first()))? {
                break;
            }
        }
        lead.map(|lead| self.end(lead)).transpose()
    }

    fn shared(&self) -> bool {
        self.request.ranks.is_some_and(|ranks| ranks.shared)
    }

    /// On rank 0: opens record and target; `None` when the run is finished already.
    fn begin(&self, plan: &Plan) -> Result<Option<Lead>, Failure> {
        let mut directory = RunDirectory::open(&self.request.out, plan, &Environment::capture())?;
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
        let path: PathBuf = match self.shared() {
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
        let prepared = self.prepare(workload, options, own)?;
        let populate_seconds = self.longest(prepared.populate_seconds)?;
        if let Some(lead) = &mut lead {
            let facts = PreparedFacts { filesets: prepared.filesets(), populate_seconds };
            lead.directory.append("prepared", &facts)?;
        }
        if self.request.populate_only {
            return Ok(false);
        }
        let note = self.chill(workload, options, own)?;
        if let (Some(lead), Some(note)) = (&mut lead, note) {
            lead.note(note)?;
        }
        let moment = self.agree()?;
        moment.wait();
        let begin_seconds = moment.seconds_since();
        let finished = prepared.run(own, self.progress, self.interrupt)?;
        let row = RankRepetition {
            rank: self.cluster.rank(),
            host: self.cluster.host().to_string(),
            clock_offset_seconds: moment.offset,
            clock_error_seconds: moment.error,
            begin_seconds,
            end_seconds: moment.seconds_since(),
            result: finished.repetition.clone(),
        };
        let rows = self.cluster.gather(&row)?;
        let parts = self.gather_finished(finished)?;
        let (Some(lead), Some(ranks), Some(parts)) = (lead, rows, parts) else { return Ok(false) };
        lead.record(RankRepetitions { repetition: number + 1, ranks }, merge(parts))
    }

    /// The moment at which all ranks begin.
    fn agree(&self) -> Result<Moment, Failure> {
        let offsets = self.cluster.clock_offsets()?;
        let told = (offsets, epoch_seconds() + LEAD_TIME.as_secs_f64());
        let (offsets, at) = self.cluster.broadcast(Some(&told).filter(|_| self.cluster.is_first()))?;
        let (offset, error) = offsets.get(self.cluster.rank() as usize).copied().unwrap_or_default();
        Ok(Moment { at, offset, error })
    }

    /// The greatest value of all ranks, known to all: each waits for the others.
    fn longest(&self, seconds: f64) -> Result<f64, Failure> {
        let all = self.cluster.gather(&seconds)?;
        let most = all.map(|all| all.into_iter().fold(0.0, f64::max));
        Ok(self.cluster.broadcast(most.as_ref())?)
    }

    /// Writes this rank's file sets, or takes the shared ones after rank 0 has written them.
    fn prepare(&self, workload: &Workload, options: Options, own: &ClaimedDirectory) -> Result<Prepared, Failure> {
        let cluster = self.cluster;
        let mine = Options { seed: options.seed.child(&format!("rank/{}", cluster.rank())), ..options };
        if !self.shared() {
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

/// The agreed moment, by the clock of rank 0, and what the clock of this rank is to that.
struct Moment {
    at: f64,
    offset: f64,
    error: f64,
}

impl Moment {
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
