//! Images that a command in a guest names. The guest cannot see whether a program of the host uses them.

use senesce_core::Failure;
use senesce_volume::{HeldImage, TargetSpec};
use std::path::Path;

/// Locks the images that the words of a command name as `image:FILE`, and `other`, until the result is dropped. `here`:
/// the folder in which the command runs.
///
/// # Errors
/// A refusal if one of them is in use.
pub(crate) fn hold(command: &[String], other: Option<&Path>, here: &Path) -> Result<Vec<HeldImage>, Failure> {
    let named = |word: &String| match word.parse() {
        Ok(TargetSpec::Image { path, .. }) => Some(here.join(path)),
        _ => None,
    };
    let mut paths: Vec<_> = command.iter().filter_map(named).chain(other.map(|path| here.join(path))).collect();
    paths.sort();
    paths.dedup();
    let held = paths.iter().filter_map(|path| HeldImage::hold(path).transpose());
    Ok(held.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::ExitCode;

    #[test]
    fn image_in_use_is_refused_before_a_guest_starts() {
        let folder = tempfile::tempdir().unwrap();
        let (here, path) = (folder.path(), folder.path().join("a.img"));
        let command = ["senesce", "age", "image:a.img,size=1G", "--fs", "xfs"].map(String::from);
        assert_eq!(hold(&command, None, here).unwrap().len(), 0, "it does not exist");
        std::fs::write(&path, "data").unwrap();
        let held = hold(&command, Some(Path::new("a.img")), here).unwrap();
        assert_eq!(held.len(), 1, "named twice");
        assert_eq!(hold(&command, None, here).unwrap_err().exit_code(), ExitCode::Refused);
        drop(held);
        assert_eq!(hold(&[], Some(&path), here).unwrap().len(), 1);
    }
}
