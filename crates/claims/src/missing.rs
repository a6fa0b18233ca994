//! Names what a claim needs and a run did not measure.

use crate::claim::Claim;
use crate::decide::Facts;
use crate::selection::Selection;
use crate::truth::OpenReason;
use senesce_core::{Level, Measurement};
use std::collections::BTreeSet;

/// Explains why a claim has no values, and lists the missing ones. If every selection has some, their conditions do not
/// match.
pub(crate) fn unmeasured(claim: &Claim, measurements: &[Measurement], facts: &Facts) -> OpenReason {
    let all = claim.rule.selections();
    let mut lacking: Vec<&Selection> = all.iter().copied().filter(|one| one.of(measurements).is_empty()).collect();
    if lacking.is_empty() {
        lacking = all;
    }
    let mut wanted: Vec<String> = Vec::new();
    for selection in lacking {
        let words = needed(selection, measurements);
        if !wanted.contains(&words) {
            wanted.push(words);
        }
    }
    let root = if facts.root { "" } else { "; it did not run as root" };
    let smoke = if facts.level == Level::Smoke { "; at smoke scale some points are omitted" } else { "" };
    let detail = match wanted.is_empty() {
        true => "needs rows of the table".to_string(),
        false => format!("needs {}", wanted.join(" and ")),
    };
    OpenReason { reason: format!("this run did not measure what the claim needs{root}{smoke}"), detail }
}

/// Lists the conditions that no measurement of the metric has (`fs=zfs`), the metric if it was not measured, or the
/// whole selection.
fn needed(selection: &Selection, measurements: &[Measurement]) -> String {
    let of_metric: Vec<&Measurement> = measurements.iter().filter(|one| one.metric == selection.metric).collect();
    if of_metric.is_empty() {
        return format!("[{selection}]");
    }
    let without: Vec<String> = selection
        .single_conditions()
        .into_iter()
        .filter(|single| !of_metric.iter().any(|one| single.admits(&one.metric, &one.condition)))
        .filter_map(|single| Some(single.to_string().split_once(" where ")?.1.to_string()))
        .collect();
    if without.is_empty() { format!("[{selection}]") } else { without.join(", ") }
}

/// Returns the named words of free conditions, such as file systems, that were not measured.
pub(crate) fn absent(claim: &Claim, measurements: &[Measurement]) -> BTreeSet<String> {
    let selections = claim.rule.selections().into_iter();
    selections
        .flat_map(|selection| selection.missing(selection.of(measurements).iter().map(|one| &one.condition)))
        .collect()
}

pub(crate) fn words(absent: &BTreeSet<String>) -> String {
    match absent.is_empty() {
        true => String::new(),
        false => format!("not measured: {}", absent.iter().cloned().collect::<Vec<_>>().join(", ")),
    }
}
