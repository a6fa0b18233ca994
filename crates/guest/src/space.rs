//! Checks the space for the writes of a run. Images are sparse: with too little space the guest would see an error of its drive
//! in the middle of its work.

use crate::error::{GuestError, io_error};
use senesce_core::Bytes;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// With no more than this left, a file system counts as full: some reserve a few blocks.
const FULL: u64 = 64 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Growth {
    pub folder: PathBuf,
    pub bytes: u64,
    pub remedy: &'static str,
}

/// Refuses growth beyond the free space; folders on the same file system share it.
///
/// # Errors
/// [`GuestError::Missing`] with the folder and the numbers; those of statvfs(3).
pub(crate) fn check(all: &[Growth]) -> Result<(), GuestError> {
    let device = |growth: &Growth| {
        growth.folder.metadata().map(|found| found.dev()).map_err(io_error("inspect", &growth.folder))
    };
    let devices = all.iter().map(device).collect::<Result<Vec<_>, _>>()?;
    for (growth, place) in all.iter().zip(&devices) {
        let wanted =
            all.iter().zip(&devices).filter(|(_, other)| *other == place).map(|(growth, _)| growth.bytes).sum();
        let free = free(&growth.folder)?;
        if wanted > free {
            let (wanted, free) = (Bytes(wanted), Bytes(free));
            return Err(GuestError::Missing {
                what: format!("the drives may grow by {wanted}, but {} has {free} free", growth.folder.display()),
                remedy: format!("make them smaller, free some space, or {}", growth.remedy),
            });
        }
    }
    Ok(())
}

pub(crate) fn full<'a>(folders: impl Iterator<Item = &'a Path>) -> Option<&'a Path> {
    let mut folders = folders;
    folders.find(|folder| free(folder).is_ok_and(|free| free < FULL))
}

fn free(folder: &Path) -> Result<u64, GuestError> {
    let found = rustix::fs::statvfs(folder).map_err(|errno| io_error("inspect", folder)(errno.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_added_per_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let growth = |bytes| Growth { folder: folder.path().into(), bytes, remedy: "go elsewhere" };
        let half = free(folder.path()).unwrap() / 2;
        check(&[growth(half / 2), growth(half / 2)]).unwrap();
        let refused = check(&[growth(half + half / 2), growth(half)]).unwrap_err().to_string();
        assert!(
            refused.contains(&folder.path().display().to_string()) && refused.ends_with("go elsewhere"),
            "{refused}"
        );
        assert!(check(&[Growth { folder: folder.path().join("missing"), ..growth(0) }]).is_err());
        assert_eq!(full([folder.path()].into_iter()), None);
    }
}
