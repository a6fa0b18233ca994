//! Does the I/O scheduler matter to a store of many small objects? (DMV study, chapter on schedulers)

mod analysis;

use crate::own_image;
use rand::seq::SliceRandom;
use senesce_core::{
    Analysis, Bytes, ExitCode, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind,
    Settings, Silent,
};
use senesce_objstore::store::commit::{CommitOptions, CommitReport, commit};
use senesce_objstore::vcs::files::generate_many;
use senesce_objstore::{Layout, Scheme, Store, StoreError, StoreSettings};
use senesce_target::throttle::RateLimit;
use senesce_target::{FileSystem, MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The experiment.
pub struct IoScheduler;

/// A condition under which schedulers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Condition {
    files: u64,
    threads: u64,
}

/// A number of files that did not fit on the target; more are not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct NoRoom {
    files: u64,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Measured {
    scheduler: String,
    /// A second series of the first scheduler, for the noise floor.
    control: bool,
    condition: Condition,
    repeat: u64,
    seconds: f64,
}

impl RunKind for IoScheduler {
    fn kind(&self) -> &'static str {
        "io-scheduler"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let measured: Vec<Measured> = record.events_of("commit").collect();
        let settings = Settings::from_plan(&record.plan.settings);
        let no_room = record.events_of::<NoRoom>("no-room").map(|one| one.files).min();
        analysis::analyse(&measured, no_room, &settings, self.published())
    }
}

const SCHEDULERS: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];
const ALL: &str = "none,mq-deadline,kyber,bfq";

impl Experiment for IoScheduler {
    fn title(&self) -> &'static str {
        "Does the I/O scheduler matter to a store of many small objects?"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter {
                name: "schedulers",
                help: "schedulers to compare; the first is measured twice to know the noise",
                kind: ParameterKind::Choices(SCHEDULERS),
                defaults: ["none,mq-deadline", ALL, ALL],
            },
            Parameter {
                name: "files",
                help: "numbers of files of 1 KiB, separated by commas; those that do not fit on the target are left out",
                kind: ParameterKind::Text,
                defaults: [
                    "50",
                    "10,1000,5000",
                    "1,2,4,6,10,25,50,75,100,250,500,750,1000,2500,5000,7500,10000,25000,50000,75000,100000,250000,500000,750000,1000000,2500000,5000000",
                ],
            },
            Parameter {
                name: "threads",
                help: "threads of the store, separated by commas",
                kind: ParameterKind::Text,
                defaults: ["2", "1,4", "1,4,16"],
            },
            Parameter {
                name: "repeats",
                help: "commits per scheduler and condition; fewer than 6 cannot tell four schedulers apart",
                kind: ParameterKind::Integer { min: 1, max: 1000 },
                defaults: ["2", "6", "12"],
            },
            Parameter {
                name: "layout",
                help: "how objects are laid down",
                kind: ParameterKind::Choice(&["loose", "pack"]),
                defaults: ["loose", "loose", "loose"],
            },
            Parameter {
                name: "scheme",
                help: "directory scheme of loose objects",
                kind: ParameterKind::Text,
                defaults: ["2x1", "2x1", "2x1"],
            },
            Parameter {
                name: "rate-limit",
                help: "bytes per second the device is slowed down to, for reads and writes each; 0: not",
                kind: ParameterKind::Size,
                defaults: ["0", "0", "0"],
            },
            Parameter {
                name: "request-limit",
                help: "requests per second the device is slowed down to; 0: not",
                kind: ParameterKind::Integer { min: 0, max: u64::MAX },
                defaults: ["0", "0", "0"],
            },
            Parameter {
                name: "target",
                help: "where; made anew for every commit: memory:SIZE, image:FILE,size=SIZE, a block device",
                kind: ParameterKind::Text,
                defaults: ["memory:128M", "memory:256M", "image:io-scheduler.img,size=16G"],
            },
            Parameter {
                name: "fs",
                help: "file system",
                kind: ParameterKind::Choice(&["ext4", "xfs", "btrfs", "f2fs", "nilfs2"]),
                defaults: ["ext4", "ext4", "ext4"],
            },
            Parameter {
                name: "erase",
                help: "path or serial number of a target whose content may be lost",
                kind: ParameterKind::Text,
                defaults: ["", "", ""],
            },
        ];
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/io-scheduler.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/io-scheduler.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let request = Request::read(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for arm in request.arms(settings) {
            plan.step(arm.words(), settings.text("target"));
            plan.bytes_to_write += arm.condition.files * 12 * 1024;
            plan.estimated_seconds += 0.5 + arm.condition.files as f64 * 1e-4;
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let mut request = Request::read(settings)?;
        request.options.erase = own_image::erase(&request.target, settings.text("erase"), context.directory)?;
        request.check_schedulers()?;
        let (done, mut room) = earlier(context);
        let arms = request.arms(settings);
        context.progress.phase("io-scheduler", arms.len() as u64, "commits");
        for (index, arm) in arms.iter().enumerate() {
            let files = arm.condition.files;
            if files >= room || done.contains(arm) {
                continue;
            }
            context.check_interrupt()?;
            context.progress.position(index as u64, &arm.words());
            if let Some(seconds) = request.measure(arm, settings, context)? {
                context.directory.append("commit", &Measured { seconds, ..arm.clone() })?;
            } else {
                context.directory.append("no-room", &NoRoom { files })?;
                room = files;
            }
        }
        Ok(())
    }
}

/// The commits that an earlier part of the run made, as [`Request::arms`] names them, and the number of files that did not fit.
fn earlier(context: &RunContext<'_>) -> (Vec<Measured>, u64) {
    let events = context.directory.earlier_events();
    let commits = events.iter().filter(|event| event.kind == "commit");
    let done = commits.filter_map(|event| Measured::deserialize(&event.data).ok());
    let no_room = events.iter().filter(|event| event.kind == "no-room");
    let room = no_room.filter_map(|event| Some(NoRoom::deserialize(&event.data).ok()?.files)).min();
    (done.map(|arm| Measured { seconds: 0.0, ..arm }).collect(), room.unwrap_or(u64::MAX))
}

impl Measured {
    fn words(&self) -> String {
        let Condition { files, threads } = self.condition;
        let control = if self.control { " (again, for the noise)" } else { "" };
        format!("commit {files} files with {threads} threads under {}{control}", self.scheduler)
    }
}

struct Request {
    schedulers: Vec<String>,
    conditions: Vec<Condition>,
    repeats: u64,
    layout: Layout,
    scheme: Scheme,
    limit: RateLimit,
    target: TargetSpec,
    options: OpenOptions,
}

impl Request {
    fn read(settings: &Settings) -> Result<Self, Failure> {
        let numbers = |name: &str| -> Result<Vec<u64>, Failure> {
            let read = |word: &String| word.parse().ok().filter(|number| *number > 0);
            let words = settings.list(name);
            let numbers: Option<Vec<u64>> = words.iter().map(read).collect();
            numbers
                .filter(|numbers| !numbers.is_empty())
                .ok_or_else(|| Failure::usage(format!("--{name} '{}': write numbers above zero", settings.text(name))))
        };
        let threads = numbers("threads")?;
        let files = numbers("files")?;
        let conditions =
            files.iter().flat_map(|files| threads.iter().map(|threads| Condition { files: *files, threads: *threads }));
        let target: TargetSpec = settings.text("target").parse()?;
        if matches!(target, TargetSpec::Directory(_)) {
            return Err(Failure::usage(
                "a directory has no scheduler of its own: give memory:SIZE, image:FILE,size=SIZE or a block device",
            ));
        }
        let fs: FileSystem = settings.text("fs").parse()?;
        let mkfs_options = if fs == FileSystem::Ext4 { "-m 0 -i 4096".into() } else { String::new() };
        let positive = |number: u64| Some(number).filter(|number| *number > 0);
        Ok(Self {
            schedulers: settings.list("schedulers"),
            conditions: conditions.collect(),
            repeats: settings.integer("repeats")?,
            layout: if settings.text("layout") == "pack" { Layout::Pack } else { Layout::Loose },
            scheme: settings.text("scheme").parse()?,
            limit: RateLimit {
                bytes_per_second: positive(settings.size("rate-limit")?.0).map(Bytes),
                requests_per_second: positive(settings.integer("request-limit")?),
            },
            target,
            options: OpenOptions { mkfs_options, ..OpenOptions::fresh(fs) },
        })
    }

    /// Every commit in the order of measurement: the schedulers take turns in random order within each condition.
    fn arms(&self, settings: &Settings) -> Vec<Measured> {
        let mut random = settings.seed().stream("io-scheduler/order");
        let mut arms = Vec::new();
        for repeat in 0..self.repeats {
            for condition in &self.conditions {
                let arm = |(scheduler, control): (&String, bool)| Measured {
                    scheduler: scheduler.clone(),
                    control,
                    condition: *condition,
                    repeat,
                    seconds: 0.0,
                };
                let again = self.schedulers.first().map(|first| (first, true));
                let mut round: Vec<Measured> =
                    self.schedulers.iter().map(|scheduler| (scheduler, false)).chain(again).map(arm).collect();
                round.shuffle(&mut random);
                arms.extend(round);
            }
        }
        arms
    }

    /// Whether the device has all schedulers, asked before anything is measured.
    fn check_schedulers(&self) -> Result<(), Failure> {
        let target = open(&self.target, &self.options)?;
        let list = target.block_device_info().and_then(|device| device.queue("scheduler")).unwrap_or_default();
        target.close()?;
        let known: Vec<&str> = list.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
        let Some(missing) = self.schedulers.iter().find(|wanted| !known.contains(&wanted.as_str())) else {
            return Ok(());
        };
        let words = if known.is_empty() {
            format!("the device of {} takes requests without any scheduler: name a device that has them", self.target)
        } else {
            format!(
                "the device of {} has no scheduler {missing}; it has {}: choose among them with --schedulers, or load the module ({missing}-iosched)",
                self.target,
                known.join(", ")
            )
        };
        Err(Failure::new(ExitCode::Missing, words))
    }

    /// Seconds until a commit is durable; `None` when the files do not fit.
    fn measure(
        &self,
        arm: &Measured,
        settings: &Settings,
        context: &mut RunContext<'_>,
    ) -> Result<Option<f64>, Failure> {
        let mut target: MountedTarget = open(&self.target, &self.options)?;
        target.set_scheduler(&arm.scheduler)?;
        let mut facts = target.environment();
        // It changes from commit to commit and is in every event.
        facts.0.remove("queue.scheduler");
        context.directory.add_environment(&facts)?;
        let mut random = settings.seed().stream(&format!("io-scheduler/{}", arm.condition.files));
        let work = target.mount_point().join("many_files_dir");
        let report = match generate_many(&work, arm.condition.files, &mut random) {
            Ok(()) => {
                target.sync()?;
                self.commit(arm, &target, &work, context)?
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

    /// Commits to a new store on the target, slowed down if that is asked for.
    fn commit(
        &self,
        arm: &Measured,
        target: &MountedTarget,
        work: &Path,
        context: &RunContext<'_>,
    ) -> Result<Result<CommitReport, StoreError>, Failure> {
        let limit = target.block_device_info().map(|device| self.limit.apply(&device)).transpose()?;
        let settings = StoreSettings { scheme: self.scheme, ..StoreSettings::default() };
        let threads = arm.condition.threads as usize;
        let options = CommitOptions { layout: self.layout, threads, log_slower_than: None };
        let outcome = Store::create(&target.mount_point().join("store"), settings)
            .and_then(|mut store| commit(&mut store, work, &options, &Silent, context.interrupt));
        drop(limit);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Level;
    use std::collections::BTreeMap;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let overrides = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Settings::resolve(IoScheduler.parameters(), Level::Quick, &overrides).unwrap()
    }

    #[test]
    fn every_round_has_every_scheduler_and_the_control() {
        let settings = settings(&[]);
        let arms = Request::read(&settings).unwrap().arms(&settings);
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
    fn wrong_words_are_refused() {
        for (name, value) in [("files", "0"), ("threads", "x"), ("scheme", "7x9"), ("target", "/tmp")] {
            assert!(IoScheduler.plan(&settings(&[(name, value)])).is_err(), "{name}={value}");
        }
    }
}
