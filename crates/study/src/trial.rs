//! Tests before the first write of a study that every file system can be made and mounted with its options.

use crate::spec::StudySpec;
use senesce_core::failure::Classify;
use senesce_core::{Bytes, Environment, ExitCode, Failure};
use senesce_volume::{OpenOptions, TargetSpec, open};
use std::collections::BTreeSet;

/// Makes and mounts every file system once on an empty image in memory, so that mkfs or the kernel refuse bad options
/// before any image is made. Does nothing without root.
pub fn options(spec: &StudySpec) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let here = |(fs, state, workload): &(usize, usize, usize)| {
        let name = &spec.workload[*workload].name;
        !spec.exception(*fs, *state, name).skip && spec.guest_kernel(*fs, *state, name).is_none()
    };
    let used: BTreeSet<usize> = spec.combinations().filter(here).map(|(fs, ..)| fs).collect();
    let mut tried = BTreeSet::new();
    for one in used.into_iter().map(|fs| &spec.file_system[fs]).filter(|one| !one.is_zoned()) {
        if !tried.insert((&one.kind, &one.mkfs, &one.mount)) {
            continue;
        }
        let options =
            OpenOptions { writes: Some(Bytes(0)), skips_tables: true, ..one.open_options("").map_err(Failure::usage)? };
        let tried = open(&TargetSpec::Memory { size: spec.size }, &options).and_then(|target| target.close());
        tried.map_err(|error| {
            let code = match error.exit_code() {
                ExitCode::RunFailed => ExitCode::Usage,
                other => other,
            };
            Failure::new(
                code,
                format!("file_system '{}' cannot be made and mounted with its options: {error}", one.name),
            )
        })?;
    }
    Ok(())
}

pub(crate) fn disturbances() -> Vec<String> {
    let facts = Environment::capture();
    let load = facts.0.get("run.load_average").and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<String> = facts.caveats().into_iter().filter(|message| message.contains("busy")).collect();
    if found.is_empty() && load > processors as f64 {
        found.push(format!("the machine is busy: a load of {load} on {processors} processors; wait until it is idle"));
    }
    found
}
