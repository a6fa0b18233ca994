//! Effect of aging on free space: fresh, written once, and aged with two kinds of churn (technical report CMU-PDL-16-105,
//! figure 2).

mod analysis;

use analysis::{counts, figure, table};
use clap::Args;
use senesce_aging::{Churn, CommitShare, Data, Truncate};
use senesce_core::analysis::{Analysis, Better, Figure};
use senesce_core::parameter::real;
use senesce_core::{Bytes, Failure, Level, Measurement, Seed, Size};
use senesce_layout::{FreeSpace, Layout};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run, Special};
use senesce_study::images::{ImageFacts, Images};
use senesce_study::matrix::{ImageId, aging_plan};
use senesce_study::spec::{FileSystemSpec, StateKind, StateSpec, StudySpec};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;

pub(crate) struct FreeSpaceExperiment(Option<Images>);

/// Images to age, and a volume of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// file systems
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// size of an image
    #[arg(long)]
    pub size: Size,
    /// aging profile, a name or a file
    #[arg(long)]
    pub profile: String,
    /// allocated bytes of files / volume size
    #[arg(long, value_parser = real(0.05..=0.9))]
    pub fullness: f64,
    /// bytes created / volume size, in both kinds of churn; 0: until convergence
    #[arg(long, value_parser = real(0.0..=10000.0))]
    pub overwrites: f64,
    /// independent agings of each state; results are ranges over them
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub agings: u32,
    /// your own file system to compare (read only): directory, image or device
    #[arg(long)]
    pub natural: Option<PathBuf>,
}

/// Names and kinds of the states in order, and whether with a clock. Published agings had no clock.
const STATES: [(&str, StateKind, Churn, CommitShare); 6] = [
    ("fresh", StateKind::Fresh, Churn::Profile, CommitShare::DEFAULT),
    ("write-once", StateKind::WriteOnce, Churn::Profile, CommitShare::DEFAULT),
    ("aged", StateKind::Aged, Churn::Profile, CommitShare::DEFAULT),
    ("aged, churn by bins", StateKind::Aged, Churn::Bins, CommitShare::DEFAULT),
    ("aged, no clock", StateKind::Aged, Churn::Profile, CommitShare::NONE),
    ("aged, churn by bins, no clock", StateKind::Aged, Churn::Bins, CommitShare::NONE),
];

/// Minimum size of a large free extent as a share of the volume (1.5 GB of 80 GB, as published).
const LARGE: f64 = 1.5 / 80.0;

/// The free space of a volume that was not aged artificially.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Natural {
    target: String,
    file_system: String,
    free_space: Option<FreeSpace>,
}

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// An image was made and its free space read.
    Image(ImageFacts),
    /// A volume that was not aged artificially.
    Natural(Natural),
}

/// A unit of work that completes or is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Make an image and read its free space.
    Image(ImageId),
    /// Read the free space of the user's volume.
    Natural,
}

impl Spec {
    fn until(&self) -> String {
        if self.overwrites > 0.0 { self.overwrites.to_string() } else { "until convergence".into() }
    }
}

fn step_needs(_spec: &Spec, step: &Step) -> Option<(Needs, &'static str)> {
    let without = "measured without images: loop devices need root";
    matches!(step, Step::Image(_)).then(|| (Needs::root("images are made on loop devices"), without))
}

impl Run for FreeSpaceExperiment {
    const KIND: &'static str = "free-space";
    const PUBLISHED: &'static str = include_str!("../data/published/free-space.csv");
    const CLAIMS: &'static str = include_str!("../data/published/free-space.claims.toml");
    const SPECIAL: Special<Self> = Special { step_needs, ..Special::NONE };
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let study = study(spec, seed);
        let mut steps = Vec::new();
        for id in ids(&study) {
            let state = &study.state[id.state];
            let name = format!("{} {}, aging {}", study.file_system[id.fs].name, state.name, id.image);
            let mut seconds = 1.0;
            if id.state > 0 {
                let operations = aging_plan(&study, state, id.image)?.summary().t_end;
                seconds += spec.fs[id.fs].seconds_of_operations(operations);
            }
            let words = format!("make {}", state.kind.word());
            steps.push(Planned::new(Step::Image(id), words, name).costing(Bytes(0), seconds));
        }
        if let Some(natural) = &spec.natural {
            let name = natural.display().to_string();
            if !natural.exists() {
                return Err(Failure::usage(format!("--natural: {name} does not exist")));
            }
            steps.push(Planned::new(Step::Natural, "read its free extents", name));
        }
        Ok(steps)
    }

    fn needs(spec: &Spec) -> Needs {
        match spec.natural {
            None => {
                let makers = spec.fs.iter().map(|fs| fs.maker());
                Needs::root("free-space makes images on loop devices").and_programs(makers)
            }
            Some(_) => Needs::default(),
        }
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self(None))
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let study = study(spec, context.seed);
        match (step, &spec.natural) {
            (Step::Image(id), _) => {
                let images = match &mut self.0 {
                    Some(images) => images,
                    none => none.insert(Images::open(2 * spec.size.bytes(), context.path())?),
                };
                let facts = images.provide(&study, *id, context.progress, context.interrupt)?;
                measurements(spec, &study, &facts).into_iter().for_each(|one| context.measure(one));
                images.forget(&facts.key)?;
                context.record(Event::Image(facts));
            }
            (Step::Natural, Some(path)) => {
                let seen = Layout::of(path)?;
                let (file_system, free_space) = (seen.file_system, seen.free_space);
                context.record(Event::Natural(Natural { target: path.display().to_string(), file_system, free_space }));
            }
            _ => {}
        }
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let study = study(spec, recorded.seed);
        let (mut images, mut natural) = (Vec::new(), Vec::new());
        for event in recorded.events().cloned() {
            match event {
                Event::Image(facts) => images.push(facts),
                Event::Natural(seen) => natural.push(seen),
            }
        }
        let file_systems = 0..study.file_system.len();
        let mut figures: Vec<Figure> = file_systems.filter_map(|fs| figure(&study, &images, &natural, fs)).collect();
        figures.extend(counts(&study, &images));
        Ok(Analysis {
            title: "Free space of fresh, written-once and aged file systems".into(),
            summary: format!(
                "{} images of {} were made with the profile {} at {:.0} % fullness.",
                images.len(),
                study.size,
                spec.profile,
                spec.fullness * 100.0
            ),
            figures,
            tables: vec![table(&study, &images, &natural)],
            result: json!({"images": images, "natural": natural}),
            ..Analysis::default()
        })
    }
}

impl Experiment for FreeSpaceExperiment {
    const TITLE: &'static str = "Free extents of fresh, written-once and aged file systems";
    const PAGE: &'static str = include_str!("../docs/experiments/free-space.md");

    fn defaults(level: Level) -> Spec {
        let all = || vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
        Spec {
            fs: level.of([vec![FileSystem::Ext4], all(), all()]),
            size: Size(level.of([Bytes::mib(64), Bytes::mib(512), Bytes::gib(80)])),
            profile: "agrawal".into(),
            fullness: level.of([0.6, 0.7, 0.7]),
            overwrites: level.of([1.5, 0.0, 20.0]),
            agings: level.of([1, 5, 5]),
            natural: None,
        }
    }
}

fn ids(study: &StudySpec) -> Vec<ImageId> {
    let mut ids = Vec::new();
    for fs in 0..study.file_system.len() {
        for state in 0..study.state.len() {
            ids.extend((0..study.images).map(|image| ImageId { fs, state, image }));
        }
    }
    ids
}

fn study(spec: &Spec, seed: Seed) -> StudySpec {
    let state = |(name, kind, churn, commit_share): (&str, StateKind, Churn, CommitShare)| {
        let planned = kind != StateKind::Fresh;
        StateSpec {
            profile: if planned { spec.profile.clone() } else { String::new() },
            fullness: planned.then_some(spec.fullness),
            overwrites: (kind == StateKind::Aged && spec.overwrites > 0.0).then_some(spec.overwrites),
            data: Data::Fallocate,
            churn,
            truncate: Truncate::Drop,
            commit_share,
            locality: Some(0.0),
            ..StateSpec::named(kind, name)
        }
    };
    StudySpec {
        seed: seed.0,
        repetitions: 1,
        images: spec.agings,
        noise: false,
        threads: 1,
        file_system: spec.fs.iter().map(|fs| FileSystemSpec::named(fs.name())).collect(),
        state: STATES.into_iter().map(state).collect(),
        ..StudySpec::new("free space", spec.size.0)
    }
}

fn measurements(spec: &Spec, study: &StudySpec, facts: &ImageFacts) -> Vec<Measurement> {
    let Some(free) = &facts.free_space else { return Vec::new() };
    let state = &study.state[facts.id.state];
    let under = |one: Measurement| {
        let one = one.under("fs", &study.file_system[facts.id.fs].name).under("state", &state.name);
        let one = if state.kind == StateKind::Fresh { one } else { one.under("profile", &spec.profile) };
        let one = if state.kind == StateKind::Aged { one.under("overwrites", spec.until()) } else { one };
        Measurement { image: facts.id.image, ..one }
    };
    let found = [
        Measurement::new("free extents", "", Better::Lower, free.extents as f64),
        Measurement::new("mean free extent", "bytes", Better::Higher, free.avg_bytes),
        Measurement::new("free space in large extents", "%", Better::Higher, large_share(study, free) * 100.0),
    ];
    let share = |(range, percent): (&str, f64)| {
        let one = Measurement::new("share of free space", "%", Better::Neither, percent).ok()?;
        Some(one.under("range", range).under("size", spec.size.0.to_string()))
    };
    found.into_iter().flatten().chain(shares(free).into_iter().filter_map(share)).map(under).collect()
}

/// Ranges of free extent sizes whose shares are reported: name and lower end.
const RANGES: [(&str, u64); 4] =
    [("4-64 KiB", 0), ("64 KiB-1 MiB", 64 << 10), ("1-16 MiB", 1 << 20), ("from 16 MiB", 16 << 20)];

fn shares(free: &FreeSpace) -> [(&'static str, f64); RANGES.len()] {
    let mut shares = RANGES.map(|(name, _)| (name, 0.0));
    for bucket in &free.buckets {
        let range = RANGES.iter().rposition(|(_, begin)| bucket.from_bytes >= *begin).unwrap_or(0);
        shares[range].1 += 100.0 * bucket.blocks as f64 / free.free_blocks.max(1) as f64;
    }
    shares
}

/// Returns the minimum size of a large free extent in bytes. Sizes are grouped by powers of two, and the group that
/// contains [`LARGE`] counts as large.
fn large_from(spec: &StudySpec) -> u64 {
    1 << ((spec.size.0 as f64 * LARGE) as u64).max(1).ilog2()
}

fn large_share(spec: &StudySpec, free: &FreeSpace) -> f64 {
    let least = large_from(spec);
    let large: u64 = free.buckets.iter().filter(|one| one.from_bytes >= least).map(|one| one.blocks).sum();
    large as f64 / free.free_blocks.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_layout::free::Bucket;

    #[test]
    fn agings_until_convergence_are_named_and_planned() {
        let quick = FreeSpaceExperiment::defaults(Level::Quick);
        assert_eq!(quick.until(), "until convergence");
        let aged = |spec: &Spec| study(spec, Seed(1)).state[2].overwrites;
        assert_eq!(aged(&quick), None);
        let short = Spec { overwrites: 5.0, ..quick };
        assert_eq!((short.until().as_str(), aged(&short)), ("5", Some(5.0)));
    }

    fn bucket(from: u64, blocks: u64) -> Bucket {
        Bucket { from_bytes: from, to_bytes: 2 * from, extents: 1, blocks, percent: 0.0 }
    }

    #[test]
    fn large_extents_match_the_table() {
        let of = |size: Bytes| {
            let defaults = FreeSpaceExperiment::defaults(Level::Quick);
            study(&Spec { size: Size(size), fs: vec![FileSystem::Ext4], ..defaults }, Seed(1))
        };
        let buckets = vec![bucket(4 << 20, 10), bucket(8 << 20, 20), bucket(16 << 20, 70)];
        let free = FreeSpace { free_blocks: 100, buckets, ..FreeSpace::default() };
        for (size, from, percent, column) in [
            (Bytes::mib(512), 8 << 20, 90.0, "in extents from 8 MiB (%)"),
            (Bytes::gib(1), 16 << 20, 70.0, "in extents from 16 MiB (%)"),
            (Bytes::gib(80), 1 << 30, 0.0, "in extents from 1 GiB (%)"),
        ] {
            let spec = of(size);
            assert_eq!((large_from(&spec), 100.0 * large_share(&spec, &free)), (from, percent), "{size}");
            assert_eq!(table(&spec, &[], &[]).columns.last().map(String::as_str), Some(column), "{size}");
        }
        let header = FreeSpaceExperiment::CLAIMS;
        assert!(header.contains("8 MiB of 512 MiB, 1 GiB of 80 GiB"), "the claims name the same size");
    }

    #[test]
    fn every_free_block_is_in_one_range() {
        let buckets = vec![
            bucket(4096, 10),
            bucket(32 << 10, 10),
            bucket(64 << 10, 20),
            bucket(1 << 20, 40),
            bucket(1 << 24, 20),
        ];
        let free = FreeSpace { free_blocks: 100, buckets, ..FreeSpace::default() };
        assert_eq!(shares(&free).map(|(_, percent)| percent), [20.0, 20.0, 40.0, 20.0]);
    }
}
