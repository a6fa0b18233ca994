//! When an aging ends.

use senesce_aging::measure::Measures;
use senesce_aging::{AgingError, AgingPlan, Limit, Summary};
use senesce_core::Failure;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When an aging ends; without any limit at the bound, where all three histograms are exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// This many overwrites, as near as whole files come to them.
    pub overwrites: Option<f64>,
    /// Stop at this p of the chi-square tests.
    pub confidence: Option<f64>,
    /// At most this many overwrites, planned for.
    pub max_overwrites: Option<f64>,
    /// At most this many operations, planned for.
    pub max_operations: Option<u64>,
    /// Stop after this many seconds of planning, restoring and execution, counted anew whenever the run is started.
    pub max_seconds: Option<f64>,
}

impl Limits {
    /// Plans one of `parts` with `make` so that the limits hold: those known beforehand shape the plan.
    ///
    /// # Errors
    /// That of `make`; a usage error for a limit of confidence with more than one part.
    pub fn plan<T: AsRef<AgingPlan>>(
        &self,
        parts: u32,
        make: &dyn Fn(Limit) -> Result<T, AgingError>,
    ) -> Result<T, Failure> {
        if self.confidence.is_some() && parts > 1 {
            return Err(Failure::usage(
                "--until tests the files of one plan; a plan in parts ends at its bound, or by another limit",
            ));
        }
        if let Some(overwrites) = self.overwrites {
            return Ok(make(Limit::Overwrites(overwrites))?);
        }
        let mut plan = make(self.confidence.map_or(Limit::Bound, Limit::Confidence))?;
        let most = self.max_operations.map(|most| most / u64::from(parts));
        if let Some(most) = most.filter(|most| plan.as_ref().summary().t_end > *most) {
            plan = make(Limit::Operations(most))?;
        }
        // Last, for a plan of fewer operations may create more bytes.
        let is_over = |most: &f64| most.is_nan() || plan.as_ref().summary().overwrites > *most;
        if let Some(overwrites) = self.max_overwrites.filter(is_over) {
            plan = make(Limit::AtMost { overwrites, operations: plan.as_ref().summary().t_end })?;
        }
        Ok(plan)
    }

    /// That a plan misses the overwrites that were asked for by more than its largest file, in words.
    pub fn missed(&self, summary: &Summary) -> Option<String> {
        let asked = self.overwrites?;
        let miss = (summary.overwrites - asked).abs() * summary.capacity.0 as f64;
        let largest = summary.largest_file.0 as f64 * f64::from(summary.parts);
        // Records of earlier versions do not tell it.
        (largest > 0.0 && miss > largest).then(|| {
            format!(
                "overwrites asked for: {asked}, planned: {:.3}; no length that was tried comes nearer",
                summary.overwrites
            )
        })
    }

    /// That the files at the end of a plan do not pass the tests that were asked for, in words.
    pub fn unmet(&self, measures: &Measures) -> Option<String> {
        let (asked, reached) = (self.confidence?, measures.chi_square.least_p());
        (reached < asked).then(|| {
            format!(
                "confidence asked for: {asked}, reached: {reached:.3} (the least p of ages, sizes and depths); no length comes to it \
                 with so few files, or within the other limits"
            )
        })
    }

    pub fn max_time(&self) -> Option<Duration> {
        self.max_seconds.map(Duration::from_secs_f64)
    }

    /// What holds when these limits are given to a run that has `own`: a time limit alone leaves the others as they are.
    pub(super) fn given_to(&self, own: &Self) -> Self {
        if !self.plan_as(&Self::default()) {
            return self.clone();
        }
        Self { max_seconds: self.max_seconds.or(own.max_seconds), ..own.clone() }
    }

    /// Whether both shape the same plan. A time limit shapes none.
    pub(super) fn plan_as(&self, other: &Self) -> bool {
        self.without_time() == other.without_time()
    }

    pub(super) fn without_time(&self) -> Self {
        Self { max_seconds: None, ..self.clone() }
    }
}
