//! Fits a model of a zoned drive: measurements, constants, and the error on values that were not fitted.

mod analysis;
mod file;
mod source;
#[cfg(test)]
mod tests;

use senesce_core::failure::Classify;
use senesce_core::{Analysis, Environment, ExitCode, Failure, Plan, Seed};
use senesce_runner::{Context, Planned, Recorded, Run, new_plan};
use senesce_zoned::ZonedError;
use senesce_zoned::fit::block::{self, Block, FittedBlock, FittedConstant, FittedUncertainty, Observations, Pass};
use senesce_zoned::fit::constants::Constants;
use senesce_zoned::fit::probe::Values;
use senesce_zoned::hardware::Leftover;
use senesce_zoned::session::Session;
use senesce_zoned::sim::model::Model;
use senesce_zoned::survey::{DriveNature, Survey};
use serde::{Deserialize, Serialize};
use source::{Source, cost};
use std::collections::BTreeMap;

pub use file::model_file;
pub use source::Spec;

/// Passes over all constants; the second pass uses the constants that the first one found.
const SWEEPS: u32 = 2;

/// One unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Measure {
        point: String,
        /// Repetition, from 0.
        repetition: u32,
    },
    /// Fit constants to the measurements.
    Fit {
        /// The group of constants.
        block: String,
        /// Pass over all groups, from 0.
        sweep: u32,
    },
    /// Compare the model with values that were not fitted.
    Check,
}

/// One result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The start of the search: the start model with the zones of this drive, as a model file.
    Start(String),
    /// A point was measured.
    Measured {
        point: String,
        /// Repetition, from 0.
        repetition: u32,
        /// Number of the actor, a point and `iops` (1/s), `mean`, `p50`, `p95` (us); or the mean latency (us) of a
        /// single command.
        values: Values,
    },
    /// A constant was fitted; the last event of each name counts.
    Constant {
        /// Its name.
        name: String,
        /// Group of constants that are fitted together.
        block: String,
        /// Value in the start model, or of the previous pass.
        start: f64,
        /// Fitted value.
        value: f64,
        /// Relative standard deviation; none: no measured value depends on the constant.
        deviation: Option<f64>,
        /// Correlations of its error with those of other constants in the group.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        correlations: BTreeMap<String, f64>,
    },
    /// A search for constants ended; the last event of each group counts.
    Searched {
        /// The group of constants.
        block: String,
        /// Whether it converged.
        settled: bool,
    },
    /// A measured value that was not fitted, with the model's value.
    Checked { point: String, value: String, measured: f64, modelled: f64 },
    /// Data on a real drive before the run wrote to it, then the state that the run left: it may be overwritten when
    /// the run continues.
    Left(Leftover),
}

pub struct ZonedModel {
    source: Source,
    session: Option<Session>,
}

impl Run for ZonedModel {
    const KIND: &'static str = "zoned-model";
    type Spec = Spec;
    type Event = Event;
    type Step = Step;

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Step>>, Failure> {
        let source = Source::of(spec)?;
        let mut steps = Vec::new();
        for repetition in 0..spec.repetitions {
            for (probe, survey) in source.probes() {
                let (bytes, seconds) = cost(probe, survey);
                let step = Step::Measure { point: probe.key.clone(), repetition };
                steps.push(Planned::new(step, format!("measure {}", probe.key), &*survey.name).costing(bytes, seconds));
            }
        }
        for sweep in 0..SWEEPS {
            for block in &source.design.blocks {
                let step = Step::Fit { block: block.name.clone(), sweep };
                steps.push(Planned::new(step, format!("fit {}", block.name), "-"));
            }
        }
        steps.push(Planned::new(Step::Check, "compare with values that were not fitted", "-"));
        Ok(steps)
    }

    fn plan(spec: &Spec, seed: Seed) -> Result<Plan, Failure> {
        let source = Source::of(spec)?;
        let mut plan = new_plan::<Self>(spec, seed)?;
        for (probe, survey) in source.probes() {
            plan.step(format!("measure {} times: {}", spec.repetitions, probe.key), survey.name.clone());
        }
        source.design.blocks.iter().for_each(|block| plan.step(format!("fit {}", block.name), "-"));
        for planned in Self::steps(spec, seed)? {
            plan.add_cost(planned.bytes_to_write.0, planned.seconds);
        }
        Ok(plan)
    }

    fn begin(spec: &Spec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        let mut source = Source::of(spec)?;
        if let Some(text) = analysis::start(context.recorded()) {
            source.start = Model::parse(text)?;
        }
        let Some(survey) = &source.survey else { return Ok(Self { source, session: None }) };
        context.add_environment(&facts(survey))?;
        let left = context.recorded().events().rev().find_map(|event| match event {
            Event::Left(left) => Some(left.clone()),
            _ => None,
        });
        let session = Session::new(spec.device.parse()?, context.erase(), left);
        Ok(Self { source, session: Some(session) })
    }

    fn step(&mut self, _spec: &Spec, step: &Step, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.introduce(context)?;
        match step {
            Step::Measure { point, repetition } => self.measure(point, *repetition, context),
            Step::Fit { block, sweep } => self.fit(block, *sweep, context),
            Step::Check => self.check(context),
        }
    }

    fn end(self, _spec: &Spec, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        match self.session.map(|session| session.leftover()).transpose()?.flatten() {
            Some(left) => context.record_now(Event::Left(left)),
            None => Ok(()),
        }
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        analysis::analyse(spec, recorded)
    }
}

fn facts(survey: &Survey) -> Environment {
    let mut facts = Environment::default();
    facts.put("zns.device.0", &survey.name);
    facts.put("zns.device.0.model", &survey.model);
    facts.put("zns.device.0.nature", survey.nature.name());
    facts.put("zns.device.0.usable", format!("{} of {} zones", survey.usable().len(), survey.geometry.zones));
    facts
}

impl ZonedModel {
    /// Records the common inputs with the first step, so that a refused run leaves no record.
    fn introduce(&self, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        if analysis::start(context.recorded()).is_some() {
            return Ok(());
        }
        context.record(Event::Start(self.source.start.to_toml()?));
        for (why, points) in &self.source.design.left_out {
            let count = if points.len() == 1 { "one point is".into() } else { format!("{} points are", points.len()) };
            context.caveat(format!(
                "{count} left out ({}{}): {why}",
                points[0],
                if points.len() > 1 { ", ..." } else { "" }
            ));
        }
        if self.source.survey.as_ref().is_some_and(|survey| survey.nature == DriveNature::Emulated) {
            context
                .caveat("a program emulates the drive: the model describes this machine and that program, not a drive");
        }
        Ok(())
    }

    fn measure(&mut self, point: &str, repetition: u32, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let probe = self.source.design.probes().find(|probe| probe.key == point);
        let (Some(probe), Some(session)) = (probe, &mut self.session) else {
            let words =
                format!("point {point}: the drive can no longer run it; inspect its zones with `senesce zoned list`");
            return Err(Failure::new(ExitCode::RunFailed, words));
        };
        // So that an interrupted run recognizes its own data.
        if let Some(held) = session.claim(probe.job()).map_err(|error| at(point, &error))? {
            context.record_now(Event::Left(held))?;
        }
        let seed = context.seed.child(&format!("{point}/{repetition}"));
        let values = probe.measure(session, seed, context.interrupt).map_err(|error| at(point, &error))?;
        context.check_interrupt()?;
        context.record(Event::Measured { point: point.into(), repetition, values });
        match session.leftover() {
            Ok(left) => left.into_iter().for_each(|left| context.record(Event::Left(left))),
            // Measured values stay valid; a later part of the run asks before it writes.
            Err(error) => context.caveat(format!(
                "after {point} senesce could not read the drive's zones, so this run needs --erase to continue: \
                 {error}"
            )),
        }
        Ok(())
    }

    fn fit(&mut self, name: &str, sweep: u32, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let Some(block) = self.source.design.blocks.iter().find(|block| block.name == name) else { return Ok(()) };
        context.progress.phase(&format!("fit {name}"), 0, "constants");
        let model = model_so_far(&self.source.start, context.recorded())?;
        let observations = self.observations(context);
        // Constants of another drive's structure that this model lacks cannot be fitted.
        let constants = Constants::of(&model)?;
        let own = block.constants.iter().filter(|key| constants.get(key).is_some()).cloned().collect();
        let block = Block { constants: own, ..block.clone() };
        let seed = context.seed.child(&format!("fit/{sweep}"));
        // The second pass may determine constants that the first one leaves open.
        let known = known(context.recorded());
        let pass = if sweep + 1 == SWEEPS { Pass::Last(&known) } else { Pass::First };
        let FittedBlock { constants, settled } = block::fit(&model, &block, &observations, pass, seed)?;
        for FittedConstant { key, start, value, deviation, correlations } in constants {
            context.record(Event::Constant { name: key, block: name.into(), start, value, deviation, correlations });
        }
        context.record(Event::Searched { block: name.into(), settled });
        Ok(())
    }

    /// Returns the values measured here, or from tables.
    fn observations(&self, context: &Context<'_, Self>) -> Observations {
        let mut all = block::observations(measured(context.recorded()));
        all.extend(self.source.given.clone());
        all
    }

    fn check(&mut self, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        context.progress.phase("compare the model with values that were not fitted", 0, "points");
        let model = model_so_far(&self.source.start, context.recorded())?;
        let observations = self.observations(context);
        let checks = &self.source.design.checks;
        let seed = context.seed.child("check");
        let modelled =
            block::in_parallel(checks.len(), |index| checks[index].model(&model, seed.child(&checks[index].key)));
        for (probe, modelled) in checks.iter().zip(modelled) {
            let modelled = modelled.map_err(|error| at(&probe.key, &error))?;
            for (value, modelled) in modelled {
                if let Some(observed) = observations.get(&(probe.key.clone(), value.clone())) {
                    let (point, measured) = (probe.key.clone(), observed.mean);
                    context.record(Event::Checked { point, value, measured, modelled });
                }
            }
        }
        Ok(())
    }
}

fn at(point: &str, error: &ZonedError) -> Failure {
    Failure::new(error.exit_code(), format!("point {point}: {error}"))
}

fn measured(recorded: &Recorded<ZonedModel>) -> impl Iterator<Item = (&str, &Values)> {
    recorded.events().filter_map(|event| match event {
        Event::Measured { point, values, .. } => Some((point.as_str(), values)),
        _ => None,
    })
}

fn known(recorded: &Recorded<ZonedModel>) -> FittedUncertainty {
    let mut known = FittedUncertainty::default();
    for event in recorded.events() {
        if let Event::Constant { name, deviation: Some(deviation), correlations, .. } = event {
            known.add(name, *deviation, correlations);
        }
    }
    known
}

fn model_so_far(start: &Model, recorded: &Recorded<ZonedModel>) -> Result<Model, Failure> {
    let mut constants = Constants::of(start)?;
    for event in recorded.events() {
        if let Event::Constant { name, value, deviation: Some(_), .. } = event {
            constants.set(name, *value)?;
        }
    }
    Ok(constants.model()?)
}
