//! Ages images in memory: requirements, plans and the final layout.

use crate::age::written_bytes;
use senesce_aging::execute::CommitWitness;
use senesce_aging::{
    AgingPlan, Clock, Data, DirectoryTarget, ExecuteOptions, Limit, PlanSpec, Profile, Stop, Truncate, WorkUnit,
    execute,
};
use senesce_core::{Bytes, ExitCode, Failure, Seed, Size};
use senesce_devmodel::{DeviceModel, Hdd, Parameters};
use senesce_layout::{Layout, LayoutSummary};
use senesce_runner::{Context, Needs, Planned, Run, interrupted};
use senesce_runs::kernel_log::fail_on;
use senesce_sys::clock::process_cpu_time;
use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Requirements of images of a size that `kind` makes. A file system in memory needs space only for written data: metadata, and
/// the whole log or journal.
pub(crate) fn needs(kind: &str, file_systems: &[FileSystem], size: Size) -> Needs {
    Needs::root(&format!("{kind} makes images on loop devices"))
        .and_memory(Bytes(size.bytes() / 8))
        .and_programs(file_systems.iter().map(|fs| fs.maker()))
}

pub(crate) fn check_size(file_systems: &[FileSystem], size: Size) -> Result<(), Failure> {
    match file_systems.iter().find(|fs| size.bytes() < fs.minimum_size().0) {
        Some(fs) => {
            let words =
                format!("--size {}: too small for {fs}, which needs {}", Bytes(size.bytes()), fs.minimum_size());
            Err(Failure::usage(words))
        }
        None => Ok(()),
    }
}

/// Plans the step of one aging whose duration is that of `operations` at full speed.
pub(crate) fn planned<S>(step: S, action: String, fs: FileSystem, profile: &str, operations: u64) -> Planned<S> {
    let target = format!("{fs} in memory, {profile}");
    Planned::new(step, action, target).costing(Bytes(0), fs.seconds_of_operations(operations) + 1.0)
}

pub(crate) fn plan_spec(profile: &str, size: Size, fullness: f64, seed: Seed) -> Result<PlanSpec, Failure> {
    let spec = PlanSpec::new(Profile::load(profile)?, size.0, seed);
    Ok(PlanSpec { fullness: Some(fullness), truncate: Truncate::Drop, ..spec })
}

/// Creates the plan of an aging that creates `overwrites` times the size of its image.
pub(crate) fn overwriting_plan(base: PlanSpec, overwrites: f64, clock: Clock) -> Result<AgingPlan, Failure> {
    Ok(AgingPlan::new(&PlanSpec { limit: Limit::Overwrites(overwrites), clock, ..base })?)
}

/// Result of one aging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgedImage {
    /// Creates and deletes.
    pub operations: u64,
    /// Commits requested by the clock.
    pub commits: u64,
    /// Commits in addition to those, if the file system counts them.
    pub unasked_commits: Option<u64>,
    /// Seconds of execution.
    pub seconds: f64,
    /// CPU seconds of this process, user and system.
    pub cpu_seconds: f64,
    /// The layout.
    pub layout: ImageLayout,
}

/// Layout values by which two layouts are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImageLayout {
    /// Number of files.
    pub files: u64,
    /// Number of their extents.
    pub extents: u64,
    /// Files with more than one extent.
    pub fragmented_files: u64,
    /// Share of consecutive blocks inside files.
    pub static_layout_score: f64,
    /// Share of consecutive blocks over all files in tree order.
    pub tree_layout_score: f64,
    /// Number of free extents.
    pub free_extents: u64,
    /// Largest free extent in bytes.
    pub largest_free_bytes: u64,
    /// Modelled seconds for reading all files in tree order on the reference disk.
    pub read_seconds: f64,
    /// Free blocks in extents of 2^k to 2^(k+1) blocks.
    pub free_blocks: Vec<f64>,
    /// Files with 2^k to 2^(k+1) extents.
    pub files_by_extents: Vec<f64>,
}

const POWERS: usize = 40;

impl ImageLayout {
    pub(crate) fn of(summary: &LayoutSummary) -> Result<Self, Failure> {
        let missing = |what: &str| Failure::new(ExitCode::RunFailed, format!("{}: {what}", summary.target));
        let free = summary.free_space.as_ref().ok_or_else(|| missing(&summary.free_space_note))?;
        let score = |score: Option<f64>| score.ok_or_else(|| missing("no file has two blocks"));
        let (mut free_blocks, mut files_by_extents) = (vec![0.0; POWERS], vec![0.0; POWERS]);
        for bucket in &free.buckets {
            free_blocks[power(bucket.from_bytes / free.block_size.max(1))] += bucket.blocks as f64;
        }
        for row in &summary.extents_per_file {
            files_by_extents[power(u64::from(row.extents))] += row.files as f64;
        }
        Ok(Self {
            files: summary.files,
            extents: summary.extents,
            fragmented_files: summary.fragmented_files,
            static_layout_score: score(summary.static_layout_score)?,
            tree_layout_score: score(summary.tree_layout_score)?,
            free_extents: free.extents,
            largest_free_bytes: free.max_bytes,
            read_seconds: read_seconds(summary)?,
            free_blocks,
            files_by_extents,
        })
    }

    pub(crate) fn extents_per_file(&self) -> f64 {
        self.extents as f64 / self.files.max(1) as f64
    }
}

fn power(count: u64) -> usize {
    (count.max(1).ilog2() as usize).min(POWERS - 1)
}

const BLOCK: f64 = 4096.0;

/// Models the read of all blocks at the outer rate of the reference disk; each jump costs a seek and half a rotation.
fn read_seconds(summary: &LayoutSummary) -> Result<f64, Failure> {
    let hdd = reference_drive()?;
    let jump_ms = |power: usize| {
        let bytes = 1.5 * BLOCK * 2f64.powi(power as i32);
        hdd.seek.ms((bytes / hdd.capacity_bytes as f64).min(1.0)) + 0.5 * 60e3 / hdd.rpm
    };
    let jumps = summary.discontinuities.log2_blocks.iter().enumerate();
    let jumping: f64 = jumps.map(|(power, count)| *count as f64 * jump_ms(power) / 1e3).sum();
    Ok(summary.blocks as f64 * BLOCK / (hdd.outer_mb_per_s * 1e6) + jumping)
}

fn reference_drive() -> Result<Hdd, Failure> {
    match DeviceModel::reference_hdd()?.parameters {
        Parameters::Hdd(hdd) => Ok(hdd),
        _ => Err(Failure::new(ExitCode::RunFailed, "the reference disk drive is not a disk drive")),
    }
}

/// Executes a plan on a new image in memory of its size, as `execution` specifies, and reads the layout.
///
/// # Errors
/// Any failure; a warning of the kernel about the image; an interrupt.
pub(crate) fn age_image<R: Run>(
    plan: &Arc<AgingPlan>,
    file_system: FileSystem,
    data: Data,
    execution: &ExecuteOptions,
    words: &str,
    context: &mut Context<'_, R>,
) -> Result<AgedImage, Failure> {
    let size = plan.spec().capacity;
    let writes = written_bytes(data, file_system, size, plan.summary());
    let skips_tables = data != Data::Write && writes.is_some();
    let options = OpenOptions { writes, skips_tables, ..OpenOptions::fresh(file_system) };
    let target = open(&TargetSpec::Memory { size }, &options)?;
    let back_end = DirectoryTarget::new(plan.clone(), target.directory(), data);
    let witness = CommitWitness::of(target.directory().as_fd());
    let count = || witness.as_ref().and_then(CommitWitness::count);
    let (commits_before, cpu_before) = (count(), process_cpu_time());
    let unit = WorkUnit::of(data, plan.summary(), plan.len());
    let (total, name) = unit.total();
    context.progress.phase(words, total, name);
    let mut planner = plan.operations();
    let outcome = execute(&mut planner, &back_end, execution, context.interrupt, &mut |planner, done| {
        let overwrites = planner.overwrites();
        context.progress.position(unit.done(done, overwrites), &format!("{overwrites:.1} overwrites"));
        ControlFlow::Continue(())
    });
    let cpu_seconds = (process_cpu_time() - cpu_before).as_secs_f64();
    let asked = outcome.commits + outcome.stalls;
    let counted = count().zip(commits_before);
    if outcome.result? != Stop::Finished {
        return Err(interrupted());
    }
    target.sync()?;
    let layout = ImageLayout::of(&Layout::of(target.mount_point())?)?;
    fail_on(target.kernel_warnings())?;
    target.kernel_log_caveat().into_iter().for_each(|words| context.caveat(words));
    target.close()?;
    Ok(AgedImage {
        operations: outcome.completed,
        commits: outcome.commits,
        unasked_commits: counted.map(|(now, before)| (now - before).saturating_sub(asked)),
        seconds: outcome.seconds,
        cpu_seconds,
        layout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_too_small_for_a_file_system_are_refused_in_advance() {
        let size = |text: &str| text.parse::<Size>().unwrap();
        let refused = check_size(&[FileSystem::Ext4, FileSystem::Xfs], size("256M")).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Usage);
        assert!(refused.to_string().contains("--size 256 MiB: too small for xfs"), "{refused}");
        assert!(
            check_size(&[FileSystem::Ext4], size("256M")).is_ok() && check_size(&FileSystem::ALL, size("1G")).is_ok()
        );
    }
}
