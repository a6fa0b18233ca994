//! Checks of file sets with `trusttree`, whose files an earlier run has written.

use crate::bench::{Execution, Options};
use crate::engine::program::Programs;
use crate::error::WorkloadError;
use crate::fileset::populate::root_of;
use crate::fileset::{Layout, Population};
use crate::model::{FlowopKind, Step, Workload};
use std::path::Path;

/// Checks the trusted file sets of `workload` without a run. `target`: the directory of the run, if it is known.
///
/// # Errors
/// [`WorkloadError::Missing`] for a tree that does not exist; [`WorkloadError::Usage`] for a set whose files the run cannot open.
pub fn check_trusted(workload: &Workload, options: &Options, target: Option<&Path>) -> Result<(), WorkloadError> {
    if options.execution == Execution::Null || !workload.filesets.iter().any(|set| set.trusttree) {
        return Ok(());
    }
    let layouts = Population::new(workload, options.seed, options.populate_seed).draw(&workload.filesets)?;
    // A command of the workload may make the tree.
    let runs_commands = workload.steps.iter().any(|step| matches!(step, Step::System(_)));
    if let Some(target) = target.filter(|_| !runs_commands) {
        for layout in &layouts {
            check_tree(layout, &root_of(layout, target)?)?;
        }
    }
    check_files(workload, &layouts)
}

/// Checks that the tree of a trusted file set exists.
pub(crate) fn check_tree(layout: &Layout, root: &Path) -> Result<(), WorkloadError> {
    if !layout.spec.trusttree || root.is_dir() {
        return Ok(());
    }
    Err(WorkloadError::Missing {
        what: format!("tree {} of file set '{}', which has trusttree,", root.display(), layout.spec.name),
        remedy: "create it: replace 'trusttree' with 'prealloc' in the workload file and run it once with \
                 --populate-only; or replace it permanently"
            .into(),
    })
}

/// Checks that the flowops of trusted file sets can find files. As in Filebench, no file of a set without `prealloc` exists when
/// the run starts.
pub(crate) fn check_files(workload: &Workload, layouts: &[Layout]) -> Result<(), WorkloadError> {
    use FlowopKind as K;
    let programs = Programs::compile(workload);
    for (index, layout) in layouts.iter().enumerate().filter(|(_, one)| one.spec.trusttree && one.existing.is_empty()) {
        let of_set = || programs.each().filter(|flowop| flowop.spec.fileset == Some(index));
        let opens = |kind| {
            use K::{AioWrite, AppendFile, AppendFileRandom, DeleteFile, OpenFile, Read, ReadWholeFile, StatFile};
            matches!(kind, AioWrite | AppendFile | AppendFileRandom | DeleteFile | OpenFile | Read)
                || matches!(kind, ReadWholeFile | StatFile | K::Write | K::WriteWholeFile)
        };
        let opening = of_set().find(|flowop| opens(flowop.spec.kind));
        if let Some(opening) = opening.filter(|_| !of_set().any(|flowop| flowop.spec.kind == K::CreateFile)) {
            return Err(WorkloadError::Usage(format!(
                "flowop {} finds no file: file set '{}' has trusttree without prealloc, so none of its files exists when the \
                 run starts\nhint: add 'prealloc' next to 'trusttree'",
                opening.spec.name, layout.spec.name
            )));
        }
    }
    Ok(())
}
