//! Conditions that only one side measured, such as a variant of a gate. Their values are not compared.

use super::Row;
use super::side::Side;
use senesce_core::analysis::Better;
use senesce_stats::arm::Untestable;
use std::collections::BTreeSet;

/// Maximum number of named conditions of a side.
const MOST_NAMED: usize = 6;

/// Name and value of a condition.
type Condition<'s> = (&'s str, &'s str);

pub(super) fn caveats([sample, reference]: &[Side<'_>; 2]) -> Vec<String> {
    let (ours, theirs) = (conditions(sample), conditions(reference));
    [("reference", &theirs, &ours), ("sample", &ours, &theirs)]
        .into_iter()
        .filter_map(|(name, own, others)| caveat(name, &own.difference(others).copied().collect::<Vec<_>>()))
        .collect()
}

/// Returns the conditions of the metrics with a direction: the others have no verdict.
fn conditions<'s>(side: &'s Side<'_>) -> BTreeSet<Condition<'s>> {
    let judged = side.groups.iter().filter(|(_, (what, _))| what.better != Better::Neither);
    judged.flat_map(|(_, (what, _))| what.condition.iter().map(|(name, value)| (&**name, &**value))).collect()
}

fn caveat(side: &str, only: &[Condition<'_>]) -> Option<String> {
    let more = only.len().saturating_sub(MOST_NAMED);
    let mut words: Vec<String> = only.iter().take(MOST_NAMED).map(|(name, value)| format!("{name}={value}")).collect();
    words.extend((more > 0).then(|| format!("{more} more")));
    (!only.is_empty()).then(|| format!("only the {side} has {}, which is not compared", words.join(", ")))
}

/// Refuses a ratio if the sample has no value of the metric.
pub(super) fn of_both(row: &Row) -> Result<(), Untestable> {
    match row.sample.is_empty() {
        true => Err(Untestable::Other("only the reference has this value".into())),
        false => Ok(()),
    }
}
