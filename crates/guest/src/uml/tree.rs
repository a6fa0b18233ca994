//! The tree of a guest that Landlock confines: its kernel sees the host's root, and the guest makes the same tree from it that
//! namespaces would show.

use super::confine::{ACCOUNTS, FOLDERS, SETTINGS, SYSTEM};
use super::view::link_mounts;
use crate::guest::{attach, enter, folder_at};
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders of which every host has one.
const MOUNT_POINTS: [&str; 3] = ["/mnt", "/tmp", "/usr"];

/// What the guest shows of the host's root in addition to its programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HostTree {
    pub readable: Vec<PathBuf>,
    /// The control folder on the host.
    pub control: PathBuf,
}

/// Folders of the guest's memory.
struct Memory {
    base: PathBuf,
    overlays: usize,
}

impl HostTree {
    /// Makes the tree and enters it. Its files are writable, in memory.
    pub(crate) fn enter(&self) -> Result<(), String> {
        let base = MOUNT_POINTS.into_iter().map(Path::new).find(|path| path.is_dir()).ok_or("no mount point")?;
        attach("tmpfs", "tmpfs", &text(base), MountFlags::NOSUID, "size=90%,mode=0755")?;
        let mut memory = Memory { base: base.into(), overlays: 0 };
        folder_at(&memory.host())?;
        attach("hostfs", "host", &text(&memory.host()), MountFlags::RDONLY | MountFlags::NOSUID, "/")?;
        for folder in FOLDERS {
            folder_at(&memory.root().join(folder))?;
        }
        for shared in ["tmp", "var/tmp"] {
            let path = memory.root().join(shared);
            fs::set_permissions(&path, Permissions::from_mode(0o1777)).map_err(wrong("set the mode of", &path))?;
        }
        let accounts = memory.root().join("etc/passwd");
        fs::write(&accounts, ACCOUNTS).map_err(wrong("write", &accounts))?;
        link_mounts(&memory.root())?;
        for path in SYSTEM.iter().chain(&SETTINGS).map(Path::new).chain(self.readable.iter().map(PathBuf::as_path)) {
            memory.show(path)?;
        }
        enter(&memory.root())
    }
}

impl Memory {
    fn host(&self) -> PathBuf {
        self.base.join("host")
    }

    fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// Shows a file, folder or link of the host at its path, if it exists.
    fn show(&mut self, path: &Path) -> Result<(), String> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        let (from, to) = (self.host().join(relative), self.root().join(relative));
        let Ok(found) = from.symlink_metadata() else { return Ok(()) };
        to.parent().map_or(Ok(()), folder_at)?;
        if found.is_symlink() {
            let target = fs::read_link(&from).map_err(wrong("read", &from))?;
            return std::os::unix::fs::symlink(target, &to).map_err(wrong("link", &to));
        }
        if found.is_dir() { self.overlay(&from, &to) } else { bind(&from, &to) }
    }

    fn overlay(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        let [upper, work] = ["upper", "work"].map(|kind| self.base.join(format!("{kind}{}", self.overlays)));
        self.overlays += 1;
        [&upper, &work, &to.to_path_buf()].into_iter().try_for_each(|folder| folder_at(folder))?;
        let layers = [("lowerdir", from), (",upperdir", &upper), (",workdir", &work)];
        let data: String = layers.iter().map(|(name, path)| format!("{name}={}", escaped(path))).collect();
        attach("overlay", "overlay", &text(to), MountFlags::NOSUID, &data)
    }
}

/// Binds a file of the host, which is read-only, to a path of the tree.
fn bind(from: &Path, to: &Path) -> Result<(), String> {
    if !to.exists() {
        fs::write(to, "").map_err(wrong("create", to))?;
    }
    mount(from, to, "", MountFlags::BIND, None).map_err(|errno| wrong("show", to)(errno.into()))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Commas separate options of an overlay, and colons its layers (Documentation/filesystems/overlayfs.rst of the kernel).
fn escaped(path: &Path) -> String {
    let escape = |character: char| match character {
        ',' | ':' | '\\' => format!("\\{character}"),
        other => other.to_string(),
    };
    text(path).chars().map(escape).collect()
}

fn wrong(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> String {
    let path = path.to_path_buf();
    move |error| format!("{what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_of_overlay_options_are_escaped() {
        assert_eq!(escaped(Path::new("/a,b:c\\d e")), "/a\\,b\\:c\\\\d e");
    }
}
