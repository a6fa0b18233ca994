//! What an aging leaves in its record.

use super::course::Course;
use super::spec::{AgeSpec, Limits};
use senesce_aging::measure::Measures;
use senesce_aging::{ChangeCounts, Reconciled, Summary};
use senesce_cluster::Member;
use senesce_core::heartbeat::Lost;
use senesce_layout::LayoutSummary;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The specification that holds from here on: the run began anew under other limits.
    Spec(Box<AgeSpec>),
    /// New limits for a run that had reached some operation.
    Replanned(Replanned),
    /// The plan is played on, from here with this time limit.
    TimeLimit(TimeLimit),
    /// The ranks that take part.
    Ranks(Vec<Member>),
    /// The plan was played without a target.
    Rehearsal(Box<Rehearsal>),
    /// Files that were not as the checkpoint says, after an interruption.
    Reconciled(Reconciled),
    /// The state at one moment.
    Sample(Sample),
    /// Every operation below one is done.
    Checkpoint(Checkpoint),
    /// The execution ended.
    Executed(Box<Executed>),
    /// The layout after it.
    Layout(Box<LayoutSeen>),
    /// A warning of the kernel about the target.
    KernelWarning(String),
    /// The target was closed after so many operations.
    Closed(u64),
}

/// The plan played without a target: what the end will look like.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The plan in numbers.
    pub summary: Summary,
    /// What ends the plan when nothing ends it earlier: `convergence`, `overwrites`, `operations`, `confidence`.
    #[serde(default)]
    pub ends_by: String,
    /// Processor seconds for planning all operations.
    pub plan_cpu_seconds: f64,
    /// Operations planned per processor second.
    pub plan_ops_per_cpu_second: f64,
    /// The measures at its end.
    pub measures: Measures,
    /// Digest of the namespace at its end.
    pub namespace_sha256: String,
    /// Digests of the parts; empty where there is one.
    #[serde(default)]
    pub part_sha256: Vec<String>,
    /// Positions of all parts: their number times the operations of the longest.
    #[serde(default)]
    pub positions: u64,
    /// What was rehearsed.
    #[serde(default)]
    pub course: Option<Course>,
}

/// The state at one moment of the execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    /// Operations handed out so far.
    pub operations: u64,
    /// Seconds of execution, earlier parts included.
    pub seconds: f64,
    /// Allocated bytes of live files over the capacity.
    pub fullness: f64,
    /// Bytes created over the capacity.
    pub overwrites: f64,
    /// Largest RMSE of the three histograms at this moment, where it was taken.
    pub distance: Option<f64>,
}

/// Every operation below this one is done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The operation.
    pub operation: u64,
    /// Seconds of execution, earlier parts included.
    pub seconds: f64,
}

/// New limits for a run that had reached some operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replanned {
    /// Operations done when the run was planned anew.
    pub operation: u64,
    /// The limits from then on.
    pub limits: Limits,
}

/// How long each start of a run may take from then on.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TimeLimit {
    /// Seconds of planning, restoring and execution; `None`: to the end of the plan.
    pub max_seconds: Option<f64>,
}

/// The end of the execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Executed {
    /// `convergence`, `overwrites`, `operations`, `confidence`, `time` or `interrupt`.
    pub stopped_by: String,
    /// Seconds of execution, all parts of the run.
    pub execute_seconds: f64,
    /// Operations done over the seconds of execution, of all parts of the run; of a shard those of its directories.
    pub ops_per_second: f64,
    /// Processor seconds of this process, or of all ranks, in the last part of the run: user, system.
    pub cpu_seconds: (f64, f64),
    /// Commits of the file system that neither the clock nor an fsync of this run asked for, in this execution: its own timer, a full
    /// journal, or sync(2) by anybody. `None` where it does not count them, or several ranks play.
    #[serde(default)]
    pub unasked_commits: Option<u64>,
    /// Changes of files in this execution, counted after each; those of the plan so far are in `measures`. `None`: several ranks
    /// played, each of which compared the two for itself.
    #[serde(default)]
    pub changes: Option<ChangeCounts>,
    /// What the execution was to take, in seconds, from a second of it after the fill; `None` where it was over sooner.
    #[serde(default)]
    pub estimated_seconds: Option<f64>,
    /// Time that this execution lost, if that is too much: then its speed does not count. The aged state does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
    /// Most memory of this process, or of the rank with most.
    pub peak_rss_bytes: u64,
    /// The ranks that took part; empty for one process.
    #[serde(default)]
    pub ranks: Vec<RankRow>,
    /// Operations by which ranks may drift apart; 0 for one process.
    #[serde(default)]
    pub window: u64,
    /// The measures at this moment.
    pub measures: Measures,
    /// Digest of the namespace at this moment.
    pub namespace_sha256: String,
    /// Digests of the parts; empty where there is one.
    #[serde(default)]
    pub part_sha256: Vec<String>,
}

impl Executed {
    /// Whether it came to the end of its plan.
    pub fn is_whole(&self) -> bool {
        !matches!(&*self.stopped_by, "interrupt" | "time")
    }

    /// What in it contradicts itself, in words: of the whole plan, the rate follows from operations and seconds.
    pub fn contradiction(&self) -> Option<String> {
        let (stated, rate) = (self.ops_per_second, self.measures.operations as f64 / self.execute_seconds.max(1e-9));
        let is_equal = (stated - rate).abs() <= 1e-6 * rate.abs();
        (!is_equal).then(|| format!("ops_per_second is {stated}, and {rate} follows from operations and seconds"))
    }
}

/// What one of several ranks did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankRow {
    /// Its number.
    pub rank: u32,
    /// Its machine.
    pub host: String,
    /// Operations that it executed.
    pub operations: u64,
    /// Seconds from its first operation to its last.
    pub seconds: f64,
    /// Seconds of these that it waited for other ranks.
    pub waited_seconds: f64,
    /// Processor seconds meanwhile: user, system.
    pub cpu_seconds: (f64, f64),
    /// How often a full file system made it wait for deletes of others.
    pub stalls: u64,
    /// Most memory of its process.
    pub peak_rss_bytes: u64,
}

/// The layout after the execution, before the unmount.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayoutSeen {
    /// What was seen, unless `problem` says why not.
    pub layout: Option<LayoutSummary>,
    /// Why there is no layout.
    pub problem: String,
    /// What reading all files takes on the reference drives; none where the files have no written data.
    #[serde(default)]
    pub read_times: Vec<ModelledRead>,
}

/// Modelled time of reading every file once, in the order of the directories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelledRead {
    /// Name of the drive's model.
    pub drive: String,
    /// Seconds.
    pub seconds: f64,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use senesce_aging::{AgingPlan, Limit, PlanSpec, Profile, Truncate};
    use senesce_core::{Bytes, Seed};
    use std::sync::Arc;

    pub fn executed(stopped_by: &str, unasked_commits: u64) -> Event {
        let spec = PlanSpec::new(Profile::builtin("agrawal").unwrap(), Bytes::mib(24), Seed(1));
        let spec = PlanSpec { truncate: Truncate::Drop, limit: Limit::Operations(3000), ..spec };
        let mut planner = Arc::new(AgingPlan::new(&spec).unwrap()).operations();
        planner.skip_to(u64::MAX);
        Event::Executed(Box::new(Executed {
            stopped_by: stopped_by.into(),
            execute_seconds: 1.0,
            ops_per_second: 1.0,
            cpu_seconds: (0.0, 0.0),
            unasked_commits: Some(unasked_commits),
            changes: None,
            estimated_seconds: None,
            lost: None,
            peak_rss_bytes: 0,
            ranks: Vec::new(),
            window: 0,
            measures: planner.measures(),
            namespace_sha256: String::new(),
            part_sha256: Vec::new(),
        }))
    }
}
