//! Checks that a path stays below a directory.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path};

const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Checks each existing parent of `path` below `root` and reports the parent at fault: ELOOP for a link, EXDEV for a
/// path outside or on another file system.
pub(super) fn above<'a>(root: &File, path: &'a Path) -> Result<(), (&'a Path, Errno)> {
    above_by(root, path, |root, above| match open_beneath(root, above) {
        // openat2 is missing before Linux 5.6, or blocked by a seccomp filter.
        Err(Errno::NOSYS | Errno::PERM) => walked(root, above),
        answer => answer,
    })
}

fn above_by<'a>(
    root: &File,
    path: &'a Path,
    look: impl Fn(&File, &Path) -> Result<(), Errno>,
) -> Result<(), (&'a Path, Errno)> {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        match look(root, above) {
            Err(Errno::NOENT) => {}
            answer => return answer.map_err(|errno| (above, errno)),
        }
    }
    Ok(())
}

/// Asks the kernel (openat2(2)).
fn open_beneath(root: &File, path: &Path) -> Result<(), Errno> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    loop {
        match rustix::fs::openat2(root, path, LOOK, Mode::empty(), within) {
            // The kernel asks to retry after a concurrent rename (openat2(2)).
            Err(Errno::AGAIN) => {}
            opened => return opened.map(drop),
        }
    }
}

fn walked(root: &File, path: &Path) -> Result<(), Errno> {
    let mount = mount_of(root)?;
    let mut way: Vec<OwnedFd> = Vec::new();
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            Component::ParentDir => {
                way.pop().ok_or(Errno::XDEV)?;
                continue;
            }
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        };
        let at = way.last().map_or(root.as_fd(), AsFd::as_fd);
        let next = rustix::fs::openat(at, name, LOOK | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
        if mount_of(&next)? != mount {
            return Err(Errno::XDEV);
        }
        way.push(next);
    }
    Ok(())
}

/// Returns the mount number of an open file (proc(5)); two mounts of the same file system differ.
fn mount_of(open: &impl AsFd) -> Result<u64, Errno> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", open.as_fd().as_raw_fd()))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    type PathCheck = fn(&File, &Path) -> Result<(), Errno>;

    const WAYS: [PathCheck; 2] = [open_beneath, walked];

    fn scene() -> (tempfile::TempDir, File) {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        fs::create_dir_all(at("target/own/in")).unwrap();
        fs::create_dir(at("outside")).unwrap();
        fs::write(at("target/file"), "").unwrap();
        symlink(at("outside"), at("target/out")).unwrap();
        symlink("own", at("target/near")).unwrap();
        let root = File::open(at("target")).unwrap();
        (room, root)
    }

    #[test]
    fn walk_and_openat2_agree() {
        let (_room, root) = scene();
        for (path, expected) in [
            ("own/a", Ok(())),
            ("own/in/a", Ok(())),
            ("own/./in/../in/a", Ok(())),
            ("own/in/../../own/a", Ok(())),
            ("own/new/and/newer/a", Ok(())),
            ("new/a", Ok(())),
            ("a", Ok(())),
            ("out", Ok(())),
            ("file/a", Ok(())),
            ("file/a/b", Err(Errno::NOTDIR)),
            ("out/a", Err(Errno::LOOP)),
            ("out/new/a", Err(Errno::LOOP)),
            ("near/a", Err(Errno::LOOP)),
            ("own/../out/a", Err(Errno::LOOP)),
            ("../outside/a", Err(Errno::XDEV)),
            ("own/../../outside/a", Err(Errno::XDEV)),
            ("/tmp/a", Err(Errno::XDEV)),
        ] {
            for way in WAYS {
                let answer = above_by(&root, Path::new(path), way).map_err(|(_, errno)| errno);
                assert_eq!(answer, expected, "{path}");
            }
        }
    }

    #[test]
    #[ignore = "needs root"]
    fn nested_mount_is_outside() {
        let (room, root) = scene();
        let at = |name: &str| room.path().join(name);
        rustix::mount::mount_bind(at("outside"), at("target/own")).unwrap();
        let answers = WAYS.map(|way| above_by(&root, Path::new("own/a"), way).map_err(|(_, errno)| errno));
        rustix::mount::unmount(at("target/own"), rustix::mount::UnmountFlags::empty()).unwrap();
        assert_eq!(answers, [Err(Errno::XDEV); 2]);
    }
}
