//! A folder in memory with a region, a cold store and a mount point, removed at the end.

use crate::Outcome;
use senesce_core::Bytes;
use senesce_tierfs::pair::{self, MakeRequest, make};
use senesce_tierfs::serve::{Memory, MountRequest, Server};
use senesce_tierfs::{ColdStore, Mode, Options, TierFs};
use std::fs;
use std::path::{Path, PathBuf};

pub struct Scratch {
    path: PathBuf,
    cold: PathBuf,
}

impl Scratch {
    /// One whose cold store is in memory too.
    pub fn new(name: &str) -> Outcome<Self> {
        let path = Path::new("/dev/shm").join(format!("senesce-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("mount"))?;
        Ok(Self { cold: path.join("cold"), path })
    }

    /// One whose cold store is the file `cold`.
    pub fn with_cold(name: &str, cold: PathBuf) -> Outcome<Self> {
        let mut scratch = Self::new(name)?;
        scratch.cold = cold;
        Ok(scratch)
    }

    pub fn mount(&self) -> PathBuf {
        self.path.join("mount")
    }

    fn nvm(&self) -> PathBuf {
        self.path.join("nvm")
    }

    /// Makes an empty file system in place of what was there.
    pub fn make(&self, memory: Bytes) -> Outcome<()> {
        for path in [self.nvm(), self.cold.clone()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        let (nvm, cold) = (self.nvm(), self.cold.clone());
        make(&MakeRequest { nvm, nvm_size: Some(memory), cold, cold_size: None, erase: Vec::new() })?;
        Ok(())
    }

    /// Mounts it, with a threshold that nothing here reaches.
    pub fn serve(&self, mode: Mode, threads: usize) -> Outcome<Server> {
        Ok(Server::start(MountRequest {
            memory: Memory::File(self.nvm()),
            cold: self.cold.clone(),
            mount_point: self.mount(),
            options: hot(mode),
            threads,
            cold_latency: None,
        })?)
    }

    /// Opens its core, without FUSE and without a thread that evicts.
    pub fn open(&self) -> Outcome<TierFs> {
        let found = pair::open(&self.nvm(), &self.cold, false)?;
        let cold: Box<dyn ColdStore> = Box::new(found.cold);
        Ok(TierFs::open(Box::new(found.nvm), cold, &self.nvm(), &hot(Mode::Anticache))?)
    }
}

fn hot(mode: Mode) -> Options {
    Options { mode, threshold: Bytes::gib(64), ..Options::default() }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.cold);
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("remove {}: {error}", self.path.display());
        }
    }
}
