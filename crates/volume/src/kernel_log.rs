//! Kernel messages about one device since the target was opened (Documentation/ABI/testing/dev-kmsg).
//!
//! The kernel keeps its messages in a ring buffer that other devices can overrun in a second, so a thread reads them
//! all the time. Lost messages are counted as gaps; a gap is not a warning about the device.

use crate::block_device::BlockDevice;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Parts of messages by which the kernel reports a fault of its own: BUG, WARN, a sanitizer, lockdep, a hung task.
const FAULTS: [&str; 7] = ["BUG: ", "kernel BUG at", "WARNING: ", "UBSAN: ", "Oops", "INFO: task ", "Call Trace:"];

/// Returns all messages in the ring buffer that report a fault of the kernel; also what prevents reading all of them.
pub(crate) fn faults() -> Vec<String> {
    let unknown = |error| vec![format!("kernel faults are unknown: cannot read /dev/kmsg ({error})")];
    let mut file = match File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg") {
        Ok(file) => file,
        Err(error) => return unknown(error),
    };
    let (mut found, mut record) = (Vec::new(), [0; 8192]);
    // Each read returns one record.
    loop {
        match file.read(&mut record) {
            Ok(length) => found.extend(fault(&String::from_utf8_lossy(&record[..length]))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return found,
            // EPIPE: records were overwritten.
            Err(error) => return unknown(error),
        }
    }
}

fn fault(record: &str) -> Option<String> {
    let (_, message) = record.lines().next()?.split_once(';')?;
    FAULTS.iter().any(|part| message.contains(part)).then(|| message.to_string())
}

#[derive(Debug)]
pub(crate) struct KernelLog {
    messages: Option<Arc<Mutex<Messages<File>>>>,
    /// `None` if no thread could be started: the log is then read on request.
    reader: Option<Reader>,
}

impl KernelLog {
    /// Starts to listen for messages that name `device`, or the disk of a partition, because request errors name only
    /// the disk.
    pub(crate) fn since_now(device: Option<&BlockDevice>) -> Self {
        Self::of_names(device.map(names).unwrap_or_default())
    }

    /// Listens like [`Self::since_now`], for a moment that is too short for the ring buffer to overflow.
    pub(crate) fn briefly(device: Option<&BlockDevice>) -> Self {
        Self::begin(device.map(names).unwrap_or_default(), false)
    }

    fn of_names(names: Vec<String>) -> Self {
        Self::begin(names, true)
    }

    fn begin(names: Vec<String>, in_background: bool) -> Self {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let file = file.and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        let Ok(file) = file else { return Self { messages: None, reader: None } };
        let watched = file.try_clone().ok().filter(|_| in_background);
        let messages = Arc::new(Mutex::new(Messages::new(file, names)));
        let reader = watched.and_then(|watched| Reader::start(watched, messages.clone()));
        Self { messages: Some(messages), reader }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.up_to_date().map_or_else(Vec::new, |messages| messages.found.clone())
    }

    /// Counts how often messages were overwritten before they were read.
    pub(crate) fn gaps(&self) -> u64 {
        self.up_to_date().map_or(0, |messages| messages.gaps)
    }

    fn up_to_date(&self) -> Option<MutexGuard<'_, Messages<File>>> {
        let mut messages = lock(self.messages.as_ref()?);
        messages.drain();
        Some(messages)
    }
}

impl Drop for KernelLog {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.stop();
        }
    }
}

#[derive(Debug)]
struct Reader {
    end: OwnedFd,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(watched: File, messages: Arc<Mutex<Messages<File>>>) -> Option<Self> {
        let end = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        let seen = end.try_clone().ok()?;
        let read = move || {
            while is_readable(&watched, &seen) {
                lock(&messages).drain();
            }
        };
        let thread = std::thread::Builder::new().name("kernel log".into()).spawn(read).ok()?;
        Some(Self { end, thread })
    }

    fn stop(self) {
        // If the signal cannot be sent, the thread continues; it holds nothing that others wait for.
        if rustix::io::write(&self.end, &1u64.to_ne_bytes()).is_ok() {
            let _ = self.thread.join();
        }
    }
}

fn is_readable(watched: &File, end: &OwnedFd) -> bool {
    let mut waiting = [PollFd::new(watched, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
    match poll(&mut waiting, None) {
        Ok(_) => waiting[1].revents().is_empty(),
        Err(errno) => errno == Errno::INTR,
    }
}

fn lock<T>(messages: &Mutex<T>) -> MutexGuard<'_, T> {
    messages.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Messages<F> {
    file: F,
    names: Vec<String>,
    found: Vec<String>,
    gaps: u64,
}

impl<F: Read> Messages<F> {
    fn new(file: F, names: Vec<String>) -> Self {
        Self { file, names, found: Vec::new(), gaps: 0 }
    }

    fn drain(&mut self) {
        let mut buffer = [0u8; 8192];
        loop {
            match self.file.read(&mut buffer) {
                Ok(length) if length > 0 => {
                    let line = String::from_utf8_lossy(&buffer[..length]);
                    self.found.extend(warning_about(&line, &self.names));
                }
                // Messages were overwritten; the next read continues with the oldest one left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => self.gaps += 1,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

/// Returns the kernel's names of a device in messages. A '!' in sysfs stands for a '/'.
fn names(device: &BlockDevice) -> Vec<String> {
    let mut names = vec![device.name().replace('!', "/"), device.disk().name().replace('!', "/")];
    names.dedup();
    names
}

/// Returns whether `name` is a separate word: `dm-0` is not in `dm-01`, but `sdb1` is in `sdb1-8`, its journal (jbd2).
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(|sign| is_part(sign) || sign == '-') && !after.is_some_and(is_part)
    })
}

/// Returns the text of a record `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT` if its level is warning or worse and it has one of
/// the names.
fn warning_about(record: &str, names: &[String]) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let text = text.lines().next()?;
    let names_it = names.iter().any(|name| has_word(text, name));
    // A device without discard or write-zeroes commands reports this once; the block layer then writes zeros.
    let probe = text.starts_with("operation not supported error");
    (priority & 7 <= 4 && names_it && !probe).then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::io::Error;

    #[test]
    fn faults_of_the_kernel_are_found_by_their_words() {
        for (record, expected) in [
            ("4,339,5140900,-;WARNING: CPU: 0 PID: 1 at fs/ext4/mballoc.c:1", true),
            ("3,340,5140901,-;kernel BUG at fs/xfs/xfs_trans.c:1!\n SUBSYSTEM=block", true),
            ("6,341,5140902,-;EXT4-fs (loop0): mounted filesystem", false),
            ("no record", false),
        ] {
            assert_eq!(fault(record).is_some(), expected, "{record}");
        }
    }

    #[test]
    fn only_warnings_about_this_device_count() {
        let error = "3,1,2,-;EXT4-fs error (device loop1): ext4_lookup:1: deleted inode\n SUBSYSTEM=block\n";
        let about = |record: &str, names: &[&str]| {
            warning_about(record, &names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert!(about(error, &["loop1"]).unwrap().starts_with("EXT4-fs error"));
        assert_eq!(about(error, &["loop11"]), None);
        assert_eq!(about("6,1,2,-;EXT4-fs (loop1): mounted filesystem", &["loop1"]), None);
        assert!(about("4,1,2,-;I/O error, dev loop1, sector 8", &["loop1"]).is_some());
    }

    #[test]
    fn names_with_hyphens_and_disks_of_partitions_are_known() {
        assert!(has_word("Buffer I/O error on dev dm-0, logical block 0, lost async page write", "dm-0"));
        assert!(has_word("XFS (dm-0): log I/O error -5", "dm-0"));
        assert!(!has_word("I/O error, dev dm-01, sector 8", "dm-0") && !has_word("dev xdm-0, sector", "dm-0"));
        assert!(has_word("Aborting journal on device sdb1-8.", "sdb1"));
        assert!(has_word("sd 2:0:0:0: [sdb] tag#0 FAILED Result: hostbyte=DID_OK", "sdb"));
        assert!(!has_word("EXT4-fs error (device sdb2): ext4_lookup", "sdb"), "another partition's file system");
        let names = ["sdb1".to_string(), "sdb".to_string()];
        assert!(warning_about("3,1,2,-;I/O error, dev sdb, sector 4096 op 0x0:(READ)", &names).is_some());
    }

    struct Scripted(VecDeque<Result<&'static str, i32>>);

    impl Read for Scripted {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let next = self.0.pop_front().unwrap_or(Err(libc::EAGAIN)).map_err(Error::from_raw_os_error)?;
            buffer[..next.len()].copy_from_slice(next.as_bytes());
            Ok(next.len())
        }
    }

    #[test]
    fn ring_buffer_overrun_is_a_gap_not_a_warning() {
        let script =
            [Err(libc::EPIPE), Ok("4,9,2,-;I/O error, dev loop1, sector 8"), Err(libc::EPIPE), Err(libc::EINTR)];
        let mut messages = Messages::new(Scripted(script.into()), vec!["loop1".into()]);
        messages.drain();
        assert_eq!((messages.gaps, messages.found.len()), (2, 1));
        assert!(!messages.found[0].contains("overflow"));
    }

    #[test]
    fn the_reader_ends_with_its_log() {
        let log = KernelLog::of_names(vec!["no such device".into()]);
        assert!(log.warnings().is_empty());
        drop(log);
    }
}
