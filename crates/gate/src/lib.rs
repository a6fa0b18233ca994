//! The gate: does a kernel, a patch or an option make a file system age worse? Both sides are aged by the same plans, and their
//! layouts compared. A layout does not depend on the speed of the machine, in virtual time not even on its load.

mod aged;
mod analysis;
mod guests;
mod judge;
mod metric;
mod run;
mod spec;
mod words;

pub use run::{Event, GateStep};
pub use spec::GateSpec;
pub use words::{cases, patch_text};

use run::{AgedStep, Agings, Answer};
use senesce_core::analysis::Analysis;
use senesce_core::{Bytes, ExitCode, Failure, Measurement, Seed};
use senesce_runner::{Context, Needs, Planned, Recorded, Run, RunKind, verb};
use std::collections::VecDeque;

pub const EXAMPLE: &str = include_str!("example.toml");

pub const VERBS: &[&dyn RunKind] = &[verb::<Gate>()];

/// One execution: the results of guests that ran at the same time as the last step.
pub struct Gate(VecDeque<(GateStep, Result<aged::Aged, String>)>);

impl Run for Gate {
    const KIND: &'static str = "gate";
    const GOES_ON: bool = true;
    type Spec = GateSpec;
    type Event = Event;
    type Step = GateStep;

    fn needs(spec: &GateSpec) -> Needs {
        match spec.gate.host {
            true => Needs::root("a gate on this kernel makes images on loop devices"),
            false => Needs::default(),
        }
    }

    fn steps(spec: &GateSpec, _seed: Seed) -> Result<Vec<Planned<GateStep>>, Failure> {
        Ok(run::steps(spec.gate.max_pairs).map(|step| planned(spec, step)).collect())
    }

    fn next(spec: &GateSpec, recorded: &Recorded<Self>) -> Result<Vec<Planned<GateStep>>, Failure> {
        let needed = run::pairs_needed(spec, &Agings::of(recorded.events()));
        let open = run::steps(needed).filter(|step| !recorded.is_done(step));
        Ok(open.map(|step| planned(spec, step)).collect())
    }

    fn begin(_spec: &GateSpec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self(VecDeque::new()))
    }

    fn step(&mut self, spec: &GateSpec, step: &GateStep, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let aged = match spec.gate.host {
            true => {
                let fs = &spec.file_system[step.side];
                aged::age(spec, fs, step.seed, step.sham, (context.progress, context.interrupt))?
            }
            false => self.in_guest(spec, *step, context)?,
        };
        context.record(Event::Aged(Box::new(AgedStep { step: *step, aged })));
        Ok(())
    }

    fn exit_code(spec: &GateSpec, recorded: &Recorded<Self>) -> ExitCode {
        let judged = run::judge_all(spec, &Agings::of(recorded.events()));
        match run::answer(&judged, recorded.failures().len()) {
            Answer::Worse => ExitCode::Negative,
            Answer::NoVerdict => ExitCode::CannotTell,
            Answer::NotWorse => ExitCode::Done,
        }
    }

    fn analyse(spec: &GateSpec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, recorded))
    }

    fn measurements(spec: &GateSpec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        analysis::measurements(spec, recorded)
    }
}

impl Gate {
    fn in_guest(
        &mut self,
        spec: &GateSpec,
        step: GateStep,
        context: &mut Context<'_, Self>,
    ) -> Result<aged::Aged, Failure> {
        if !self.0.iter().any(|(done, _)| *done == step) {
            let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
            let open = Self::next(spec, context.recorded())?.into_iter().map(|planned| planned.step);
            let more = open.filter(|other| *other != step && !self.0.iter().any(|(done, _)| done == other));
            let batch: Vec<GateStep> = std::iter::once(step).chain(more).take(at_a_time).collect();
            let folder = context.path().join("guests");
            self.0.extend(guests::age_all(spec, context.seed, &batch, &folder, context.interrupt)?);
            context.did_ahead(batch.len() - 1);
        }
        let at = self.0.iter().position(|(done, _)| *done == step);
        let found = at.and_then(|at| self.0.remove(at)).map(|(_, result)| result);
        found.unwrap_or_else(|| Err("it did not run".into())).map_err(|why| Failure::new(ExitCode::RunFailed, why))
    }
}

fn planned(spec: &GateSpec, step: GateStep) -> Planned<GateStep> {
    let name = &spec.file_system[step.side].name;
    let action = format!("age {name}, seed {}{}", step.seed, if step.sham { ", sham" } else { "" });
    let bytes = spec.size.0 as f64 * spec.aging.overwrites;
    // Measured: 60 MB of created files per second in a guest of 2026.
    Planned::new(step, action, "an image in memory").costing(Bytes(0), 1.0 + bytes / 60e6)
}
