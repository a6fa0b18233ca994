//! `senesce verify`: compares a target with its record.

use super::events::Event;
use super::extended_spec::ExtendedSpec;
use super::final_layout::with_digest;
use super::run::last_checkpoint;
use super::{Age, RESUME};
use senesce_aging::parts::part_name;
use senesce_aging::{VerifyReport, verify as compare, verify_top};
use senesce_core::resume::{self, continue_with};
use senesce_core::{Failure, Progress, Record};
use senesce_layout::Layout;
use senesce_runner::{Recorded, spec_of};
use senesce_volume::{CheckReport, OpenOptions, TargetSpec, visit};
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Serialize)]
pub struct Verification {
    /// Whether everything matches the record.
    pub good: bool,
    pub files: VerifyReport,
    /// Result of the file system's checker; `None` with the reason in `not_checked`.
    pub file_system: Option<CheckReport>,
    /// Reason why the file system was not checked.
    pub not_checked: String,
    /// The layout, if one was expected.
    pub layout: Option<VerifiedLayout>,
}

/// A layout, compared with an expected one.
#[derive(Debug, Serialize)]
pub struct VerifiedLayout {
    /// Digest of the extents of all files and of all free extents.
    pub digest: Option<String>,
    pub is_expected: bool,
}

/// Verifies the target of the run in `path`. Differences are part of the result, not errors.
///
/// `layout`: expected digest of the layout.
///
/// # Errors
/// A usage error when `path` is not an aging, its execution has not ended, or its target was in memory; the record,
/// the profile or the target cannot be read; the target is in use.
pub fn verify(path: &Path, layout: Option<&str>, progress: &dyn Progress) -> Result<Verification, Failure> {
    let record = Record::open(path)?;
    let words = |what: &str| Failure::usage(format!("{}: {what}", path.display()));
    if record.plan.kind != "age" {
        return Err(words("is not an aging"));
    }
    let recorded = Recorded::<Age>::of(&record)?;
    let course = ExtendedSpec::of(&spec_of::<Age>(&record)?, recorded.events());
    let spec = &course.spec;
    if !execution_ended(&recorded) {
        let hint = continue_with(&resume::command(RESUME, path));
        return Err(words(&format!("its execution has not ended\nhint: {hint}")));
    }
    let position = last_checkpoint(&recorded).map_or(0, |checkpoint| checkpoint.operation);
    let target = match &spec.target {
        Some(TargetSpec::Memory { .. }) => {
            return Err(words("its target was in memory and is gone; age an image:FILE to verify it"));
        }
        Some(target) => target,
        None => return Err(words("it has no target")),
    };
    let options = OpenOptions { mount_options: spec.mount_options.clone(), ..OpenOptions::inspect() };
    let mut mounted = visit(target, &options)?;
    progress.phase("replaying the plan and comparing files", 0, "");
    let files = files(&course, position, mounted.mount_point())?;
    let (file_system, not_checked) = match target {
        TargetSpec::Directory(_) => (None, "the file system of a directory is in use by other programs".to_string()),
        _ => {
            progress.phase("checking the file system", 0, "");
            let report = mounted.check_file_system()?;
            let reason = if report.is_none() { "this machine has no checker for this file system" } else { "" };
            (report, reason.to_string())
        }
    };
    let layout = layout.map(|expected| verified_layout(mounted.mount_point(), expected)).transpose()?;
    mounted.close()?;
    let has_layout = layout.as_ref().is_none_or(|layout| layout.is_expected);
    let good = has_layout && files.is_good() && file_system.as_ref().is_none_or(|report| report.clean);
    Ok(Verification { good, files, file_system, not_checked, layout })
}

fn verified_layout(mount_point: &Path, expected: &str) -> Result<VerifiedLayout, Failure> {
    let digest = Layout::examine(mount_point, &with_digest())?.digest();
    Ok(VerifiedLayout { is_expected: digest.as_deref() == Some(expected), digest })
}

/// Returns whether no operation followed the last end of an execution. A run that was interrupted, resumed and then
/// killed has an end with later checkpoints.
fn execution_ended(recorded: &Recorded<Age>) -> bool {
    let last = recorded.events().rev().find_map(|event| match event {
        Event::Executed(_) => Some(true),
        Event::Checkpoint(_) | Event::Sample(_) => Some(false),
        _ => None,
    });
    last == Some(true)
}

fn files(course: &ExtendedSpec, position: u64, top: &Path) -> Result<VerifyReport, Failure> {
    let spec = &course.spec;
    if spec.parts == 1 {
        return Ok(compare(&course.planner_at(0, position)?, top, spec.data, spec.shard())?);
    }
    let mut report = verify_top(top, spec.parts)?;
    for part in 0..spec.parts {
        let planner = course.planner_at(part, position)?;
        report = report.merge(compare(&planner, &top.join(part_name(part)), spec.data, None)?);
    }
    Ok(report)
}
