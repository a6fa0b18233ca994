//! Analyses a record of any kind and adds the environment and the claims.

use crate::reasons::group_by_reason;
use crate::recorded::Recorded;
use crate::{Planned, Run};
use senesce_claims::{ClaimSet, Facts};
use senesce_core::analysis::{Verdict, score_json};
use senesce_core::measurement::Seconds;
use senesce_core::{Analysis, Failure, Finding, Level, Record, number_of};
use serde_json::json;

/// Makes the analysis of the record's kind, with the facts of environment and run, and the failures.
pub fn analyse<R: Run>(record: &Record) -> Result<Analysis, Failure> {
    let spec = spec_of::<R>(record)?;
    let recorded = Recorded::<R>::of(record)?;
    let mut analysis = R::analyse(&spec, &recorded)?;
    let mut caveats = match is_modelled::<R>(&spec, &recorded) {
        true => record.environment.of_guest().into_iter().collect(),
        false => record.environment.caveats(),
    };
    caveats.extend(recorded.caveats());
    let failures = recorded.failures();
    if !failures.is_empty() {
        let first_lines = failures.iter().filter_map(|(_, reason)| Some((reason.lines().next()?, ())));
        let words = |(reason, times): (&str, Vec<()>)| match times.len() {
            1 => reason.to_string(),
            count => format!("{reason} ({count} times)"),
        };
        let mut groups = group_by_reason(first_lines);
        groups.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
        let reasons: Vec<String> = groups.into_iter().map(words).collect();
        let failed = number_of(failures.len(), "failure");
        caveats.push(format!("{failed}, not in the results: {}", reasons.join("; ")));
    }
    analysis.caveats.splice(0..0, caveats);
    let mut findings = decide_claims::<R>(&spec, &recorded, record)?;
    findings.append(&mut analysis.findings);
    analysis.findings = findings;
    if let (false, Some(result)) = (analysis.findings.is_empty(), analysis.result.as_object_mut()) {
        result.insert("findings".into(), json!(analysis.findings));
        result.insert("score".into(), score_json(&analysis.findings));
    }
    if !R::SPECIAL.lists_untestable {
        analysis.findings.retain(|finding| finding.verdict != Verdict::NotTestable);
    }
    Ok(analysis)
}

/// Returns whether all values come from a model, which does not depend on the load of the machine.
fn is_modelled<R: Run>(spec: &R::Spec, recorded: &Recorded<R>) -> bool {
    let measured = R::measurements(spec, recorded);
    !measured.is_empty() && measured.iter().all(|one| one.seconds == Seconds::Model)
}

/// Decides the claims about this kind of run.
fn decide_claims<R: Run>(spec: &R::Spec, recorded: &Recorded<R>, record: &Record) -> Result<Vec<Finding>, Failure> {
    if R::CLAIMS.is_empty() {
        return Ok(Vec::new());
    }
    let set = ClaimSet::parse(R::CLAIMS, R::PUBLISHED).map_err(|error| Failure::usage(error.to_string()))?;
    let environment = &record.environment;
    let facts = Facts {
        emulated: environment.is_emulated(),
        stopped: stopped::<R>(spec, recorded, record),
        root: environment.0.get("process.root").is_none_or(|root| root == true),
        ..Facts::of(record.plan.scale.unwrap_or(Level::Quick))
    };
    Ok(senesce_claims::decide(&set, &R::measurements(spec, recorded), &R::facts(spec, recorded, facts)))
}

/// Returns whether the user ended the run, or it was killed, before its last step. Failed steps are reported as such.
fn stopped<R: Run>(spec: &R::Spec, recorded: &Recorded<R>, record: &Record) -> bool {
    if recorded.was_interrupted() {
        return true;
    }
    let failed: Vec<R::Step> = recorded.failures().into_iter().filter_map(|(step, _)| step).collect();
    let is_open = |steps: Vec<Planned<R::Step>>| steps.iter().any(|planned| !failed.contains(&planned.step));
    record.is_partial() && R::next(spec, recorded).is_ok_and(is_open)
}

/// Reads the specification of a record with the types of its kind.
pub fn spec_of<R: Run>(record: &Record) -> Result<R::Spec, Failure> {
    record.plan.read_spec().map_err(|error| {
        let path = record.path.join("plan.toml");
        Failure::usage(format!("{}: the specification cannot be read: {}", path.display(), error.message()))
    })
}
