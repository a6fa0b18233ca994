//! Parameters of all fragmentation experiments.

use super::models::Models;
use super::volume::{self, VolumeSource};
use clap::{Args, ValueEnum, value_parser};
use senesce_core::environment::USE_SUDO;
use senesce_core::{Bytes, Failure, Level, Seed, Size, Span};
use senesce_volume::{FileSystem, TargetSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The parameters of an experiment: common ones and its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
pub struct Spec<P: Args> {
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
    /// Parameters of this experiment.
    #[command(flatten)]
    #[serde(flatten)]
    pub own: P,
}

/// Volumes and how they are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case")]
pub struct Common {
    /// file systems
    #[arg(long, value_delimiter = ',')]
    pub fs: Vec<FileSystem>,
    /// size of the volume that is made for every round
    #[arg(long)]
    pub size: Size,
    /// where volumes are made: memory, image:FILE, a block device, or an existing directory as it is
    #[arg(long)]
    pub target: Target,
    /// independent volumes of each round and file system, the samples for verdicts (a verdict needs 5)
    #[arg(long, value_parser = value_parser!(u32).range(1..=100))]
    #[serde(default = "one")]
    pub images: u32,
    /// cold reads of each volume with each read-ahead setting
    #[arg(long, value_parser = value_parser!(u32).range(1..=100))]
    #[serde(default = "one")]
    pub repetitions: u32,
    /// read-ahead settings to read with, KiB, separated by commas; 0 is off
    #[arg(long, value_delimiter = ',')]
    pub read_ahead: Vec<u64>,
    /// pause between mount and cold read
    #[arg(long)]
    pub settle: Span,
    /// seed of ext4's listing order: drawn for each volume, as mkfs does, or one for all
    #[arg(long)]
    pub directory_hash: DirectoryHash,
    /// model of the disk drive that times the reads, from `senesce device list`
    #[arg(long)]
    pub disk: String,
    /// model of the solid-state drive; one with a flash translation layer first replays the traced writes
    #[arg(long)]
    pub flash: String,
    /// additional file systems, run in the guest: f2fs,nilfs2; empty: none
    #[arg(long)]
    pub guest: GuestSystems,
}

/// Where to make volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Target {
    /// Images in memory, of the size of a volume.
    Memory,
    /// A target given by the user.
    Said(TargetSpec),
}

/// Whether ext4 lists the directories of all volumes in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryHash {
    /// Each volume has its own seed.
    Drawn,
    /// All volumes have the same seed.
    One,
}

/// File systems for the guest; may be empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct GuestSystems(pub Vec<FileSystem>);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            _ => text.parse().map(Self::Said).map_err(|error: senesce_volume::TargetError| error.to_string()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => formatter.write_str("memory"),
            Self::Said(spec) => spec.fmt(formatter),
        }
    }
}

impl FromStr for GuestSystems {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let parse = |word: &str| word.parse().map_err(|error: senesce_volume::TargetError| error.to_string());
        words.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for GuestSystems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|fs| fs.name()).collect();
        formatter.write_str(&names.join(","))
    }
}

senesce_core::text_form!(Target, GuestSystems);

/// Returns the number of images and reads in records of older versions.
fn one() -> u32 {
    1
}

/// Returns the seed of an image, from which its files, their order and its file systems follow.
pub(crate) fn seed_of_image(seed: Seed, image: u32) -> Seed {
    if image == 0 { seed } else { seed.child(&format!("image/{image}")) }
}

impl Common {
    pub(crate) fn defaults(level: Level) -> Self {
        let all = || vec![FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
        Self {
            fs: level.of([vec![FileSystem::Ext4], all(), all()]),
            size: Size(level.of([Bytes::mib(64), Bytes::mib(512), Bytes::gib(20)])),
            target: Target::Memory,
            images: level.of([1, 5, 5]),
            repetitions: 1,
            read_ahead: vec![128, 0],
            settle: Span::from_millis(level.of([0, 0, 90_000])),
            directory_hash: DirectoryHash::Drawn,
            disk: Models::default().disk,
            flash: Models::default().flash,
            guest: GuestSystems(level.of([vec![], vec![], vec![FileSystem::F2fs, FileSystem::Nilfs2]])),
        }
    }

    /// Returns whether a run without root would decide no claim. Claims name file systems that root makes and traces, or that a
    /// guest makes.
    pub(crate) fn needs_root(&self) -> bool {
        match &self.target {
            Target::Memory => self.guest.0.is_empty(),
            Target::Said(spec) => spec.needs_root(),
        }
    }

    /// Returns the warning that a run decides no claim: the user's directory has none of the file systems that claims name.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        let is_directory = matches!(self.target, Target::Said(TargetSpec::Directory(_)));
        (is_directory && self.guest.0.is_empty()).then_some(
            "the run decides no claim, because claims name file systems that senesce makes; for verdicts, omit --target and \
             use sudo or --vm",
        )
    }

    /// Checks where volumes are made. Without root nothing can be mounted: for a run with guests, a directory in the run directory
    /// is used. A run without guests needs root, so its plan is that of root.
    pub(crate) fn place(&self) -> Result<VolumeSource, Failure> {
        let made = |spec| Ok(VolumeSource::Made(spec));
        let place = match &self.target {
            Target::Memory if !self.guest.0.is_empty() && !volume::mounting().are_met() => {
                Ok(VolumeSource::Directory(None))
            }
            Target::Memory => made(TargetSpec::Memory { size: self.size.0 }),
            // A missing path is more likely a typing error than a request to fill the file system above it.
            Target::Said(TargetSpec::Directory(path)) if !path.is_dir() => Err(Failure::usage(format!(
                "target: directory {} not found; make it first, or use memory, image:FILE or a block device",
                path.display()
            ))),
            Target::Said(TargetSpec::Directory(path)) => Ok(VolumeSource::Directory(Some(path.clone()))),
            Target::Said(TargetSpec::Image { path, size: None }) => {
                made(TargetSpec::Image { path: path.clone(), size: Some(self.size.0) })
            }
            Target::Said(spec) => made(spec.clone()),
        }?;
        let is_made = matches!(place, VolumeSource::Made(_));
        self.fs.iter().filter(|_| is_made).chain(&self.guest.0).try_for_each(|fs| self.check_size(*fs))?;
        match self.read_ahead.is_empty() {
            true => Err(Failure::usage("read-ahead: the list is empty; write KiB such as 128,0")),
            false => Ok(place),
        }
    }

    /// Describes the file systems that a run without root leaves out.
    pub(crate) fn left_out(&self) -> Option<String> {
        let names: Vec<&str> = self.fs.iter().map(|fs| fs.name()).collect();
        let words = || format!("without root, a directory replaces fresh {}; {USE_SUDO}", names.join(", "));
        matches!(self.place(), Ok(VolumeSource::Directory(None))).then(words)
    }

    /// Refuses a volume that mkfs would refuse.
    fn check_size(&self, fs: FileSystem) -> Result<(), Failure> {
        let (least, size) = (fs.minimum_size(), self.size.0);
        match size < least {
            true => Err(Failure::usage(format!("size: {fs} needs a volume of at least {least}; --size gives {size}"))),
            false => Ok(()),
        }
    }

    pub(crate) fn file_systems(&self, place: &VolumeSource) -> Vec<String> {
        match place {
            VolumeSource::Directory(_) => vec![volume::AS_FOUND.to_string()],
            VolumeSource::Made(_) => self.fs.iter().map(|fs| fs.name().to_string()).collect(),
        }
    }

    pub(crate) fn in_guest(&self, fs: FileSystem) -> Self {
        Self { fs: vec![fs], target: Target::Memory, guest: GuestSystems(Vec::new()), ..self.clone() }
    }

    pub(crate) fn models(&self) -> Models {
        Models { disk: self.disk.clone(), flash: self.flash.clone() }
    }

    pub(crate) fn draw(&self, fs: &str, state: &str, seed: Seed) -> Seed {
        let state = if self.directory_hash == DirectoryHash::One { "any" } else { state };
        seed.child("fragmentation").child(&format!("volume/{fs}/{state}"))
    }

    /// Estimates the seconds of a round: two volumes, each read once per read-ahead setting.
    pub(crate) fn seconds_of_round(&self, data: Bytes) -> f64 {
        let reads = 2.0 * self.read_ahead.len() as f64 * f64::from(self.repetitions);
        1.0 + reads * (0.3 + self.settle.seconds() + data.0 as f64 / 200e6)
    }

    /// Refuses data that the volume cannot hold; a fifth of it is reserved for the file system.
    pub(crate) fn check_space(&self, place: &VolumeSource, data: Bytes) -> Result<(), Failure> {
        let most = self.size.bytes() / 5 * 4;
        if matches!(place, VolumeSource::Made(_)) && data.0 > most {
            return Err(Failure::usage(format!(
                "{data} of data do not fit into a volume of {}: the maximum is {}; choose a larger --size",
                self.size.0,
                Bytes(most)
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut Common)) -> String {
        let mut common = Common::defaults(Level::Quick);
        change(&mut common);
        common.place().unwrap_err().to_string()
    }

    #[test]
    fn parameters_are_written_back_and_wrong_ones_refused() {
        for text in ["", "f2fs", "f2fs,nilfs2"] {
            assert_eq!(text.parse::<GuestSystems>().unwrap().to_string(), text);
        }
        for text in ["memory", "memory:64M", "image:a.img,size=1G", "/tmp"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert!("zfs".parse::<GuestSystems>().is_err() && "image:".parse::<Target>().is_err());
        assert!(refused(|common| common.target = "/tmp/not/there".parse().unwrap()).contains("not found"));
        assert!(refused(|common| common.size = Size(Bytes::mib(1))).contains("needs a volume of at least"));
        assert!(refused(|common| common.read_ahead.clear()).contains("read-ahead"));
        let common =
            Common { target: "/tmp".parse().unwrap(), size: Size(Bytes::mib(1)), ..Common::defaults(Level::Smoke) };
        assert_eq!(common.file_systems(&common.place().unwrap()), [volume::AS_FOUND]);
    }

    #[test]
    fn plan_is_that_of_root_or_names_what_is_left_out() {
        for level in [Level::Quick, Level::Paper] {
            let common = Common::defaults(level);
            let is_of_root = common.file_systems(&common.place().unwrap()).len() == common.fs.len();
            assert_eq!(is_of_root, common.left_out().is_none());
            assert!(is_of_root || !common.guest.0.is_empty());
        }
    }

    #[test]
    fn common_and_own_parameters_are_read_back() {
        let text = toml::to_string(&Common::defaults(Level::Paper)).unwrap();
        assert_eq!(toml::from_str::<Common>(&text).unwrap(), Common::defaults(Level::Paper));
    }
}
