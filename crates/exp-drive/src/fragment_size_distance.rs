//! Effect of size and distance of fragments on the rate of reads and updates (Park and Eom, FragPicker, SOSP 2021; figure 4 and
//! the artifact's motivation experiments). A file and a dummy grow in turn; then the file is read or overwritten 128 KiB at a
//! time.

use crate::{measured, points, values, word};
use clap::{Args, ValueEnum};
use senesce_claims::Facts;
use senesce_core::Rows;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_devmodel::ssd::Drive;
use senesce_devmodel::{Device, DeviceModel, Operation, Parameters, Request};
use senesce_runner::{Context, Experiment, NoEvent, Planned, Recorded, Run};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

/// Bytes per request of the program.
const REQUEST: u64 = 128 << 10;
/// The fixed distance while the size varies (the artifact's scripts).
const FIXED_DISTANCE: u64 = 1 << 20;
const FIXED_SIZE: u64 = 4 << 10;

pub struct FragmentSizeDistance;

/// Layouts and models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// models from `senesce device list`, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub models: Vec<String>,
    /// sizes of fragments, and distances between them, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub steps: Vec<Size>,
    /// size of the file
    #[arg(long)]
    pub file_size: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Access {
    /// Sequential read.
    Read,
    /// Sequential overwrite in place.
    Update,
}

impl Access {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
        }
    }
}

/// One file on one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Step {
    model: String,
    access: Access,
    /// The varied quantity: `size` or `distance`.
    varies: String,
    fragment: u64,
    distance: u64,
}

impl Spec {
    fn steps(&self) -> Result<Vec<Step>, Failure> {
        let mut steps = Vec::new();
        for model in &self.models {
            let capacity = DeviceModel::load(model)?.capacity_bytes();
            for access in [Access::Read, Access::Update] {
                for varies in ["size", "distance"] {
                    for value in self.steps.iter().map(|size| size.bytes()) {
                        let (fragment, distance) =
                            if varies == "size" { (value, FIXED_DISTANCE) } else { (FIXED_SIZE, value) };
                        self.check(fragment, distance, capacity, model)?;
                        steps.push(Step { model: model.clone(), access, varies: varies.into(), fragment, distance });
                    }
                }
            }
        }
        Ok(steps)
    }

    fn check(&self, fragment: u64, distance: u64, capacity: u64, model: &str) -> Result<(), Failure> {
        let bytes = self.file_size.bytes();
        for value in [fragment, distance] {
            if value == 0 || !value.is_multiple_of(4096) {
                return Err(Failure::usage(format!("steps: {} is not a multiple of 4 KiB above zero", Bytes(value))));
            }
        }
        if bytes < fragment.max(REQUEST) || !bytes.is_multiple_of(fragment.max(REQUEST)) {
            return Err(Failure::usage(format!(
                "file-size {} must be a multiple of {} and of every fragment",
                self.file_size.0,
                Bytes(REQUEST)
            )));
        }
        let span = bytes / fragment * (fragment + distance);
        if span > capacity {
            return Err(Failure::usage(format!(
                "file-size: {} in fragments of {} at a distance of {} take {}, and {model} has {}",
                self.file_size.0,
                Bytes(fragment),
                Bytes(distance),
                Bytes(span),
                Bytes(capacity)
            )));
        }
        Ok(())
    }
}

struct Layout {
    fragment: u64,
    distance: u64,
    bytes: u64,
}

impl Layout {
    fn place(&self, offset: u64) -> u64 {
        offset / self.fragment * (self.fragment + self.distance) + offset % self.fragment
    }

    fn history(&self) -> impl Iterator<Item = Request> + '_ {
        (0..self.bytes).step_by(self.fragment as usize).flat_map(|offset| {
            let place = self.place(offset);
            [(place, self.fragment), (place + self.fragment, self.distance)]
                .map(|(start, bytes)| Request::of_bytes(Operation::Write, start, bytes))
        })
    }

    fn split(&self, operation: Operation, offset: u64, bytes: u64) -> impl Iterator<Item = Request> + '_ {
        let mut at = offset;
        std::iter::from_fn(move || {
            let left = (offset + bytes).checked_sub(at).filter(|left| *left > 0)?;
            let piece = left.min(self.fragment - at % self.fragment);
            let request = Request::of_bytes(operation, self.place(at), piece);
            at += piece;
            Some(request)
        })
    }
}

/// Returns the rate in MB/s. The program waits for all parts of a request before the next one.
fn mb_per_s(model: &DeviceModel, access: Access, layout: &Layout) -> f64 {
    let mut device: Box<dyn Device> = match &model.parameters {
        Parameters::FlashSsd(flash) => {
            let mut drive = Drive::new(flash);
            layout.history().for_each(|request| drive.prepare_request(&request));
            Box::new(drive)
        }
        _ => model.start(),
    };
    let operation = if access == Access::Read { Operation::Read } else { Operation::Write };
    let mut now = 0;
    for offset in (0..layout.bytes).step_by(REQUEST as usize) {
        let split = layout.split(operation, offset, REQUEST);
        now = split.map(|request| device.serve(&request, now)).fold(now, u64::max);
    }
    if access == Access::Update {
        now = device.serve(&Request::new(Operation::Flush, 0, 0), now);
    }
    layout.bytes as f64 / now.max(1) as f64 * 1e3
}

fn kind_word(model: &DeviceModel) -> &'static str {
    match model.parameters {
        Parameters::Hdd(_) | Parameters::Disk(_) => "disk",
        _ => "flash",
    }
}

impl Run for FragmentSizeDistance {
    const KIND: &'static str = "fragment-size-distance";
    const PUBLISHED: &'static str = include_str!("../data/published/fragment-size-distance.csv");
    const CLAIMS: &'static str = include_str!("../data/published/fragment-size-distance.claims.toml");
    type Spec = Spec;
    type Event = NoEvent;
    type Step = Step;

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { model: Some(spec.models.join(", ")), deterministic: true, drives: spec.models.clone(), ..facts }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let planned = |step: Step| {
            let (fragment, distance) = (Bytes(step.fragment), Bytes(step.distance));
            let action = format!("{} a file in fragments of {fragment}, {distance} apart", step.access.word());
            let span = spec.file_size.bytes() / step.fragment * (step.fragment + step.distance);
            let target = step.model.clone();
            Planned::new(step, action, target).costing(Bytes(0), span as f64 / 4096.0 / 2e7)
        };
        Ok(spec.steps()?.into_iter().map(planned).collect())
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let model = DeviceModel::load(&step.model)?;
        let layout = Layout { fragment: step.fragment, distance: step.distance, bytes: spec.file_size.bytes() };
        let rate = mb_per_s(&model, step.access, &layout);
        let kib = |bytes: u64| (bytes >> 10).to_string();
        let (size, distance) = (kib(step.fragment), kib(step.distance));
        let along =
            if step.varies == "size" { ("size_kib", size.as_str()) } else { ("distance_kib", distance.as_str()) };
        let metric = format!("{} rate by {}", step.access.word(), step.varies);
        let under = [("model", step.model.as_str()), ("kind", kind_word(&model)), along];
        context.measure(measured(&metric, "MB/s", Better::Higher, rate, &under)?);
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let all: Vec<&Measurement> = recorded.measurements().collect();
        let metrics: BTreeSet<&str> = all.iter().map(|one| one.metric.as_str()).collect();
        Ok(Analysis {
            title: "Size and distance of fragments".into(),
            summary: format!(
                "A file of {} and a dummy grew in turn; the file was then read, or overwritten in place, 128 KiB at \
                 a time. Fragments of any size lie 1 MiB apart, and distances are those of fragments of 4 KiB.",
                spec.file_size.0
            ),
            figures: metrics.iter().map(|metric| figure(&all, metric, &spec.models)).collect(),
            tables: vec![table(&all)],
            caveats: vec![
                "modelled: no drive was read; the host's cost of a request is omitted, so a split request costs \
                 only the drive's part"
                    .into(),
                "the published drives (a 1 TB disk, a microSD card, a Samsung 850 PRO, an Intel 905P) are not among the models".into(),
            ],
            result: json!({"models": spec.models, "rates": all}),
            ..Analysis::default()
        })
    }
}

impl Experiment for FragmentSizeDistance {
    const TITLE: &'static str = "Read and update rate by size and distance of fragments, on disk and flash";
    const PAGE: &'static str = include_str!("../docs/experiments/fragment-size-distance.md");

    fn defaults(level: Level) -> Spec {
        let powers = level.of([vec![2, 7, 12], (2..=12).collect(), (2..=12).collect()]);
        let models = ["hdd:st500dm002", "ssd:mlc-sata", "ssd:970-evo-plus", "ssd:fast24"].map(String::from);
        Spec {
            models: level.of([vec![models[0].clone(), models[3].clone()], models.to_vec(), models.to_vec()]),
            steps: powers.into_iter().map(|power| Size(Bytes::kib(1 << power))).collect(),
            file_size: Size(level.of([Bytes::mib(4), Bytes::mib(32), Bytes::mib(48)])),
        }
    }
}

fn along(metric: &str) -> &'static str {
    if metric.ends_with("size") { "size_kib" } else { "distance_kib" }
}

fn table(all: &[&Measurement]) -> Table {
    Rows::of(all)
        .column("what", |one| &one.metric)
        .column("model", |one| word(one, "model"))
        .column("KiB", |one| word(one, along(&one.metric)))
        .column("rate (MB/s)", |one| &one.value)
        .table("rates", "Rates by size and distance")
}

fn figure(all: &[&Measurement], metric: &str, models: &[String]) -> Figure {
    let of = |model: &String| {
        let points = points(all, metric, along(metric), |one| word(one, "model") == model);
        Series::new(model, Mark::Modelled, points.into_iter().map(|(kib, rate)| (kib * 1024.0, rate)).collect())
    };
    let optane = values(all, metric).next().filter(|one| one.metric == "read rate by size");
    let series = models.iter().map(of).chain(optane.map(|_| published())).collect();
    let label = if metric.ends_with("size") { "size of a fragment" } else { "distance between fragments" };
    Figure {
        id: metric.replace(' ', "-"),
        title: format!("{}{}", metric[..1].to_uppercase(), &metric[1..]),
        caption: "Requests of 128 KiB, one at a time.".into(),
        device: format!("modelled: {}", models.join(", ")),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear(label).log2().in_bytes(),
            y: Axis::linear("rate (MB/s)").log10(),
            series,
        },
    }
}

/// Returns the published rates of an Optane drive, which has no model.
fn published() -> Series {
    let rows = senesce_core::published::parse(FragmentSizeDistance::PUBLISHED).unwrap_or_default();
    let kib = |condition: &str| condition.rsplit_once("size_kib=").and_then(|(_, kib)| kib.parse::<f64>().ok());
    let points = rows.iter().filter_map(|row| Some((kib(&row.condition)? * 1024.0, row.value))).collect();
    Series::new("Optane 905P", Mark::Published, points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_the_file_is_split_at_fragment_ends() {
        let layout = Layout { fragment: 48 << 10, distance: 16 << 10, bytes: 384 << 10 };
        let pieces: Vec<(u64, u64)> =
            layout.split(Operation::Read, 0, REQUEST).map(|one| (one.offset() >> 10, one.bytes() >> 10)).collect();
        assert_eq!(pieces, [(0, 48), (64, 48), (128, 32)]);
        let rest: Vec<(u64, u64)> = layout
            .split(Operation::Read, REQUEST, REQUEST)
            .map(|one| (one.offset() >> 10, one.bytes() >> 10))
            .collect();
        assert_eq!(rest, [(160, 16), (192, 48), (256, 48), (320, 16)]);
        assert_eq!(layout.history().map(|one| one.bytes()).sum::<u64>(), 8 * (64 << 10));
    }

    #[test]
    fn layouts_that_do_not_fit_are_reported() {
        let refused = |change: fn(&mut Spec)| {
            let mut spec = FragmentSizeDistance::defaults(Level::Smoke);
            change(&mut spec);
            spec.steps().unwrap_err().to_string()
        };
        assert!(refused(|spec| spec.steps = vec![Size(Bytes(5000))]).contains("multiple of 4 KiB"));
        assert!(refused(|spec| spec.file_size = Size(Bytes::gib(1))).contains(", and hdd:st500dm002 has "));
        assert!(refused(|spec| spec.models = vec!["ssd:none".into()]).contains("unknown device"));
        assert!(refused(|spec| spec.file_size = Size(Bytes::kib(100))).contains("must be a multiple"));
    }

    #[test]
    fn on_a_disk_size_and_distance_matter_and_a_contiguous_file_is_fastest() {
        let disk = DeviceModel::load("hdd:st500dm002").unwrap();
        let rate = |fragment, distance| mb_per_s(&disk, Access::Read, &Layout { fragment, distance, bytes: 4 << 20 });
        assert!(rate(4 << 20, 1 << 20) > 5.0 * rate(4 << 10, 1 << 20));
        assert!(rate(4 << 10, 4 << 10) > 5.0 * rate(4 << 10, 1 << 20));
    }
}
