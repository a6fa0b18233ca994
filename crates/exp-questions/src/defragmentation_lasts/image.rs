//! Ages one image, treats it, and ages it further.

use super::arm::{Arm, defragment};
use super::{DefragmentationLasts, Event, ImageHistory, Spec, Step};
use crate::unsynced::Unsynced;
use senesce_aging::{
    AgingPlan, Clock, CommitShare, Data, DirectoryTarget, ExecuteOptions, Limit, PlanSpec, Planner, Profile, Stop,
    Truncate, execute,
};
use senesce_core::failure::failed;
use senesce_core::virtual_time::{await_middle_of_tick, await_work_after_mount};
use senesce_core::{Bytes, Failure, Seed};
use senesce_gate::aged::{DISK, read_seconds};
use senesce_layout::{FileRuns, Layout, Options};
use senesce_runner::{Context, interrupted};
use senesce_runs::kernel_log::fail_on;
use senesce_volume::{MountedTarget, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An image at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImageState {
    /// Bytes created since the treatment over the size.
    pub overwrites: f64,
    /// Modelled seconds of reading all files once in path order.
    pub disk_seconds: f64,
    pub files: u64,
    pub extents: u64,
    pub free_extents: Option<u64>,
    /// None if no file was moved.
    pub surviving: Option<SurvivingFiles>,
    pub digest: Option<String>,
}

/// The moved files that are left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SurvivingFiles {
    /// Share of the moved files that still exist.
    pub files: f64,
    /// Share of the neighbours in path order, at least one of which was moved, that both exist and are neighbours.
    pub pairs: f64,
}

/// Makes the plan of the aging before and after the treatment.
pub(super) fn plan(spec: &Spec, profile: &str, seed: Seed) -> Result<AgingPlan, Failure> {
    let last = spec.moments.iter().copied().fold(0.0, f64::max);
    let spec = PlanSpec {
        fullness: Some(spec.fullness),
        locality: (spec.locality > 0.0).then_some(spec.locality),
        truncate: Truncate::Drop,
        limit: Limit::Overwrites(spec.overwrites + last),
        clock: Clock { commit_share: CommitShare::DEFAULT, sync_every: 0 },
        ..PlanSpec::new(Profile::load(profile)?, spec.size.0, seed)
    };
    Ok(AgingPlan::new(&spec)?)
}

/// Ages an image, treats it, and measures it at every moment.
///
/// # Errors
/// Any failure of mkfs, mount, the aging, or the tool; a full volume; a warning of the kernel; an interrupt.
pub(super) fn age(spec: &Spec, step: &Step, context: &mut Context<'_, DefragmentationLasts>) -> Result<Event, Failure> {
    let seed = context.seed.child(&format!("defragmentation-lasts/{}", step.seed));
    let plan = Arc::new(plan(spec, &step.profile, seed)?);
    let mut planner = plan.operations();
    let mut target = open(&TargetSpec::Memory { size: spec.size.0 }, &OpenOptions::fresh(step.fs))?;
    let back_end = DirectoryTarget::new(plan.clone(), target.directory(), Data::Write);
    play(&mut planner, &back_end, spec.overwrites, context)?;
    let aged = ExaminedImage::of(&mut target)?;
    target = treat(step, spec.size.0, target)?;
    let treated = ExaminedImage::of(&mut target)?;
    let moved = treated.moved_since(&aged, step.arm);
    let mut moments = vec![treated.moment(0.0, &treated, &moved)?];
    for moment in &spec.moments {
        let back_end = DirectoryTarget::new(plan.clone(), target.directory(), Data::Write).prepared();
        play(&mut planner, &back_end, spec.overwrites + moment, context)?;
        moments.push(ExaminedImage::of(&mut target)?.moment(*moment, &treated, &moved)?);
    }
    fail_on(target.kernel_warnings())?;
    fail_on(senesce_volume::guest::kernel_faults())?;
    target.close()?;
    Ok(Event::Lasted(Box::new(ImageHistory { step: step.clone(), before: aged.digest, moments })))
}

/// Executes the plan until `overwrites`, or its end.
fn play(
    planner: &mut Planner,
    back_end: &DirectoryTarget<'_>,
    overwrites: f64,
    context: &Context<'_, DefragmentationLasts>,
) -> Result<(), Failure> {
    let outcome = execute(planner, back_end, &ExecuteOptions::default(), context.interrupt, &mut |planner, _| {
        if planner.overwrites() < overwrites { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match outcome.result? {
        Stop::Finished | Stop::Observer => Ok(()),
        Stop::Interrupted => Err(interrupted()),
    }
}

fn treat(step: &Step, size: Bytes, target: MountedTarget) -> Result<MountedTarget, Failure> {
    match step.arm {
        Arm::None => Ok(target),
        Arm::Tool => {
            defragment(step.fs, target.mount_point())?;
            Ok(target)
        }
        Arm::Copy => {
            let copy = open(&TargetSpec::Memory { size }, &OpenOptions::fresh(step.fs))?;
            await_work_after_mount();
            copy_tree(target.mount_point(), copy.mount_point(), &mut Unsynced::default())?;
            target.close()?;
            Ok(copy)
        }
    }
}

/// Copies directories and files in the order of their names, depth first.
fn copy_tree(from: &Path, to: &Path, unsynced: &mut Unsynced) -> Result<(), Failure> {
    let entries = fs::read_dir(from).map_err(failed("list", from))?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(failed("list", from))?;
    names.sort();
    for name in names {
        await_middle_of_tick();
        let (source, copy) = (from.join(&name), to.join(&name));
        match source.symlink_metadata().map_err(failed("check", &source))?.is_dir() {
            true if copy.is_dir() => copy_tree(&source, &copy, unsynced)?,
            true => {
                fs::create_dir(&copy).map_err(failed("create directory", &copy))?;
                copy_tree(&source, &copy, unsynced)?;
            }
            false => {
                // Through memory: a copy inside of the kernel may share blocks.
                let bytes = fs::read(&source).map_err(failed("read", &source))?;
                fs::write(&copy, &bytes).map_err(failed("write", &copy))?;
                unsynced.wrote(bytes.len() as u64, to)?;
            }
        }
    }
    Ok(())
}

/// A layout, and the files of the tree in path order.
struct ExaminedImage {
    layout: Layout,
    digest: Option<String>,
    files: FileRuns,
    paths: Vec<PathBuf>,
}

impl ExaminedImage {
    fn of(target: &mut MountedTarget) -> Result<Self, Failure> {
        target.sync()?;
        // The layout that later mounts show: preallocated blocks are free.
        target.settle()?;
        let options = Options { runs: true, extents: true, ..Options::default() };
        let mut layout = Layout::examine(target.mount_point(), &options)?;
        let digest = layout.digest();
        let files = layout.runs.take().unwrap_or_default();
        let mut paths: Vec<PathBuf> = (0..files.len()).map(|file| files.path(file)).collect();
        paths.sort();
        Ok(Self { layout, digest, files, paths })
    }

    fn runs(&self) -> HashMap<PathBuf, Vec<(u64, u64)>> {
        let of =
            |file| (self.files.path(file), self.files.of(file).iter().map(|run| (run.start, run.length)).collect());
        (0..self.files.len()).map(of).collect()
    }

    /// Returns the files that lie elsewhere than before; a copy moves all.
    fn moved_since(&self, before: &Self, arm: Arm) -> HashSet<PathBuf> {
        let old = before.runs();
        let all = self.runs().into_iter();
        let has_moved = |(path, runs): &(PathBuf, Vec<(u64, u64)>)| arm != Arm::Tool || old.get(path) != Some(runs);
        all.filter(has_moved).map(|(path, _)| path).collect()
    }

    fn moment(&self, overwrites: f64, treated: &Self, moved: &HashSet<PathBuf>) -> Result<ImageState, Failure> {
        let summary = &self.layout.summary;
        Ok(ImageState {
            overwrites,
            disk_seconds: read_seconds(DISK, &self.files)?,
            files: summary.files,
            extents: summary.extents,
            free_extents: summary.free_space.as_ref().map(|free| free.extents),
            surviving: survival(&treated.paths, &self.paths, moved),
            digest: self.digest.clone(),
        })
    }
}

/// Returns the shares of moved files and of neighbour pairs that survive. Both lists are sorted.
fn survival(then: &[PathBuf], now: &[PathBuf], moved: &HashSet<PathBuf>) -> Option<SurvivingFiles> {
    let exists: HashSet<&PathBuf> = now.iter().collect();
    let pairs_now: HashSet<(&PathBuf, &PathBuf)> = now.iter().zip(now.iter().skip(1)).collect();
    let files: Vec<&PathBuf> = then.iter().filter(|path| moved.contains(*path)).collect();
    let is_moved = |(one, other): &(&PathBuf, &PathBuf)| moved.contains(*one) || moved.contains(*other);
    let pairs: Vec<_> = then.iter().zip(then.iter().skip(1)).filter(is_moved).collect();
    if files.is_empty() || pairs.is_empty() {
        return None;
    }
    let left_files = files.iter().filter(|path| exists.contains(**path)).count();
    let left_pairs = pairs.iter().filter(|pair| pairs_now.contains(pair)).count();
    Some(SurvivingFiles {
        files: left_files as f64 / files.len() as f64,
        pairs: left_pairs as f64 / pairs.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn survivors_are_moved_files_and_unbroken_neighbours() {
        let then = paths(&["a", "b", "c", "d"]);
        let all: HashSet<PathBuf> = then.iter().cloned().collect();
        let is = |files, pairs| Some(SurvivingFiles { files, pairs });
        assert_eq!(survival(&then, &then, &all), is(1.0, 1.0));
        assert_eq!(survival(&then, &paths(&["a", "b", "b2", "c"]), &all), is(0.75, 1.0 / 3.0));
        let one = HashSet::from(["d".into()]);
        assert_eq!(survival(&then, &paths(&["c", "d"]), &one), is(1.0, 1.0), "only moved files count");
        assert_eq!(survival(&then, &paths(&[]), &all), is(0.0, 0.0));
        assert_eq!(survival(&then, &then, &HashSet::new()), None, "nothing was moved");
    }

    #[test]
    fn copies_keep_names_and_bytes() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("d/e")).unwrap();
        fs::write(from.path().join("d/e/f"), b"bytes").unwrap();
        copy_tree(from.path(), to.path(), &mut Unsynced::default()).unwrap();
        assert_eq!(fs::read(to.path().join("d/e/f")).unwrap(), b"bytes");
    }
}
