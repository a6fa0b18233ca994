//! `senesce verify`: compares a target with its record.

use super::events::Event;
use super::extended_spec::ExtendedSpec;
use super::final_layout::with_digest;
use super::own_target::{self, of_files, recorded_files};
use super::start::last_checkpoint;
use super::{Age, RESUME};
use senesce_aging::parts::part_name;
use senesce_aging::{VerifyReport, verify as compare, verify_top};
use senesce_core::resume::{self, continue_with};
use senesce_core::{Failure, Progress, Record};
use senesce_layout::Layout;
use senesce_runner::{Recorded, spec_of};
use senesce_volume::{CheckReport, TargetSpec, visit};
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Serialize)]
pub struct Verification {
    /// Whether everything matches the record.
    pub good: bool,
    /// Why the target is not the one that the run aged; `None`: it is.
    pub wrong_target: Option<String>,
    pub files: VerifyReport,
    /// Result of the file system's checker; `None` with the reason in `not_checked`.
    pub file_system: Option<CheckReport>,
    /// Reason why the file system was not checked.
    pub not_checked: String,
    /// The layout, if one was expected.
    pub layout: Option<VerifiedLayout>,
    /// Whether all files are at the recorded addresses; `None` for a directory, or if the record or the target has no
    /// layout. Use of the target may move files, so `good` does not depend on it.
    pub layout_matches: Option<bool>,
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
    let planned = own_target::locate(spec_of::<Age>(&record)?, &recorded, path);
    let course = ExtendedSpec::of(&planned, recorded.events());
    let spec = &course.spec;
    if !execution_ended(&recorded) {
        let hint = continue_with(&resume::command(RESUME, path));
        return Err(words(&format!("its execution has not ended\nhint: {hint}")));
    }
    let position = last_checkpoint(&recorded).map_or(0, |checkpoint| checkpoint.operation);
    let target = match spec.local_target() {
        Some(TargetSpec::Memory { .. }) => {
            return Err(words("its target was in memory and is gone; age an image:FILE to verify it"));
        }
        Some(target) => target,
        None => return Err(words("it has no target")),
    };
    let mut mounted = visit(target, &own_target::inspect_options(spec))?;
    let wrong_target = own_target::difference_of(&mounted, spec, &recorded)?;
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
    // Files of a directory get their blocks after the end of the run.
    let is_directory = matches!(target, TargetSpec::Directory(_));
    let recorded_files = recorded_files(&recorded).filter(|_| !is_directory);
    let found = match layout.is_some() || recorded_files.is_some() {
        true => digest_of(mounted.mount_point()),
        false => Ok(None),
    };
    mounted.close()?;
    let layout_matches = recorded_files.zip(found.as_ref().ok().cloned().flatten());
    let layout_matches = layout_matches.map(|(recorded, found)| recorded == of_files(&found));
    let layout = layout.map(|expected| verified_layout(found, expected)).transpose()?;
    let has_layout = layout.as_ref().is_none_or(|layout| layout.is_expected);
    let good = wrong_target.is_none()
        && has_layout
        && files.is_good()
        && file_system.as_ref().is_none_or(|report| report.clean);
    Ok(Verification { good, wrong_target, files, file_system, not_checked, layout, layout_matches })
}

fn digest_of(mount_point: &Path) -> Result<Option<String>, Failure> {
    Ok(Layout::examine(mount_point, &with_digest())?.digest())
}

fn verified_layout(found: Result<Option<String>, Failure>, expected: &str) -> Result<VerifiedLayout, Failure> {
    let digest = found?;
    Ok(VerifiedLayout { is_expected: digest.as_deref() == Some(expected), digest })
}

/// Returns whether no operation followed the last end of an execution. A run that was interrupted, resumed and then
/// killed has an end with later checkpoints.
fn execution_ended(recorded: &Recorded<Age>) -> bool {
    let last = recorded.events().rev().find_map(|event| match event {
        Event::Executed(_) => Some(true),
        Event::Continued | Event::Checkpoint(_) | Event::Sample(_) => Some(false),
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
