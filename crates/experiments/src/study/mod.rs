//! Studies: a matrix of file systems, states and workloads, measured in random order on restored images.

mod analysis;
mod check;
mod conduct;
pub mod device_state;
mod figures;
pub mod images;
mod lab;
mod launched;
pub mod matrix;
mod modelled;
mod noise;
mod order;
pub mod results;
pub mod spec;
pub mod subject;
mod support;
mod zoned;

pub use spec::StudySpec;

use crate::conduct::{Conduct, Outcome, default_path};
use crate::registry;
use senesce_core::environment::is_root;
use senesce_core::{Analysis, Environment, Failure, Plan, Record, RunContext, RunDirectory, RunKind};
use std::collections::BTreeMap;

/// The word in plans.
pub const KIND: &str = "study";

/// The kind of run that `senesce study` leaves.
pub struct Study;

impl RunKind for Study {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        analysis::analyse(record)
    }
}

pub use analysis::{analyse, of as analysis_of};
pub use conduct::run as run_matrix;
pub use figures::capitalised;

/// A study as a plan stores it: every default written out.
pub fn embed(spec: &StudySpec) -> Result<String, Failure> {
    toml::to_string(spec).map_err(|error| Failure::usage(format!("the study cannot be stored: {error}")))
}

/// A study read back from a plan. Files it names may be elsewhere by now, so it is not checked again.
pub fn embedded(text: &str) -> Result<StudySpec, Failure> {
    let spec: StudySpec = toml::from_str(text)
        .map_err(|error| Failure::usage(format!("the plan holds no readable study: {}", error.message())))?;
    if spec.combinations().next().is_none() {
        return Err(Failure::usage("the plan holds a study without cells"));
    }
    Ok(spec)
}

/// Checks the whole study and says what it would do. Writes nothing.
pub fn plan(spec: &StudySpec) -> Result<Plan, Failure> {
    support::check(spec)?;
    lab::check(spec)?;
    matrix::plan(spec, &embed(spec)?)
}

/// How many runs of an analysed study failed.
pub fn runs_failed(analysis: &Analysis) -> u64 {
    analysis.result["runs_failed"].as_u64().unwrap_or(0)
}

/// Runs a study in its run directory, or continues it, or finds it finished there.
pub fn conduct(spec: &StudySpec, plan: &Plan, request: &Conduct<'_>) -> Result<Outcome, Failure> {
    let path = request.out.clone().unwrap_or_else(|| default_path(&request.runs, plan, request.again));
    support::check_rights(spec, is_root())?;
    let mut directory = RunDirectory::open(&path, plan, &Environment::capture())?;
    let was_finished = directory.is_finished();
    if !was_finished {
        for warning in matrix::warnings(spec)? {
            request.progress.say(&format!("beware: {warning}"));
        }
        let mut context =
            RunContext { directory: &mut directory, progress: request.progress, interrupt: request.interrupt };
        if let Err(failure) = run_matrix(spec, &mut context) {
            context.directory.append("failed", &BTreeMap::from([("reason", failure.to_string())]))?;
            // What stops in the middle says so in words of its own.
            context.check_interrupt()?;
            return Err(failure);
        }
        directory.sync()?;
    }
    let analysis = registry::analyse(&Record::open(&path)?)?;
    if !was_finished {
        directory.finish(&analysis.result)?;
    }
    Ok(Outcome { path, analysis, was_finished, interrupted: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The studies of the page, which are what a new user copies: indented text between paragraphs.
    fn examples() -> Vec<String> {
        let page = include_str!("../../../../docs/verbs/study.md");
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
    fn the_studies_of_the_page_can_be_planned() {
        let examples = examples();
        assert_eq!(examples.len(), 2);
        for text in examples {
            let spec = StudySpec::parse("the page", &text).unwrap();
            assert!(matrix::plan(&spec, "").unwrap().estimated_seconds > 1.0);
        }
    }
}
