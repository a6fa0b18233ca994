//! RocksDB's own benchmark on file systems over a conventional and over a zoned drive, and on ZenFS.

mod analysis;
mod bench;
mod measurements;
mod models;
pub(crate) mod output;
mod setup;

use crate::on_model::{HostSpeed, MachineRole, TimedReplay, TracedDrives};
use bench::{BENCHMARKS, BenchmarkRun, KEY_BYTES, VALUE_BYTES};
use clap::Args;
use senesce_claims::Facts;
use senesce_core::parameter::names;
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Measurement, Seed, Size, Span};
use senesce_guest::carry::{GuestSpec, NotDone, steps_in_guest};
use senesce_guest::{GuestTime, drives};
use senesce_runner::{Context, Experiment, Planned, Run};
use senesce_volume::guest::Guest as InsideGuest;
use serde::{Deserialize, Serialize};
use setup::{SETUPS, ZENFS};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

pub use output::check as check_output;

pub(crate) struct ZnsRocksdb {
    ours: Vec<PathBuf>,
    /// By repeat: why the rest of the guest's setups is not done.
    tried: BTreeMap<u32, NotDone<Step>>,
}

/// In Debian's package rocksdb-tools.
const DB_BENCH: &str = "db_bench";
const GUEST: &str = "vm";

/// Workload and drives of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// file systems and drives to compare
    #[arg(long, value_delimiter = ',', value_parser = SETUPS)]
    pub setups: Vec<String>,
    /// benchmarks of db_bench, in the published order; must include fillrandom
    #[arg(long, value_delimiter = ',', value_parser = BENCHMARKS)]
    pub benchmarks: Vec<String>,
    /// keys of 20 bytes with values of 800 bytes
    #[arg(long, value_parser = clap::value_parser!(u64).range(100..=10_000_000_000))]
    pub keys: u64,
    /// duration of each benchmark with readers
    #[arg(long)]
    pub read_time: Span,
    /// reading threads
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub readers: u64,
    /// bytes per second of the limited writer
    #[arg(long)]
    pub write_limit: Size,
    /// RocksDB's write buffer; its level 1 holds two
    #[arg(long)]
    pub write_buffer: Size,
    /// RocksDB's files on conventional drives
    #[arg(long)]
    pub file_size: Size,
    /// RocksDB's files on zoned drives
    #[arg(long)]
    pub zoned_file_size: Size,
    /// capacity of each drive of the guest
    #[arg(long)]
    pub size: Size,
    /// conventional drive of this machine, or vm to boot the guest
    #[arg(long)]
    pub conventional: String,
    /// zoned drive of this machine, or vm
    #[arg(long)]
    pub zoned: String,
    /// small conventional drive for the metadata of the zoned one, or vm
    #[arg(long)]
    pub metadata: String,
    /// minimum time of a request to the guest's drives, so that requests in flight overlap although the processor is
    /// emulated
    #[arg(long)]
    #[serde(default)]
    pub guest_latency: Span,
    /// RocksDB's db_bench; one with the ZenFS plugin adds ZenFS
    #[arg(long)]
    pub db_bench: String,
    /// measurements of each setup; claims need five
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    #[serde(default = "once")]
    pub repeats: u32,
    /// time limit of a guest, which runs all setups once
    #[arg(long)]
    pub time_limit: Span,
}

fn once() -> u32 {
    1
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A benchmark on a setup was measured.
    Measured(BenchmarkRun),
    /// Requests that emulated drives received meanwhile.
    Recorded(Recorded),
    /// Speed of a machine without its drives.
    Speed(HostSpeed),
    /// The recorded requests on simulated drives.
    OnModel(OnModel),
}

/// Requests that emulated drives received meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    setup: String,
    benchmark: String,
    repeat: u32,
    traced: TracedDrives,
}

/// A benchmark on simulated drives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OnModel {
    setup: String,
    benchmark: String,
    repeat: u32,
    /// None: the drive received no requests.
    ops_per_second: Option<f64>,
    timed: TimedReplay,
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// One setup and the repetition, on drives of this machine or in a guest.
    Setup(String, u32),
    /// Requests to the guest's drives in that repetition, replayed on simulated drives.
    OnModels(String, u32),
}

impl Run for ZnsRocksdb {
    const KIND: &'static str = "zns-rocksdb";
    const PUBLISHED: &'static str = include_str!("../data/published/zns-rocksdb.csv");
    const CLAIMS: &'static str = include_str!("../data/published/zns-rocksdb.claims.toml");
    // A file system that fails under the load is a result; the others are still measured.
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn facts(_spec: &Spec, recorded: &senesce_runner::Recorded<Self>, facts: Facts) -> Facts {
        let facts = crate::guest_drives::facts(&recorded.environment, facts);
        match recorded.events().any(|event| matches!(event, Event::OnModel(_))) {
            true => crate::on_model::facts(facts),
            false => facts,
        }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        spec.check()?;
        bench::find_program(&spec.db_bench)?;
        if spec.is_in_guest() {
            senesce_guest::kernel::choose(None, Some(senesce_guest::kernel::Engine::Qemu))?;
        }
        Ok(spec.rounds())
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self { ours: Vec::new(), tried: BTreeMap::new() })
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let (name, repeat) = match step {
            Step::OnModels(name, repeat) => return models::time_setup(name, *repeat, spec, context),
            Step::Setup(_, repeat) if spec.is_in_guest() => return self.in_guest(step, *repeat, spec, context),
            Step::Setup(name, repeat) => (name, *repeat),
        };
        if name.ends_with("-zns") {
            context.add_environment(&crate::guest_drives::zoned(&spec.zoned)?)?;
        }
        if InsideGuest::here().is_some() {
            let speeds = bench::speeds(MachineRole::Guest, spec, context)?;
            speeds.into_iter().for_each(|speed| context.record(Event::Speed(speed)));
        }
        bench::run_setup((name, repeat), spec, &mut self.ours, context)
    }

    fn measurements(_spec: &Spec, recorded: &senesce_runner::Recorded<Self>) -> Vec<Measurement> {
        let emulated = recorded.environment.0.contains_key("vm.accelerator");
        recorded.events().flat_map(|event| measurements::of(event, emulated)).collect()
    }

    fn analyse(spec: &Spec, recorded: &senesce_runner::Recorded<Self>) -> Result<Analysis, Failure> {
        let measured = recorded.events().filter_map(|event| match event {
            Event::Measured(measured) => Some(measured.clone()),
            _ => None,
        });
        let emulated = recorded.environment.0.contains_key("vm.accelerator");
        let mut analysis = analysis::analyse(measured.collect(), spec.keys, emulated)?;
        models::show(recorded, &mut analysis);
        Ok(analysis)
    }
}

impl Experiment for ZnsRocksdb {
    const TITLE: &'static str = "RocksDB on conventional and zoned drives: speed, write amplification, space";
    const PAGE: &'static str = include_str!("../docs/experiments/zns-rocksdb.md");

    fn defaults(level: Level) -> Spec {
        let (mib, gib) = (Bytes::mib, Bytes::gib);
        Spec {
            setups: level.of([names(&["f2fs-zns"]), names(&SETUPS), names(&SETUPS)]),
            benchmarks: level.of([names(&["fillrandom"]), names(&BENCHMARKS), names(&BENCHMARKS)]),
            keys: level.of([2000, 200_000, 1_300_000_000]),
            read_time: Span::from_millis(level.of([1000, 10_000, 1_800_000])),
            readers: level.of([1, 32, 32]),
            write_limit: Size(mib(20)),
            write_buffer: Size(level.of([mib(1), mib(8), gib(2)])),
            file_size: Size(level.of([mib(1), mib(8), mib(128)])),
            // The study: 95 % of two zone capacities of 1077 MiB.
            zoned_file_size: Size(level.of([mib(1), mib(15), mib(2046)])),
            size: Size(level.of([mib(512), mib(512), gib(4096)])),
            conventional: GUEST.into(),
            zoned: GUEST.into(),
            metadata: GUEST.into(),
            guest_latency: Span::from_millis(2),
            db_bench: DB_BENCH.into(),
            repeats: level.of([1, 1, 5]),
            time_limit: Span::from_millis(level.of([120_000, 1_800_000, 43_200_000])),
        }
    }
}

impl ZnsRocksdb {
    fn in_guest(
        &mut self,
        step: &Step,
        repeat: u32,
        spec: &Spec,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        if let Entry::Vacant(untried) = self.tried.entry(repeat) {
            let auto = || drives::AUTO.to_string();
            let inside = Spec { conventional: auto(), zoned: auto(), metadata: auto(), ..spec.clone() };
            let guest = GuestSpec {
                kernel: None,
                drives: drives::slowed(drives::emulated(spec.size.0), spec.guest_latency),
                memory: Bytes::gib(1),
                time: GuestTime::Real,
                time_limit: spec.time_limit.0,
                events_name_guest: false,
            };
            let all = spec.setups().into_iter().map(|name| Step::Setup(name, repeat));
            let left: Vec<Step> = all.filter(|one| !context.recorded().is_done(one)).collect();
            let outcome = steps_in_guest::<Self, Self>(&guest, &inside, &left, context);
            context.check_interrupt()?;
            untried.insert(NotDone::of(outcome));
        }
        match context.is_done_or_pending(step) {
            true => Ok(()),
            false => Err(Failure::new(ExitCode::RunFailed, self.tried[&repeat].reason(step))),
        }
    }
}

impl Spec {
    /// Plans all setups in turn, once per repeat. A guest's recording is replayed before the next guest starts.
    fn rounds(&self) -> Vec<Planned<Step>> {
        let setups = self.setups();
        let round = |repeat| {
            let own = setups.iter().map(move |name| self.planned(name, repeat));
            let timed =
                setups.iter().filter(|_| self.is_in_guest()).map(move |name| self.planned_on_models(name, repeat));
            own.chain(timed)
        };
        (0..self.repeats).flat_map(round).collect()
    }

    fn planned(&self, name: &str, repeat: u32) -> Planned<Step> {
        let chosen = bench::chosen(self);
        // Factor for the log, the flush and about four compactions of the fill and of the overwrite.
        let bytes = Bytes(12 * self.database_bytes());
        let readings = chosen.iter().filter(|name| name.starts_with("read")).count() as f64;
        let reading = readings * self.read_time.seconds();
        let seconds = match self.is_in_guest() {
            // Under emulation RocksDB processes about 30 MB/s, and each start takes seconds.
            true => (5 + 2 * chosen.len()) as f64 + reading + bytes.0 as f64 / 30e6,
            false => reading + bytes.0 as f64 / 300e6,
        };
        let words = format!("make the file system; {}", chosen.join(", "));
        Planned::new(Step::Setup(name.into(), repeat), words, name).costing(bytes, seconds)
    }

    fn planned_on_models(&self, name: &str, repeat: u32) -> Planned<Step> {
        let words = format!("time the requests of {name} to the drives of the guest");
        let seconds = self.database_bytes() as f64 / 160e6;
        Planned::new(Step::OnModels(name.into(), repeat), words, crate::on_model::NAMES).costing(Bytes(0), seconds)
    }

    fn is_in_guest(&self) -> bool {
        self.conventional == GUEST
    }

    fn database_bytes(&self) -> u64 {
        self.keys * (KEY_BYTES + VALUE_BYTES)
    }

    /// Returns the selected setups, and ZenFS if `db-bench` is a path: only a db_bench with the plugin has it.
    fn setups(&self) -> Vec<String> {
        let mut names = self.setups.clone();
        let has_plugin =
            || std::fs::read(&self.db_bench).is_ok_and(|bytes| bytes.windows(8).any(|part| part == b"zenfs://"));
        if self.db_bench != DB_BENCH && has_plugin() {
            names.push(ZENFS.into());
        }
        names
    }

    fn check(&self) -> Result<(), Failure> {
        let sizes = [
            ("write-buffer", self.write_buffer),
            ("file-size", self.file_size),
            ("zoned-file-size", self.zoned_file_size),
            ("write-limit", self.write_limit),
            ("size", self.size),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| size.bytes() == 0) {
            return Err(Failure::usage(format!("{name} must be above 0")));
        }
        if !bench::chosen(self).contains(&"fillrandom") {
            return Err(Failure::usage("benchmarks: must include fillrandom, which makes the database"));
        }
        let places = [&self.conventional, &self.zoned, &self.metadata].map(|name| name == GUEST);
        if places.contains(&true) && places.contains(&false) {
            return Err(Failure::usage(
                "conventional, zoned and metadata must be either all vm or all drives of this machine",
            ));
        }
        // Three times the database: space amplification, the log and files that compaction has not yet deleted.
        if self.is_in_guest() && self.database_bytes() * 3 > self.size.bytes() {
            return Err(Failure::usage(format!(
                "{} keys make {}, and drives need three times that for compaction: raise size ({}) or lower keys",
                self.keys,
                Bytes(self.database_bytes()),
                self.size
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_setup_fails_separately_and_is_replayed_before_the_next_guest() {
        let small =
            Spec { setups: names(&["xfs-conventional", "f2fs-zns"]), repeats: 2, ..ZnsRocksdb::defaults(Level::Smoke) };
        let in_guest: Vec<Step> = small.rounds().into_iter().map(|planned| planned.step).collect();
        let expected = (0..2).flat_map(|repeat| {
            let own = |name: &str| Step::Setup(name.into(), repeat);
            let timed = |name: &str| Step::OnModels(name.into(), repeat);
            [own("xfs-conventional"), own("f2fs-zns"), timed("xfs-conventional"), timed("f2fs-zns")]
        });
        assert_eq!(in_guest, expected.collect::<Vec<_>>());
        let auto = || drives::AUTO.to_string();
        let here = Spec { conventional: auto(), zoned: auto(), metadata: auto(), ..small };
        assert!(
            here.rounds()
                .iter()
                .all(|planned| matches!(planned.step, Step::Setup(..)) && in_guest.contains(&planned.step))
        );
        assert_eq!(here.rounds().len(), 4);
    }
}
