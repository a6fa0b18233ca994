//! Cells in the guest: the guest runs the same study, restricted to them, and its record is merged.

use crate::Study;
use crate::images::memory_available;
use crate::matrix::{self, RunId, runs};
use crate::matrix_run::{Event, memory_needed};
use crate::spec::{CellSpec, StudySpec};
use senesce_core::{Bytes, Failure};
use senesce_guest::carry::{GuestSpec, steps_in_guest};
use senesce_guest::{GuestTime, kernel};
use senesce_runner::{Context, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) type Groups = BTreeMap<String, Vec<RunId>>;

pub(crate) fn split(spec: &StudySpec, all: Vec<RunId>) -> (Vec<RunId>, Groups) {
    let (mut here, mut groups) = (Vec::new(), Groups::new());
    for id in all {
        match spec.guest_kernel(id.on.fs, id.on.state, &spec.workload[id.workload].name) {
            None => here.push(id),
            Some(kernel) => groups.entry(kernel).or_default().push(id),
        }
    }
    (here, groups)
}

/// Returns the study with only the cells of these runs. Indices, and therefore seeds, stay the same.
pub(crate) fn restricted(spec: &StudySpec, wanted: &[RunId]) -> StudySpec {
    let keep: BTreeSet<_> = wanted.iter().map(|id| (id.on.fs, id.on.state, id.workload)).collect();
    let mut part = spec.clone();
    for one in &mut part.file_system {
        one.kernel.clear();
    }
    for one in &mut part.cell {
        one.vm = false;
        one.kernel.clear();
    }
    let left_out = spec.combinations().filter(|cell| !keep.contains(cell)).map(|(fs, state, workload)| CellSpec {
        file_system: spec.file_system[fs].name.clone(),
        state: spec.state[state].name.clone(),
        workload: spec.workload[workload].name.clone(),
        skip: true,
        ..CellSpec::default()
    });
    part.cell.extend(left_out);
    part
}

/// Measures these runs of one kernel in a guest. Returns the runs that failed there with reasons. Fails if the guest
/// cannot start.
pub(crate) fn measure<R: Run<Event = Event, Step = RunId>>(
    spec: &StudySpec,
    name: &str,
    wanted: &[RunId],
    context: &mut Context<'_, R>,
) -> Result<Vec<(RunId, String)>, Failure> {
    let part = restricted(spec, wanted);
    let guest = guest(spec, &part, name, wanted)?;
    steps_in_guest::<Study, R>(&guest, &part, wanted, context)
}

fn guest(spec: &StudySpec, part: &StudySpec, name: &str, wanted: &[RunId]) -> Result<GuestSpec, Failure> {
    Ok(GuestSpec {
        kernel: Some(name.to_string()).filter(|name| !name.is_empty()),
        drives: drives(spec, wanted),
        memory: memory(spec, wanted),
        // Emulation is slower by a factor of ten to thirty.
        time: GuestTime::Real,
        time_limit: Duration::from_secs_f64(300.0 + 30.0 * matrix::seconds_of(part)?),
        events_name_guest: true,
    })
}

/// Returns the study's setting, or more if images would otherwise be in the slow folder shared with the guest. The
/// guest's memory file system takes most of it, and a gibibyte is for the programs.
fn memory(spec: &StudySpec, wanted: &[RunId]) -> Bytes {
    let images: BTreeSet<_> = wanted.iter().map(|id| id.on).collect();
    let needed = memory_needed(spec, &images.into_iter().collect::<Vec<_>>());
    let most = Bytes(memory_available().unwrap_or(0) / 2);
    spec.guest_memory.max(Bytes(needed / 2 * 3 + (1 << 30)).min(most))
}

fn drives(spec: &StudySpec, wanted: &[RunId]) -> Vec<String> {
    match wanted.iter().any(|id| spec.file_system[id.on.fs].is_zoned()) {
        true => crate::zoned::emulated(spec.size),
        false => Vec::new(),
    }
}

pub(crate) fn check(spec: &StudySpec) -> Result<(), Failure> {
    let (_, groups) = split(spec, runs(spec));
    for name in groups.keys() {
        kernel::choose(Some(name.as_str()).filter(|name| !name.is_empty()), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::FailedRun;
    use senesce_guest::carry::NotDone;

    const STRANGE: &str = "name = 't'\nsize = '256M'\n[[file_system]]\nkind = 'nilfs2'\n[[state]]\nkind = 'fresh'\n\
        [[workload]]\npersonality = 'webserver'\n[[cell]]\nvm = true\n";

    #[test]
    fn a_run_that_failed_in_the_guest_keeps_its_reason() {
        let spec = StudySpec::parse("t", STRANGE).unwrap();
        let ids = runs(&spec);
        let reason = "sh job: it did not end within 60 s and was ended; raise its timeout if it needs longer";
        let not_done = NotDone::of(Ok(vec![(ids[0], reason.into())]));
        assert_eq!(not_done.reason(&ids[1]), "the guest did not run this step");
        let failed = [FailedRun { id: ids[0], reason: not_done.reason(&ids[0]) }];
        assert_eq!(crate::verdicts::censored(&failed).len(), 1, "{}", failed[0].reason);
    }

    #[test]
    fn guest_runs_cells_this_machine_cannot() {
        let spec = StudySpec::parse("t", STRANGE).unwrap();
        let wanted = runs(&spec);
        let part = restricted(&spec, &wanted);
        assert!(part.file_system[0].kind().is_ok_and(|kind| kind.is_supported()) || matrix::steps(&part).is_err());
        let guest = guest(&spec, &part, "", &wanted).unwrap();
        assert!(guest.time_limit > Duration::from_secs(300));
    }
}
