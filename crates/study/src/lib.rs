//! Studies: a matrix of file systems, states and workloads, measured in random order on restored images.

mod adaptive;
pub mod advise;
mod analysis;
mod answer;
mod check;
mod command;
mod controls;
mod device_state;
mod entries;
mod estimate;
mod factor;
mod figures;
mod guest;
pub mod images;
mod launched;
mod made;
pub mod matrix;
mod matrix_run;
mod pair_figures;
mod past_events;
mod questions;
mod ready;
pub mod results;
mod retry;
pub mod spec;
pub mod subject;
mod support;
pub mod trial;
mod verdicts;
mod zoned;

pub use command::ready_job::written as with_built_in_jobs;
pub use matrix_run::{Event, Matrix};
pub use ready::slow_append;
pub use spec::StudySpec;
pub use support::needs;

use matrix::RunId;
use results::Results;
use senesce_core::{Analysis, ExitCode, Failure, Measurement, Plan, Seed};
use senesce_runner::{Context, Needs, Planned, Recorded, Run, RunKind, Special, verb};

pub const EXAMPLE: &str = include_str!("example.toml");

pub const VERBS: &[&dyn RunKind] = &[verb::<Study>()];

pub struct Study(Matrix);

impl Run for Study {
    const KIND: &'static str = "study";
    const GOES_ON: bool = true;
    const SPECIAL: Special<Self> = Special {
        before_next: analyse_interim,
        // Existing images are used again.
        starts_over: |_, recorded| !recorded.has_done_a_step() && recorded.events().next().is_none(),
        ..Special::NONE
    };
    type Spec = StudySpec;
    type Event = Event;
    type Step = RunId;

    fn needs(spec: &StudySpec) -> Needs {
        support::needs(spec)
    }

    fn steps(spec: &StudySpec, _seed: Seed) -> Result<Vec<Planned<RunId>>, Failure> {
        matrix::steps(spec)
    }

    fn plan(spec: &StudySpec, seed: Seed) -> Result<Plan, Failure> {
        matrix::describe(spec, senesce_runner::new_plan::<Self>(spec, seed)?)
    }

    fn next(spec: &StudySpec, recorded: &Recorded<Self>) -> Result<Vec<Planned<RunId>>, Failure> {
        let steps = Self::steps(spec, recorded.seed)?.into_iter();
        if !spec.until_decided {
            return Ok(steps.filter(|planned| !recorded.is_done(&planned.step)).collect());
        }
        let wanted = adaptive::next_runs(spec, &past_events::of(spec, recorded));
        Ok(steps.filter(|planned| wanted.contains(&planned.step)).collect())
    }

    fn begin(spec: &StudySpec, context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self(Matrix::begin(spec.clone(), context)?))
    }

    fn step(&mut self, _spec: &StudySpec, step: &RunId, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.0.step(*step, context)
    }

    fn end(self, _spec: &StudySpec, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.0.end(context)
    }

    fn exit_code(_spec: &StudySpec, recorded: &Recorded<Self>) -> ExitCode {
        // A study that ended by its time limit may have failed runs that are not retried.
        if recorded.failures().is_empty() { ExitCode::Done } else { ExitCode::RunFailed }
    }

    fn analyse(spec: &StudySpec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(analysis_of(&Results::of(recorded, spec.clone())))
    }

    fn measurements(_spec: &StudySpec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        results::measurements(recorded)
    }
}

fn analyse_interim(spec: &StudySpec, context: &mut Context<'_, Study>) -> Result<(), Failure> {
    if spec.until_decided {
        for look in adaptive::due_analyses(spec, &past_events::of(spec, context.recorded())) {
            context.record_now(Event::Look(look))?;
        }
    }
    Ok(())
}

pub use analysis::of as analysis_of;
pub use figures::capitalised;

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<String> {
        let page = concat!(include_str!("../docs/verbs/study.md"), "\n", include_str!("../docs/verbs/study-file.md"));
        let mut blocks = vec![String::new()];
        for line in page.lines().filter(|line| !line.is_empty()) {
            match (line.strip_prefix("    "), blocks.last_mut()) {
                (Some(code), Some(last)) => *last += &format!("{code}\n"),
                _ => blocks.push(String::new()),
            }
        }
        blocks.retain(|block| block.starts_with("name = "));
        blocks
    }

    #[test]
    fn a_matrix_that_is_too_large_is_refused_before_it_is_expanded() {
        let many = |head: &str, count: usize, body: &str| -> String {
            (0..count).map(|number| format!("[[{head}]]\nname = \"n{number}\"\n{body}\n")).collect()
        };
        let text = ["name = \"large\"\nsize = \"1G\"\nrepetitions = 10000\n".to_string()]
            .into_iter()
            .chain([many("file_system", 50, "kind = \"ext4\"")])
            .chain([many("state", 20, "kind = \"fresh\"")])
            .chain([many("workload", 10, "cold_read = true")])
            .collect::<String>();
        let refused = StudySpec::parse("study.toml", &text).unwrap_err();
        assert!(refused.to_string().contains("100000000 runs"), "{refused}");
    }

    #[test]
    fn the_studies_of_the_page_can_be_planned() {
        let examples = examples();
        assert_eq!(examples.len(), 2);
        for text in examples.into_iter().chain([EXAMPLE.to_string()]) {
            let spec = StudySpec::parse("the page", &text).unwrap();
            assert!(Study::plan(&spec, Seed(1)).unwrap().estimated_seconds > 1.0);
        }
    }
}
