//! A minimal initramfs: an uncompressed cpio archive in `newc` form (Documentation/driver-api/early-userspace/
//! buffer-format.rst of the kernel).

use std::io::{self, Write};

/// Writes an archive member by member.
pub struct Archive<W: Write> {
    out: W,
    next_inode: u32,
    written: u64,
}

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl<W: Write> Archive<W> {
    /// An empty archive.
    pub fn new(out: W) -> Self {
        Self { out, next_inode: 1, written: 0 }
    }

    /// A folder.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.member(name, DIRECTORY, &[], (0, 0))
    }

    /// An executable file.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.member(name, EXECUTABLE, content, (0, 0))
    }

    /// A symbolic link.
    pub fn symlink(&mut self, name: &str, target: &str) -> io::Result<()> {
        self.member(name, SYMLINK, target.as_bytes(), (0, 0))
    }

    /// A character device; the kernel opens `/dev/console` for the first process.
    pub fn character_device(&mut self, name: &str, major: u32, minor: u32) -> io::Result<()> {
        self.member(name, CHARACTER_DEVICE, &[], (major, minor))
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.member("TRAILER!!!", 0, &[], (0, 0))?;
        Ok(self.out)
    }

    fn member(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) -> io::Result<()> {
        let fields = [
            self.next_inode,
            mode,
            0,
            0,
            1,
            0,
            content.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.next_inode += 1;
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        self.put(header.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&[0])?;
        self.pad()?;
        self.put(content)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let rest = (4 - self.written % 4) % 4;
        self.put(&[0; 3][..rest as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn members_are_aligned_and_the_trailer_ends_it() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("dev").unwrap();
        archive.file("init", b"abc").unwrap();
        archive.symlink("lib64", "lib").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }

    #[test]
    fn cpio_reads_it() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("dev").unwrap();
        archive.file("init", b"abc").unwrap();
        let bytes = archive.finish().unwrap();
        let Ok(mut child) =
            Command::new("cpio").args(["-t", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
        else {
            eprintln!("skipped: needs cpio");
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "dev\ninit\n");
    }
}
