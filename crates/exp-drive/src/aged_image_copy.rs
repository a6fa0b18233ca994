//! Copies an aged image to flash, in address order and in the order of last writes, and compares them with the drive that was
//! aged.

mod aging;

use crate::{measured, points, values, word};
use aging::Aged;
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::Rows;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_devmodel::last_write::{LastWrites, Order, steady_state};
use senesce_devmodel::replay::busy_ns;
use senesce_devmodel::simulate::history_of_reads;
use senesce_devmodel::ssd::{Drive, Flash};
use senesce_devmodel::{DeviceModel, Operation, Parameters, Request};
use senesce_runner::{Context, Experiment, Needs, NoEvent, Planned, Recorded, Run};
use senesce_volume::{FileSystem, TargetSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;

const SECONDS: &str = "read time";
const AGAINST: &str = "read time against the full replay";
const INDEX: &str = "collision index";
const ORDERS: [&str; 4] = ["full-replay", "last-write", "address", "steady-state"];

pub struct AgedImageCopy;

/// Agings, and the model of the copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// file systems, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<String>,
    /// size of the image, in memory
    #[arg(long)]
    pub size: Size,
    /// bytes written while aging, in multiples of the image
    #[arg(long)]
    pub turnover: f64,
    /// reads at a time, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u32).range(1..=1024))]
    pub depths: Vec<u32>,
    /// model of a flash drive; its size is reduced to that of the image
    #[arg(long)]
    pub model: String,
}

impl Spec {
    fn flash(&self) -> Result<Flash, Failure> {
        match DeviceModel::load(&self.model)?.parameters {
            Parameters::FlashSsd(flash) => Ok(flash.sized(self.size.bytes(), &self.model)?),
            _ => Err(Failure::usage(format!("model: {} has no flash translation layer: it does not age", self.model))),
        }
    }
}

impl Run for AgedImageCopy {
    const KIND: &'static str = "aged-image-copy";
    const PUBLISHED: &'static str = include_str!("../data/published/aged-image-copy.csv");
    const CLAIMS: &'static str = include_str!("../data/published/aged-image-copy.claims.toml");
    type Spec = Spec;
    type Event = NoEvent;
    type Step = String;

    fn needs(spec: &Spec) -> Needs {
        let needs = Needs::root("the requests of file systems in memory are traced on loop devices, which needs root");
        needs.and_memory(Bytes(spec.size.bytes() * 2))
    }

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { model: Some(spec.model.clone()), images: true, ..facts }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<String>>, Failure> {
        spec.flash()?;
        if !(0.1..=100.0).contains(&spec.turnover) {
            return Err(Failure::usage(format!("turnover: {} is out of range; use 0.1 to 100", spec.turnover)));
        }
        let step = |name: &String| {
            let fs: FileSystem = name.parse()?;
            if spec.size.bytes() < fs.minimum_size().0 {
                return Err(Failure::usage(format!("size: {fs} needs a volume of at least {}", fs.minimum_size())));
            }
            let bytes = Bytes((spec.size.bytes() as f64 * spec.turnover) as u64);
            let target = format!("{fs}, image of {} in memory", spec.size.0);
            let action = "age with traced requests, read cold, replay and copy on the model";
            Ok(Planned::new(name.clone(), action, target).costing(bytes, bytes.0 as f64 / 5e7))
        };
        spec.fs.iter().map(step).collect()
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, name: &String, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let target = TargetSpec::Memory { size: spec.size.0 };
        let bytes = (spec.size.bytes() as f64 * spec.turnover) as u64;
        let seed = context.seed.child("aged-image-copy");
        let aged = Aged::make(&target, name.parse()?, bytes, seed, context.interrupt)?;
        if let Some(message) = aged.caveat {
            context.caveat(message);
        }
        let (flash, drives) = (spec.flash()?, Drives::of(&spec.flash()?, &aged, seed));
        let mut full = Vec::new();
        for (order, drive) in ORDERS.into_iter().zip(&drives.0) {
            for (number, &depth) in spec.depths.iter().enumerate() {
                context.check_interrupt()?;
                let (seconds, index) = read(drive, &aged.reads, depth);
                full.extend((order == ORDERS[0]).then_some(seconds));
                let depth = depth.to_string();
                let under = [("fs", name.as_str()), ("order", order), ("depth", &depth)];
                context.measure(measured(SECONDS, "s", Better::Lower, seconds, &under)?);
                if order != ORDERS[0] {
                    let percent = (seconds / full[number] - 1.0) * 100.0;
                    context.measure(measured(AGAINST, "%", Better::Neither, percent, &under)?);
                }
                if let Some(index) = index.filter(|_| number == 0) {
                    context.measure(measured(INDEX, "", Better::Lower, index, &under[..2])?);
                }
            }
        }
        let stated = [
            ("requests of the aging", "", aged.history.len() as f64),
            ("blocks copied", "", drives.1 as f64),
            ("requests of the cold read", "", aged.reads.len() as f64),
            ("capacity of the model", "bytes", flash.capacity_bytes as f64),
        ];
        for (metric, unit, value) in stated {
            context.measure(measured(metric, unit, Better::Neither, value, &[("fs", name)])?);
        }
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let all: Vec<&Measurement> = recorded.measurements().collect();
        Ok(Analysis {
            title: "Copies of an aged image on flash".into(),
            summary: format!(
                "Files were created, extended, overwritten and removed, with an fsync after each operation, and all \
                 requests of the device were traced. The requests of a cold read are timed on {}, \
                 reduced to the size of the image: after the whole history, and after one pass over the blocks in each \
                 order.",
                spec.model
            ),
            figures: vec![figure(&all, spec)],
            tables: vec![table(&all)],
            caveats: vec![format!("modelled: read times are those of {}; the requests are real", spec.model)],
            result: json!({"model": spec.model, "measured": all}),
            ..Analysis::default()
        })
    }
}

impl Experiment for AgedImageCopy {
    const TITLE: &'static str = "Copying an aged image to flash, in the order of addresses or of last writes";
    const PAGE: &'static str = include_str!("../docs/experiments/aged-image-copy.md");

    fn defaults(level: Level) -> Spec {
        let systems = ["ext4", "xfs", "btrfs"];
        Spec {
            fs: systems[..level.of([1, 3, 3])].iter().map(ToString::to_string).collect(),
            size: Size(level.of([Bytes::mib(64), Bytes::mib(512), Bytes::gib(2)])),
            turnover: level.of([1.0, 3.0, 5.0]),
            depths: vec![1, 4, 16],
            model: "ssd:fast24".into(),
        }
    }
}

struct Drives([Drive; 4], u64);

impl Drives {
    fn of(flash: &Flash, aged: &Aged, seed: Seed) -> Self {
        // Data from before the trace: the file system as it was made.
        let mut all = aged.history.clone();
        all.extend(&aged.reads);
        let made = history_of_reads(&all);
        let before = || made.iter().chain(&aged.history);
        let mut writes = LastWrites::new(flash.capacity_bytes);
        before().for_each(|request| writes.record(request));
        let runs = |order| writes.runs(order, flash.largest_command_bytes);
        let last = runs(Order::LastWrite);
        let old = steady_state(&last, 1.0 + flash.spare_share, seed);
        let copied = last.iter().map(|run| run.blocks).sum();
        let of = |runs: Vec<senesce_devmodel::last_write::Run>| {
            written(flash, runs.into_iter().map(|run| run.request(flash.capacity_bytes)))
        };
        Self([written(flash, before().copied()), of(last), of(runs(Order::Address)), of(old)], copied)
    }
}

fn written(flash: &Flash, requests: impl Iterator<Item = Request>) -> Drive {
    let mut drive = Drive::new(flash);
    requests.for_each(|request| drive.prepare_request(&request));
    drive
}

fn read(drive: &Drive, reads: &[Request], depth: u32) -> (f64, Option<f64>) {
    let mut drive = drive.clone();
    let at_depth: Vec<Request> = reads.iter().map(|one| Request { queue_depth: depth, ..*one }).collect();
    debug_assert!(at_depth.iter().all(|one| one.operation == Operation::Read));
    (busy_ns(&mut drive, &at_depth) as f64 * 1e-9, drive.collision_index())
}

fn table(all: &[&Measurement]) -> Table {
    let against = |one: &Measurement| values(all, AGAINST).find(|other| other.condition == one.condition);
    Rows::of(values(all, SECONDS))
        .column("file system", |one| word(one, "fs"))
        .column("drive written by", |one| word(one, "order"))
        .column("depth", |one| word(one, "depth"))
        .column("read time (s)", |one| one.value)
        .column("against the full replay (%)", |one| against(one).map(|other| other.value))
        .table("reads", "Reads of the aged image and of its copies")
}

fn figure(all: &[&Measurement], spec: &Spec) -> Figure {
    let mut series = Vec::new();
    for fs in &spec.fs {
        for order in &ORDERS[1..] {
            let points = points(all, AGAINST, "depth", |one| word(one, "fs") == fs && word(one, "order") == *order);
            series.push(Series::new(format!("{fs}, {order}"), Mark::Modelled, points));
        }
    }
    series.retain(|one| !one.points.is_empty());
    Figure {
        id: "against-full-replay".into(),
        title: "Read time of copies against the aged drive".into(),
        caption: "0: the copy reads like the original. Below 0: it reads faster.".into(),
        device: format!("modelled: {}", spec.model),
        better: Better::Neither,
        kind: FigureKind::Lines {
            x: Axis::linear("reads at a time").log2(),
            y: Axis::linear("read time against the full replay (%)"),
            series,
        },
    }
}
