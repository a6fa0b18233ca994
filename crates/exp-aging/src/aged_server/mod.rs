//! Shared by the two experiments on aged servers: one study per run, with the file systems of a published comparison, fresh and
//! aged by two profiles (technical report CMU-PDL-16-105, the sections on the Btrfs and the F2FS papers).

mod analysis;

use clap::{Args, ValueEnum};
use senesce_aging::{CommitShare, Data, Profile, Truncate};
use senesce_core::parameter::real;
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Plan, Seed, Size, Span};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run, new_plan};
use senesce_study::matrix::{self, RunId};
use senesce_study::results::{Results, measurements};
use senesce_study::spec::{CellSpec, FileSystemSpec, StateKind, StateSpec, StudySpec, WorkloadSpec};
use senesce_study::{Event, Matrix, needs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::str::FromStr;

pub(crate) trait Server: 'static {
    const KIND: &'static str;
    const TITLE: &'static str;
    const PERSONALITY: &'static str;
    const PAGE: &'static str;
    const PUBLISHED: &'static str;
    const CLAIMS: &'static str;
    /// Factors for the number of files at each level. At level quick as many as fit next to the aged files.
    const FILES: [f64; 3];
}

pub(crate) struct Aged<S>(Matrix, PhantomData<S>);

/// A comparison of the technical report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// The comparison of the Btrfs paper.
    BtrfsPaper,
    /// The comparison of the F2FS paper.
    F2fsPaper,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Self::BtrfsPaper => "btrfs-paper",
            Self::F2fsPaper => "f2fs-paper",
        }
    }

    fn file_systems(self) -> &'static [&'static str] {
        match self {
            Self::BtrfsPaper => &["ext4", "xfs", "btrfs"],
            Self::F2fsPaper => &["ext4", "btrfs", "f2fs"],
        }
    }
}

/// A published drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Drive {
    /// The first drive of the comparison.
    Auto,
    /// The disk drive.
    Hdd,
    /// The 64 GB SSD.
    Ssd,
    /// The 120 GB SSD.
    #[value(name = "ssd-120")]
    #[serde(rename = "ssd-120")]
    Ssd120,
}

/// A profile of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProfileName {
    /// Agrawal.
    Agrawal,
    /// Meyer.
    Meyer,
}

/// A value, or the published one
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Published<T> {
    Published,
    Said(T),
}

impl<T: FromStr<Err: std::fmt::Display>> FromStr for Published<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "published" => Ok(Self::Published),
            said => said.parse().map(Self::Said).map_err(|error| format!("{error}; or write published")),
        }
    }
}

impl<T: std::fmt::Display> Serialize for Published<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Published => serializer.serialize_str("published"),
            Self::Said(said) => serializer.collect_str(said),
        }
    }
}

impl<'de, T: FromStr<Err: std::fmt::Display>> Deserialize<'de> for Published<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Published sizes and fullness: variant, drive, size, fullness.
const PUBLISHED_VOLUMES: [(Variant, Drive, Bytes, f64); 4] = [
    (Variant::BtrfsPaper, Drive::Hdd, Bytes(100_000_000_000), 0.8),
    (Variant::BtrfsPaper, Drive::Ssd, Bytes(59_000_000_000), 0.7),
    (Variant::F2fsPaper, Drive::Ssd, Bytes(59_000_000_000), 0.7),
    (Variant::F2fsPaper, Drive::Ssd120, Bytes(100_000_000_000), 0.7),
];

/// Volumes, agings and workload of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// published comparison to repeat
    #[arg(long)]
    pub variant: Variant,
    /// published drive whose size and fullness are used (f2fs-paper: ssd and ssd-120 only)
    #[arg(long)]
    pub drive: Drive,
    /// size of an image, or published
    #[arg(long)]
    pub size: Published<Size>,
    /// allocated bytes of files / volume size, or published
    #[arg(long)]
    pub fullness: Published<f64>,
    /// aging profiles, one state each
    #[arg(long, value_delimiter = ',')]
    pub profiles: Vec<ProfileName>,
    /// bytes created while aging / volume size; 0: until convergence
    #[arg(long, value_parser = real(0.0..=100_000.0))]
    pub overwrites: f64,
    /// shares of the free space freed between two commits while aging, one state each; none: as published
    #[arg(long, value_delimiter = ',')]
    pub commit_shares: Vec<CommitShare>,
    /// independent agings of each state, the samples for verdicts about age
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub images: u32,
    /// length of a run
    #[arg(long)]
    pub time: Span,
    /// runs of every cell on each image (published: 3; a verdict needs 5 values of a cell)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// factor for the number of files of the workload
    #[arg(long, value_parser = real(0.001..=1000.0))]
    pub scale_files: f64,
    /// memory limit of a run, page cache included; 0: none
    #[arg(long)]
    pub memory: Size,
    /// device models that time the block trace of every run
    #[arg(long, value_delimiter = ',', value_parser = ["st500dm002", "850-evo", "970-evo-plus"])]
    pub models: Vec<String>,
}

impl<S: Server> Run for Aged<S> {
    const KIND: &'static str = S::KIND;
    const PUBLISHED: &'static str = S::PUBLISHED;
    const CLAIMS: &'static str = S::CLAIMS;
    const GOES_ON: bool = true;
    type Spec = Spec;
    type Event = Event;
    type Step = RunId;

    fn needs(spec: &Spec) -> Needs {
        study::<S>(spec, Seed(0)).map_or_else(|_| Needs::default(), |study| needs(&study))
    }

    fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<RunId>>, Failure> {
        matrix::steps(&study::<S>(spec, seed)?)
    }

    fn plan(spec: &Spec, seed: Seed) -> Result<Plan, Failure> {
        matrix::describe(&study::<S>(spec, seed)?, new_plan::<Self>(spec, seed)?)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self(Matrix::begin(study::<S>(spec, context.seed)?, context)?, PhantomData))
    }

    fn step(&mut self, _spec: &Spec, step: &RunId, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.0.step(*step, context)
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let results = Results::of(recorded, study::<S>(spec, recorded.seed)?);
        analysis::analyse(&results, spec.variant.name(), S::PUBLISHED)
    }

    fn measurements(_spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        measurements(recorded)
    }
}

impl<S: Server> Experiment for Aged<S> {
    const TITLE: &'static str = S::TITLE;
    const PAGE: &'static str = S::PAGE;

    fn defaults(level: Level) -> Spec {
        let published = Published::Published;
        let both = || vec![ProfileName::Agrawal, ProfileName::Meyer];
        let models = ["st500dm002", "850-evo", "970-evo-plus"].map(str::to_string);
        Spec {
            variant: Variant::BtrfsPaper,
            drive: Drive::Auto,
            size: level.of([Published::Said(Size(Bytes::mib(1536))), Published::Said(Size(Bytes::gib(2))), published]),
            fullness: level.of([Published::Said(0.1), Published::Published, Published::Published]),
            profiles: level.of([vec![ProfileName::Agrawal], both(), both()]),
            overwrites: level.of([1.2, 0.0, 0.0]),
            commit_shares: level.of([vec![CommitShare::NONE], with_and_without(), with_and_without()]),
            images: level.of([1, 5, 8]),
            time: Span::from_millis(level.of([100, 1000, 600_000])),
            repetitions: 1,
            scale_files: level.of(S::FILES),
            memory: Size(level.of([Bytes(0), Bytes::mib(256), Bytes::gib(1)])),
            models: level.of([models[..1].to_vec(), models.to_vec(), models.to_vec()]),
        }
    }
}

/// Returns the default clock and no clock, as published.
fn with_and_without() -> Vec<CommitShare> {
    vec![CommitShare::DEFAULT, CommitShare::NONE]
}

fn state_name(profile: &str, commit_share: CommitShare) -> String {
    match commit_share {
        CommitShare::DEFAULT => format!("aged by {profile}"),
        CommitShare::NONE => format!("aged by {profile} without clock"),
        other => format!("aged by {profile}, commit share {other}"),
    }
}

fn study<S: Server>(spec: &Spec, seed: Seed) -> Result<StudySpec, Failure> {
    let systems = spec.variant.file_systems();
    let (size, fullness) = volume(spec)?;
    let overwrites = Some(spec.overwrites).filter(|overwrites| *overwrites > 0.0);
    let both = |profile| spec.commit_shares.iter().map(move |share| (profile, *share));
    let aged = spec.profiles.iter().flat_map(both).map(|(profile, commit_share)| {
        let profile = format!("{profile:?}").to_lowercase();
        Profile::load(&profile)?;
        let name = state_name(&profile, commit_share);
        Ok(StateSpec {
            fullness: Some(fullness),
            overwrites,
            profile,
            data: Data::Fallocate,
            truncate: Truncate::Drop,
            commit_share,
            locality: Some(0.0),
            ..StateSpec::named(StateKind::Aged, &name)
        })
    });
    let fresh = StateSpec::named(StateKind::Fresh, "fresh");
    let states: Vec<StateSpec> = std::iter::once(Ok(fresh)).chain(aged).collect::<Result<_, Failure>>()?;
    let memory = Some(spec.memory.0).filter(|memory| memory.0 > 0);
    let study = StudySpec {
        seed: seed.0,
        repetitions: spec.repetitions,
        images: spec.images,
        models: spec.models.clone(),
        file_system: systems.iter().map(|name| FileSystemSpec::named(name)).collect(),
        state: states,
        workload: vec![WorkloadSpec {
            name: S::PERSONALITY.into(),
            personality: S::PERSONALITY.into(),
            scale: Some(spec.scale_files),
            seconds: Some(spec.time.seconds()),
            // Filebench's threads have 10 MiB each by default: a hundred of them would use up the limit of the page cache.
            set: BTreeMap::from([("memsize".into(), "1m".into())]),
            ..WorkloadSpec::default()
        }],
        cell: cells(systems, memory),
        ..StudySpec::new(&format!("{}: {}", S::TITLE, spec.variant.name()), size)
    };
    study.check().map_err(Failure::usage)?;
    Ok(study)
}

/// Returns the cells: the memory limit for all, and the guest for file systems that this kernel lacks.
fn cells(systems: &[&str], memory: Option<Bytes>) -> Vec<CellSpec> {
    let limited = memory.map(|_| CellSpec { memory, ..CellSpec::default() });
    let f2fs =
        systems.contains(&"f2fs").then(|| CellSpec { file_system: "f2fs".into(), vm: true, ..CellSpec::default() });
    limited.into_iter().chain(f2fs).collect()
}

fn volume(spec: &Spec) -> Result<(Bytes, f64), Failure> {
    let fits = |drive: Drive| spec.drive == Drive::Auto || spec.drive == drive;
    let published = PUBLISHED_VOLUMES.iter().find(|one| one.0 == spec.variant && fits(one.1));
    let Some((_, _, size, fullness)) = published else {
        let drive = spec.drive.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
        return Err(Failure::usage(format!("{} was not published on drive '{drive}'", spec.variant.name())));
    };
    let size = match spec.size {
        Published::Published => *size,
        Published::Said(said) => said.0,
    };
    let fullness = match spec.fullness {
        Published::Published => *fullness,
        Published::Said(said) if (0.05..=0.95).contains(&said) => said,
        Published::Said(said) => {
            return Err(Failure::usage(format!("--fullness {said}: write a number from 0.05 to 0.95, or published")));
        }
    };
    Ok((size, fullness))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aged_fileserver::Fileserver;

    fn paper(change: impl Fn(&mut Spec)) -> Result<StudySpec, Failure> {
        let mut spec = Aged::<Fileserver>::defaults(Level::Paper);
        change(&mut spec);
        study::<Fileserver>(&spec, Seed(42))
    }

    #[test]
    fn paper_level_has_the_published_sizes() {
        let spec = paper(|_| {}).unwrap();
        assert_eq!((spec.size, spec.state[1].fullness), (Bytes(100_000_000_000), Some(0.8)));
        assert_eq!(spec.workload[0].seconds, Some(600.0));
        let ssd = paper(|spec| spec.drive = Drive::Ssd).unwrap();
        assert_eq!((ssd.size, ssd.state[2].fullness), (Bytes(59_000_000_000), Some(0.7)));
    }

    #[test]
    fn f2fs_runs_in_the_guest_and_others_on_the_host() {
        let spec = paper(|spec| spec.variant = Variant::F2fsPaper).unwrap();
        let in_guest: Vec<bool> = (0..3).map(|fs| spec.guest_kernel(fs, 1, "fileserver").is_some()).collect();
        assert_eq!(in_guest, [false, false, true]);
        let none = paper(|spec| (spec.variant, spec.drive) = (Variant::F2fsPaper, Drive::Hdd)).unwrap_err();
        assert!(none.to_string().contains("not published on drive 'hdd'"));
    }
}
