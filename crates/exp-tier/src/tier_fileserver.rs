//! The fileserver personality on the anti-caching file system, by threshold.

mod account;
mod analysis;

use crate::tier::disk::Disk;
use crate::tier::interleave::AGAIN;
use crate::tier::subject::SubjectKind;
use crate::tier::{self, ColdLatency};
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::analysis::Better;
use senesce_core::parameter::real;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Finite, Level, Measurement, Seed, Size, Span};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_workload::bench::draw;
use senesce_workload::{Bench, Length, Options, Workload, builtin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct TierFileserver(Workload, Bytes);

const BASELINES: [SubjectKind; 5] =
    [SubjectKind::Bpfs, SubjectKind::Ext4Disk, SubjectKind::Ext4, SubjectKind::Ext4Model, SubjectKind::Ext4Hdd];

/// File systems and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// thresholds in percent of the workload's bytes, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = real(0.001..=1000.0))]
    pub threshold_percent: Vec<f64>,
    /// file systems to compare with
    #[arg(long, value_delimiter = ',', value_parser = SubjectKind::among(BASELINES))]
    pub baselines: Vec<SubjectKind>,
    /// files of the file set; the personality has 10000
    #[arg(long, value_parser = value_parser!(u64).range(100..=10_000_000))]
    pub files: u64,
    /// threads of the workload; the personality has 50
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub workload_threads: u64,
    /// measured time of each run; the personality has 60 s
    #[arg(long)]
    pub time: Span,
    /// size of the memory region and of ext4's image
    #[arg(long)]
    pub memory: Size,
    /// rounds over all file systems, each in a different order
    #[arg(long, value_parser = value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// latency of the modelled disk of ext4-model: ssd, hdd or microseconds
    #[arg(long)]
    pub cold_latency: ColdLatency,
    /// directory on the disk that holds the cold store of anticache and the image of ext4-disk
    #[arg(long)]
    pub disk: Disk,
    /// time between two passes of the evictor
    #[arg(long)]
    pub period: Span,
    /// threads of a tier file system that answer the kernel
    #[arg(long, value_parser = value_parser!(u64).range(1..=64))]
    pub threads: u64,
}

/// One run of the personality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonalityRun {
    round: u64,
    /// `anticache 40 %`, `bpfs`, `ext4`.
    condition: String,
    threshold_percent: Option<f64>,
    ops_per_second: f64,
    mb_per_second: f64,
    evicted: u64,
    fetched: u64,
    /// Share of reads among the flowops that read or write; `null` without any of these.
    read_percent: Option<f64>,
    /// Bytes of all files of the file set. Those that existed at the start were found on the file system.
    workload_bytes: u64,
    files: u64,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// One run of the personality.
    Run(PersonalityRun),
}

/// A file system with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    kind: SubjectKind,
    percent: Option<f64>,
    /// Bpfs mode measured a second time.
    again: bool,
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Draw the sizes of unmodified personalities.
    Sizes,
    /// Run the personality in a round.
    Play(u64, Condition),
}

impl Condition {
    fn subject(&self) -> &'static str {
        if self.again { AGAIN } else { self.kind.name() }
    }

    fn name(&self) -> String {
        match self.percent {
            None => self.subject().into(),
            Some(percent) => format!("{} {percent} %", self.subject()),
        }
    }

    fn measurements(&self, played: &PersonalityRun) -> Vec<Measurement> {
        let rates = [
            ("throughput", "operations/s", Better::Higher, played.ops_per_second),
            ("bandwidth", "MiB/s", Better::Higher, played.mb_per_second),
        ];
        let reads = [("read requests", "%", Better::Neither, played.read_percent.unwrap_or(f64::NAN))];
        let size = [("workload size of the run", "MB", Better::Neither, account::mb(played.workload_bytes))];
        let rates = tier::measurements(played.round, rates).into_iter();
        let reads = tier::measurements(played.round, reads).into_iter().map(|one| one.under("account", "counters"));
        let size = tier::measurements(played.round, size).into_iter();
        let size = size.map(|one| one.under("files", played.files.to_string()));
        let under = |one: Measurement| match self.percent {
            Some(percent) => one.under("subject", self.subject()).under("threshold", percent.to_string()),
            None => one.under("subject", self.subject()),
        };
        rates.chain(reads).chain(size).map(under).collect()
    }
}

impl Spec {
    fn conditions(&self) -> Vec<Condition> {
        let anticache =
            |percent: &f64| Condition { kind: SubjectKind::Anticache, percent: Some(*percent), again: false };
        let baselines = SubjectKind::in_order(&self.baselines);
        let again = baselines.contains(&SubjectKind::Bpfs).then_some((SubjectKind::Bpfs, true));
        let beside = baselines.into_iter().map(|kind| (kind, false)).chain(again);
        let beside = beside.map(|(kind, again)| Condition { kind, percent: None, again });
        self.threshold_percent.iter().map(anticache).chain(beside).collect()
    }

    fn workload(&self, seed: Seed) -> Result<(Workload, Bytes), Failure> {
        let variable = |name: &str, value: String| (name.to_string(), value);
        let overrides = BTreeMap::from([
            variable("nfiles", self.files.to_string()),
            variable("nthreads", self.workload_threads.to_string()),
            variable("memsize", "1m".into()),
        ]);
        let workload = builtin("fileserver", 1.0, &overrides)?;
        let filesets = draw(&workload, &self.options(seed))?;
        Ok((workload, Bytes(filesets.iter().map(|fileset| fileset.bytes).sum())))
    }

    fn options(&self, seed: Seed) -> Options {
        Options { seed, length: Some(Length::Time(self.time.0)), populate_threads: 4, ..Options::default() }
    }
}

impl Run for TierFileserver {
    const KIND: &'static str = "tier-fileserver";
    const PUBLISHED: &'static str = include_str!("../data/published/tier-fileserver.csv");
    const CLAIMS: &'static str = include_str!("../data/published/tier-fileserver.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn needs(spec: &Spec) -> Needs {
        tier::needs(spec.memory)
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let bytes = spec.workload(seed)?.1;
        if bytes.0 * 3 / 2 > spec.memory.bytes() {
            return Err(Failure::usage(format!(
                "the workload has {bytes} and grows: --memory must be at least {}, so that bpfs mode holds it",
                Bytes(bytes.0 * 3 / 2)
            )));
        }
        let time = spec.time.seconds();
        let written = Bytes(bytes.0 + (time * 300e6) as u64);
        let planned = |(round, condition): (u64, Condition)| {
            let action = format!("round {}: fileserver, {bytes}, {time} s", round + 1);
            let step = Planned::new(Step::Play(round, condition), action, condition.name());
            step.costing(written, time + 2.0 + bytes.0 as f64 / 100e6)
        };
        let steps = tier::rounds(spec.rounds, &spec.conditions(), seed, "tier/fileserver/order");
        let sizes = Planned::new(Step::Sizes, "draw the files of the unmodified personalities", "-");
        Ok(std::iter::once(sizes).chain(steps.into_iter().map(planned)).collect())
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let kinds: Vec<SubjectKind> = spec.conditions().iter().map(|one| one.kind).collect();
        tier::check_disk(&kinds, &spec.disk)?;
        let (workload, bytes) = spec.workload(context.seed)?;
        Ok(Self(workload, bytes))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let values = match step {
            Step::Sizes => account::sizes()?.into_iter().chain(account::planned_reads(&self.0)).collect(),
            Step::Play(round, condition) => {
                let played = self.play(spec, *round, condition, context)?;
                let values = condition.measurements(&played);
                context.record(Event::Run(played));
                values
            }
        };
        values.into_iter().for_each(|one| context.measure(one));
        Ok(())
    }

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        spec.cold_latency.stated(facts)
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let runs: Vec<PersonalityRun> = recorded.events().map(|Event::Run(played)| played.clone()).collect();
        Ok(analysis::analyse(&runs, spec))
    }
}

impl Experiment for TierFileserver {
    const TITLE: &'static str = "How fast is a file server when only a part of its data stays in memory?";
    const PAGE: &'static str = include_str!("../docs/experiments/tier-fileserver.md");

    fn defaults(level: Level) -> Spec {
        let all = || vec![20.0, 40.0, 60.0, 80.0, 100.0];
        Spec {
            threshold_percent: level.of([vec![20.0, 100.0], all(), all()]),
            baselines: level.of([BASELINES[..2].to_vec(), BASELINES[..4].to_vec(), BASELINES[..4].to_vec()]),
            files: level.of([200, 2000, 10_000]),
            workload_threads: level.of([8, 50, 50]),
            time: Span::from_millis(level.of([500, 4000, 60_000])),
            memory: Size(Bytes::mib(level.of([128, 768, 3072]))),
            rounds: level.of([1, 5, 5]),
            cold_latency: ColdLatency::ssd(),
            disk: Disk::default(),
            period: Span::from_millis(10),
            threads: 2,
        }
    }
}

impl TierFileserver {
    fn play(
        &self,
        spec: &Spec,
        round: u64,
        condition: &Condition,
        context: &Context<'_, Self>,
    ) -> Result<PersonalityRun, Failure> {
        let percent = condition.percent.unwrap_or(100.0);
        let setup = tier::setup(
            spec.memory,
            Size(Bytes((self.1.0 as f64 * percent / 100.0) as u64)),
            spec.period,
            spec.threads,
            (spec.cold_latency.model, &spec.disk),
        );
        tier::with_subject(condition.kind, &setup, |subject| {
            let (directory, options) = (subject.directory()?, spec.options(context.seed));
            let bench = Bench::prepare(&self.0, directory, options, context.progress, context.interrupt)?;
            let workload_bytes = account::found(&bench, directory.path())?;
            let before = subject.tier().map(|fs| fs.stats());
            let result = bench.run(directory, context.progress, context.interrupt)?.repetition;
            if !result.valid {
                let reason = result.reason.unwrap_or_default();
                return Err(Failure::new(ExitCode::RunFailed, format!("{}: {reason}", condition.name())));
            }
            let after = subject.tier().map(|fs| fs.stats());
            let (evicted, fetched) = before
                .zip(after)
                .map_or((0, 0), |(before, after)| (after.evicted - before.evicted, after.fetched - before.fetched));
            Ok(PersonalityRun {
                round,
                condition: condition.name(),
                threshold_percent: condition.percent,
                ops_per_second: result.ops_per_second,
                mb_per_second: result.mb_per_second,
                evicted,
                fetched,
                read_percent: Finite::per(100.0 * result.reads as f64, (result.reads + result.writes) as f64)
                    .ok()
                    .map(Finite::get),
                workload_bytes,
                files: spec.files,
            })
        })
    }
}
