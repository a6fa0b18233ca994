//! Takes one experiment through plan, run, record and analysis.

use crate::registry;
use senesce_core::interrupt::Interrupt;
use senesce_core::{
    Analysis, Environment, Experiment, Failure, Plan, Progress, Record, RunContext, RunDirectory, Settings,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How a run is to be conducted.
pub struct Conduct<'a> {
    /// The run directory, if the user named one.
    pub out: Option<PathBuf>,
    /// Where run directories are kept otherwise.
    pub runs: PathBuf,
    /// Run anew although the same plan was run before (only without `out`).
    pub again: bool,
    /// Whom to tell.
    pub progress: &'a dyn Progress,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

/// What came of it.
pub struct Outcome {
    /// The run directory.
    pub path: PathBuf,
    /// Its analysis.
    pub analysis: Analysis,
    /// The run had been finished before; nothing was done.
    pub was_finished: bool,
    /// It was interrupted: the analysis is of what was done until then, and the run can be continued.
    pub interrupted: bool,
}

/// Runs `plan` in its run directory, or finds it finished there; analyses the record and completes it.
pub fn conduct(
    experiment: &dyn Experiment,
    settings: &Settings,
    mut plan: Plan,
    request: &Conduct<'_>,
) -> Result<Outcome, Failure> {
    plan.settings = settings.to_map();
    let path = request.out.clone().unwrap_or_else(|| default_path(&request.runs, &plan, request.again));
    let mut directory = RunDirectory::open(&path, &plan, &Environment::capture())?;
    let was_finished = directory.is_finished();
    if !was_finished {
        let mut context =
            RunContext { directory: &mut directory, progress: request.progress, interrupt: request.interrupt };
        let outcome = experiment.run(settings, &mut context);
        if let Err(failure) = outcome {
            directory.append("failed", &BTreeMap::from([("reason", failure.to_string())]))?;
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

/// `RUNS/KIND-HASH`: the same plan finds its own directory again. With `again`, the first free `-2`, `-3` ...
pub fn default_path(runs: &Path, plan: &Plan, again: bool) -> PathBuf {
    let base = format!("{}-{:08x}", plan.kind, identity(plan));
    let first = runs.join(&base);
    if !again || !first.exists() {
        return first;
    }
    (2..).map(|number| runs.join(format!("{base}-{number}"))).find(|path| !path.exists()).unwrap_or(first)
}

fn identity(plan: &Plan) -> u32 {
    let settings: Vec<String> = plan.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let child = plan.seed.child(&format!("{}\n{}", plan.kind, settings.join("\n")));
    (child.0 >> 32) as u32
}
