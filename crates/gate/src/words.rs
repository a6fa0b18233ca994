//! The result for the cover letter of a patch, and for test harnesses.

use crate::Gate;
use crate::analysis::unused_commit_time;
use crate::judge::{MetricVerdict, Verdict};
use crate::run::{CompletedAgings, GateAnswer, answer, judge_all};
use crate::spec::GateSpec;
use senesce_core::record::Record;
use senesce_core::{Failure, number_of, significant};
use senesce_report::junit::{Case, Status};
use senesce_runner::{Recorded, Run, spec_of};
use senesce_stats::decimals::places;
use std::fmt::Write;

/// Formats a ratio as a change, with the decimal places that distinguish it from the minimum `effect` (a fraction).
pub(crate) fn percent(ratio: f64, effect: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    format!("{change:+.0$} %", places(change, &[-100.0 * effect, 100.0 * effect], 1))
}

/// Returns the result, and the numbers of verdicts.
pub(crate) fn sentence(spec: &GateSpec, judged: &[MetricVerdict], failed: usize) -> String {
    let counts = [("Primary metrics", true), ("others", false)].map(|(name, primary)| {
        let words = verdict_counts(judged.iter().filter(|one| one.primary == primary));
        (!words.is_empty()).then(|| format!("{name}: {words}"))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    match counts.is_empty() {
        true => headline(spec, judged, failed),
        false => format!("{} {}.", headline(spec, judged, failed), counts.join("; ")),
    }
}

/// Counts verdicts: `2 worse, 1 better, 3 undecided`.
fn verdict_counts<'a>(judged: impl Iterator<Item = &'a MetricVerdict> + Clone) -> String {
    let count = |verdict| judged.clone().filter(|one| one.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| (count(verdict), verdict.word()));
    let words = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the result in one sentence.
fn headline(spec: &GateSpec, judged: &[MetricVerdict], failed: usize) -> String {
    let effect = significant(spec.gate.minimum_effect * 100.0);
    let names = |verdict| {
        let all = judged.iter().filter(|one| one.primary && one.verdict == verdict);
        all.map(|one| one.metric).collect::<Vec<_>>().join(", ")
    };
    let [reference, variant] = [0, 1].map(|side| spec.file_system.get(side).map_or("", |fs| fs.name.as_str()));
    let open = not_excluded(judged, spec.gate.minimum_effect);
    match answer(judged, failed) {
        GateAnswer::Worse => {
            format!("{variant} ages worse than {reference}, by more than {effect} %: {}.", names(Verdict::Worse))
        }
        GateAnswer::NoVerdict if failed > 0 => format!("No verdict: {} failed.", number_of(failed, "aging")),
        GateAnswer::NoVerdict => format!("No verdict: {} cannot be compared.", names(Verdict::NotTestable)),
        GateAnswer::NotWorse if judged.iter().any(|one| one.verdict == Verdict::Identical) => {
            format!("{variant} ages like {reference}: both layouts of every pair are identical.")
        }
        GateAnswer::NotWorse if open.is_empty() => {
            format!(
                "{variant} does not age worse than {reference}: no primary metric is worse by more than {effect} %."
            )
        }
        GateAnswer::NotWorse => format!(
            "{variant} was not found to age worse than {reference}; more than {effect} % is not excluded for {}.",
            open.join(", ")
        ),
    }
}

/// Returns primary metrics that may be worse by more than `effect` (a fraction).
fn not_excluded(judged: &[MetricVerdict], effect: f64) -> Vec<&'static str> {
    let open = judged.iter().filter(|one| one.primary && one.may_be_worse_by(effect));
    open.map(|one| one.metric).collect()
}

/// Renders a table of at most 72 columns.
///
/// # Errors
/// The record is not that of a gate.
pub fn patch_text(record: &Record) -> Result<String, Failure> {
    let (spec, agings, failed) = of(record)?;
    let judged = judge_all(&spec, &agings);
    let [reference, variant] = [0, 1].map(|side| spec.file_system[side].name.as_str());
    let mut text = format!(
        "{}\n\nA: {reference}\nB: {variant}\n{} of agings, {} of {}, {}\n\n",
        wrapped(&sentence(&spec, &judged, failed)),
        number_of(agings.pairs().count(), "pair"),
        spec.size,
        spec.aging.profile,
        number_of(spec.aging.overwrites, "overwrite"),
    );
    let _ = writeln!(text, "{:<26}{:>10}{:>10}{:>9}  verdict", "metric (* decides)", "A", "B", "B/A - 1");
    for one in &judged {
        let number = |value: Option<f64>| value.map_or_else(|| "-".into(), significant);
        let change = one.ratio.map_or_else(|| "-".into(), |ratio| percent(ratio.value, spec.gate.minimum_effect));
        let name = format!("{}{}", if one.primary { "* " } else { "  " }, one.metric);
        let (a, b) = (number(one.reference), number(one.variant));
        let _ = writeln!(text, "{name:<26}{a:>10}{b:>10}{change:>9}  {}", one.verdict.word());
    }
    if let Some(note) = unused_commit_time(&spec) {
        let _ = writeln!(text, "\n{}", wrapped(&format!("note: {note}")));
    }
    Ok(text)
}

/// Wraps a text into lines of at most 72 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if last.len() + word.len() < 72 => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n")
}

/// Makes one test per primary metric, and one whether all agings succeeded.
///
/// # Errors
/// The record is not that of a gate.
pub fn cases(record: &Record) -> Result<Vec<Case>, Failure> {
    let (spec, agings, failed) = of(record)?;
    let judged = judge_all(&spec, &agings);
    let limit = significant(spec.gate.minimum_effect * 100.0);
    let case = |one: &MetricVerdict| {
        let details = change(one, spec.gate.minimum_effect);
        let status = match one.verdict {
            Verdict::Worse => Status::Failed(format!("worse: {details}, limit {limit} %")),
            Verdict::NotTestable => Status::Skipped(one.text()),
            _ => Status::Passed,
        };
        Case { class: spec.name.clone(), name: one.metric.into(), status, details }
    };
    let status = if failed > 0 { Status::Failed(format!("{failed} failed")) } else { Status::Passed };
    let all = Case { class: spec.name.clone(), name: "agings".into(), status, details: String::new() };
    Ok(std::iter::once(all).chain(judged.iter().filter(|one| one.primary).map(case)).collect())
}

/// Returns both means, their change and its interval, as `2276 to 2734, +20.1 % (+5.8 % to +36.4 %)`.
fn change(one: &MetricVerdict, effect: f64) -> String {
    let (Some(a), Some(b), Some(ratio)) = (one.reference, one.variant, one.ratio) else { return String::new() };
    let percent = |ratio| percent(ratio, effect);
    format!("{} to {}, {} ({})", significant(a), significant(b), percent(ratio.value), ratio.ends_text(percent))
}

/// Reads the gate, its agings, and the number of failures.
pub(crate) fn of(record: &Record) -> Result<(GateSpec, CompletedAgings, usize), Failure> {
    if record.plan.kind != Gate::KIND {
        return Err(Failure::usage(format!("{} is not the record of a gate", record.plan.kind)));
    }
    let recorded = Recorded::<Gate>::of(record)?;
    Ok((spec_of::<Gate>(record)?, CompletedAgings::of(recorded.events()), recorded.failures().len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{agings, gate};
    use senesce_core::analysis::Better;
    use senesce_stats::Interval;

    #[test]
    fn sentence_names_the_metrics_that_decide() {
        let worse = judge_all(&gate(8), &agings(8, &mut |step| if step.side == 1 { 2000.0 } else { 1000.0 }));
        let text = sentence(&gate(8), &worse, 0);
        assert!(text.contains("discontinuities, free extents") && !text.contains("metadata"), "{text}");
        let count =
            |primary| worse.iter().filter(|one| one.primary == primary && one.verdict == Verdict::Worse).count();
        assert!(text.contains(&format!("Primary metrics: {} worse", count(true))), "{text}");
        assert_eq!(verdict_counts(worse.iter().filter(|one| one.verdict == Verdict::Worse)).split(' ').count(), 2);
    }

    #[test]
    fn shown_change_does_not_contradict_the_minimum_effect() {
        let shown = [1.0302, 1.03, 0.9704, 1.2].map(|ratio| percent(ratio, 0.03));
        assert_eq!(shown, ["+3.02 %", "+3.0 %", "-2.96 %", "+20.0 %"]);
    }

    #[test]
    fn not_excluded_lists_only_metrics_that_may_be_worse() {
        let mut judged = judge_all(&gate(8), &agings(8, &mut |_| 1000.0));
        let intervals = [(0.757, 0.979), (0.683, 0.982), (0.96, 1.02), (0.9, 1.05), (0.9, 1.2), (0.9, 1.2)];
        for (one, (low, high)) in judged.iter_mut().zip(intervals) {
            one.verdict = Verdict::Undecided;
            one.ratio = Some(Interval { value: f64::midpoint(low, high), low, high, confidence: 0.999 });
        }
        assert_eq!(not_excluded(&judged, 0.03), ["extents of a slow append"], "secondary metrics decide nothing");
        assert_eq!(not_excluded(&judged[..3], 0.03), [""; 0]);
        let higher = MetricVerdict { better: Better::Higher, ..judged[0].clone() };
        assert_eq!(not_excluded(&[higher], 0.03), ["discontinuities"]);
        let unknown = MetricVerdict { ratio: None, ..judged[0].clone() };
        assert_eq!(not_excluded(&[unknown], 0.03), ["discontinuities"], "an interval is missing");
    }

    #[test]
    fn change_has_both_means_and_the_interval() {
        let worse = judge_all(&gate(8), &agings(8, &mut |step| if step.side == 1 { 2000.0 } else { 1000.0 }));
        let found = change(&worse[0], 0.03);
        assert!(["1000 to 2000", "+100.0 %"].iter().all(|part| found.contains(part)), "{found}");
        assert_eq!(change(&MetricVerdict { ratio: None, ..worse[0].clone() }, 0.03), "");
    }

    #[test]
    fn wrapped_lines_have_at_most_72_columns() {
        let text = wrapped(&"word ".repeat(60));
        assert!(text.lines().count() > 3 && text.lines().all(|line| line.len() <= 72));
    }
}
