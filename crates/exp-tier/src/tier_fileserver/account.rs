//! Checks the contents and requests of the workload: by its specification, and as found and counted in the run.

use crate::tier;
use senesce_core::analysis::Better;
use senesce_core::failure::failed;
use senesce_core::{ExitCode, Failure, Finite, Measurement};
use senesce_workload::bench::draw;
use senesce_workload::model::FlowNode;
use senesce_workload::model::flowop::{Direction, FlowopEntry, TABLE};
use senesce_workload::{Bench, Options, Workload, builtin};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Converts bytes to MB in Filebench's sense, which are MiB.
pub(crate) fn mb(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(crate) fn sizes() -> Result<Vec<Measurement>, Failure> {
    let mut found = Vec::new();
    for name in ["fileserver", "webserver", "varmail"] {
        let filesets = draw(&builtin(name, 1.0, &BTreeMap::new())?, &Options::default())?;
        // The web server's log is a second file set; the largest one is meant.
        let Some(largest) = filesets.iter().max_by_key(|fileset| fileset.bytes) else { continue };
        let values = [
            ("workload size", "MB", Better::Neither, mb(largest.bytes)),
            ("directories", "", Better::Neither, largest.directories as f64),
        ];
        found.extend(tier::measurements(0, values).into_iter().map(|one| one.under("personality", name)));
    }
    Ok(found)
}

pub(crate) fn planned_reads(workload: &Workload) -> Vec<Measurement> {
    let threads = workload.processes.iter().flat_map(|process| &process.threads);
    let directions: Vec<Direction> = threads.flat_map(|thread| &thread.flow).flat_map(directions).collect();
    let count = |wanted: Direction| directions.iter().filter(|found| **found == wanted).count() as f64;
    let (reads, writes) = (count(Direction::Read), count(Direction::Write));
    let share = Finite::per(100.0 * reads, reads + writes).map_or(f64::NAN, Finite::get);
    let found = tier::measurements(0, [("read requests", "%", Better::Neither, share)]);
    found.into_iter().map(|one| one.under("account", "specification")).collect()
}

fn directions(node: &FlowNode) -> Vec<Direction> {
    match node {
        FlowNode::Single(flowop) => {
            let is_it = |entry: &&FlowopEntry| entry.kind == flowop.kind;
            TABLE.iter().find(is_it).map(|entry| entry.direction).into_iter().collect()
        }
        FlowNode::Composite { inner, .. } => inner.iter().flat_map(directions).collect(),
    }
}

/// Returns the bytes of all files of the workload. Those that exist at the start must be on the file system, with
/// exactly these bytes.
pub(crate) fn found(bench: &Bench, root: &Path) -> Result<u64, Failure> {
    let filesets = bench.filesets();
    for fileset in &filesets {
        let (files, bytes) = below(&root.join(&fileset.name))?;
        if (files, bytes) != (fileset.existing_files, fileset.existing_bytes) {
            return Err(Failure::new(
                ExitCode::RunFailed,
                format!(
                    "{}: found {files} files with {bytes} bytes, expected {} with {}",
                    root.join(&fileset.name).display(),
                    fileset.existing_files,
                    fileset.existing_bytes
                ),
            ));
        }
    }
    Ok(filesets.iter().map(|fileset| fileset.bytes).sum())
}

fn below(directory: &Path) -> Result<(u64, u64), Failure> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(directory).map_err(failed("read", directory))? {
        let entry = entry.map_err(failed("read", directory))?;
        let metadata = entry.metadata().map_err(failed("inspect", &entry.path()))?;
        if metadata.is_dir() {
            let inner = below(&entry.path())?;
            files += inner.0;
            bytes += inner.1;
        } else {
            files += 1;
            bytes += metadata.len();
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personalities_have_filebenchs_documented_sizes() {
        let found = sizes().unwrap();
        let value = |metric: &str, name: &str| {
            let is_it = |one: &&Measurement| one.metric == metric && one.condition["personality"] == name;
            (found.iter().find(is_it).unwrap().value.get() * 1e3).round() / 1e3
        };
        let size = |name| value("workload size", name);
        assert_eq!([size("fileserver"), size("webserver"), size("varmail")], [1240.757, 14.76, 14.959]);
        assert_eq!(value("directories", "fileserver"), 527.0);
    }

    #[test]
    fn file_server_is_specified_with_one_read_per_two_writes() {
        let workload = builtin("fileserver", 1.0, &BTreeMap::new()).unwrap();
        let found = planned_reads(&workload);
        assert!((found[0].value.get() - 100.0 / 3.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn files_are_counted_in_all_directories() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        fs::write(directory.path().join("a/one"), [0; 10]).unwrap();
        fs::write(directory.path().join("two"), [0; 5]).unwrap();
        assert_eq!(below(directory.path()).unwrap(), (2, 15));
    }
}
