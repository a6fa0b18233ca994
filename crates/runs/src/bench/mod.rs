//! `bench`: workloads, microbenchmarks and cold reads on any target, with a record of every repetition.

mod analysis;
mod consistency;
mod measurements;
mod plan;
mod rank_repetitions;
pub mod ranks;
pub mod results;
mod same_target;
pub mod spec;

pub(crate) use results::Results;
pub use spec::{Ranks, Spec, Subject, workload_text};

use crate::cold::{self, ColdAccount, NotCold};
use crate::trace::Summary;
use crate::tree::Tree;
use ranks::RankRepetitions;
use senesce_cluster::{Cluster, Member};
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Measurement, Plan, Seed};
use senesce_runner::{Context, Contradiction, Planned, Recorded, Run, Special, interrupted};
use senesce_volume::{AppliedLimits, ClaimedDirectory, MountedTarget, Remounted, TargetIdentity, TraceSession};
use senesce_workload::micro::{CallResult, ColdRead, FileOpsResult, file_ops, measure_calls};
use senesce_workload::{Bench as Prepared, Execution, FilesetSummary, FinishedBench, Options, Repetition, Workload};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A cold read with its requests, if recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredColdRead {
    /// Amount and duration of the read.
    #[serde(flatten)]
    pub read: ColdRead,
    /// Counters of the device; none in records of earlier versions.
    #[serde(default)]
    pub account: Option<ColdAccount>,
    /// Why it is invalid, if it is.
    #[serde(default)]
    pub invalid: Option<String>,
    /// Layout, load and modelled time of the requests; the trace itself is the file `trace-N.blocks` of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Summary>,
}

impl MeasuredColdRead {
    pub fn counts(&self) -> bool {
        self.invalid.is_none() && !self.read.interrupted
    }
}

/// Facts of a prepared repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreparedFacts {
    /// File sets.
    pub filesets: Vec<FilesetSummary>,
    /// Seconds to write them.
    pub populate_seconds: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The target before the first repetition.
    Target(TargetIdentity),
    /// File sets were written.
    Prepared(PreparedFacts),
    /// A repetition of a workload.
    Repetition(Box<Repetition>),
    /// A repetition of `file-ops`.
    FileOps(FileOpsResult),
    /// A repetition of `append` or `random-write`.
    Calls(CallResult),
    /// A repetition of `cold-read`.
    ColdRead(Box<MeasuredColdRead>),
    /// Kernel messages about the target.
    KernelWarnings(Vec<String>),
    /// The ranks of the run.
    Members(Vec<Member>),
    /// The result of each rank.
    Ranks(RankRepetitions),
}

pub enum Bench {
    Alone(Box<MountedTarget<ClaimedDirectory>>, AppliedLimits),
    Together(Box<ranks::LeadRank>),
}

impl Run for Bench {
    const KIND: &'static str = "bench";
    const SPECIAL: Special<Self> = Special { prepares: |event| matches!(event, Event::Target(_)), ..Special::NONE };
    type Spec = Spec;
    type Event = Event;
    type Step = u64;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<u64>>, Failure> {
        plan::steps(spec, seed)
    }

    fn plan(spec: &Spec, seed: Seed) -> Result<Plan, Failure> {
        plan::describe(spec, seed)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        if let Some(cluster) = Cluster::among(context.peers) {
            return Ok(Self::Together(Box::new(ranks::LeadRank::begin(spec, cluster, context)?)));
        }
        let limits = spec.limits().apply()?;
        let target = same_target::open(spec, context)?;
        context.add_environment(limits.environment())?;
        context.add_environment(&target.environment())?;
        Ok(Self::Alone(Box::new(target), limits))
    }

    fn step(&mut self, spec: &Spec, number: &u64, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match self {
            Self::Alone(target, _) => SingleRankBench { spec, target, context }.repetition(*number),
            Self::Together(lead) => lead.repetition(*number, context),
        }
    }

    fn end(self, _spec: &Spec, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let target = match self {
            Self::Alone(target, _) => *target,
            Self::Together(lead) => lead.end(context)?,
        };
        let warnings = target.kernel_warnings();
        if !warnings.is_empty() {
            context.record(Event::KernelWarnings(warnings));
        }
        target.kernel_log_caveat().into_iter().for_each(|message| context.caveat(message));
        Ok(target.close()?)
    }

    fn check(spec: &Spec, recorded: &Recorded<Self>, is_partial: bool) -> Result<(), Contradiction> {
        consistency::check(spec, recorded, is_partial)
    }

    fn check_files(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Option<Contradiction>, Failure> {
        consistency::check_histograms(recorded)
    }

    fn exit_code(spec: &Spec, recorded: &Recorded<Self>) -> ExitCode {
        Results::of(spec, recorded).exit_code()
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(&spec.target.to_string(), &Results::of(spec, recorded)))
    }

    fn measurements(spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        measurements::of(spec, &Results::of(spec, recorded))
    }
}

struct SingleRankBench<'a, 'b> {
    spec: &'a Spec,
    target: &'a mut MountedTarget<ClaimedDirectory>,
    context: &'a mut Context<'b, Bench>,
}

impl SingleRankBench<'_, '_> {
    fn repetition(&mut self, number: u64) -> Result<(), Failure> {
        match self.spec.subject(self.context.seed)? {
            Subject::Workload(workload, options) => {
                self.workload(&workload, plan::of_repetition(options, number), number)
            }
            Subject::FileOps(options) => {
                let (progress, interrupt) = (self.context.progress, self.context.interrupt);
                let result = file_ops(self.target.directory(), &options, progress, interrupt)?;
                self.context.check_interrupt()?;
                self.keep(Event::FileOps(result), true)
            }
            Subject::Calls(options) => {
                self.drop_caches(true)?;
                let (progress, interrupt) = (self.context.progress, self.context.interrupt);
                let result = measure_calls(self.target.directory(), &options, progress, interrupt)?;
                self.context.check_interrupt()?;
                self.keep(Event::Calls(result), true)
            }
            Subject::ColdRead => self.cold_read(number),
        }
    }

    /// Records a result. An interrupted one is not a repetition, but keeps its partial values.
    fn keep(&mut self, event: Event, is_whole: bool) -> Result<(), Failure> {
        if is_whole {
            self.context.record(event);
            return Ok(());
        }
        self.context.record_now(event)?;
        Err(interrupted())
    }

    fn workload(&mut self, workload: &Workload, options: Options, number: u64) -> Result<(), Failure> {
        let (progress, interrupt) = (self.context.progress, self.context.interrupt);
        if let Some(warning) = Prepared::directio_warning(workload) {
            if number == 0 {
                progress.say(&format!("warning: {warning}"));
            }
            self.context.caveat(warning);
        }
        let prepared = Prepared::prepare(workload, self.target.directory(), options, progress, interrupt)?;
        let facts = PreparedFacts { filesets: prepared.filesets(), populate_seconds: prepared.populate_seconds };
        self.context.record_now(Event::Prepared(facts))?;
        if self.spec.how.populate_only {
            return Ok(self.target.sync()?);
        }
        if options.execution == Execution::System {
            self.drop_caches(workload.filesets.iter().all(|fileset| !fileset.cached))?;
        }
        let FinishedBench { repetition, histograms } = prepared.run(self.target.directory(), progress, interrupt)?;
        for (name, histogram) in &histograms {
            let file = format!("{}-{}", number + 1, name.replace('/', "_"));
            self.context.write_histogram(&file, histogram)?;
        }
        let is_whole = !repetition.interrupted;
        self.keep(Event::Repetition(Box::new(repetition)), is_whole)
    }

    fn drop_caches(&mut self, wanted: bool) -> Result<(), Failure> {
        if self.spec.how.keep_caches {
            self.context.caveat("caches were kept as the preparation left them (--keep-caches)");
        } else if !wanted {
            self.context.caveat("a file set requests cached files: caches were not dropped");
        } else if !rustix::process::geteuid().is_root() {
            self.target.sync()?;
            self.context.caveat("caches were not dropped before the measurement: that needs root");
        } else if self.target.remount()? == Remounted::CachesDropped {
            let message = "the target is a directory: caches were dropped, the file system was not remounted";
            self.context.caveat(message);
        } else if let Some(cached) = self.target.cached_of_image().filter(|cached| *cached > Bytes::mib(1)) {
            self.context.caveat(format!(
                "measured with {cached} of the image file in the page cache, where another process keeps it: not cold"
            ));
        }
        Ok(())
    }

    fn cold_read(&mut self, number: u64) -> Result<(), Failure> {
        let how = &self.spec.how;
        self.drop_caches(true)?;
        if !how.keep_caches && !rustix::process::geteuid().is_root() {
            let root = self.target.mount_point();
            Tree::below(root)?.forget(root)?;
        }
        if let Some(read_ahead) = how.read_ahead {
            let files = self.target.set_read_ahead(read_ahead.kib)?;
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            self.context.caveat(format!("read-ahead was {} KiB ({})", read_ahead.kib, files.join(", ")));
        }
        self.settle(how.settle.0);
        let session = if how.trace { Some(self.trace()?) } else { None };
        let (progress, interrupt) = (self.context.progress, self.context.interrupt);
        let (read, account) = cold::read(self.target, self.target.mount_point(), progress, interrupt)?;
        let trace = session.map(TraceSession::stop).transpose()?;
        let judged = match how.keep_caches || read.interrupted {
            true => Ok(None),
            false => account.judge(&read),
        };
        let judged = judged.and_then(|message| match &trace {
            Some(trace) => account.judge_trace(trace).map(|()| message),
            None => Ok(message),
        });
        if let Ok(Some(message)) = judged {
            self.context.caveat(message);
        }
        let invalid = judged.err().map(|reason: NotCold| reason.to_string());
        if let Some(trace) = &trace {
            trace.save(&self.context.path().join(format!("trace-{}.blocks", number + 1)))?;
        }
        let is_whole = !read.interrupted;
        let trace = trace.as_ref().map(Summary::of).transpose()?;
        let measured = MeasuredColdRead { read, account: Some(account), invalid, trace };
        self.keep(Event::ColdRead(Box::new(measured)), is_whole)
    }

    fn settle(&self, time: Duration) {
        let end = Instant::now() + time;
        self.context.progress.phase("settling", time.as_secs(), "seconds");
        while Instant::now() < end && !self.context.interrupt.requested() {
            std::thread::sleep((end - Instant::now()).min(Duration::from_millis(100)));
        }
    }

    fn trace(&self) -> Result<TraceSession, Failure> {
        let device = self.target.block_device_info().ok_or_else(|| {
            let message = format!("{} is not on a block device: trace an image or a device", self.spec.target);
            Failure::new(ExitCode::Missing, message)
        })?;
        Ok(TraceSession::start(&device)?)
    }
}
