//! What the fragmentation experiments share: volumes, readings, figures.
//!
//! Every experiment makes points. A point is one state of one volume: the files are laid out by the experiment, the volume
//! is made cold, and all files are read in directory order by one thread while the device's requests are traced. Beside
//! each aged point stands its unaged one: the same files copied in that order onto a fresh volume of the same size.

pub mod analysis;
pub mod beside;
pub mod correlations;
pub mod course;
pub mod figures;
pub mod point;
pub mod read;
pub mod rounds;
pub mod sketch;
pub mod strips;
pub mod tree;
pub mod volume;

use senesce_core::{Bytes, Failure, Parameter, ParameterKind, Seed, Settings};
use senesce_target::FileSystem;
use std::path::Path;
use std::time::Duration;
use volume::{Place, Volume};

/// Parameters that all of them have. `$size` gives the sizes of the volume per level.
macro_rules! common_parameters {
    ($smoke:literal, $quick:literal, $paper:literal) => {
        [
            $crate::fragmentation::FILE_SYSTEMS,
            senesce_core::Parameter {
                name: "size",
                help: "size of the volume that is made for every round",
                kind: senesce_core::ParameterKind::Size,
                defaults: [$smoke, $quick, $paper],
            },
            $crate::fragmentation::TARGET,
            $crate::fragmentation::ERASE,
            $crate::fragmentation::READ_AHEAD,
            $crate::fragmentation::SETTLE,
            $crate::fragmentation::DIRECTORY_HASH,
            $crate::fragmentation::LAB,
        ]
    };
}
pub(crate) use common_parameters;

pub(crate) const FILE_SYSTEMS: Parameter = Parameter {
    name: "fs",
    help: "file systems",
    kind: ParameterKind::Choices(&["ext4", "xfs", "btrfs", "f2fs", "nilfs2"]),
    defaults: ["ext4", "ext4,xfs,btrfs", "ext4,xfs,btrfs"],
};

pub(crate) const TARGET: Parameter = Parameter {
    name: "target",
    help: "where volumes are made: memory, image:FILE, a block device, or an existing directory as it is",
    kind: ParameterKind::Text,
    defaults: ["memory", "memory", "memory"],
};

pub(crate) const ERASE: Parameter = Parameter {
    name: "erase",
    help: "path or serial number of a target whose content may be lost",
    kind: ParameterKind::Text,
    defaults: ["", "", ""],
};

pub(crate) const READ_AHEAD: Parameter = Parameter {
    name: "read-ahead",
    help: "read-ahead settings to read with, KiB, separated by commas; 0 is off",
    kind: ParameterKind::Text,
    defaults: ["128,0", "128,0", "128,0"],
};

pub(crate) const SETTLE: Parameter = Parameter {
    name: "settle",
    help: "pause between mount and cold read",
    kind: ParameterKind::Duration,
    defaults: ["0s", "0s", "90s"],
};

pub(crate) const DIRECTORY_HASH: Parameter = Parameter {
    name: "directory-hash",
    help: "seed of ext4's order of listing: drawn for every volume, as mkfs does, or one for all of them",
    kind: ParameterKind::Choice(&["drawn", "one"]),
    defaults: ["drawn", "drawn", "drawn"],
};

pub(crate) const LAB: Parameter = Parameter {
    name: "lab",
    help: "file systems to run in the lab guest as well, f2fs,nilfs2; empty: none",
    kind: ParameterKind::Text,
    defaults: ["", "", "f2fs,nilfs2"],
};

/// The values of the common parameters.
#[derive(Debug, Clone)]
pub struct Common {
    /// File systems by name.
    pub file_systems: Vec<String>,
    /// Size of a volume.
    pub size: Bytes,
    /// Where volumes are made.
    pub place: Place,
    /// Read-ahead settings in KiB.
    pub read_ahead_kib: Vec<u64>,
    /// Pause between mount and read.
    pub settle: Duration,
    /// File systems for the guest.
    pub lab: Vec<String>,
    /// What mkfs draws follows from it.
    pub seed: Seed,
    /// Whether mkfs draws the same for every volume.
    pub one_draw: bool,
}

impl Common {
    /// Reads and checks them.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        let place = Place::of(settings)?;
        let file_systems = match place {
            Place::Directory(_) => vec![volume::AS_FOUND.to_string()],
            Place::Made { .. } => settings.list("fs"),
        };
        let lab = settings.list("lab");
        if let Some(unknown) = lab.iter().find(|name| !["f2fs", "nilfs2", "ext4", "xfs", "btrfs"].contains(&&***name)) {
            return Err(Failure::usage(format!("lab: '{unknown}' is not known there; write f2fs, nilfs2 or both")));
        }
        let read_ahead_kib = read_ahead(settings)?;
        let size = settings.size("size")?;
        let made = file_systems.iter().filter(|_| matches!(place, Place::Made { .. }));
        made.chain(&lab).try_for_each(|fs| check_size(fs, size))?;
        Ok(Self {
            file_systems,
            size,
            place,
            read_ahead_kib,
            settle: settings.duration("settle")?,
            lab,
            seed: settings.seed().child("fragmentation"),
            one_draw: settings.text("directory-hash") == "one",
        })
    }

    /// An empty volume for a state. `room` is where a directory is made when none was named.
    pub fn fresh(&self, fs: &str, state: &str, room: &Path) -> Result<Volume, Failure> {
        let state = if self.one_draw { "any" } else { state };
        Volume::fresh(&self.place, fs, room, self.seed.child(&format!("volume/{fs}/{state}")))
    }

    /// Roughly how long a round takes: two volumes, each read once per read-ahead setting.
    pub fn seconds_of_round(&self, data: Bytes) -> f64 {
        let reads = 2.0 * self.read_ahead_kib.len() as f64;
        1.0 + reads * (0.3 + self.settle.as_secs_f64() + data.0 as f64 / 200e6)
    }

    /// Refuses data that the volume cannot hold: a fifth is left to the file system itself.
    pub fn check_room(&self, data: Bytes) -> Result<(), Failure> {
        let room = self.size.0 / 5 * 4;
        if matches!(self.place, Place::Made { .. }) && data.0 > room {
            return Err(Failure::usage(format!(
                "{data} of data do not fit into a volume of {}: at most {} do; choose a larger --size",
                self.size,
                Bytes(room)
            )));
        }
        Ok(())
    }
}

/// Refuses a volume that mkfs would refuse.
fn check_size(fs: &str, size: Bytes) -> Result<(), Failure> {
    let least = fs.parse::<FileSystem>()?.least_size();
    match size < least {
        true => Err(Failure::usage(format!("size: {fs} needs a volume of at least {least}; --size gives {size}"))),
        false => Ok(()),
    }
}

fn read_ahead(settings: &Settings) -> Result<Vec<u64>, Failure> {
    let words = settings.list("read-ahead");
    let numbers: Result<Vec<u64>, _> = words.iter().map(|word| word.parse::<u64>()).collect();
    match numbers {
        Ok(numbers) if !numbers.is_empty() => Ok(numbers),
        _ => Err(Failure::usage(format!(
            "read-ahead: '{}' is not a list of KiB such as 128,0",
            settings.text("read-ahead")
        ))),
    }
}
