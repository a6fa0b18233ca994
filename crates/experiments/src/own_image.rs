//! The image file that a run makes anew for every volume. What it holds is the run's own, also after an interruption.

use senesce_core::{Event, Failure, RunDirectory};
use senesce_target::TargetSpec;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Kind of the event that says which image a run made.
const IMAGE: &str = "own-image";

/// What may be lost with `target`: what the user said, else an image that this run made, now or before it was
/// interrupted. The run directory knows it by its inode and when that was made: a number alone is given to another file soon.
pub fn erase(target: &TargetSpec, said: &str, directory: &mut RunDirectory) -> Result<Option<String>, Failure> {
    let TargetSpec::Image { path, .. } = target else {
        return Ok(Some(said.to_string()).filter(|said| !said.is_empty()));
    };
    if !said.is_empty() {
        return Ok(Some(said.into()));
    }
    let is_new = File::create_new(path).is_ok();
    if is_new {
        remember(target, directory)?;
    }
    let Some(image) = identity(path) else { return Ok(None) };
    let equal = |event: &Event, name| event.data[name] == image[name];
    let same =
        |event: &Event| event.kind == IMAGE && ["device", "inode", "made_ns"].iter().all(|name| equal(event, *name));
    let ours = is_new || !image["made_ns"].is_null() && directory.earlier_events().iter().any(same);
    Ok(ours.then(|| path.display().to_string()))
}

/// Records that the image of `target`, if it is one, was made by this run.
pub fn remember(target: &TargetSpec, directory: &mut RunDirectory) -> Result<(), Failure> {
    if let TargetSpec::Image { path, .. } = target
        && let Some(image) = identity(path)
    {
        directory.append(IMAGE, &image)?;
    }
    Ok(())
}

/// What tells a file from all others. `None`: there is no file.
fn identity(path: &Path) -> Option<Value> {
    let found = path.metadata().ok()?;
    let made = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let made_ns = made.map(|time| time.as_nanos() as u64);
    Some(json!({"path": path, "device": found.dev(), "inode": found.ino(), "made_ns": made_ns}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Environment, Plan, Seed};
    use std::collections::BTreeMap;
    use std::fs;

    #[test]
    fn a_continued_run_may_make_its_own_image_anew_and_no_other() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a.img");
        let target = TargetSpec::Image { path: path.clone(), size: None };
        let plan = Plan::new("test", Seed(1), BTreeMap::new());
        let may = |run: &str| {
            let mut directory = RunDirectory::open(&room.path().join(run), &plan, &Environment::default()).unwrap();
            erase(&target, "", &mut directory).unwrap().is_some()
        };
        assert!(may("first"), "it makes the image");
        fs::write(&path, "a file system").unwrap();
        assert!(may("first"), "continued");
        assert!(!may("second"), "another run");
        let foreign = room.path().join("b.img");
        fs::write(&foreign, "precious").unwrap();
        fs::rename(&foreign, &path).unwrap();
        assert!(!may("first"), "another image under its name");
        let path = room.path().join("c.img");
        let target = TargetSpec::Image { path: path.clone(), size: None };
        let may = |run: &str| {
            let mut directory = RunDirectory::open(&room.path().join(run), &plan, &Environment::default()).unwrap();
            erase(&target, "", &mut directory).unwrap().is_some()
        };
        assert!(may("third"));
        fs::remove_file(&path).unwrap();
        // Times of files have the grain of the kernel's tick, at most 10 ms.
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs::write(&path, "a file that is given the same inode").unwrap();
        assert!(!may("third"), "another image made under its name");
    }
}
