//! What the two experiments on aged servers share: one study per run, of the file systems of a published comparison, fresh
//! and aged by two profiles (technical report CMU-PDL-16-105, the sections on the Btrfs and the F2FS papers).

mod analysis;

use crate::study::spec::{CellSpec, FileSystemSpec, StateKind, StateSpec, StudySpec, WorkloadSpec};
use crate::study::{embed, embedded, matrix};
use senesce_aging::{Churn, Data, Profile, Truncate};
use senesce_core::{
    Analysis, Bytes, Experiment, Failure, Parameter, ParameterKind, Plan, Record, RunContext, RunKind, Settings,
};
use std::collections::BTreeMap;

/// What tells one experiment from the other.
pub trait Server: Sync {
    /// Id of the experiment.
    const KIND: &'static str;
    /// One line.
    const TITLE: &'static str;
    /// The personality.
    const PERSONALITY: &'static str;
    /// The doc page.
    const DOC: &'static str;
    /// Published values.
    const PUBLISHED: &'static str;
    /// Factors for the number of files at each level. Quick has as many as fit beside the aged files.
    const FILES: [&'static str; 3];
}

/// An experiment on an aged server.
pub struct Aged<S>(pub S);

/// File systems of a comparison, in the order of its figures; the first is the one that results are normalised to.
const VARIANTS: [(&str, &[&str]); 2] =
    [("btrfs-paper", &["ext4", "xfs", "btrfs"]), ("f2fs-paper", &["ext4", "btrfs", "f2fs"])];

/// Sizes and fullness as published: variant, drive, size, fullness.
const PUBLISHED_VOLUMES: [(&str, &str, &str, f64); 4] = [
    ("btrfs-paper", "hdd", "100GB", 0.8),
    ("btrfs-paper", "ssd", "59GB", 0.7),
    ("f2fs-paper", "ssd", "59GB", 0.7),
    ("f2fs-paper", "ssd-120", "100GB", 0.7),
];

const fn parameters(files: [&'static str; 3]) -> [Parameter; 11] {
    [
        Parameter {
            name: "variant",
            help: "the comparison that is repeated",
            kind: ParameterKind::Choice(&["btrfs-paper", "f2fs-paper"]),
            defaults: ["btrfs-paper"; 3],
        },
        Parameter {
            name: "drive",
            help: "whose published size and fullness are taken (f2fs-paper has ssd and ssd-120 only)",
            kind: ParameterKind::Choice(&["auto", "hdd", "ssd", "ssd-120"]),
            defaults: ["auto"; 3],
        },
        Parameter {
            name: "size",
            help: "size of an image, or published",
            kind: ParameterKind::Text,
            defaults: ["400M", "4G", "published"],
        },
        Parameter {
            name: "fullness",
            help: "allocated bytes of files over the size, or published",
            kind: ParameterKind::Text,
            defaults: ["0.3", "published", "published"],
        },
        Parameter {
            name: "profiles",
            help: "aging profiles, one state each",
            kind: ParameterKind::Choices(&["agrawal", "meyer"]),
            defaults: ["agrawal", "agrawal,meyer", "agrawal,meyer"],
        },
        Parameter {
            name: "overwrites",
            help: "bytes created while aging, over the size; 0: until convergence",
            kind: ParameterKind::Real { min: 0.0, max: 100_000.0 },
            defaults: ["1.2", "2", "0"],
        },
        Parameter {
            name: "time",
            help: "length of a run",
            kind: ParameterKind::Duration,
            defaults: ["200ms", "1s", "10min"],
        },
        Parameter {
            name: "repetitions",
            help: "runs of every cell (published: 3; 4 are the least that can be judged)",
            kind: ParameterKind::Integer { min: 1, max: 1000 },
            defaults: ["1", "4", "4"],
        },
        Parameter {
            name: "scale-files",
            help: "factor for the number of files of the workload",
            kind: ParameterKind::Real { min: 0.001, max: 1000.0 },
            defaults: files,
        },
        Parameter {
            name: "memory",
            help: "memory limit of a run, page cache included; 0: none",
            kind: ParameterKind::Size,
            defaults: ["0", "256M", "1G"],
        },
        Parameter {
            name: "models",
            help: "device models that time the block trace of every run",
            kind: ParameterKind::Choices(&["st500dm002", "850-evo", "970-evo-plus"]),
            defaults: ["st500dm002", "st500dm002,850-evo,970-evo-plus", "st500dm002,850-evo,970-evo-plus"],
        },
    ]
}

impl<S: Server> RunKind for Aged<S> {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        let settings = Settings::from_plan(&record.plan.settings);
        analysis::analyse(record, &study::<S>(&settings)?, settings.text("variant"), S::PUBLISHED)
    }
}

impl<S: Server> Experiment for Aged<S> {
    fn title(&self) -> &'static str {
        S::TITLE
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &parameters(S::FILES) }
    }

    fn doc(&self) -> &'static str {
        S::DOC
    }

    fn published(&self) -> &'static str {
        S::PUBLISHED
    }

    fn plan(&self, settings: &Settings) -> Result<Plan, Failure> {
        let study = study::<S>(settings)?;
        let planned = matrix::plan(&study, "")?;
        let settings_of_run = settings.to_map();
        Ok(Plan { kind: S::KIND.into(), settings: settings_of_run, ..planned })
    }

    fn run(&self, settings: &Settings, context: &mut RunContext<'_>) -> Result<(), Failure> {
        crate::study::run_matrix(&study::<S>(settings)?, context)
    }
}

/// The study that these settings ask for.
fn study<S: Server>(settings: &Settings) -> Result<StudySpec, Failure> {
    let variant = settings.text("variant");
    let systems = VARIANTS.iter().find(|(name, _)| *name == variant).map_or(VARIANTS[0].1, |(_, systems)| systems);
    let (size, fullness) = volume(settings)?;
    let overwrites = Some(settings.real("overwrites")?).filter(|overwrites| *overwrites > 0.0);
    let aged = settings.list("profiles").into_iter().map(|profile| {
        Profile::load(&profile)?;
        Ok(StateSpec {
            fullness: Some(fullness),
            overwrites,
            profile: profile.clone(),
            ..state(StateKind::Aged, format!("aged by {profile}"))
        })
    });
    let states: Vec<StateSpec> =
        std::iter::once(Ok(state(StateKind::Fresh, "fresh".into()))).chain(aged).collect::<Result<_, Failure>>()?;
    let memory = Some(settings.size("memory")?).filter(|memory| memory.0 > 0);
    let spec = StudySpec {
        name: format!("{}: {}", S::TITLE, variant),
        size,
        seed: settings.seed().0,
        repetitions: settings.integer("repetitions")? as u32,
        images: 1,
        noise: true,
        models: settings.list("models"),
        threads: 2,
        kernels: Vec::new(),
        guest_memory: Bytes::gib(2),
        file_system: systems.iter().map(|name| file_system(name)).collect(),
        state: states,
        workload: vec![WorkloadSpec {
            name: S::PERSONALITY.into(),
            personality: S::PERSONALITY.into(),
            file: String::new(),
            microbenchmark: String::new(),
            cold_read: false,
            scale: Some(settings.real("scale-files")?),
            seconds: Some(settings.duration("time")?.as_secs_f64()),
            // Filebench's threads have 10 MiB each: a hundred of them would leave nothing of the limit for the page cache.
            set: BTreeMap::from([("memsize".into(), "1m".into())]),
            launcher: String::new(),
        }],
        cell: cells(systems, memory),
    };
    spec.check().map_err(Failure::usage)?;
    // Through its stored form, so that analysis and run see the same.
    embedded(&embed(&spec)?)
}

fn state(kind: StateKind, name: String) -> StateSpec {
    StateSpec {
        kind,
        name,
        profile: String::new(),
        fullness: None,
        overwrites: None,
        data: Data::Fallocate,
        churn: Churn::Profile,
        truncate: Truncate::Drop,
        of: String::new(),
        path: String::new(),
    }
}

fn file_system(name: &str) -> FileSystemSpec {
    let (mkfs, mount, kernel) = (String::new(), String::new(), String::new());
    FileSystemSpec { kind: name.into(), name: name.into(), mkfs, mount, kernel }
}

/// The memory limit for all, and the lab for what this kernel lacks.
fn cells(systems: &[&str], memory: Option<Bytes>) -> Vec<CellSpec> {
    let limited = memory.map(|_| CellSpec { memory, ..CellSpec::default() });
    let f2fs =
        systems.contains(&"f2fs").then(|| CellSpec { file_system: "f2fs".into(), lab: true, ..CellSpec::default() });
    limited.into_iter().chain(f2fs).collect()
}

/// Size and fullness, as said or as published for the drive.
fn volume(settings: &Settings) -> Result<(Bytes, f64), Failure> {
    let (variant, drive) = (settings.text("variant"), settings.text("drive"));
    let published = PUBLISHED_VOLUMES.iter().find(|one| one.0 == variant && (drive == "auto" || one.1 == drive));
    let Some((_, _, size, fullness)) = published else {
        return Err(Failure::usage(format!("{variant} was not published on drive '{drive}'")));
    };
    let size = match settings.text("size") {
        "published" => size,
        said => said,
    };
    let fullness = match settings.text("fullness") {
        "published" => *fullness,
        said => said.parse().ok().filter(|share| (0.05..=0.95).contains(share)).ok_or_else(|| {
            Failure::usage(format!("fullness '{said}': write a number from 0.05 to 0.95, or published"))
        })?,
    };
    Ok((size.parse()?, fullness))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aged_fileserver::Fileserver;
    use senesce_core::Level;

    fn settings(level: Level, overrides: &[(&str, &str)]) -> Settings {
        let map = overrides.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Settings::resolve(&parameters(Fileserver::FILES), level, &map).unwrap()
    }

    #[test]
    fn the_paper_level_is_as_published() {
        let spec = study::<Fileserver>(&settings(Level::Paper, &[])).unwrap();
        assert_eq!((spec.size, spec.state[1].fullness), (Bytes(100_000_000_000), Some(0.8)));
        assert_eq!(spec.workload[0].seconds, Some(600.0));
        let ssd = study::<Fileserver>(&settings(Level::Paper, &[("drive", "ssd")])).unwrap();
        assert_eq!((ssd.size, ssd.state[2].fullness), (Bytes(59_000_000_000), Some(0.7)));
    }

    #[test]
    fn f2fs_runs_in_the_lab_and_everything_else_here() {
        let spec = study::<Fileserver>(&settings(Level::Quick, &[("variant", "f2fs-paper")])).unwrap();
        let lab: Vec<bool> = (0..3).map(|fs| spec.lab_kernel(fs, 1, "fileserver").is_some()).collect();
        assert_eq!(lab, [false, false, true]);
        let none = settings(Level::Quick, &[("variant", "f2fs-paper"), ("drive", "hdd")]);
        assert!(study::<Fileserver>(&none).unwrap_err().to_string().contains("not published on drive 'hdd'"));
    }
}
