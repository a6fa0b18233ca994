//! A mounted file system under test, all of it in memory, with or without a modelled disk.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_tierfs::cold::{FileCold, Latency, LatencyCold};
use senesce_tierfs::disk::DiskMount;
use senesce_tierfs::pair::{MakeRequest, make};
use senesce_tierfs::serve::{Memory, MountRequest, Server};
use senesce_tierfs::{Mode, Options, TierFs};
use senesce_volume::{ClaimedDirectory, LoopDevice, MountedTarget, OpenOptions, ScratchDirectory, TargetSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// The tier file system with eviction.
    Anticache,
    /// The same without.
    Bpfs,
    /// ext4 on a loop device in memory.
    Ext4,
    /// ext4 on a disk with the cold store's latency.
    Ext4Disk,
}

impl SubjectKind {
    /// A reader of some of them, for flags.
    pub fn among<const N: usize>(kinds: [Self; N]) -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(kinds.map(Self::name)).try_map(|name| <Self as ValueEnum>::from_str(&name, false))
    }

    /// Their names in a list.
    pub fn names(kinds: &[Self]) -> String {
        kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }

    /// Each once, in the order of all.
    pub fn in_order(kinds: &[Self]) -> Vec<Self> {
        let chosen: BTreeSet<Self> = kinds.iter().copied().collect();
        chosen.into_iter().collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anticache => "anticache",
            Self::Bpfs => "bpfs",
            Self::Ext4 => "ext4",
            Self::Ext4Disk => "ext4-disk",
        }
    }

    /// What it is, for figures and tables.
    pub fn label(name: &str) -> &'static str {
        match name {
            "anticache" => "anticache: memory and cold store",
            "bpfs" => "bpfs mode: memory only",
            "ext4" => "ext4 on a loop device in memory",
            _ => "ext4 on a disk with the cold store's modelled latency",
        }
    }
}

/// How the subjects are made.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Size of the region and of ext4's device.
    pub memory: Bytes,
    /// Threshold of the evictor.
    pub threshold: Bytes,
    /// Period of the evictor.
    pub period: Duration,
    /// Threads of the server.
    pub threads: usize,
    /// Latency of the cold store and of ext4's disk.
    pub latency: Option<Latency>,
}

/// A mounted file system. Fields are dropped in their order, from the top down.
pub struct Subject {
    /// What it is.
    pub kind: SubjectKind,
    directory: Option<ClaimedDirectory>,
    server: Option<Server>,
    target: Option<MountedTarget>,
    _device: Option<LoopDevice>,
    _disk: Option<DiskMount>,
    _room: Room,
}

/// A folder in memory, removed at the end.
struct Room(ScratchDirectory);

impl Room {
    fn new() -> Result<Self, Failure> {
        let room = Self(ScratchDirectory::in_memory("tier")?);
        fs::create_dir(room.mount_point()).map_err(|error| missing(&room.mount_point(), &error))?;
        Ok(room)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mount_point(&self) -> PathBuf {
        self.path("mount")
    }
}

fn missing(path: &Path, error: &std::io::Error) -> Failure {
    let words = senesce_core::failure::errno_words(error);
    Failure::new(ExitCode::Missing, format!("make {}: {words}; /dev/shm must be a tmpfs with room", path.display()))
}

impl Subject {
    /// Makes and mounts an empty file system.
    pub fn start(kind: SubjectKind, setup: &Setup) -> Result<Self, Failure> {
        let room = Room::new()?;
        match kind {
            SubjectKind::Anticache | SubjectKind::Bpfs => Self::mount_tier(kind, setup, room),
            SubjectKind::Ext4 => {
                let target = senesce_volume::open(&TargetSpec::Memory { size: setup.memory }, &OpenOptions::default())?;
                Ok(Self {
                    kind,
                    directory: None,
                    server: None,
                    target: Some(target),
                    _device: None,
                    _disk: None,
                    _room: room,
                })
            }
            SubjectKind::Ext4Disk => Self::ext4_on_disk(setup, room),
        }
    }

    fn mount_tier(kind: SubjectKind, setup: &Setup, room: Room) -> Result<Self, Failure> {
        let (nvm, cold) = (room.path("nvm"), room.path("cold"));
        make(&MakeRequest {
            nvm: nvm.clone(),
            nvm_size: Some(setup.memory),
            cold: cold.clone(),
            cold_size: None,
            erase: Vec::new(),
        })?;
        let mode = if kind == SubjectKind::Bpfs { Mode::Bpfs } else { Mode::Anticache };
        let server = Server::start(MountRequest {
            memory: Memory::File(nvm),
            cold,
            mount_point: room.mount_point(),
            options: Options { mode, threshold: setup.threshold, period: setup.period, ..Options::default() },
            threads: setup.threads,
            cold_latency: setup.latency,
        })?;
        let directory = Some(ClaimedDirectory::claim(&room.mount_point(), None)?);
        Ok(Self { kind, directory, server: Some(server), target: None, _device: None, _disk: None, _room: room })
    }

    fn ext4_on_disk(setup: &Setup, room: Room) -> Result<Self, Failure> {
        let path = room.path("backing");
        let file = File::create(&path).map_err(|error| missing(&path, &error))?;
        file.set_len(setup.memory.0).map_err(|error| missing(&path, &error))?;
        let latency = setup.latency.unwrap_or(Latency::SSD);
        let store = LatencyCold::new(Box::new(FileCold::open(&path)?), latency);
        let disk = DiskMount::new(Box::new(store), setup.memory.0, &room.mount_point(), 4)?;
        let backing = File::options().read(true).write(true).open(disk.path());
        let backing = backing.map_err(|error| missing(disk.path(), &error))?;
        let device = LoopDevice::attach(&backing, "senesce-tier", false)?;
        drop(backing);
        let target = senesce_volume::open(&TargetSpec::Device(device.path().into()), &OpenOptions::default())?;
        let target = Some(target);
        Ok(Self {
            kind: SubjectKind::Ext4Disk,
            directory: None,
            server: None,
            target,
            _device: Some(device),
            _disk: Some(disk),
            _room: room,
        })
    }

    /// Its root directory.
    pub fn directory(&self) -> Result<&ClaimedDirectory, Failure> {
        let found = self.directory.as_ref().or(self.target.as_ref().map(MountedTarget::directory));
        found.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the file system is not mounted"))
    }

    /// The file system behind it, if it is a tier file system.
    pub fn tier(&self) -> Option<&Arc<TierFs>> {
        self.server.as_ref().map(Server::fs)
    }

    /// Unmounts it and removes what it was made of.
    pub fn stop(mut self) -> Result<(), Failure> {
        drop(self.directory.take());
        if let Some(server) = self.server.take() {
            server.stop()?;
        }
        if let Some(target) = self.target.take() {
            target.close()?;
        }
        Ok(())
    }
}
