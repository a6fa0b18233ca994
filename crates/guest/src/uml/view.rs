//! The tree of files that a user-mode kernel sees, made of mounts of the host.

use super::confine::{
    ACCOUNTS, BindMount, Confinement, DEVICES, ENTROPY, FOLDERS, PROGRAM, SETTINGS, SYSTEM, TEMPORARY, below, wrong,
};
use crate::guest::folder_at;
use rustix::fs::{CWD, Mode};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A file or folder of the host, and its place in the tree.
pub(super) struct Source {
    pub from: PathBuf,
    to: PathBuf,
    access: Access,
    is_folder: bool,
    /// Of a user: not a part of the system.
    pub is_own: bool,
    /// A detached mount of it, which needs no path.
    pub mount: Option<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Device,
}

pub(super) fn sources(confinement: &Confinement) -> Result<Vec<Source>, String> {
    let source = |from: &Path, to: &Path, access, is_own| Source {
        from: from.into(),
        to: to.into(),
        access,
        is_folder: from.is_dir(),
        is_own,
        mount: None,
    };
    let entropy: &[&str] = if confinement.deterministic { &[] } else { &ENTROPY };
    let devices = DEVICES.iter().chain(entropy).map(|name| Path::new("/dev").join(name));
    let system = SYSTEM.iter().chain(&SETTINGS).map(Path::new).filter(|path| path.symlink_metadata().is_ok());
    let program = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let mut sources: Vec<Source> = devices.map(|path| source(&path, &path, Access::Device, false)).collect();
    sources.extend(system.map(|path| source(path, path, Access::Read, false)));
    sources.push(source(&program, Path::new(PROGRAM), Access::Read, true));
    sources.extend(confinement.shown.iter().map(|BindMount { from, to, writable }| {
        source(from, to, if *writable { Access::Write } else { Access::Read }, true)
    }));
    Ok(sources)
}

/// Covers the working directory with the tree, and enters it.
pub(super) fn make_tree(confinement: &Confinement, sources: &[Source]) -> Result<(), String> {
    cover_working_directory().map_err(wrong("mount", &confinement.root))?;
    let root = Path::new(".");
    for folder in FOLDERS {
        folder_at(&root.join(folder))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    for folder in [Path::new("/tmp"), Path::new(TEMPORARY)] {
        let place = below(root, folder);
        folder_at(&place)?;
        rustix::mount::mount("tmpfs", &place, "tmpfs", flags, Some(c"mode=1777")).map_err(wrong("mount", folder))?;
    }
    // Before anything of the host is visible: a share may be /etc itself.
    write_at(&root.join("etc/passwd"), ACCOUNTS)?;
    link_mounts(root)?;
    confinement.files.iter().try_for_each(|(path, text)| write_at(&below(root, path), text))?;
    sources.iter().try_for_each(|source| show(root, source))
}

fn cover_working_directory() -> rustix::io::Result<()> {
    let tree = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&tree, "mode", "0755")?;
    rustix::mount::fsconfig_create(&tree)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let tree = rustix::mount::fsmount(&tree, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    rustix::mount::move_mount(&tree, "", CWD, ".", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    rustix::process::fchdir(&tree)
}

/// Puts a source into the tree, if it is not already visible there.
fn show(root: &Path, source: &Source) -> Result<(), String> {
    let Source { from, to, access, is_folder, mount, .. } = source;
    if !source.is_own && from.is_symlink() {
        return copy_link(from, &below(root, to));
    }
    let place = below(root, to);
    if *is_folder {
        folder_at(&place)?;
    } else if !place.exists() {
        write_at(&place, "")?;
    }
    match mount {
        Some(mount) => rustix::mount::move_mount(mount, "", CWD, &place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH),
        None => rustix::mount::mount(from, &place, "", MountFlags::BIND | MountFlags::REC, None),
    }
    .map_err(wrong("show", from))?;
    senesce_sys::mounted::restrict(&place, *access == Access::Read, *access != Access::Device)
        .map_err(wrong("restrict", from))
}

/// Links the mount table to the path at which old programs (e4defrag) expect it.
pub(super) fn link_mounts(root: &Path) -> Result<(), String> {
    let link = root.join("etc/mtab");
    rustix::fs::symlink("/proc/self/mounts", &link).map_err(wrong("link", &link))
}

fn copy_link(from: &Path, to: &Path) -> Result<(), String> {
    let target = fs::read_link(from).map_err(|error| format!("read {}: {error}", from.display()))?;
    rustix::fs::symlinkat(&target, CWD, to).map_err(wrong("link", to))
}

fn write_at(path: &Path, text: &str) -> Result<(), String> {
    path.parent().map_or(Ok(()), folder_at)?;
    let failed = |error: io::Error| format!("write {}: {error}", path.display());
    let mut file = File::create(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644));
    Ok(())
}
