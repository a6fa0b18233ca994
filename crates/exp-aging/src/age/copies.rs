//! Copies of the aged files on new file systems: created once in the order of birth ("unaged"), and written in the order of
//! reading ("ordered copy"). They separate the cost of age from that of the order of creation, without a model of allocation.

use super::final_layout::{READ_ORDER, ReadModel, births, drives};
use super::new_file::new_file_size;
use super::run::open_options;
use super::spec::AgeSpec;
use senesce_core::{Bytes, Failure, Figure, Progress};
use senesce_layout::analysis::map_figure;
use senesce_layout::{FileRuns, Layout, LayoutSummary, Options};
use senesce_volume::{MountedTarget, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One of the compared file systems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExaminedCopy {
    /// `ordered copy`, `unaged` or `aged`.
    pub name: String,
    /// Modelled seconds of reading every file, for each of the reference drives.
    pub read_seconds: Vec<f64>,
    /// Files in several pieces.
    pub fragmented_files: u64,
    /// Largest free extent; 0 if unknown.
    pub largest_free: Bytes,
    /// Pieces of a new file of [`Copies::new_file`].
    pub new_file_pieces: u64,
}

/// An aged file system and its two copies, on the same drive models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Copies {
    /// Models of the drives.
    pub drives: Vec<String>,
    /// Size of the file that was written to each file system.
    pub new_file: Bytes,
    /// In the order `ordered copy`, `unaged`, `aged`.
    pub layouts: Vec<ExaminedCopy>,
    /// The three layouts above one another.
    pub map: Figure,
}

const NEW_DIRECTORY: &str = "senesce-new-file";

/// Makes both copies in memory, one after the other, and writes a new file to all three. The target is changed, so it must be one
/// in memory that ends with this run.
pub(super) fn make(spec: &AgeSpec, target: &MountedTarget, progress: &dyn Progress) -> Result<Copies, Failure> {
    let models = drives()?;
    let free = target.growth_space(None).map_or(Bytes(u64::MAX), |space| space.free);
    let new_file = new_file_size(target.capacity(), free);
    let aged = Layout::examine(target.mount_point(), &options())?;
    let files = aged.runs.as_ref().ok_or_else(|| Failure::usage("the layout has no files"))?;
    let mut states = Vec::new();
    let mut layouts = Vec::new();
    let references = [("ordered copy", READ_ORDER.of(files)), ("unaged", births(files))];
    let mut copied = CopiedBytes::begin(progress, files.bytes() * references.len() as u64);
    for (name, sequence) in references {
        let copy = open(&TargetSpec::Memory { size: target.capacity() }, &open_options(spec, None, false))?;
        write_copy((target.mount_point(), copy.mount_point()), files, &sequence, |bytes| copied.add(bytes, name))?;
        copy.sync()?;
        let layout = Layout::examine(copy.mount_point(), &options())?;
        layouts.push(examine(name, &layout, &models, copy.mount_point(), new_file)?);
        states.extend(layout.map.map(|map| (name.to_string(), map)));
        copy.close()?;
    }
    layouts.push(examine("aged", &aged, &models, target.mount_point(), new_file)?);
    states.extend(aged.map.map(|map| ("aged".to_string(), map)));
    let name = target.file_system().map_or_else(String::new, |file_system| file_system.to_string());
    let map = map_figure(&states, &name);
    Ok(Copies { drives: models.into_iter().map(|model| model.name).collect(), new_file, layouts, map })
}

fn options() -> Options {
    Options { runs: true, map: true, ..Options::default() }
}

fn examine(
    name: &str,
    layout: &Layout,
    models: &[ReadModel],
    mount: &Path,
    new_file: Bytes,
) -> Result<ExaminedCopy, Failure> {
    let LayoutSummary { fragmented_files, free_space, .. } = &layout.summary;
    let seconds = |model: &ReadModel| layout.runs.as_ref().map_or(0.0, |files| model.seconds(files));
    Ok(ExaminedCopy {
        name: name.into(),
        read_seconds: models.iter().map(seconds).collect(),
        fragmented_files: *fragmented_files,
        largest_free: Bytes(free_space.as_ref().map_or(0, |free| free.max_bytes)),
        new_file_pieces: pieces_of_new_file(mount, new_file)?,
    })
}

const MIB: u64 = 1 << 20;

/// Progress over all copies of the files.
struct CopiedBytes<'a> {
    progress: &'a dyn Progress,
    done: u64,
}

impl<'a> CopiedBytes<'a> {
    fn begin(progress: &'a dyn Progress, total: u64) -> Self {
        progress.phase("copying the files", total / MIB, "MiB");
        Self { progress, done: 0 }
    }

    fn add(&mut self, bytes: u64, copy: &str) {
        self.done += bytes;
        self.progress.position(self.done / MIB, copy);
    }
}

/// Copies the files in `sequence`, and passes the bytes of each to `copied`.
fn write_copy(
    (from, to): (&Path, &Path),
    files: &FileRuns,
    sequence: &[u32],
    mut copied: impl FnMut(u64),
) -> Result<(), Failure> {
    let paths: Vec<PathBuf> = (0..files.len()).map(|file| files.path(file)).collect();
    let directories: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    for directory in directories {
        let path = to.join(directory);
        std::fs::create_dir_all(&path).map_err(failed("create", &path))?;
    }
    for file in sequence {
        let path = &paths[*file as usize];
        std::fs::copy(from.join(path), to.join(path)).map_err(failed("copy", path))?;
        copied(files.of(*file as usize).iter().map(|run| run.length).sum());
    }
    Ok(())
}

fn pieces_of_new_file(mount: &Path, size: Bytes) -> Result<u64, Failure> {
    let directory = mount.join(NEW_DIRECTORY);
    let path = directory.join("file");
    let write = || -> io::Result<()> {
        std::fs::create_dir(&directory)?;
        let mut file = File::create(&path)?;
        let chunk = vec![0xa5; 1 << 20];
        for _ in 0..size.0 >> 20 {
            file.write_all(&chunk)?;
        }
        file.sync_all()
    };
    write().map_err(failed("write", &path))?;
    Ok(Layout::of(&directory)?.extents)
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let message = format!("cannot {what} {}", path.display());
    move |error| Failure::new(senesce_core::ExitCode::RunFailed, format!("{message}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Reports(Mutex<Vec<(u64, String)>>);

    impl Progress for Reports {
        fn phase(&self, _name: &str, total: u64, unit: &str) {
            self.0.lock().unwrap().push((total, unit.into()));
        }

        fn position(&self, done: u64, note: &str) {
            self.0.lock().unwrap().push((done, note.into()));
        }
    }

    #[test]
    fn progress_of_copies_reaches_its_total() {
        let reports = Reports::default();
        let mut copied = CopiedBytes::begin(&reports, 2 * 300 * MIB);
        for name in ["ordered copy", "unaged"] {
            [100, 200].into_iter().for_each(|mib| copied.add(mib * MIB, name));
        }
        let reports = reports.0.into_inner().unwrap();
        let stated: Vec<(u64, &str)> = reports.iter().map(|(done, note)| (*done, note.as_str())).collect();
        let [first, second] = ["ordered copy", "unaged"];
        assert_eq!(stated, [(600, "MiB"), (100, first), (300, first), (400, second), (600, second)]);
    }
}
