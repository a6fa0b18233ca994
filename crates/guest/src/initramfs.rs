//! A minimal initramfs with this program as its first process: an uncompressed cpio archive in `newc` format
//! (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel).

use crate::error::{GuestError, io_error, scratch_error};
use crate::guest::Job;
use crate::kernel::Kernel;
use crate::modules::BOOT;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Archive<W: Write> {
    out: W,
    next_inode: u32,
    written: u64,
}

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, next_inode: 1, written: 0 }
    }

    pub(crate) fn directory(&mut self, name: &str) -> io::Result<()> {
        self.member(name, DIRECTORY, &[], (0, 0))
    }

    pub(crate) fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.member(name, EXECUTABLE, content, (0, 0))
    }

    /// Adds a character device; the kernel opens `/dev/console` for the first process.
    pub(crate) fn character_device(&mut self, name: &str, major: u32, minor: u32) -> io::Result<()> {
        self.member(name, CHARACTER_DEVICE, &[], (major, minor))
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
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

/// Writes the initramfs: `/init` is this program with its shared libraries; the modules are those needed to access the host's
/// files.
///
/// # Errors
/// A program, library or module cannot be read, or the archive cannot be written.
pub(crate) fn write(path: &Path, kernel: &Kernel, job: &Job) -> Result<(), GuestError> {
    let wrong = || scratch_error("write initramfs", path);
    let file = io::BufWriter::new(File::create(path).map_err(wrong())?);
    let mut archive = Archive::new(file);
    for folder in ["dev", "guest", "guest/modules"] {
        archive.directory(folder).map_err(wrong())?;
    }
    archive.character_device("dev/console", 5, 1).map_err(wrong())?;
    let program = fs::read("/proc/self/exe").map_err(io_error("read", "/proc/self/exe"))?;
    archive.file("init", loaded_part(&program)).map_err(wrong())?;
    let mut folders: Vec<PathBuf> = vec!["dev".into(), "guest".into(), "guest/modules".into()];
    for library in own_libraries()? {
        let inside = library.strip_prefix("/").unwrap_or(&library).to_path_buf();
        for parent in inside.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            if !parent.as_os_str().is_empty() && !folders.contains(&parent.to_path_buf()) {
                archive.directory(&parent.to_string_lossy()).map_err(wrong())?;
                folders.push(parent.to_path_buf());
            }
        }
        let bytes = fs::read(&library).map_err(io_error("read", &library))?;
        archive.file(&inside.to_string_lossy(), &bytes).map_err(wrong())?;
    }
    for (number, module) in kernel.index()?.files(BOOT).iter().enumerate() {
        let source = kernel.modules().join(module);
        let bytes = fs::read(&source).map_err(io_error("read module", &source))?;
        archive.file(&format!("guest/modules/{number:02}.ko"), &bytes).map_err(wrong())?;
    }
    let text = serde_json::to_vec(job).unwrap_or_default();
    archive.file("guest/job.json", &text).map_err(wrong())?;
    archive.finish().and_then(|mut file| file.flush()).map_err(wrong())
}

/// Returns an ELF file without the data after its loaded segments, because debug symbols would slow the boot. See
/// System V ABI, program header: offsets 32, 54, 56 of the file header; 8 and 32 of each entry.
fn loaded_part(program: &[u8]) -> &[u8] {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(program.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let end = || {
        let (table, entry, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let mut end = table.checked_add(entry * count)?;
        for index in 0..count {
            let header = table.checked_add(index * entry)?;
            end = end.max(number(header.checked_add(8)?, 8)?.checked_add(number(header.checked_add(32)?, 8)?)?);
        }
        Some(end)
    };
    end().and_then(|end| program.get(..end)).unwrap_or(program)
}

/// Lists the shared libraries and the loader of this process, by the paths that the loader uses.
fn own_libraries() -> Result<Vec<PathBuf>, GuestError> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(io_error("read", "/proc/self/maps"))?;
    let program = std::env::current_exe().unwrap_or_default();
    let mut libraries: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let Some(path) = line.split_whitespace().nth(5).map(PathBuf::from) else { continue };
        let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if is_library && path != program && !libraries.contains(&path) {
            libraries.push(path);
        }
    }
    // The program names its loader by this path (System V ABI, x86-64 supplement), often a symbolic link.
    let loader = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
    if loader.exists() {
        libraries.push(loader);
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn members_are_aligned_and_the_trailer_is_last() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("dev").unwrap();
        archive.file("init", b"abc").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }

    #[test]
    fn only_loaded_segments_of_a_program_are_kept() {
        let program = fs::read("/proc/self/exe").unwrap();
        let kept = loaded_part(&program);
        assert!(kept.len() < program.len() && kept.starts_with(b"\x7fELF"));
        assert_eq!(loaded_part(kept), kept, "no loaded data was cut");
        for damaged in [&b""[..], b"\x7fELF", &[0xff; 80], &program[..60]] {
            assert_eq!(loaded_part(damaged), damaged);
        }
    }

    #[test]
    #[ignore = "needs cpio"]
    fn cpio_reads_the_archive() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("dev").unwrap();
        archive.file("init", b"abc").unwrap();
        let bytes = archive.finish().unwrap();
        let child = Command::new("cpio").args(["-t", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "dev\ninit\n");
    }
}
