//! Reads /proc and /sys, and verifies that they are genuine. A mount over a part of them, a copy, or an empty directory
//! is not an answer.

use super::UnavailableWitness;
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Types of file systems (include/uapi/linux/magic.h).
const PROC_MAGIC: u64 = 0x9fa0;
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// The inode of the root of both (PROC_ROOT_INO; fs/kernfs/dir.c); a directory inside them has another.
const ROOT_INODE: u64 = 1;

/// The PID namespace of the machine (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    name: &'static str,
}

impl Tree {
    pub(crate) fn proc() -> Result<Self, UnavailableWitness> {
        Self::of("/proc", PROC_MAGIC)
    }

    pub(crate) fn sys() -> Result<Self, UnavailableWitness> {
        Self::of("/sys", SYSFS_MAGIC)
    }

    fn of(name: &'static str, magic: u64) -> Result<Self, UnavailableWitness> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let silent = |why: &str| UnavailableWitness(format!("{name}: {why}"));
        let missing = |errno: rustix::io::Errno| silent(&errno.to_string());
        let root = rustix::fs::openat(CWD, name, flags, Mode::empty()).map_err(missing)?;
        let (kind, found) = (rustix::fs::fstatfs(&root).map_err(missing)?, rustix::fs::fstat(&root).map_err(missing)?);
        #[allow(clippy::unnecessary_cast, reason = "its width depends on the processor")]
        let is_it = kind.f_type as u64 == magic && found.st_ino == ROOT_INODE;
        match is_it {
            true => Ok(Self { root, name }),
            false => Err(silent("something else is mounted there")),
        }
    }

    /// Opens a file or directory below; EXDEV if something is mounted over it.
    pub(crate) fn open(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
                // The kernel asks to retry after a concurrent rename (openat2(2)).
                Err(rustix::io::Errno::AGAIN) => {}
                opened => return Ok(File::from(opened?)),
            }
        }
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn certain(&self, path: &str) -> Result<String, UnavailableWitness> {
        self.read(path).map_err(|error| self.silent(path, &error))
    }

    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, UnavailableWitness> {
        let names = self.open(path).and_then(|folder| names(&folder));
        Ok(names
            .map_err(|error| self.silent(path, &error))?
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect())
    }

    pub(crate) fn silent(&self, path: &str, error: &io::Error) -> UnavailableWitness {
        let why = match error.raw_os_error() {
            Some(libc::EXDEV) => "something is mounted over it".into(),
            _ => senesce_core::failure::errno_message(error),
        };
        UnavailableWitness(format!("{}/{path}: {why}", self.name))
    }

    /// Checks whether this /proc shows all processes of the machine, and not only those of a container. It does if this
    /// process is in the first PID namespace, whose /proc is the only one to show it. It also does if its process 1 is.
    pub(crate) fn shows_whole_machine(&self) -> Result<(), UnavailableWitness> {
        let is_first = |process: &str| {
            let folder = self.open(&format!("{process}/ns"))?;
            let found = rustix::fs::readlinkat(&folder, "pid", Vec::new())?;
            Ok::<bool, io::Error>(found.to_bytes() == FIRST_PID_NAMESPACE.as_bytes())
        };
        match (is_first("self"), is_first("1")) {
            (Ok(true), _) | (_, Ok(true)) => Ok(()),
            (Ok(false), Ok(false)) => {
                Err(UnavailableWitness(format!("{}: it shows only the processes of another PID namespace", self.name)))
            }
            (Err(error), _) | (_, Err(error)) => Err(self.silent("PID/ns/pid", &error)),
        }
    }

    /// Returns the number of this process in this /proc; it differs from getpid(2) in the /proc of another PID
    /// namespace.
    pub(crate) fn own_process(&self) -> Option<u32> {
        let link = rustix::fs::readlinkat(&self.root, "self", Vec::new()).ok()?;
        link.to_str().ok()?.parse().ok()
    }
}

pub(crate) fn names(folder: &File) -> io::Result<Vec<OsString>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        found.extend((name != b"." && name != b"..").then(|| OsString::from_vec(name)));
    }
    Ok(found)
}

pub(crate) fn is_of_type(path: &Path, magic: u64) -> bool {
    #[allow(clippy::unnecessary_cast, reason = "its width depends on the processor")]
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_proc_and_sys_are_read() {
        let (proc, sys) = (Tree::proc().unwrap(), Tree::sys().unwrap());
        assert_eq!(proc.own_process(), Some(std::process::id()));
        assert!(proc.certain("self/mountinfo").unwrap().contains(" / "));
        assert!(!sys.names("block").unwrap().iter().any(|name| name == "."));
        assert!(sys.read("nothing").is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn other_file_systems_are_refused() {
        assert!(Tree::of("/proc", SYSFS_MAGIC).is_err() && Tree::of("/tmp", PROC_MAGIC).is_err());
        assert!(Tree::of("/proc/self", PROC_MAGIC).is_err(), "not the root of /proc");
    }
}
