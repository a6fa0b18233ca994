//! Jobs as text, on `sim:zn540`.

use senesce_zoned::ZonedError;
use senesce_zoned::job::Job;
use senesce_zoned::run::{DeviceName, plan_job};

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
