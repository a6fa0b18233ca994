//! A mounted file system under test: in memory, on a disk, or on a modelled disk in memory.

use super::disk::Disk;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_tierfs::cold::{FileCold, Latency, LatencyCold};
use senesce_tierfs::disk::DiskMount;
use senesce_tierfs::pair::{MakeRequest, make};
use senesce_tierfs::serve::{Memory, MountRequest, Server};
use senesce_tierfs::{Mode, Options, Promotion, TierFs};
use senesce_volume::{ClaimedDirectory, LoopDevice, MountedTarget, OpenOptions, ScratchDirectory, TargetSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A file system to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// The tier file system with eviction to a file on the disk.
    Anticache,
    /// The same with eviction to a modelled disk.
    AnticacheModel,
    /// The same without eviction.
    Bpfs,
    /// ext4 on a loop device in memory.
    Ext4,
    /// ext4 on a loop device over a file on the disk.
    Ext4Disk,
    /// ext4 on a modelled disk with the latency of the modelled cold store.
    Ext4Model,
    /// ext4 on a modelled disk drive with 7200 revolutions per minute.
    Ext4Hdd,
}

impl SubjectKind {
    pub(crate) fn among<const N: usize>(kinds: [Self; N]) -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(kinds.map(Self::name)).try_map(|name| <Self as ValueEnum>::from_str(&name, false))
    }

    pub(crate) fn names(kinds: &[Self]) -> String {
        kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn in_order(kinds: &[Self]) -> Vec<Self> {
        let chosen: BTreeSet<Self> = kinds.iter().copied().collect();
        chosen.into_iter().collect()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anticache => "anticache",
            Self::AnticacheModel => "anticache-model",
            Self::Bpfs => "bpfs",
            Self::Ext4 => "ext4",
            Self::Ext4Disk => "ext4-disk",
            Self::Ext4Model => "ext4-model",
            Self::Ext4Hdd => "ext4-hdd",
        }
    }

    pub(crate) fn label(name: &str) -> &'static str {
        match name {
            "anticache" => "anticache: memory, cold store on the disk",
            "anticache-model" => "anticache: memory, cold store modelled",
            "bpfs" => "bpfs mode: memory only",
            "ext4" => "ext4 in memory",
            "ext4-disk" => "ext4 on the disk",
            "ext4-hdd" => "ext4 on a modelled disk drive",
            _ => "ext4 on the modelled disk of the cold store",
        }
    }

    pub(crate) fn on_disk(self) -> bool {
        matches!(self, Self::Anticache | Self::Ext4Disk)
    }

    pub(crate) fn evicts(self) -> bool {
        matches!(self, Self::Anticache | Self::AnticacheModel)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub memory: Bytes,
    pub threshold: Bytes,
    pub period: Duration,
    pub threads: usize,
    pub latency: Latency,
    pub disk: Disk,
}

/// A mounted file system. Fields are dropped in order, from the top of the stack down.
pub(crate) struct Subject {
    pub kind: SubjectKind,
    directory: Option<ClaimedDirectory>,
    server: Option<Server>,
    target: Option<MountedTarget>,
    _device: Option<LoopDevice>,
    _disk: Option<DiskMount>,
    on_disk: Option<ScratchDirectory>,
    scratch: Scratch,
}

struct Scratch(ScratchDirectory);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let scratch = Self(ScratchDirectory::in_memory("tier")?);
        fs::create_dir(scratch.mount_point()).map_err(|error| missing(&scratch.mount_point(), &error))?;
        Ok(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mount_point(&self) -> PathBuf {
        self.path("mount")
    }
}

fn missing(path: &Path, error: &std::io::Error) -> Failure {
    let message = senesce_core::failure::errno_message(error);
    Failure::new(
        ExitCode::Missing,
        format!("make {}: {message}; /dev/shm must be a tmpfs with free space", path.display()),
    )
}

impl Subject {
    /// Makes and mounts an empty file system.
    ///
    /// # Errors
    /// It cannot be made or mounted; the disk is in memory.
    pub(crate) fn start(kind: SubjectKind, setup: &Setup) -> Result<Self, Failure> {
        let on_disk = if kind.on_disk() { Some(setup.disk.scratch_directory()?) } else { None };
        let subject = Self {
            kind,
            directory: None,
            server: None,
            target: None,
            _device: None,
            _disk: None,
            on_disk,
            scratch: Scratch::new()?,
        };
        match kind {
            SubjectKind::Anticache | SubjectKind::AnticacheModel | SubjectKind::Bpfs => subject.mount_tier(setup),
            SubjectKind::Ext4 => subject.open(TargetSpec::Memory { size: setup.memory }),
            SubjectKind::Ext4Disk => {
                let path = subject.place("image");
                subject.open(TargetSpec::Image { path, size: Some(setup.memory) })
            }
            SubjectKind::Ext4Model => subject.ext4_on_model(setup.memory, setup.latency),
            SubjectKind::Ext4Hdd => subject.ext4_on_model(setup.memory, Latency::HDD),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.on_disk.as_ref().map_or_else(|| self.scratch.path(name), |directory| directory.path().join(name))
    }

    fn mount_tier(mut self, setup: &Setup) -> Result<Self, Failure> {
        let (nvm, cold) = (self.scratch.path("nvm"), self.place("cold"));
        make(&MakeRequest {
            nvm: nvm.clone(),
            nvm_size: Some(setup.memory),
            cold: cold.clone(),
            cold_size: None,
            erase: Vec::new(),
        })?;
        let mode = if self.kind == SubjectKind::Bpfs { Mode::Bpfs } else { Mode::Anticache };
        let mount_point = self.scratch.mount_point();
        self.server = Some(Server::start(MountRequest {
            memory: Memory::File(nvm),
            cold,
            mount_point: mount_point.clone(),
            // The published file system returns a block to memory at its first use.
            options: Options {
                mode,
                threshold: setup.threshold,
                period: setup.period,
                promotion: Promotion::Always,
                ..Options::default()
            },
            threads: setup.threads,
            cold_latency: (self.kind == SubjectKind::AnticacheModel).then_some(setup.latency),
        })?);
        self.directory = Some(ClaimedDirectory::claim(&mount_point, None)?);
        Ok(self)
    }

    fn ext4_on_model(mut self, size: Bytes, latency: Latency) -> Result<Self, Failure> {
        let path = self.scratch.path("backing");
        let file = File::create(&path).map_err(|error| missing(&path, &error))?;
        file.set_len(size.0).map_err(|error| missing(&path, &error))?;
        let store = LatencyCold::new(Box::new(FileCold::open(&path)?), latency);
        let disk = DiskMount::new(Box::new(store), size.0, &self.scratch.mount_point(), 4)?;
        let backing = File::options().read(true).write(true).open(disk.path());
        let backing = backing.map_err(|error| missing(disk.path(), &error))?;
        let device = LoopDevice::attach(&backing, "senesce-tier", false)?;
        drop(backing);
        let target = TargetSpec::Device(device.path().into());
        self._device = Some(device);
        self._disk = Some(disk);
        self.open(target)
    }

    fn open(mut self, target: TargetSpec) -> Result<Self, Failure> {
        self.target = Some(senesce_volume::open(&target, &OpenOptions::default())?);
        Ok(self)
    }

    pub(crate) fn directory(&self) -> Result<&ClaimedDirectory, Failure> {
        let found = self.directory.as_ref().or(self.target.as_ref().map(MountedTarget::directory));
        found.ok_or_else(|| Failure::new(ExitCode::RunFailed, "the file system is not mounted"))
    }

    pub(crate) fn tier(&self) -> Option<&Arc<TierFs>> {
        self.server.as_ref().map(Server::fs)
    }

    pub(crate) fn evicting(&self) -> Option<&Arc<TierFs>> {
        self.tier().filter(|_| self.kind.evicts())
    }

    pub(crate) fn stop(mut self) -> Result<(), Failure> {
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
