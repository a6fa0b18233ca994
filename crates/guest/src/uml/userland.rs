//! Programs that make file systems in a user-mode guest, from the package senesce-kernel: with them, a layout does not depend on
//! the host's versions.

use crate::error::{GuestError, io_error};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Has `bin`, their libraries in `lib`, and `mke2fs.conf`.
const FOLDER: &str = "/usr/lib/senesce/userland";
const LOADER: &str = "ld-linux-x86-64.so.2";

pub(crate) struct Userland {
    pub programs: Vec<String>,
    /// Of all files, shortened.
    pub digest: String,
}

/// Finds the programs of the installed package.
pub(crate) fn installed() -> Result<Option<Userland>, GuestError> {
    of(Path::new(FOLDER))
}

/// Returns the names of the programs of the installed package; empty without it.
pub fn packaged_programs() -> Vec<String> {
    installed().ok().flatten().map(|userland| userland.programs).unwrap_or_default()
}

fn of(folder: &Path) -> Result<Option<Userland>, GuestError> {
    let bin = folder.join("bin");
    if !bin.is_dir() {
        return Ok(None);
    }
    let mut digest = Sha256::new();
    for path in [sorted(&bin)?, sorted(&folder.join("lib"))?, vec![folder.join("mke2fs.conf")]].concat() {
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        digest.update(path.strip_prefix(folder).unwrap_or(&path).as_os_str().as_encoded_bytes());
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    }
    let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let programs = sorted(&bin)?.into_iter().filter_map(name).collect();
    let digest = digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(Userland { programs, digest }))
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<PathBuf> = listed.map_err(io_error("list", folder))?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Becomes the program of the package with the name of this process, if a guest started it by that name; otherwise returns.
pub(crate) fn enter_if_named(programs: &Path) {
    let mut words = std::env::args_os();
    let Some(called) = words.next().map(PathBuf::from) else { return };
    let Some(name) = called.file_name() else { return };
    let (folder, own) = (Path::new(FOLDER), programs.join(name));
    let program = folder.join("bin").join(name);
    // A path with a slash is another file's.
    if !own.is_symlink() || (called != own && called != Path::new(name)) || !program.exists() {
        return;
    }
    let lib = folder.join("lib");
    let mut command = Command::new(lib.join(LOADER));
    command.arg("--library-path").arg(&lib).arg("--argv0").arg(name).arg(&program).args(words);
    let error = command.env("MKE2FS_CONFIG", folder.join("mke2fs.conf")).exec();
    eprintln!("senesce: start {}: {error}", program.display());
    std::process::exit(126);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_every_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(of(folder.path()).unwrap().is_none());
        for part in ["bin", "lib"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let mut digests = Vec::new();
        for (file, text) in [("bin/mkfs.xfs", "a"), ("lib/libc.so.6", "b"), ("mke2fs.conf", "c"), ("bin/mkfs.xfs", "d")]
        {
            fs::write(folder.path().join(file), text).unwrap();
            fs::write(folder.path().join("mke2fs.conf"), if file == "mke2fs.conf" { "c" } else { "" }).unwrap();
            let found = of(folder.path()).unwrap().unwrap();
            assert_eq!(found.programs, ["mkfs.xfs"]);
            assert!(!digests.contains(&found.digest), "{file}");
            digests.push(found.digest);
        }
        fs::remove_file(folder.path().join("mke2fs.conf")).unwrap();
        assert!(of(folder.path()).is_err(), "an incomplete package is refused");
    }
}
