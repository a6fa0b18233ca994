//! "No space left on device" on a volume that is not full: free space in extents too short for inode chunks, and its prognosis.

mod analysis;
mod volume;

use clap::{Args, ValueEnum};
use senesce_core::{Analysis, Bytes, Failure, Level, Seed, Size};
use senesce_diagnose::headroom::{CreatableFiles, EndsBy};
use senesce_runner::{Context, Experiment, Needs, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};

pub(crate) struct EarlyEnospc;

/// A file system and how it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// ext4.
    Ext4,
    /// xfs.
    Xfs,
    /// xfs made with sparse=0: every chunk of inodes needs all of its blocks in one extent.
    XfsNotSparse,
    /// btrfs.
    Btrfs,
}

impl Variant {
    pub(crate) fn mkfs(self) -> (FileSystem, &'static str) {
        match self {
            Self::Ext4 => (FileSystem::Ext4, ""),
            Self::Xfs => (FileSystem::Xfs, ""),
            Self::XfsNotSparse => (FileSystem::Xfs, "-i sparse=0"),
            Self::Btrfs => (FileSystem::Btrfs, ""),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::XfsNotSparse => "xfs-not-sparse",
            Self::Btrfs => "btrfs",
        }
    }
}

/// Freed blocks of every eight blocks of a full volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Punched {
    /// 7 of 8.
    SevenOfEight,
    /// 3 of 8.
    ThreeOfEight,
    /// 1 of 4.
    OneOfFour,
}

impl Punched {
    /// Returns the freed blocks, and the blocks of the period.
    pub(crate) fn pattern(self) -> (u64, u64) {
        match self {
            Self::SevenOfEight => (7, 8),
            Self::ThreeOfEight => (3, 8),
            Self::OneOfFour => (1, 4),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SevenOfEight => "7 of 8",
            Self::ThreeOfEight => "3 of 8",
            Self::OneOfFour => "1 of 4",
        }
    }
}

/// Volumes to make and fill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// file systems
    #[arg(long, value_delimiter = ',', value_enum)]
    pub fs: Vec<Variant>,
    /// blocks to punch out of a full volume
    #[arg(long, value_delimiter = ',', value_enum)]
    pub punched: Vec<Punched>,
    /// size of the volume
    #[arg(long)]
    pub size: Size,
    /// size of the files that are created
    #[arg(long)]
    pub file_size: Size,
    /// prognoses during a fill
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub marks: u32,
}

/// A volume to fill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Step {
    /// Its file system.
    pub fs: Variant,
    /// Freed blocks.
    pub punched: Punched,
}

/// A prediction of the rule during the fill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct PredictionMark {
    /// Files created so far.
    pub created: u64,
    /// Share of the blocks in use.
    pub used_share: f64,
    /// Prediction for the files still to come.
    pub said: CreatableFiles,
    /// Files that could still be created: on the volume for the first mark, else on a twin.
    pub came: u64,
}

/// A fill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fill {
    /// The volume.
    pub step: Step,
    /// Predictions during the fill, the first one before any file.
    pub marks: Vec<PredictionMark>,
    /// Files that the kernel created on a twin.
    pub twin_files: u64,
    /// The end of the fill on the twin.
    pub twin_ends_by: EndsBy,
    /// Files created on the volume.
    pub files: u64,
    /// The end of the fill on the volume.
    pub ends_by: EndsBy,
    /// Share of the blocks in use at the first failure.
    pub used_share: f64,
    /// Free bytes at the first failure.
    pub free_bytes: u64,
}

/// One result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A volume was filled.
    Fill(Fill),
}

impl Run for EarlyEnospc {
    const KIND: &'static str = "early-enospc";
    const PUBLISHED: &'static str = include_str!("../data/published/early-enospc.csv");
    const CLAIMS: &'static str = include_str!("../data/published/early-enospc.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        if spec.size.0 < Bytes::mib(400) {
            return Err(Failure::usage(
                "--size: xfs and btrfs need at least 400M for a state that differs from a fresh one",
            ));
        }
        if spec.file_size.0 > Bytes::mib(1) {
            return Err(Failure::usage(
                "--file-size: at most 1M, because bytes limit larger files on every file system",
            ));
        }
        let each = |fs: &Variant| {
            let fs = *fs;
            spec.punched.iter().map(move |punched| Step { fs, punched: *punched }).collect::<Vec<_>>()
        };
        let planned = |step: Step| {
            let target = format!("{} in memory, {} blocks punched out", step.fs.name(), step.punched.name());
            Planned::new(step, "fill with files until none fits", target).costing(spec.size.0, 20.0)
        };
        Ok(spec.fs.iter().flat_map(each).map(planned).collect())
    }

    fn needs(spec: &Spec) -> Needs {
        Needs::root("early-enospc makes volumes on loop devices").and_memory(Bytes(2 * spec.size.0.0))
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let fill = volume::fill(spec, *step, context.interrupt)?;
        let measured = analysis::quantities([&fill]).measurements();
        measured.into_iter().for_each(|one| context.measure(one.primary()));
        context.record(Event::Fill(fill));
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let fills: Vec<Fill> = recorded.events().map(|Event::Fill(fill)| fill.clone()).collect();
        Ok(analysis::analysis(spec, &fills))
    }
}

impl Experiment for EarlyEnospc {
    const TITLE: &'static str = "No space left on a file system that is not full, and its prognosis";
    const PAGE: &'static str = include_str!("../docs/experiments/early-enospc.md");

    fn defaults(level: Level) -> Spec {
        use Variant::{Btrfs, Ext4, Xfs, XfsNotSparse};
        let all = || vec![Ext4, Xfs, XfsNotSparse, Btrfs];
        let punched = || vec![Punched::SevenOfEight, Punched::ThreeOfEight, Punched::OneOfFour];
        Spec {
            fs: level.of([vec![XfsNotSparse], all(), all()]),
            punched: level.of([vec![Punched::ThreeOfEight], punched(), punched()]),
            size: Size(level.of([Bytes::mib(400), Bytes::mib(600), Bytes::mib(600)])),
            file_size: Size(Bytes::kib(4)),
            marks: level.of([2, 4, 8]),
        }
    }
}

fn error(said: u64, came: u64) -> f64 {
    match said.abs_diff(came) {
        0 | 1 => 0.0,
        _ => (said as f64 / came.max(1) as f64 - 1.0) * 100.0,
    }
}

/// Returns whether the mark follows the rule. The rule counts the inode of a new directory; after the first mark the
/// directory exists.
fn holds(mark: &PredictionMark) -> bool {
    let left = mark.came.saturating_sub(mark.created.min(1));
    mark.said.low <= left && left <= mark.said.high
}
