//! Facts for claims about drives that an experiment uses through a file system.

use senesce_claims::Facts;
use senesce_core::{Environment, Failure};
use senesce_volume::guest::{DriveChoice, find};
use senesce_zoned::survey::Survey;

/// The fact with the claims' name of the zoned drive.
const CALLED: &str = "zoned.called";

pub(crate) fn zoned(name: &str) -> Result<Environment, Failure> {
    let survey = Survey::of(&find(name, DriveChoice::Zoned)?.display().to_string().parse()?)?;
    let mut facts = Environment::default();
    survey.published_name().into_iter().for_each(|called| facts.put(CALLED, called));
    Ok(facts)
}

/// Drives of the guest are always emulated: they have no flash, and their times decide nothing.
pub(crate) fn facts(environment: &Environment, facts: Facts) -> Facts {
    let text = |name: &str| environment.0.get(name).and_then(serde_json::Value::as_str).map(String::from);
    let drives = facts.drives.into_iter().chain(text(CALLED)).collect();
    Facts { emulated: facts.emulated || environment.0.contains_key("vm.accelerator"), drives, ..facts }
}
