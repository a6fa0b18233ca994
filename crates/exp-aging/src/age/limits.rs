//! Limits that end an aging.

use super::words;
use clap::Args;
use senesce_aging::measure::Measures;
use senesce_aging::{AgingError, AgingPlan, Limit, Summary};
use senesce_core::Failure;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of an aging, which may also be given to a run that is resumed. Without any limit an aging ends at the bound, where all three
/// histograms are exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Args)]
pub struct Limits {
    /// Overwrites to age for (bytes created / size)
    #[arg(long, value_name = "N", conflicts_with_all = ["confidence", "max_overwrites", "max_operations"],
          help_heading = "Limits")]
    pub overwrites: Option<f64>,
    /// Stop at this p of the chi-square tests, such as 0.95
    #[arg(long, value_name = "P", value_parser = words::probability, help_heading = "Limits")]
    pub confidence: Option<f64>,
    /// Maximum overwrites
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_overwrites: Option<f64>,
    /// Maximum creates and deletes
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_operations: Option<u64>,
    /// Maximum time of each start, such as 30m
    #[arg(long = "max-time", value_name = "TIME", value_parser = words::seconds, help_heading = "Limits")]
    pub max_seconds: Option<f64>,
    /// Stop early: extents-settle
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true, help_heading = "Limits")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
}

/// A state of the file system that ends an aging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The mean number of extents of a file no longer changes.
    ExtentsSettle,
}

impl Limits {
    /// Plans one of `parts` with `make` under these limits. Limits known in advance shape the plan.
    ///
    /// # Errors
    /// Those of `make`; a usage error for a limit of confidence with more than one part.
    pub(crate) fn plan<T: AsRef<AgingPlan>>(
        &self,
        parts: u32,
        make: &dyn Fn(Limit) -> Result<T, AgingError>,
    ) -> Result<T, Failure> {
        if self.confidence.is_some() && parts > 1 {
            return Err(Failure::usage(
                "cannot plan parts to a confidence: the tests need all files in one plan\nhint: use another limit",
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
        // Last, because a plan with fewer operations may create more bytes.
        let is_over = |most: &f64| most.is_nan() || plan.as_ref().summary().overwrites > *most;
        if let Some(overwrites) = self.max_overwrites.filter(is_over) {
            plan = make(Limit::AtMost { overwrites, operations: plan.as_ref().summary().t_end })?;
        }
        Ok(plan)
    }

    /// Returns a warning if a plan misses the requested overwrites by more than its largest file.
    pub(crate) fn missed(&self, summary: &Summary) -> Option<String> {
        let asked = self.overwrites?;
        let miss = (summary.overwrites - asked).abs() * summary.capacity.0 as f64;
        let largest = summary.largest_file.0 as f64 * f64::from(summary.parts);
        // Unknown for records of earlier versions.
        (largest > 0.0 && miss > largest).then(|| {
            format!("overwrites requested: {asked}, planned: {:.3}; no tried length comes closer", summary.overwrites)
        })
    }

    /// Returns a warning if the files at the end of a plan do not pass the requested tests.
    pub(crate) fn unmet(&self, measures: &Measures) -> Option<String> {
        let (asked, reached) = (self.confidence?, measures.chi_square.minimum_p());
        (reached < asked).then(|| {
            format!(
                "confidence requested: {asked}, reached: {reached:.3} (the minimum p of ages, sizes and depths); \
                 no length reaches it with this number of files, or within the other limits"
            )
        })
    }

    pub fn max_time(&self) -> Option<Duration> {
        self.max_seconds.map(Duration::from_secs_f64)
    }

    /// Returns the limits of a run with the limits `own` after these are given to it. A time limit keeps the others.
    pub(super) fn given_to(&self, own: &Self) -> Self {
        if !self.plan_as(&Self::default()) {
            return self.clone();
        }
        Self { max_seconds: self.max_seconds.or(own.max_seconds), ..own.clone() }
    }

    /// Returns whether both shape the same plan. A time limit does not shape a plan.
    pub(super) fn plan_as(&self, other: &Self) -> bool {
        self.without_time() == other.without_time()
    }

    pub(super) fn without_time(&self) -> Self {
        Self { max_seconds: None, ..self.clone() }
    }
}
