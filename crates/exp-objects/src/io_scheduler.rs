//! Compares I/O schedulers for a store of many small objects (DMV study, chapter on schedulers).

mod analysis;

use clap::{Args, ValueEnum};
use rand::seq::SliceRandom;
use senesce_core::heartbeat::watched;
use senesce_core::parameter::names;
use senesce_core::{Analysis, Better, Bytes, ExitCode, Failure, Level, Measurement, Seed, Silent, Size};
use senesce_objstore::store::commit::{CommitOptions, CommitReport, commit};
use senesce_objstore::vcs::files::generate_many;
use senesce_objstore::{Layout, Scheme, Store, StoreError, StoreSettings};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::throttle::RateLimit;
use senesce_volume::{FileSystem, MountedTarget, OpenOptions, TargetSpec, holds_only_ours, open};
use serde::{Deserialize, Serialize};
use std::path::Path;

pub struct IoScheduler;

/// Files, target and schedulers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// schedulers to compare; the first is measured twice, as a noise control
    #[arg(long, value_delimiter = ',', value_parser = SCHEDULERS)]
    pub schedulers: Vec<String>,
    /// numbers of files of 1 KiB, separated by commas; those that do not fit on the target are left out
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub files: Vec<u64>,
    /// threads of the store, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: Vec<u64>,
    /// commits per scheduler and condition; four schedulers need at least 6
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeats: u64,
    /// layout of objects
    #[arg(long)]
    pub layout: ObjectLayout,
    /// directory scheme of loose objects
    #[arg(long)]
    pub scheme: Scheme,
    /// limit of the device in bytes per second, for reads and for writes; 0: no limit
    #[arg(long)]
    pub rate_limit: Size,
    /// limit of the device in requests per second; 0: no limit
    #[arg(long)]
    pub request_limit: u64,
    /// target with a new file system for each commit: memory:SIZE, image:FILE,size=SIZE, a block device
    #[arg(long)]
    pub target: TargetSpec,
    /// file system
    #[arg(long)]
    pub fs: FileSystem,
}

/// Storage of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectLayout {
    /// One file per object.
    Loose,
    /// Many objects per file.
    Pack,
}

/// A condition under which schedulers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Condition {
    files: u64,
    threads: u64,
}

/// One commit to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    scheduler: String,
    /// A second series of the first scheduler, as a control.
    control: bool,
    condition: Condition,
    repeat: u64,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A commit was made.
    Commit(MeasuredCommit),
    /// A number of files that did not fit on the target; larger ones are skipped.
    NoSpace {
        /// Number of files.
        files: u64,
    },
}

/// A measured commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCommit {
    #[serde(flatten)]
    arm: Arm,
    seconds: f64,
}

const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

const PAPER_FILES: [u64; 27] = [
    1, 2, 4, 6, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000, 25_000, 50_000, 75_000, 100_000,
    250_000, 500_000, 750_000, 1_000_000, 2_500_000, 5_000_000,
];

impl Run for IoScheduler {
    const KIND: &'static str = "io-scheduler";
    const PUBLISHED: &'static str = include_str!("../data/published/io-scheduler.csv");
    const CLAIMS: &'static str = include_str!("../data/published/io-scheduler.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Arm;

    fn needs(_spec: &Spec) -> Needs {
        Needs::root("io-scheduler makes file systems on loop devices and sets their scheduler")
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Arm>>, Failure> {
        if matches!(spec.target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory has no scheduler: use memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        let planned = |arm: Arm| {
            let (files, action) = (arm.condition.files, arm.text());
            let (bytes, seconds) = (Bytes(files * 12 * 1024), 0.5 + files as f64 * 1e-4);
            Planned::new(arm, action, spec.target.to_string()).costing(bytes, seconds)
        };
        Ok(spec.arms(seed).into_iter().map(planned).collect())
    }

    fn next(spec: &Spec, recorded: &Recorded<Self>) -> Result<Vec<Planned<Arm>>, Failure> {
        let least = no_space(recorded).unwrap_or(u64::MAX);
        let mut left = Self::steps(spec, recorded.seed)?;
        left.retain(|planned| planned.step.condition.files < least && !recorded.is_done(&planned.step));
        Ok(left)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        spec.check_schedulers(&spec.options(context)?)?;
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, arm: &Arm, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let files = arm.condition.files;
        if no_space(context.recorded()).is_some_and(|least| files >= least) {
            return Ok(());
        }
        let event = match spec.measure(arm, context)? {
            Some(seconds) => Event::Commit(MeasuredCommit { arm: arm.clone(), seconds }),
            None => Event::NoSpace { files },
        };
        context.record(event);
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let commits = recorded.events().filter_map(|event| match event {
            Event::Commit(measured) => Some(measured.clone()),
            Event::NoSpace { .. } => None,
        });
        analysis::analyse(&commits.collect::<Vec<_>>(), no_space(recorded), spec)
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        recorded.events().filter_map(measurement).collect()
    }
}

/// Returns the time of a commit. The second series of a scheduler is a control without a value.
fn measurement(event: &Event) -> Option<Measurement> {
    let Event::Commit(MeasuredCommit { arm, seconds }) = event else { return None };
    let one = Measurement::new("commit_mean", "s", Better::Lower, *seconds).ok()?.under("scheduler", &*arm.scheduler);
    let one = one.under("files", arm.condition.files.to_string()).under("threads", arm.condition.threads.to_string());
    (!arm.control).then_some(Measurement { repetition: arm.repeat as u32, ..one })
}

impl Experiment for IoScheduler {
    const TITLE: &'static str = "Does the I/O scheduler matter to a store of many small objects?";
    const PAGE: &'static str = include_str!("../docs/experiments/io-scheduler.md");

    fn defaults(level: Level) -> Spec {
        let memory = |size| TargetSpec::Memory { size };
        let image = TargetSpec::Image { path: "io-scheduler.img".into(), size: Some(Bytes::gib(16)) };
        Spec {
            schedulers: level.of([names(&SCHEDULERS[..2]), names(&SCHEDULERS), names(&SCHEDULERS)]),
            files: level.of([vec![50], vec![10, 1000, 5000], PAPER_FILES.to_vec()]),
            threads: level.of([vec![2], vec![1, 4], vec![1, 4, 16]]),
            repeats: level.of([2, 6, 12]),
            layout: ObjectLayout::Loose,
            scheme: Scheme::GIT,
            rate_limit: Size(Bytes(0)),
            request_limit: 0,
            target: level.of([memory(Bytes::mib(128)), memory(Bytes::mib(256)), image]),
            fs: FileSystem::Ext4,
        }
    }
}

fn no_space(recorded: &Recorded<IoScheduler>) -> Option<u64> {
    let found = recorded.events().filter_map(|event| match event {
        Event::NoSpace { files } => Some(*files),
        Event::Commit(_) => None,
    });
    found.min()
}

impl Arm {
    fn text(&self) -> String {
        let Condition { files, threads } = self.condition;
        let control = if self.control { " (again, as a control)" } else { "" };
        format!("commit {files} files with {threads} threads under {}{control}", self.scheduler)
    }
}

impl Spec {
    fn options(&self, context: &mut Context<'_, IoScheduler>) -> Result<OpenOptions, Failure> {
        let mkfs_options = if self.fs == FileSystem::Ext4 { "-m 0 -i 4096".into() } else { String::new() };
        let erase = context.may_erase(self.target.image(), holds_only_ours)?;
        Ok(OpenOptions { mkfs_options, erase, ..OpenOptions::fresh(self.fs) })
    }

    fn limit(&self) -> RateLimit {
        let positive = |number: u64| Some(number).filter(|number| *number > 0);
        RateLimit {
            bytes_per_second: positive(self.rate_limit.bytes()).map(Bytes),
            requests_per_second: positive(self.request_limit),
        }
    }

    /// Returns every commit in the order of measurement: within each condition the schedulers alternate in random
    /// order.
    fn arms(&self, seed: Seed) -> Vec<Arm> {
        let mut random = seed.stream("io-scheduler/order");
        let conditions = self
            .files
            .iter()
            .flat_map(|files| self.threads.iter().map(|threads| Condition { files: *files, threads: *threads }));
        let conditions: Vec<Condition> = conditions.collect();
        let mut arms = Vec::new();
        for repeat in 0..self.repeats {
            for condition in &conditions {
                let arm = |(scheduler, control): (&String, bool)| Arm {
                    scheduler: scheduler.clone(),
                    control,
                    condition: *condition,
                    repeat,
                };
                let again = self.schedulers.first().map(|first| (first, true));
                let mut round: Vec<Arm> =
                    self.schedulers.iter().map(|scheduler| (scheduler, false)).chain(again).map(arm).collect();
                round.shuffle(&mut random);
                arms.extend(round);
            }
        }
        arms
    }

    /// Checks before any measurement that the device supports all schedulers.
    fn check_schedulers(&self, options: &OpenOptions) -> Result<(), Failure> {
        let target = open(&self.target, options)?;
        let list = target.block_device_info().and_then(|device| device.queue("scheduler")).unwrap_or_default();
        target.close()?;
        let known: Vec<&str> = list.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
        let Some(missing) = self.schedulers.iter().find(|wanted| !known.contains(&wanted.as_str())) else {
            return Ok(());
        };
        let words = if known.is_empty() {
            format!("the device of {} has no schedulers; use another --target", self.target)
        } else {
            format!(
                "the device of {} has no scheduler {missing}; it has {}: select one of them with --schedulers, or load the module ({missing}-iosched)",
                self.target,
                known.join(", ")
            )
        };
        Err(Failure::new(ExitCode::Missing, words))
    }

    fn measure(&self, arm: &Arm, context: &mut Context<'_, IoScheduler>) -> Result<Option<f64>, Failure> {
        let mut target: MountedTarget = open(&self.target, &self.options(context)?)?;
        target.set_scheduler(&arm.scheduler)?;
        let mut facts = target.environment();
        // It changes from commit to commit and is in every event.
        facts.0.remove("queue.scheduler");
        context.add_environment(&facts)?;
        let mut random = context.seed.stream(&format!("io-scheduler/{}", arm.condition.files));
        let work = target.mount_point().join("many_files_dir");
        let report = match generate_many(&work, arm.condition.files, &mut random) {
            Ok(()) => {
                target.sync()?;
                let (report, lost) = watched(|| self.commit(arm, &target, &work, context));
                lost.map_or(Ok(()), Err)?;
                report?
            }
            Err(error) => Err(error),
        };
        target.close()?;
        match report {
            Ok(report) if report.files == arm.condition.files => Ok(Some(report.elapsed_seconds)),
            Ok(report) => Err(Failure::new(ExitCode::RunFailed, format!("the commit holds {} files", report.files))),
            Err(error) if error.is_full() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn commit(
        &self,
        arm: &Arm,
        target: &MountedTarget,
        work: &Path,
        context: &Context<'_, IoScheduler>,
    ) -> Result<Result<CommitReport, StoreError>, Failure> {
        let limit = target.block_device_info().map(|device| self.limit().apply(&device)).transpose()?;
        let settings = StoreSettings { scheme: self.scheme, ..StoreSettings::default() };
        let threads = arm.condition.threads as usize;
        let layout = match self.layout {
            ObjectLayout::Loose => Layout::Loose,
            ObjectLayout::Pack => Layout::Pack,
        };
        let options = CommitOptions { layout, threads, log_slower_than: None };
        let outcome = Store::create(&target.mount_point().join("store"), settings)
            .and_then(|mut store| commit(&mut store, work, &options, &Silent, context.interrupt));
        drop(limit);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_round_has_every_scheduler_and_the_control() {
        let arms = IoScheduler::defaults(Level::Quick).arms(Seed(42));
        assert_eq!(arms.len(), 6 * 6 * 5);
        for round in arms.chunks(5) {
            let counted = round.iter().fold(BTreeMap::<_, u32>::new(), |mut counted, arm| {
                *counted.entry(arm.scheduler.as_str()).or_default() += 1;
                counted
            });
            assert_eq!(counted, BTreeMap::from([("bfq", 1), ("kyber", 1), ("mq-deadline", 1), ("none", 2)]));
        }
    }

    #[test]
    fn every_claim_finds_its_values() {
        use senesce_claims::{ClaimSet, untested};
        let set = ClaimSet::parse(IoScheduler::CLAIMS, IoScheduler::PUBLISHED).unwrap();
        let spec = Spec { files: vec![10, 100_000], ..IoScheduler::defaults(Level::Quick) };
        let arms = spec.arms(Seed(1));
        let count = arms.len();
        let commits = arms.into_iter().map(|arm| Event::Commit(MeasuredCommit { arm, seconds: 1.0 }));
        let all: Vec<Measurement> = commits.filter_map(|event| measurement(&event)).collect();
        assert_eq!(all.len(), count * 4 / 5, "the control has no value");
        assert_eq!(untested(&set, &all), Vec::<String>::new());
    }

    #[test]
    fn directory_is_refused() {
        let spec = Spec { target: TargetSpec::Directory("/tmp".into()), ..IoScheduler::defaults(Level::Quick) };
        assert!(IoScheduler::steps(&spec, Seed(1)).is_err());
    }
}
