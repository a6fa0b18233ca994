//! Events in the record of an aging.

use super::copies::Copies;
use super::extended_spec::ExtendedSpec;
use super::own_target::RecordedTarget;
use super::spec::{AgeSpec, Limits};
use senesce_aging::measure::Measures;
use senesce_aging::{ChangeCounts, Reconciliation, Summary};
use senesce_cluster::Member;
use senesce_core::Figure;
use senesce_core::heartbeat::LostTime;
use senesce_diagnose::reading::ReadTimes;
use senesce_layout::LayoutSummary;
use senesce_runs::bench::MeasuredColdRead;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The specification from here on: the run started again under other limits.
    Spec(Box<AgeSpec>),
    /// New limits for a run that had executed some operations.
    Replanned(Replanned),
    /// The plan continues from here with this time limit.
    TimeLimit(TimeLimit),
    /// The participating ranks.
    Ranks(Vec<Member>),
    /// The plan was rehearsed without a target.
    Rehearsal(Box<Rehearsal>),
    /// The target that the run made, or its new path.
    Target(RecordedTarget),
    /// From here on a continued run may write to its target.
    Continued,
    /// Files that differed from the checkpoint after an interruption.
    Reconciled(Reconciliation),
    /// The state at one time.
    Sample(Sample),
    /// The extents of the live files at one time.
    Extents(ExtentSample),
    /// Every operation below this one is done.
    Checkpoint(Checkpoint),
    /// The execution ended.
    Executed(Box<ExecutionEnd>),
    /// The layout at the end of the execution.
    Layout(Box<ExaminedLayout>),
    /// A cold read of all files from the target.
    MeasuredRead(Box<MeasuredColdRead>),
    /// Copies of the files on new file systems, and the times to read them.
    Copies(Box<Copies>),
    /// A warning of the kernel about the target.
    KernelWarning(String),
    /// The target was closed after this number of operations.
    Closed(u64),
}

impl Event {
    /// Returns whether it precedes all work on the target.
    pub(crate) fn prepares(&self) -> bool {
        matches!(self, Self::Spec(_) | Self::Ranks(_) | Self::Rehearsal(_) | Self::Target(_))
    }
}

/// The plan rehearsed without a target: the predicted end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The plan in numbers.
    pub summary: Summary,
    /// The limit that ends the plan unless it stops earlier: `convergence`, `overwrites`, `operations`, `confidence`.
    #[serde(default)]
    pub ends_by: String,
    /// Processor seconds for planning all operations.
    pub plan_cpu_seconds: f64,
    /// Operations planned per processor second.
    pub plan_ops_per_cpu_second: f64,
    /// Measures at the end of the plan.
    pub measures: Measures,
    /// Digest of the namespace at the end of the plan.
    pub namespace_sha256: String,
    /// Digests of the parts; empty for an undivided plan.
    #[serde(default)]
    pub part_sha256: Vec<String>,
    /// Positions of all parts: the number of parts times the operations of the longest.
    #[serde(default)]
    pub positions: u64,
    /// The rehearsed specification and limits.
    #[serde(default)]
    pub course: Option<ExtendedSpec>,
}

/// The state at one time of the execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// Operations issued so far.
    pub operations: u64,
    /// Seconds of execution, including earlier parts of the run.
    pub seconds: f64,
    /// Allocated bytes of live files over the capacity.
    pub fullness: f64,
    /// Bytes created over the capacity.
    pub overwrites: f64,
    /// Largest RMSE of the three histograms, if it was computed at this time.
    pub distance: Option<f64>,
}

/// The extents of the live files at one time of the execution. Data still awaiting allocation have none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExtentSample {
    /// Operations done.
    pub operations: u64,
    /// Bytes created over the capacity.
    pub overwrites: f64,
    /// Regular files, with the marker of the directory.
    pub files: u64,
    /// Extents of these files.
    pub extents: u64,
}

/// Every operation below this one is done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Checkpoint {
    /// First operation that is not covered.
    pub operation: u64,
    /// Seconds of execution, including earlier parts of the run.
    pub seconds: f64,
}

/// New limits for a run that had executed some operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replanned {
    /// Operations done when the limits changed.
    pub operation: u64,
    /// New limits.
    pub limits: Limits,
}

/// Time limit of each later start of the run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TimeLimit {
    /// Seconds of planning, restoring and execution; `None`: no limit.
    pub max_seconds: Option<f64>,
}

/// The end of the execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecutionEnd {
    /// `convergence`, `overwrites`, `operations`, `confidence`, `extents-settle`, `time` or `interrupt`.
    pub stopped_by: String,
    /// Seconds of execution, including earlier parts of the run.
    pub execute_seconds: f64,
    /// Operations over seconds of execution, for all parts of the run; with `--shard` only operations in its directories.
    pub ops_per_second: f64,
    /// CPU seconds (user, system) of this process, or of all ranks, in the last part of the run.
    pub cpu_seconds: (f64, f64),
    /// Commits of the file system in this execution beyond those of the clock and of fsync: its own timer, a full journal, or
    /// sync(2) by any process. `None` if it does not count commits, or several ranks ran.
    #[serde(default)]
    pub unasked_commits: Option<u64>,
    /// Changes of files in this execution, as counted by the executor; those of the plan so far are in `measures`. `None`:
    /// several ranks ran, each of which compared both counts itself.
    #[serde(default)]
    pub changes: Option<ChangeCounts>,
    /// Estimate of the execution in seconds, from the first second after the fill; `None` if the execution ended earlier.
    #[serde(default)]
    pub estimated_seconds: Option<f64>,
    /// Time that this execution lost, if it is too much: then its speed is invalid. The aged state is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostTime>,
    /// Executed in virtual time without a pace: work takes no time, so seconds and rates are undefined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_timeless: bool,
    /// Peak memory of this process, or the maximum over the ranks.
    pub peak_rss_bytes: u64,
    /// The participating ranks; empty for a single process.
    #[serde(default)]
    pub ranks: Vec<RankRow>,
    /// Maximum number of operations by which one rank may be ahead of another; 0 for a single process.
    #[serde(default)]
    pub window: u64,
    /// Measures at the end.
    pub measures: Measures,
    /// Digest of the namespace at the end.
    pub namespace_sha256: String,
    /// Digests of the parts; empty for an undivided plan.
    #[serde(default)]
    pub part_sha256: Vec<String>,
}

impl ExecutionEnd {
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(&*self.stopped_by, "interrupt" | "time")
    }

    /// Returns whether its seconds and rates are defined and valid.
    pub(crate) fn is_timed(&self) -> bool {
        self.untimed_reason().is_none()
    }

    pub(crate) fn untimed_reason(&self) -> Option<String> {
        let timeless = self.is_timeless.then(|| "virtual time without a pace".to_string());
        self.lost.map(|lost| lost.to_string()).or(timeless)
    }

    pub(crate) fn has_settled(&self) -> bool {
        self.stopped_by == "extents-settle"
    }

    /// Returns a contradiction between the values, in words: the rate must follow from operations and seconds.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let (stated, rate) = (self.ops_per_second, self.measures.operations as f64 / self.execute_seconds.max(1e-9));
        let is_equal = (stated - rate).abs() <= 1e-6 * rate.abs();
        (!is_equal).then(|| format!("ops_per_second is {stated}, and {rate} follows from operations and seconds"))
    }
}

/// The work of one of several ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankRow {
    /// Number of the rank.
    pub rank: u32,
    /// Name of its machine.
    pub host: String,
    /// Operations executed by this rank.
    pub operations: u64,
    /// Seconds from its first operation to its last one.
    pub seconds: f64,
    /// Seconds of these spent waiting for other ranks.
    pub waited_seconds: f64,
    /// CPU seconds in this time: user, system.
    pub cpu_seconds: (f64, f64),
    /// Number of waits for deletes of other ranks because the file system was full.
    pub stalls: u64,
    /// Peak memory of its process.
    pub peak_rss_bytes: u64,
}

/// The layout after the execution, before the unmount.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExaminedLayout {
    /// The layout, or `null` with the reason in `problem`.
    pub layout: Option<LayoutSummary>,
    /// The reason for a missing layout.
    pub problem: String,
    /// Digest of all extents of all files.
    #[serde(default)]
    pub digest: Option<String>,
    /// Modelled times of reading all files on the reference drives; empty if the files have no written data.
    #[serde(default)]
    pub read_times: Vec<ModelledRead>,
    /// The files on the volume, with a modelled unaged reference above them. `None`: no file has data, or the copies have the
    /// map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<Figure>,
}

/// Modelled time of reading every file once, in path order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelledRead {
    /// Model of the drive.
    pub drive: String,
    /// Seconds, for the files at their addresses and in the reference layouts.
    #[serde(flatten)]
    pub times: ReadTimes,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use senesce_aging::{AgingPlan, Limit, PlanSpec, Profile, Truncate};
    use senesce_core::{Bytes, Seed};
    use std::sync::Arc;

    pub(crate) fn executed(stopped_by: &str, unasked_commits: u64) -> Event {
        let spec = PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(24), Seed(1));
        let spec = PlanSpec { truncate: Truncate::Drop, limit: Limit::Operations(3000), ..spec };
        let mut planner = Arc::new(AgingPlan::new(&spec).unwrap()).operations();
        planner.skip_to(u64::MAX);
        Event::Executed(Box::new(ExecutionEnd {
            stopped_by: stopped_by.into(),
            execute_seconds: 1.0,
            ops_per_second: 1.0,
            cpu_seconds: (0.0, 0.0),
            unasked_commits: Some(unasked_commits),
            changes: None,
            estimated_seconds: None,
            lost: None,
            is_timeless: false,
            peak_rss_bytes: 0,
            ranks: Vec::new(),
            window: 0,
            measures: planner.measures(),
            namespace_sha256: String::new(),
            part_sha256: Vec::new(),
        }))
    }
}
