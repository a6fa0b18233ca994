//! Jobs as text, on `sim:zn540`.

use senesce_core::interrupt::Interrupt;
use senesce_core::{Seed, Silent};
use senesce_zoned::ZonedError;
use senesce_zoned::job::{Job, JobResult};
use senesce_zoned::run::{DeviceName, RunOptions, plan_job, run_sim};
use senesce_zoned::sim::model::Model;

pub fn job(text: &str) -> Job {
    Job::parse(text).unwrap()
}

pub fn planned(text: &str) -> Result<(), ZonedError> {
    plan_job(&DeviceName::Sim("zn540".into()), &job(text)).map(|_| ())
}

pub fn refused(text: &str, words: &[&str]) {
    let error = planned(text).unwrap_err().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

pub fn run_on(model: &Model, text: &str) -> Result<JobResult, ZonedError> {
    let interrupt = Interrupt::new();
    run_sim(model, &job(text), &RunOptions { seed: Seed(1), progress: &Silent, interrupt: &interrupt })
}

pub fn run(text: &str) -> JobResult {
    run_on(&Model::load("zn540").unwrap(), text).unwrap()
}

pub fn has_warning(result: &JobResult, words: &str) -> bool {
    result.warnings.iter().any(|warning| warning.contains(words))
}
