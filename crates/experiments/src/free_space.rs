//! What age does to free space: fresh, written once, aged with two kinds of churn (technical report CMU-PDL-16-105,
//! figure 2).

use crate::study::images::{ImageFacts, Images};
use crate::study::matrix::ImageId;
use crate::study::spec::{FileSystemSpec, StateKind, StateSpec, StudySpec};
use senesce_aging::{Churn, Data, Truncate};
use senesce_core::analysis::*;
use senesce_core::measurement::EVENT;
use senesce_core::published::{self, PublishedValue};
use senesce_core::{
    Experiment, Failure, Measurement, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Settings,
};
use senesce_layout::{FreeSpace, Layout};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// The experiment.
pub struct FreeSpaceExperiment;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "fs",
        help: "file systems",
        kind: ParameterKind::Choices(&["ext4", "xfs", "btrfs"]),
        defaults: ["ext4", "ext4,xfs,btrfs", "ext4,xfs,btrfs"],
    },
    Parameter { name: "size", help: "size of an image", kind: ParameterKind::Size, defaults: ["64M", "1G", "80G"] },
    Parameter {
        name: "profile",
        help: "aging profile, a name or a file",
        kind: ParameterKind::Text,
        defaults: ["agrawal", "agrawal", "agrawal"],
    },
    Parameter {
        name: "fullness",
        help: "allocated bytes of files over the size",
        kind: ParameterKind::Real { min: 0.05, max: 0.9 },
        defaults: ["0.6", "0.7", "0.7"],
    },
    Parameter {
        name: "overwrites",
        help: "bytes created over the size, in both kinds of churn",
        kind: ParameterKind::Real { min: 1.0, max: 10000.0 },
        defaults: ["1.5", "5", "20"],
    },
    Parameter {
        name: "agings",
        help: "independent agings of each state; results are ranges over them",
        kind: ParameterKind::Integer { min: 1, max: 100 },
        defaults: ["1", "3", "5"],
    },
    Parameter {
        name: "natural",
        help: "a file system of your own to look at beside them (read only): directory, image or device",
        kind: ParameterKind::Text,
        defaults: ["", "", ""],
    },
];

/// States in order: name and how they are made.
const STATES: [(&str, StateKind, Churn); 4] = [
    ("fresh", StateKind::Fresh, Churn::Profile),
    ("write-once", StateKind::WriteOnce, Churn::Profile),
    ("aged", StateKind::Aged, Churn::Profile),
    ("aged, churn by bins", StateKind::Aged, Churn::Bins),
];

/// A large free extent in this experiment: a share of the size of the volume (1.5 GB of 80 GB, as published).
const LARGE: f64 = 1.5 / 80.0;

/// The free space of a volume that nobody aged on purpose.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Natural {
    target: String,
    file_system: String,
    free_space: Option<FreeSpace>,
}

impl RunKind for FreeSpaceExperiment {
    fn kind(&self) -> &'static str {
        "free-space"
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let published = published::parse(self.published()).map_err(|error| Failure::usage(error.to_string()))?;
        let spec = spec(&Settings::from_plan(&record.plan.settings))?;
        let images: Vec<ImageFacts> = record.events_of("image").collect();
        let natural: Vec<Natural> = record.events_of("natural").collect();
        let mut figures: Vec<Figure> =
            (0..spec.file_system.len()).filter_map(|fs| figure(&spec, &images, &natural, fs)).collect();
        figures.extend(counts(&spec, &images));
        Ok(Analysis {
            title: "Free space of fresh, once written and aged file systems".into(),
            summary: format!(
                "{} images of {} were made with the profile {} at {:.0} % fullness.",
                images.len(),
                spec.size,
                spec.state[2].profile,
                spec.state[2].fullness.unwrap_or(0.0) * 100.0
            ),
            figures,
            tables: vec![table(&spec, &images, &natural)],
            findings: findings(&spec, &images, &published),
            caveats: record.events_of::<String>("without").collect(),
            result: json!({"images": images, "natural": natural}),
        })
    }
}

impl Experiment for FreeSpaceExperiment {
    fn title(&self) -> &'static str {
        "Free extents of fresh, once written and aged file systems"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn doc(&self) -> &'static str {
        include_str!("../../../docs/experiments/free-space.md")
    }

    fn published(&self) -> &'static str {
        include_str!("../../../data/published/free-space.csv")
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let spec = spec(settings)?;
        let mut plan = Plan::new(self.kind(), settings.seed(), settings.to_map());
        for id in ids(&spec) {
            let name = format!("{} {}, aging {}", spec.file_system[id.fs].name, spec.state[id.state].name, id.image);
            plan.step(format!("make {}", spec.state[id.state].kind.word()), name);
            if id.state > 0 {
                let planned = crate::study::matrix::aging_plan(&spec, &spec.state[id.state], id.image)?;
                plan.estimated_seconds += planned.summary().t_end as f64 * 30e-6 + 2.0;
            }
        }
        let natural = settings.text("natural");
        if !natural.is_empty() {
            if !Path::new(natural).exists() {
                return Err(Failure::usage(format!("natural: {natural} does not exist")));
            }
            plan.step("look at its free space, reading only", natural);
        }
        Ok(plan)
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        let spec = spec(settings)?;
        let done: Vec<Value> =
            context.directory.earlier_events().iter().map(|event| event.data["id"].clone()).collect();
        if !senesce_core::environment::is_root() {
            context.directory.append("without", &"measured without images: loop devices need root")?;
        } else {
            let images = Images::open(2 * spec.size.0, context.directory.path())?;
            for id in ids(&spec) {
                context.check_interrupt()?;
                if !done.contains(&json!(id)) {
                    let facts = images.provide(&spec, id, context.progress, context.interrupt)?;
                    for one in measurements(&spec, &facts) {
                        context.directory.append(EVENT, &one)?;
                    }
                    context.directory.append("image", &facts)?;
                    images.forget(&facts.key)?;
                }
            }
        }
        let natural = settings.text("natural");
        if !natural.is_empty() {
            let summary = Layout::of(Path::new(natural))?;
            let (file_system, free_space) = (summary.file_system, summary.free_space);
            context.directory.append("natural", &Natural { target: natural.into(), file_system, free_space })?;
        }
        Ok(())
    }
}

fn ids(spec: &StudySpec) -> Vec<ImageId> {
    let mut ids = Vec::new();
    for fs in 0..spec.file_system.len() {
        for state in 0..spec.state.len() {
            let images = if spec.state[state].kind == StateKind::Fresh { 1 } else { spec.images };
            ids.extend((0..images).map(|image| ImageId { fs, state, image }));
        }
    }
    ids
}

fn spec(settings: &Settings) -> Result<StudySpec, Failure> {
    let overwrites = settings.real("overwrites")?;
    let fullness = settings.real("fullness")?;
    let state = |(name, kind, churn): (&str, StateKind, Churn)| {
        let planned = kind != StateKind::Fresh;
        StateSpec {
            kind,
            name: name.into(),
            profile: if planned { settings.text("profile").into() } else { String::new() },
            fullness: planned.then_some(fullness),
            overwrites: (kind == StateKind::Aged).then_some(overwrites),
            data: Data::Fallocate,
            churn,
            truncate: Truncate::Drop,
            of: String::new(),
            path: String::new(),
        }
    };
    let fs = |name: String| FileSystemSpec {
        kind: name.clone(),
        name,
        mkfs: String::new(),
        mount: String::new(),
        kernel: String::new(),
    };
    Ok(StudySpec {
        name: "free space".into(),
        size: settings.size("size")?,
        seed: settings.seed().0,
        repetitions: 1,
        images: settings.integer("agings")? as u32,
        noise: false,
        models: Vec::new(),
        threads: 1,
        kernels: Vec::new(),
        guest_memory: senesce_core::Bytes::gib(2),
        file_system: settings.list("fs").into_iter().map(fs).collect(),
        state: STATES.into_iter().map(state).collect(),
        workload: Vec::new(),
        cell: Vec::new(),
    })
}

fn measurements(spec: &StudySpec, facts: &ImageFacts) -> Vec<Measurement> {
    let Some(free) = &facts.free_space else { return Vec::new() };
    let under = |one: Measurement| Measurement {
        image: facts.id.image,
        ..one.under("fs", &spec.file_system[facts.id.fs].name).under("state", &spec.state[facts.id.state].name)
    };
    vec![
        under(Measurement::new("free extents", "", Better::Lower, free.extents as f64)),
        under(Measurement::new("mean free extent", "bytes", Better::Higher, free.avg_bytes)),
        under(Measurement::new("free space in large extents", "%", Better::Higher, large_share(spec, free) * 100.0)),
    ]
}

/// Share of free space in extents of at least [`LARGE`] of the volume; buckets are counted from the one that begins there.
fn large_share(spec: &StudySpec, free: &FreeSpace) -> f64 {
    let least = spec.size.0 as f64 * LARGE;
    let large: u64 = free.buckets.iter().filter(|one| one.to_bytes as f64 > least).map(|one| one.blocks).sum();
    large as f64 / free.free_blocks.max(1) as f64
}

fn of_state(images: &[ImageFacts], fs: usize, state: usize) -> impl Iterator<Item = &FreeSpace> {
    images.iter().filter(move |one| one.id.fs == fs && one.id.state == state).filter_map(|one| one.free_space.as_ref())
}

/// Share of free space below each extent size, one line per state, from the first aging.
fn figure(spec: &StudySpec, images: &[ImageFacts], natural: &[Natural], fs: usize) -> Option<Figure> {
    let curve = |free: &FreeSpace| -> Vec<(f64, f64)> {
        let total = free.free_blocks.max(1) as f64;
        let mut seen = 0;
        let mut points = vec![(free.buckets.first().map_or(4096.0, |one| one.from_bytes as f64), 0.0)];
        for bucket in &free.buckets {
            // Sizes without any extent are flat: the line rises within its bucket only.
            if points.last().is_some_and(|last| last.0 < bucket.from_bytes as f64) {
                points.push((bucket.from_bytes as f64, seen as f64 / total * 100.0));
            }
            seen += bucket.blocks;
            points.push((bucket.to_bytes as f64, seen as f64 / total * 100.0));
        }
        points
    };
    let states = spec.state.iter().enumerate();
    let mut series: Vec<Series> = states
        .filter_map(|(state, one)| {
            Some(Series::new(&one.name, Mark::Measured, curve(of_state(images, fs, state).next()?)))
        })
        .collect();
    series.extend(natural.iter().filter_map(|one| {
        Some(Series::new(
            format!("{} ({})", one.target, one.file_system),
            Mark::Measured,
            curve(one.free_space.as_ref()?),
        ))
    }));
    let name = &spec.file_system[fs].name;
    (!series.is_empty()).then(|| Figure {
        id: format!("free-space-{name}"),
        title: format!("{name}: share of free space in extents up to a size"),
        caption: "The further to the left a line rises, the more the free space is in pieces. From the first aging."
            .into(),
        device: format!("{name} on images of {}", spec.size),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("Size of free extent").log2().in_bytes(),
            y: Axis { max: Some(100.0), ..Axis::linear("Free space in extents up to this size (%)").from_zero() },
            series,
        },
    })
}

fn range(values: &[f64]) -> Option<(f64, f64, f64)> {
    let mean = senesce_stats::mean(values)?;
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(*value), high.max(*value)));
    Some((mean, low, high))
}

/// Number of free extents by state, with the range over the agings.
fn counts(spec: &StudySpec, images: &[ImageFacts]) -> Option<Figure> {
    let series: Vec<Series> = spec
        .state
        .iter()
        .enumerate()
        .map(|(state, one)| {
            let mut series = Series::new(&one.name, Mark::Measured, Vec::new());
            for fs in 0..spec.file_system.len() {
                let values: Vec<f64> = of_state(images, fs, state).map(|free| free.extents as f64).collect();
                if let Some((mean, low, high)) = range(&values) {
                    series.points.push((fs as f64, mean));
                    series.intervals.push((low, high));
                }
            }
            series
        })
        .collect();
    let names = spec.file_system.iter().map(|one| one.name.clone()).collect();
    series.iter().any(|one| !one.points.is_empty()).then(|| Figure {
        id: "free-extents".into(),
        title: "Number of free extents".into(),
        caption: "Mean over the agings; the whiskers are their range, not an interval.".into(),
        device: format!("images of {}", spec.size),
        better: Better::Lower,
        kind: FigureKind::Bars {
            x: Axis::categories("File system", names),
            y: Axis::linear("Free extents").log10(),
            series,
        },
    })
}

fn table(spec: &StudySpec, images: &[ImageFacts], natural: &[Natural]) -> Table {
    let large = senesce_core::Bytes((spec.size.0 as f64 * LARGE) as u64);
    let share = format!("in extents from {large} (%)");
    let columns = [
        "file system",
        "state",
        "aging",
        "overwrites",
        "free extents",
        "mean free extent (bytes)",
        "largest (bytes)",
        &share,
    ];
    let mut table = Table::new("free-space", "Free space", &columns);
    let cells = |free: &FreeSpace| {
        vec![json!(free.extents), json!(free.avg_bytes), json!(free.max_bytes), json!(large_share(spec, free) * 100.0)]
    };
    for one in images {
        let Some(free) = &one.free_space else { continue };
        let mut row = vec![
            json!(spec.file_system[one.id.fs].name),
            json!(spec.state[one.id.state].name),
            json!(one.id.image),
            json!(one.overwrites),
        ];
        row.extend(cells(free));
        table.row(row);
    }
    for one in natural {
        let Some(free) = &one.free_space else { continue };
        let mut row =
            vec![json!(one.file_system), json!(format!("as found: {}", one.target)), Value::Null, Value::Null];
        row.extend(cells(free));
        table.row(row);
    }
    table
}

fn value(published: &[PublishedValue], condition: &str) -> Option<f64> {
    published.iter().find(|one| one.condition == condition).map(|one| one.value)
}

fn findings(spec: &StudySpec, images: &[ImageFacts], published: &[PublishedValue]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (fs, one) in spec.file_system.iter().enumerate() {
        let shares =
            |state| -> Vec<f64> { of_state(images, fs, state).map(|free| large_share(spec, free) * 100.0).collect() };
        let extents = |state| -> Vec<f64> { of_state(images, fs, state).map(|free| free.extents as f64).collect() };
        let (Some(once), Some(aged)) = (range(&shares(1)), range(&shares(2))) else { continue };
        let theirs = value(published, "ext4 write-once 80 GB").unwrap_or(f64::NAN);
        findings.push(Finding {
            claim: format!("{}: writing files once leaves most free space in large extents, aging does not.", one.name),
            published: format!("{theirs} % of free space in extents of 1.5 GB on average (ext4, 80 GB, written once)"),
            measured: format!(
                "{:.0} % in large extents written once, {:.0} % aged ({:.0} to {:.0})",
                once.0, aged.0, aged.1, aged.2
            ),
            verdict: if once.0 > 2.0 * aged.2 { Verdict::Seen } else { Verdict::NotSeen },
            note: format!("large: the same share of the volume as published, {:.2} %", LARGE * 100.0),
        });
        let (Some(profile), Some(bins)) = (range(&extents(2)), range(&extents(3))) else { continue };
        let apart = profile.1 > bins.2;
        findings.push(Finding {
            claim: format!("{}: churn by profile breaks free space into more pieces than churn by size bins.", one.name),
            published: "ext4, 2 GiB, 5 overwrites of Agrawal: 3587 against 686 free extents (own measurement of the earlier tool's churn)".into(),
            measured: format!(
                "{:.0} ({:.0} to {:.0}) against {:.0} ({:.0} to {:.0}) free extents",
                profile.0, profile.1, profile.2, bins.0, bins.1, bins.2
            ),
            verdict: if apart { Verdict::Seen } else { Verdict::NotSeen },
            note: if apart || spec.images > 1 { String::new() } else { "one aging only: ranges are not known".into() },
        });
    }
    findings
}
