//! Agings in user-mode kernels, as many at a time as there are processors. Each has a guest of its own, so that its layout depends
//! on nothing else.

use crate::Gate;
use crate::aged::Aged;
use crate::run::{AgedStep, Event, GateStep};
use crate::spec::GateSpec;
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_guest::GuestTime;
use senesce_guest::carry::{GuestJob, GuestSpec, record_of_guest};
use senesce_runner::Recorded;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// An aging of minutes is a hang.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

pub(crate) type Results = Vec<(GateStep, Result<Aged, String>)>;

/// Ages the images of `steps` at the same time. The folders of their guests are below `folder`.
pub(crate) fn age_all(
    spec: &GateSpec,
    seed: Seed,
    steps: &[GateStep],
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Results, Failure> {
    let one = |step: GateStep| age_one(spec, seed, step, folder, interrupt);
    let ended: Vec<(GateStep, Result<Aged, Failure>)> = thread::scope(|scope| {
        let started: Vec<_> = steps.iter().map(|step| (*step, scope.spawn(move || one(*step)))).collect();
        let joined = |(step, handle): (GateStep, thread::ScopedJoinHandle<'_, _>)| {
            let panicked = |_| Err(Failure::new(ExitCode::RunFailed, "its thread panicked"));
            (step, handle.join().unwrap_or_else(panicked))
        };
        started.into_iter().map(joined).collect()
    });
    let of = |(step, ended): (GateStep, Result<Aged, Failure>)| match ended {
        Err(failure) if failure.exit_code() == ExitCode::Interrupted => Err(failure),
        Err(failure) => Ok((step, Err(failure.to_string()))),
        Ok(aged) => Ok((step, Ok(aged))),
    };
    ended.into_iter().map(of).collect()
}

fn age_one(spec: &GateSpec, seed: Seed, step: GateStep, folder: &Path, interrupt: &Interrupt) -> Result<Aged, Failure> {
    let guest = GuestSpec {
        kernel: Some(spec.file_system[step.side].kernel.clone()),
        drives: Vec::new(),
        memory: spec.gate.memory,
        time: GuestTime::Virtual,
        time_limit: TIME_LIMIT,
        events_name_guest: true,
    };
    let name = format!("{}-{}{}", step.seed, step.side, if step.sham { "-sham" } else { "" });
    let own = inside(spec);
    let job = GuestJob { spec: &own, seed, steps: Some(&[step]), share: folder.join(name) };
    let (recorded, _) = record_of_guest::<Gate>(&guest, &job, interrupt)?;
    result(&recorded, step)
}

/// The same gate on the kernel of the guest.
fn inside(spec: &GateSpec) -> GateSpec {
    let mut own = spec.clone();
    own.gate.host = true;
    // In the guest, steps of the second analysis are open from the beginning.
    own.gate.pairs = own.gate.max_pairs;
    for one in &mut own.file_system {
        one.kernel.clear();
    }
    own
}

fn result(recorded: &Recorded<Gate>, step: GateStep) -> Result<Aged, Failure> {
    let mut events = recorded.events();
    if let Some(Event::Aged(one)) = events.find(|Event::Aged(one)| one.step == step) {
        let AgedStep { aged, .. } = (**one).clone();
        return Ok(aged);
    }
    let reason = recorded.failures().into_iter().map(|(_, reason)| reason.to_string()).next_back();
    Err(Failure::new(ExitCode::RunFailed, reason.unwrap_or_else(|| "the guest recorded no result".into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{agings, gate};
    use crate::run::{pairs_needed, steps};

    #[test]
    fn all_steps_are_open_in_the_guest() {
        let own = inside(&gate(8));
        assert_eq!(pairs_needed(&own, &agings(0, &mut |_| 1.0)), 8);
        assert_eq!(steps(8).map(|step| step.seed).max(), Some(7));
        assert!(own.gate.host && own.file_system.iter().all(|fs| fs.kernel.is_empty()));
    }
}
