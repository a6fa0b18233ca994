//! The gate: does a kernel, a patch or an option make a file system age worse? Both sides are aged by the same plans, and their
//! layouts compared. A layout does not depend on the speed of the machine, in virtual time not even on its load.

pub mod aged;
mod analysis;
mod guests;
mod judge;
pub mod metric;
mod redraw;
mod run;
mod spec;
mod words;

pub use redraw::{DrawnGates, Variant, redraw};
pub use run::{Event, GateStep};
pub use spec::{AgingSpec, GateSpec};
pub use words::{cases, patch_text};

use run::{AgedStep, CompletedAgings, GateAnswer};
use senesce_core::analysis::Analysis;
use senesce_core::{Bytes, ExitCode, Failure, Measurement, Seed};
use senesce_guest::carry::{GuestPool, guests_at_a_time};
use senesce_runner::{Context, Needs, Planned, Recorded, Run, RunKind, verb};

pub const EXAMPLE: &str = include_str!("example.toml");

pub const VERBS: &[&dyn RunKind] = &[verb::<Gate>()];

/// One execution, with its guests.
pub struct Gate(GuestPool<Gate>);

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
        let needed = run::pairs_needed(spec, &CompletedAgings::of(recorded.events()));
        let open = run::steps(needed).filter(|step| !recorded.is_done(step));
        Ok(open.map(|step| planned(spec, step)).collect())
    }

    fn begin(_spec: &GateSpec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self(GuestPool::default()))
    }

    fn step(&mut self, spec: &GateSpec, step: &GateStep, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if !spec.gate.host {
            return self.0.run(spec, step, |step| guests::job(spec, step), context);
        }
        let (how, fs) = (spec.image_aging(step.seed), &spec.file_system[step.side]);
        let aged = aged::age(&how, fs, step.sham, (context.progress, context.interrupt))?;
        context.record(Event::Aged(Box::new(AgedStep { step: *step, aged })));
        Ok(())
    }

    fn exit_code(spec: &GateSpec, recorded: &Recorded<Self>) -> ExitCode {
        let judged = run::judge_all(spec, &CompletedAgings::of(recorded.events()));
        match run::answer(&judged, recorded.failures().len()) {
            GateAnswer::Worse => ExitCode::Negative,
            GateAnswer::NoVerdict => ExitCode::CannotTell,
            GateAnswer::NotWorse => ExitCode::Done,
        }
    }

    fn analyse(spec: &GateSpec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis::analyse(spec, recorded))
    }

    fn measurements(spec: &GateSpec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        analysis::measurements(spec, recorded)
    }
}

fn planned(spec: &GateSpec, step: GateStep) -> Planned<GateStep> {
    let name = &spec.file_system[step.side].name;
    let sham = if step.sham { ", sham" } else { "" };
    let pairs = spec.gate.pairs;
    let extension = match step.seed < pairs {
        true => String::new(),
        false => format!(", undecided after {pairs} pairs: {} more", spec.gate.max_pairs - pairs),
    };
    let action = format!("age {name}, seed {}{sham}{extension}", step.seed);
    let at_a_time = if spec.gate.host { 1 } else { guests_at_a_time() };
    let agings = run::steps(spec.gate.max_pairs).count();
    let seconds = aged::estimated_seconds(spec.size, spec.aging.overwrites, agings, at_a_time);
    Planned::new(step, action, "an image in memory").costing(Bytes(0), seconds)
}
