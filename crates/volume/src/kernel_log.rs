//! What the kernel said about one device since the target was opened (Documentation/ABI/testing/dev-kmsg).

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Reads `/dev/kmsg` from the moment it was made.
#[derive(Debug)]
pub struct KernelLog {
    file: Option<File>,
    device: String,
    found: Vec<String>,
}

impl KernelLog {
    /// Begins to listen for messages that name `device` ("loop0").
    pub fn since_now(device: &str) -> Self {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let file = file.and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file)).ok();
        Self { file, device: device.into(), found: Vec::new() }
    }

    /// Whether the kernel log can be read.
    pub fn is_readable(&self) -> bool {
        self.file.is_some()
    }

    /// Warnings and errors that named the device so far.
    pub fn warnings(&mut self) -> &[String] {
        let mut buffer = [0u8; 8192];
        while let Some(file) = &mut self.file {
            match file.read(&mut buffer) {
                Ok(length) if length > 0 => {
                    let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    self.found.extend(warning_about(&line, &self.device));
                }
                // Messages were overwritten before they were read: go on with the oldest that is left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    self.found.push("the kernel log overflowed: messages were lost".into());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        &self.found
    }
}

/// The text of a record `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT` if it is a warning or worse and names the device.
fn warning_about(record: &str, device: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let text = text.lines().next()?;
    let names_it = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == device);
    // A device that cannot discard or write zeroes by command says so once; the block layer then writes by itself.
    let probe = text.starts_with("operation not supported error");
    (priority & 7 <= 4 && names_it && !probe).then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_about_this_device_count() {
        let error = "3,1,2,-;EXT4-fs error (device loop1): ext4_lookup:1: deleted inode\n SUBSYSTEM=block\n";
        assert!(warning_about(error, "loop1").unwrap().starts_with("EXT4-fs error"));
        assert_eq!(warning_about(error, "loop11"), None);
        assert_eq!(warning_about("6,1,2,-;EXT4-fs (loop1): mounted filesystem", "loop1"), None);
        assert!(warning_about("4,1,2,-;I/O error, dev loop1, sector 8", "loop1").is_some());
    }
}
