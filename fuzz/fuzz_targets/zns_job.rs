//! Job files: any text is a job that fits the drive or an error with its place, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use senesce_zoned::job::Job;
use senesce_zoned::run::{DeviceName, plan_job};

fuzz_target!(|data: &[u8]| {
    if let Ok(job) = Job::parse(&String::from_utf8_lossy(data)) {
        drop(plan_job(&DeviceName::Sim("zn540".into()), &job));
    }
});
