//! Holders of a file system that this process mounted: copies of the mount in other mount namespaces
//! (mount_namespaces(7)), open files, and namespaces kept alive by descriptors.
//!
//! A new mount namespace gets a copy of every mount. An unmount reaches the copies only if the mount is shared, and
//! containers and unshare(1) make theirs private. Such a copy keeps the file system and its caches alive.

use crate::block_device::BlockDevice;
use crate::guard::{self, MountLine};
use crate::runtime;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::mount::UnmountFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub source: PathBuf,
    /// Device numbers of its files: its device's, or an anonymous one (btrfs).
    pub numbers: Vec<(u32, u32)>,
}

impl Identity {
    pub(crate) fn of(source: &Path, point: &Path) -> Self {
        let mut found = Self::of_device(source);
        found.numbers.extend(device_number(point));
        found
    }

    /// Identifies any mount of `source`, present or past. Does not know the anonymous device numbers of btrfs.
    pub(crate) fn of_device(source: &Path) -> Self {
        Self { source: source.into(), numbers: BlockDevice::number_of(source).into_iter().collect() }
    }

    fn is_mounted_by(&self, line: &MountLine) -> bool {
        self.numbers.contains(&line.device) || line.source == self.source
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub who: String,
    pub how: String,
    pub remedy: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.who, self.how)
    }
}

pub(crate) fn holders(identity: &Identity) -> Vec<Holder> {
    let mut found: BTreeSet<Holder> = namespaces()
        .iter()
        .flat_map(|space| space.points(identity).into_iter().map(|point| space.holder(&point)).collect::<Vec<_>>())
        .collect();
    found.extend(users(identity));
    found.into_iter().collect()
}

pub(crate) fn users(identity: &Identity) -> Vec<Holder> {
    processes().into_iter().filter_map(|process| open_file(process, identity)).collect()
}

pub(crate) fn reader(known: &[(u64, u64)]) -> Option<Holder> {
    use std::os::unix::fs::MetadataExt;
    let is_it = |path: &Path| fs::metadata(path).is_ok_and(|found| known.contains(&(found.dev(), found.ino())));
    let (process, _) = descriptors().find(|(process, file)| *process != std::process::id() && is_it(file))?;
    Some(Holder { who: process_text(process), how: "has it open".into(), remedy: "end that process".into() })
}

/// Unmounts the copies of our mounts, those below the runtime folder, in all other mount namespaces, as the kernel does
/// for shared mounts. Copies in use stay. Returns the namespaces that had a copy.
pub(crate) fn release_copies(identity: &Identity) -> Vec<Holder> {
    let Ok(root) = runtime::subfolder("mnt") else { return Vec::new() };
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    let others = namespaces().into_iter().filter(|space| fs::read_link(&space.file).ok() != own);
    others.flat_map(|space| space.release(identity, &root)).collect()
}

struct Namespace {
    who: String,
    process: Option<u32>,
    file: PathBuf,
    mounts: Option<PathBuf>,
}

impl Namespace {
    fn points(&self, identity: &Identity) -> Vec<PathBuf> {
        let lines = match &self.mounts {
            Some(path) => fs::read_to_string(path).map(|text| guard::parse_mounts(&text)).unwrap_or_default(),
            None => inside(&self.file, None, || guard::mounts().unwrap_or_default()).unwrap_or_default(),
        };
        lines.into_iter().filter(|line| identity.is_mounted_by(line)).map(|line| line.mount_point).collect()
    }

    fn holder(&self, point: &Path) -> Holder {
        let point = point.display();
        let (how, remedy) = match self.process {
            Some(own) if own == std::process::id() => {
                let (who, how) = ("another mount".into(), format!("has it on {point}"));
                return Holder { who, how, remedy: format!("umount {point}") };
            }
            Some(process) => (
                "has it in its mount namespace".to_string(),
                format!("end that process, or nsenter --mount --target {process} umount {point}"),
            ),
            None => ("keeps a mount namespace that has it".into(), format!("end or umount {}", self.who)),
        };
        Holder { who: self.who.clone(), how: format!("{how}, on {point}"), remedy }
    }

    fn release(&self, identity: &Identity, root: &Path) -> Vec<Holder> {
        let mut copies = self.points(identity);
        copies.retain(|point| point.starts_with(root));
        if copies.is_empty() {
            return Vec::new();
        }
        // The same path may lead elsewhere in that namespace.
        let is_copy = |point: &PathBuf| device_number(point).is_some_and(|is| identity.numbers.contains(&is));
        let unmount = |point: &PathBuf| rustix::mount::unmount(point, UnmountFlags::NOFOLLOW).is_ok();
        let root = self.process.map(|process| PathBuf::from(format!("/proc/{process}/root")));
        let unmounted = inside(&self.file, root.as_deref(), || {
            copies.retain(|point| is_copy(point) && unmount(point));
            copies
        });
        unmounted.unwrap_or_default().iter().map(|point| self.holder(point)).collect()
    }
}

/// Runs `action` inside a mount namespace, in a thread that ends afterwards: setns(2) requires a thread that shares
/// neither root nor working directory. `root` becomes its root, so that paths have the meaning they have for that
/// process.
pub(crate) fn inside<T: Send>(namespace: &Path, root: Option<&Path>, action: impl FnOnce() -> T + Send) -> Option<T> {
    let file = File::open(namespace).ok()?;
    let root = root.map(File::open).transpose().ok()?;
    let enter = || {
        // SAFETY: root, working directory and umask, which this thread shares with others, become its own.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.ok()?;
        rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount)).ok()?;
        if let Some(root) = &root {
            rustix::process::fchdir(root).ok()?;
            rustix::process::chroot(".").ok()?;
        }
        Some(action())
    };
    std::thread::scope(|scope| scope.spawn(enter).join().ok().flatten())
}

fn namespaces() -> Vec<Namespace> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let own = std::process::id();
    for process in std::iter::once(own).chain(processes()) {
        // A thread may have a namespace of its own.
        for task in numbers(&Path::new("/proc").join(process.to_string()).join("task")) {
            let folder = PathBuf::from(format!("/proc/{process}/task/{task}"));
            let Ok(name) = fs::read_link(folder.join("ns/mnt")) else { continue };
            if seen.insert(name) {
                let (file, mounts) = (folder.join("ns/mnt"), Some(folder.join("mountinfo")));
                found.push(Namespace { who: process_text(process), process: Some(process), file, mounts });
            }
        }
    }
    // A namespace without a process is kept by an open descriptor or by a mount of its file.
    for (process, file) in descriptors() {
        let Some(name) = fs::read_link(&file).ok().filter(|name| name.to_string_lossy().starts_with("mnt:[")) else {
            continue;
        };
        if seen.insert(name) {
            found.push(Namespace { who: process_text(process), process: None, file, mounts: None });
        }
    }
    let lines = guard::mounts().unwrap_or_default();
    let bound = lines.into_iter().filter(|line| line.file_system == "nsfs" && line.root.starts_with("mnt:"));
    let bound = bound.filter(|line| seen.insert(PathBuf::from(&line.root)));
    found.extend(bound.map(|line| Namespace {
        who: line.mount_point.display().to_string(),
        process: None,
        file: line.mount_point,
        mounts: None,
    }));
    found
}

pub(crate) fn file_of_namespace(number: u64) -> Option<PathBuf> {
    let is_it = |found: &Namespace| found.file.metadata().is_ok_and(|file| file.ino() == number);
    namespaces().into_iter().find(is_it).map(|found| found.file)
}

fn open_file(process: u32, identity: &Identity) -> Option<Holder> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let files = numbers(&folder.join("fd")).into_iter().map(|number| folder.join("fd").join(number.to_string()));
    let uses = [folder.join("cwd"), folder.join("root")].into_iter().chain(files);
    let used = uses.into_iter().find(|path| device_number(path).is_some_and(|is| identity.numbers.contains(&is)))?;
    let how = match used.file_name().and_then(|name| name.to_str()) {
        Some("cwd") => "works in a directory of it".to_string(),
        Some("root") => "has its root in it".to_string(),
        _ => format!("has {} open", fs::read_link(&used).unwrap_or(used).display()),
    };
    Some(Holder { who: process_text(process), how, remedy: "end that process".into() })
}

/// Describes a process, for example `process 4711 (sleep 600)`.
pub(crate) fn process_text(process: u32) -> String {
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    let command = match command.is_empty() {
        true => fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_string(),
        false => command,
    };
    let shown: String = command.chars().filter(|sign| !sign.is_control()).take(80).collect();
    format!("process {process} ({shown})")
}

fn descriptors() -> impl Iterator<Item = (u32, PathBuf)> {
    processes().into_iter().flat_map(|process| {
        let folder = PathBuf::from(format!("/proc/{process}/fd"));
        numbers(&folder).into_iter().map(move |number| (process, folder.join(number.to_string())))
    })
}

fn processes() -> Vec<u32> {
    numbers(Path::new("/proc"))
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Asks no server (statx(2)), because a server may not answer.
fn device_number(path: &Path) -> Option<(u32, u32)> {
    let found = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor))
}
