//! Folders of the host that the guest may write.

use crate::error::GuestError;
use std::path::{Path, PathBuf};

/// Returns the folders given by the user as absolute paths. They must exist.
pub fn existing(named: &[PathBuf], here: &Path) -> Result<Vec<PathBuf>, GuestError> {
    named.iter().map(|share| existing_folder(share, here)).collect()
}

fn existing_folder(share: &Path, here: &Path) -> Result<PathBuf, GuestError> {
    let path = here.join(share);
    match path.canonicalize() {
        Ok(real) if real == Path::new("/") => Err(GuestError::Usage(format!(
            "--share {}: the guest must not write to the whole tree of the host",
            share.display()
        ))),
        Ok(_) if path.is_dir() => Ok(path),
        Ok(_) => Err(GuestError::Usage(format!("--share {}: not a folder", share.display()))),
        Err(error) => Err(GuestError::Usage(format!("--share {}: {error}; make the folder first", share.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_folder_is_refused_and_not_created() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        std::fs::create_dir(at("there")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        let share = |name: &str| existing(&[PathBuf::from(name)], here.path()).map_err(|error| error.to_string());
        assert_eq!(share("there").unwrap(), [at("there")]);
        for name in ["missing/deep", "dangling", "../nowhere-else/it", "file"] {
            assert!(share(name).unwrap_err().contains(&format!("--share {name}")), "{name}");
        }
        assert!(share("/").unwrap_err().contains("the whole tree"));
        let names = std::fs::read_dir(here.path()).unwrap().count();
        assert_eq!(names, 3, "nothing was created");
    }
}
