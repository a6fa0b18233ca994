//! What age does to free space: fresh, written once, aged with two kinds of churn (technical report CMU-PDL-16-105,
//! figure 2).

mod analysis;

use crate::study::images::{ImageFacts, Images};
use crate::study::matrix::ImageId;
use crate::study::spec::{FileSystemSpec, StateKind, StateSpec, StudySpec};
use analysis::{counts, figure, findings, table};
use senesce_aging::{Churn, Data, Truncate};
use senesce_core::analysis::*;
use senesce_core::measurement::EVENT;
use senesce_core::published;
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
