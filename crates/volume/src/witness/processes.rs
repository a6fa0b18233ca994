//! Other processes that have a file or device open or mapped for writing, from /proc. Only the /proc of the whole
//! machine can answer no.

use super::UnavailableWitness;
use super::kernel_files::{Tree, names};
use crate::holders::{Holder, process_text};
use rustix::fs::{AtFlags, FileType, StatxFlags};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(2);

const FIRST: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenedFile {
    Device((u32, u32)),
    File((u32, u32), u64),
}

impl OpenedFile {
    pub(crate) fn file((device, inode): (u64, u64)) -> Self {
        Self::File((rustix::fs::major(device), rustix::fs::minor(device)), inode)
    }
}

/// Finds another process that has one of these open for writing, such as a virtual machine.
pub(crate) fn writer(wanted: &[OpenedFile]) -> Result<Option<Holder>, UnavailableWitness> {
    let proc = Tree::proc()?;
    let whole = proc.shows_whole_machine();
    let begin = Instant::now();
    loop {
        match find_holder(&proc, wanted) {
            Ok(None) => return whole.map(|()| None),
            // An ordinary user cannot inspect other users' processes.
            Err(silent) if !rustix::process::geteuid().is_root() => return Err(silent),
            // A starting process may still hold inherited descriptors, or may not be readable yet.
            found if begin.elapsed() > START_LIMIT => return found,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn find_holder(proc: &Tree, wanted: &[OpenedFile]) -> Result<Option<Holder>, UnavailableWitness> {
    let own = proc.own_process();
    let mut silent = None;
    let all = proc.names(".")?;
    for process in all.iter().filter_map(|name| name.parse::<u32>().ok()).filter(|process| Some(*process) != own) {
        let open = has_open(proc, process, wanted).and_then(|how| match how {
            None => maps(proc, process, wanted),
            how => Ok(how),
        });
        match open {
            Ok(None) => {}
            Ok(Some(how)) => {
                let (who, how) = (process_text(process), how.to_string());
                return Ok(Some(Holder { who, how, remedy: "end that process".into() }));
            }
            Err(error) if has_ended(&error) => {}
            // Some machines protect it even from root.
            Err(error) if process == FIRST && error.raw_os_error() == Some(libc::EACCES) => {}
            Err(error) => silent = silent.or_else(|| Some(proc.silent(&process.to_string(), &error))),
        }
    }
    silent.map_or(Ok(None), Err)
}

fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

fn has_open(proc: &Tree, process: u32, wanted: &[OpenedFile]) -> io::Result<Option<&'static str>> {
    let folder = proc.open(&format!("{process}/fd"))?;
    for name in names(&folder)? {
        if !opened(&folder, &name)?.is_some_and(|one| wanted.contains(&one)) {
            continue;
        }
        match proc.read(&format!("{process}/fdinfo/{}", name.to_string_lossy())) {
            Ok(text) if is_writable(&text) => return Ok(Some("has it open for writing")),
            Ok(_) => {}
            // Closed meanwhile.
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Finds a mapping of one of these, which outlives its descriptor (proc_pid_maps(5)).
fn maps(proc: &Tree, process: u32, wanted: &[OpenedFile]) -> io::Result<Option<&'static str>> {
    let text = proc.read(&format!("{process}/maps"))?;
    let shared = text.lines().filter_map(shared_for_writing).collect::<Vec<&str>>();
    if shared.is_empty() {
        return Ok(None);
    }
    let folder = proc.open(&format!("{process}/map_files"))?;
    for range in shared {
        let range = range.split('-').map(|address| address.trim_start_matches('0')).collect::<Vec<_>>().join("-");
        if opened(&folder, range.as_ref())?.is_some_and(|one| wanted.contains(&one)) {
            return Ok(Some("has it mapped for writing"));
        }
    }
    Ok(None)
}

fn shared_for_writing(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (modes, inode) = (words.get(1)?.as_bytes(), words.get(4)?);
    (modes.get(1) == Some(&b'w') && modes.get(3) == Some(&b's') && *inode != "0").then(|| words[0])
}

/// Identifies an open file. `None`: neither a file nor a block device, or closed meanwhile.
fn opened(folder: &File, name: &std::ffi::OsStr) -> io::Result<Option<OpenedFile>> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    let found = match rustix::fs::statx(folder, name, AtFlags::STATX_DONT_SYNC, wanted) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        // Files on an unreachable server are not on this machine.
        Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::STALE) => return Ok(None),
        // A FUSE file system of another user, which refuses root; the process itself may be inspected.
        Err(rustix::io::Errno::ACCESS) if rustix::fs::readlinkat(folder, name, Vec::new()).is_ok() => return Ok(None),
        found => found?,
    };
    Ok(match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::BlockDevice => Some(OpenedFile::Device((found.stx_rdev_major, found.stx_rdev_minor))),
        FileType::RegularFile => Some(OpenedFile::File((found.stx_dev_major, found.stx_dev_minor), found.stx_ino)),
        _ => None,
    })
}

/// Returns whether it is open for writing. proc_pid_fdinfo(5): the flags of open(2) in octal digits; the two lowest
/// bits are the access mode.
fn is_writable(text: &str) -> bool {
    let flags = text.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE as u32 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_mappings_of_files_for_writing_count() {
        let line = |modes: &str, inode: u32| format!("7f0000400000-7f0000401000 {modes} 00000000 07:00 {inode} /a");
        assert_eq!(shared_for_writing(&line("rw-s", 5)), Some("7f0000400000-7f0000401000"));
        for other in [line("r--s", 5), line("rw-p", 5), line("rw-s", 0), String::new()] {
            assert_eq!(shared_for_writing(&other), None);
        }
    }
}
