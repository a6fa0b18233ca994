//! The JSON result: measured values, or planned values only.

use super::events::{ExecutionEnd, Rehearsal};
use super::unrequested_commits::UnrequestedCommits;
use super::{Age, RecordedAging, final_layout};
use super::{run, start};
use senesce_runner::Recorded;
use serde_json::{Value, json};

/// Returns the result of a record. Before the end of the execution only `planned` has values.
pub(super) fn result(recorded: &Recorded<Age>, rehearsal: &Rehearsal, found: &RecordedAging<'_>) -> Value {
    let mut value = match found.executed {
        Some(executed) => measures_json(rehearsal, Some(executed)),
        None => unmeasured_json(rehearsal),
    };
    value["unasked_commits"] = json!(UnrequestedCommits::of(recorded.events()).commits());
    let is_counted = found.executed.is_none_or(|executed| executed.ranks.is_empty());
    value["repaired_files"] = json!(is_counted.then_some(found.repaired));
    value["seed"] = json!(recorded.seed);
    value["profile"] = json!(rehearsal.summary.profile);
    value["run"] = json!(recorded.path);
    value["layout"] = json!(found.layout.and_then(|examined| examined.layout.as_ref()));
    value["layout_digest"] = json!(found.layout.and_then(|examined| examined.digest.as_ref()));
    value["cost"] = json!(found.layout.map(|examined| &examined.read_times));
    value["cost_order"] = json!(found.layout.map(|_| final_layout::READ_ORDER));
    value["new_file"] = json!(found.new_file());
    value["copies"] = json!(
        found
            .copies
            .map(|copies| json!({"drives": copies.drives, "new_file": copies.new_file, "layouts": copies.layouts}))
    );
    value["measured_read"] = json!(found.measured);
    value["extents"] = json!(found.extents);
    value["layout_numbers"] = json!(found.layout.map(final_layout::measurements).unwrap_or_default());
    value["last_checkpoint"] = json!(start::last_checkpoint(recorded).map(|checkpoint| checkpoint.operation));
    value["environment"] = json!(recorded.environment);
    value
}

pub(super) fn measures_json(rehearsal: &Rehearsal, executed: Option<&ExecutionEnd>) -> Value {
    let measures = executed.map_or(&rehearsal.measures, |executed| &executed.measures);
    let timed = executed.filter(|executed| executed.is_timed());
    let digest = executed.map_or(&rehearsal.namespace_sha256, |executed| &executed.namespace_sha256);
    json!({
        "operations": measures.operations,
        "creates": measures.creates,
        "deletes": measures.deletes,
        "commit_share": rehearsal.summary.clock.commit_share.share(),
        "sync_every": rehearsal.summary.clock.sync_every,
        "commits": measures.commits,
        "unasked_commits": null,
        "changes": measures.changes,
        "changes_under_way": measures.changes_under_way,
        "changes_executed": executed.and_then(|executed| executed.changes),
        "writers": rehearsal.course.as_ref().map(|course| course.spec.writers),
        "files_live": measures.files_live,
        "locality": measures.locality,
        "t_bound": rehearsal.summary.t_bound,
        "t_end": rehearsal.summary.t_end,
        "virtual_t": rehearsal.summary.virtual_t,
        "saved_factor": rehearsal.summary.saved_factor(),
        "overwrites": measures.overwrites,
        "rmse": measures.rmse,
        "fullness": measures.fullness,
        "created_size_tv": measures.created_size_tv,
        "chi_square": measures.chi_square,
        "stopped_by": executed.map_or("not executed", |executed| executed.stopped_by.as_str()),
        "namespace_sha256": digest,
        "parts": rehearsal.summary.parts,
        "part_sha256": executed.map_or(&rehearsal.part_sha256, |executed| &executed.part_sha256),
        "plan_cpu_seconds": rehearsal.plan_cpu_seconds,
        "plan_ops_per_cpu_second": rehearsal.plan_ops_per_cpu_second,
        "timing_valid": executed.map(ExecutionEnd::is_timed),
        "timing_reason": executed.and_then(ExecutionEnd::untimed_reason),
        "execute_seconds": timed.map(|executed| executed.execute_seconds),
        "estimated_seconds": timed.and_then(|executed| executed.estimated_seconds),
        "ops_per_second": timed.map(|executed| executed.ops_per_second),
        "cpu_seconds": executed.map(|executed| executed.cpu_seconds),
        "ranks": executed.map(|executed| &executed.ranks),
        "window": executed.map(|executed| executed.window),
        "peak_rss_bytes": executed.map_or_else(run::peak_rss_bytes, |executed| executed.peak_rss_bytes),
        "plan": rehearsal.summary,
    })
}

const OF_THE_TARGET: [&str; 16] = [
    "operations",
    "creates",
    "deletes",
    "commits",
    "changes",
    "changes_under_way",
    "files_live",
    "locality",
    "overwrites",
    "rmse",
    "fullness",
    "created_size_tv",
    "chi_square",
    "namespace_sha256",
    "part_sha256",
    "peak_rss_bytes",
];

/// Returns the result without an end of the execution. Names below `planned` differ from measured ones, so that
/// comparisons of records ignore them.
fn unmeasured_json(rehearsal: &Rehearsal) -> Value {
    let mut value = measures_json(rehearsal, None);
    OF_THE_TARGET.iter().for_each(|name| value[*name] = Value::Null);
    let measures = &rehearsal.measures;
    value["planned"] = json!({
        "operations": measures.operations,
        "commits": measures.commits,
        "files_live": measures.files_live,
        "overwrites": measures.overwrites,
        "fullness": measures.fullness,
        "errors": measures.rmse,
        "p": measures.chi_square.all.p,
        "namespace_sha256": rehearsal.namespace_sha256,
    });
    value
}

#[cfg(test)]
mod tests {
    use super::super::extended_spec::ExtendedSpec;
    use super::super::rehearse::rehearse;
    use super::super::spec::tests::age_spec;
    use super::super::spec::{AgeSpec, Limits};
    use super::*;
    use senesce_aging::Data;
    use senesce_core::Silent;

    #[test]
    fn unfinished_execution_has_no_measured_values() {
        let limits = Limits { max_operations: Some(1000), ..Limits::default() };
        let course = ExtendedSpec::new(AgeSpec { limits, ..age_spec(Data::Sparse, None) });
        let played = rehearse(&course, &[0], &Silent, &|| false).unwrap();
        let rehearsal = Rehearsal::of(&course, vec![played]).unwrap();
        let value = unmeasured_json(&rehearsal);
        assert!(OF_THE_TARGET.iter().all(|name| value[*name].is_null()), "{value}");
        assert_eq!((&value["stopped_by"], &value["planned"]["operations"]), (&json!("not executed"), &json!(1000)));
        assert!(value["planned"]["errors"]["age"].is_number() && value["planned"]["rmse"].is_null());
        let planned_only = measures_json(&rehearsal, None);
        assert_eq!(planned_only["operations"], 1000, "--plan-only has no measured values");
    }
}
