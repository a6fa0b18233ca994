//! The content key of an image in the store.

use crate::command::inputs::of_command;
use crate::matrix::{ImageId, aging_plan, image_seed, is_planned};
use crate::spec::{StateKind, StudySpec};
use senesce_core::{ExitCode, Failure};
use senesce_volume::images::content_hash;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) fn content(spec: &StudySpec, id: ImageId) -> Result<String, Failure> {
    let (fs, state) = (&spec.file_system[id.fs], &spec.state[id.state]);
    let version = match fs.custom() {
        Some(custom) => format!("{custom:?}"),
        None => fs.kind().map_err(Failure::usage)?.mkfs_version()?,
    };
    let kernel =
        senesce_core::Environment::capture().0.get("kernel.release").map(ToString::to_string).unwrap_or_default();
    let mut text = format!(
        "senesce image 1\nfile system {} mkfs {} ({}) mount {}\nkernel {kernel}\nsize {}\nstate {}\n",
        fs.kind,
        fs.mkfs,
        version,
        fs.mount,
        spec.size.0,
        state.kind.word(),
    );
    if !fs.after_mount.is_empty() {
        text += &format!("after mount {}\n", fs.after_mount);
    }
    if is_planned(state) {
        let plan = aging_plan(spec, state, id.image)?;
        let threads = if state.kind == StateKind::Aged { spec.threads } else { 1 };
        text += &format!(
            "profile {}\nplan {:?}\ndata {:?}\nchurn {:?}\nseed {}\nthreads {threads}\n{}",
            plan.spec().profile.to_toml(),
            plan.summary(),
            spec.source(state).data,
            plan.spec().churn,
            plan.spec().seed.0,
            program(Path::new("/proc/self/exe"))?,
        );
    }
    if state.kind == StateKind::Command {
        text += &format!("seed {}\n{}", image_seed(spec, id.image).0, of_command(&state.command)?);
    }
    if state.kind == StateKind::Image {
        text += &hash_of(Path::new(&state.path))?;
    }
    Ok(text)
}

/// Identifies the program that makes images by its own bytes, because the commit may be unknown and a working tree may
/// differ from it.
fn program(executable: &Path) -> Result<String, Failure> {
    static HASHES: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut hashes = HASHES.lock().unwrap_or_else(PoisonError::into_inner);
    let hash = match hashes.get(executable) {
        Some(hash) => hash.clone(),
        None => hash_of(executable)?,
    };
    hashes.insert(executable.into(), hash.clone());
    let commit = senesce_core::circumstances::commit().unwrap_or("unknown");
    Ok(format!("program {} {commit} {hash}\n", env!("CARGO_PKG_VERSION")))
}

fn hash_of(path: &Path) -> Result<String, Failure> {
    content_hash(path).map_err(|error| Failure::new(ExitCode::Usage, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_programs_of_one_commit_are_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, name).unwrap();
            program(&path).unwrap()
        };
        assert_ne!(of("one build"), of("another build"));
        assert_eq!(of("one build"), of("one build"));
        assert!(of("one build").contains(env!("CARGO_PKG_VERSION")));
        let text = "name = 't'\nsize = '64M'\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'aged'\nprofile = 'wang_os'\n\
                    fullness = 0.4\noverwrites = 1\ntruncate = 'drop'\n[[workload]]\nready = 'fsync-log'\n";
        let spec = StudySpec::parse("t", text).unwrap();
        let content = content(&spec, ImageId { fs: 0, state: 0, image: 0 }).unwrap();
        assert!(content.contains(&program(Path::new("/proc/self/exe")).unwrap()), "{content}");
    }
}
