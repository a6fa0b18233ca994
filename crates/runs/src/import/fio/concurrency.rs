//! Checks that throughput and latency of a job fit its possible requests in flight (Little, Operations Research 9:3,
//! 1961).

use super::clones::{Joined, join};
use super::format::{Direction, Options, Output};

/// The same as for senesce's own workloads.
const TOLERANCE: f64 = 1.2;
/// Beyond this it cannot be a group of several jobs with the options of the first.
const IMPOSSIBLE: f64 = 10.0;

/// Requests in flight by throughput and latency, and the maximum that the options allow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Concurrency {
    measured: f64,
    allowed: f64,
}

impl Concurrency {
    pub fn of(joined: &Joined, global: &Options) -> Option<Self> {
        let options = &joined.job.options;
        if options.is_empty() && global.is_empty() {
            return None;
        }
        let jobs = joined.job.option(global, "numjobs").map_or(Some(1.0), |text| text.parse().ok())?;
        let jobs = f64::max(jobs, joined.clones as f64);
        let in_flight = |direction: &Direction| Some(direction.iops * direction.total_mean_ns? / 1e9);
        let measured = joined.job.all().map(in_flight).sum::<Option<f64>>()?;
        Some(Self { measured, allowed: joined.job.depth(global)? * jobs })
    }

    pub fn is_impossible(self) -> bool {
        self.measured > IMPOSSIBLE * self.allowed
    }

    pub fn caveat(self, job: &str) -> Option<String> {
        let Self { measured, allowed } = self;
        let fits = measured <= TOLERANCE * allowed;
        let left_out = if self.is_impossible() { "its numbers do not count" } else { "several jobs in one group?" };
        (!fits).then(|| {
            format!(
                "job '{job}': throughput x latency is {measured:.1} requests in flight, iodepth x numjobs allows \
                 {allowed}: {left_out}"
            )
        })
    }
}

/// The problem of the first job whose throughput and latency no drive could reach.
pub fn impossible(output: &Output) -> Option<String> {
    let (jobs, _) = join(output);
    jobs.iter().filter(|joined| joined.job.error == 0).find_map(|joined| {
        let found = Concurrency::of(joined, &output.options).filter(|found| found.is_impossible())?;
        found.caveat(&joined.job.name)
    })
}
