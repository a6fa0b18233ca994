//! Decides claims from measurements.

use crate::claim::{Claim, ClaimSet, Control, Possible, Work};
use crate::holds::ConditionScope;
use crate::judge::{Context, cases};
use crate::listing::Listing;
use crate::missing;
use crate::rule::Rule;
use crate::sample::Evidence;
use crate::truth::{Case, OpenReason, Truth, combine};
use senesce_core::measurement::Seconds;
use senesce_core::{Finding, Level, Measurement, Verdict};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Facts about a run that rules need in addition to its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub level: Level,
    /// The simulator or device model of the values ("sim:zn540"). Claims that it was fitted to or has as input can only agree
    /// or differ.
    pub model: Option<String>,
    /// A model of the user, whose inputs are unknown here. Claims that do not name another drive can only agree or differ.
    pub own_model: Option<String>,
    /// Whether all values come from a deterministic program, whose repetitions are identical.
    pub deterministic: bool,
    /// Whether all times are those of an emulated processor (TCG) or drive and decide nothing. If only some are, their
    /// [`Seconds`] mark them.
    pub emulated: bool,
    pub root: bool,
    /// Claims' names of the drives in use ("hdd", "zn540").
    pub drives: Vec<String>,
    /// Whether measurements are shorter than at the quick scale.
    pub short: bool,
    /// Whether the run ended before its last step.
    pub stopped: bool,
    /// Whether images are the independent units: a single image then decides nothing but exact values.
    pub images: bool,
    /// Parameters that the user chose differently from all scales: such a run is another experiment, and decides nothing.
    pub changed: Vec<String>,
}

impl Facts {
    pub fn of(level: Level) -> Self {
        Self {
            level,
            model: None,
            own_model: None,
            deterministic: false,
            emulated: false,
            root: true,
            drives: Vec::new(),
            stopped: false,
            short: false,
            images: false,
            changed: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub measured: String,
    /// Number of the first measured values that contradict the claim.
    pub contradicting: usize,
    /// Why the verdict is not "supported" or "not supported": the same words for all claims with the same obstacle.
    pub reason: String,
    pub note: String,
}

impl Judgement {
    fn not_testable(why: impl Into<OpenReason>) -> Self {
        let OpenReason { reason, detail } = why.into();
        Self { verdict: Verdict::NotTestable, measured: String::new(), contradicting: 0, reason, note: detail }
    }
}

pub fn decide(set: &ClaimSet, measurements: &[Measurement], facts: &Facts) -> Vec<Finding> {
    let of = |claim: &Claim| {
        let judgement = judge(claim, set, measurements, facts);
        Finding {
            measured: judgement.measured,
            contradicting: judgement.contradicting,
            verdict: judgement.verdict,
            reason: judgement.reason,
            note: sentences([judgement.note, claim.note.clone()]),
            ..finding(claim, set)
        }
    };
    set.claims.iter().map(of).collect()
}

/// Returns all claims without a run, and the document that each counts to.
pub fn unjudged(set: &ClaimSet) -> Vec<(Work, Finding)> {
    set.claims.iter().map(|claim| (claim.source.work.document(), finding(claim, set))).collect()
}

fn finding(claim: &Claim, set: &ClaimSet) -> Finding {
    Finding {
        id: claim.id.clone(),
        claim: claim.sentence.clone(),
        source: claim.source.citation(),
        work: claim.source.work.citation().into(),
        place: claim.source.place.clone(),
        stated: claim.source.is_document(),
        published: claim.published.text(&set.rows),
        rule_text: claim.rule_text(),
        measured: String::new(),
        contradicting: 0,
        verdict: Verdict::NotRun,
        reason: String::new(),
        note: claim.note.clone(),
    }
}

/// Lists the testable claims about which these measurements decide nothing on any drive.
pub fn untested(set: &ClaimSet, measurements: &[Measurement]) -> Vec<String> {
    let drives = set.claims.iter().filter_map(|claim| claim.drive.clone()).collect();
    let facts = Facts { drives, ..Facts::of(Level::Paper) };
    let testable = set.claims.iter().filter(|claim| !matches!(claim.rule, Rule::NotTestable { .. }));
    let silent = testable.filter(|claim| judge(claim, set, measurements, &facts).verdict == Verdict::NotTestable);
    silent.map(|claim| claim.id.clone()).collect()
}

pub fn judge(claim: &Claim, set: &ClaimSet, measurements: &[Measurement], facts: &Facts) -> Judgement {
    if let Rule::NotTestable { why } = &claim.rule {
        return Judgement::not_testable(why.as_str());
    }
    if let Some(drive) = &claim.drive
        && !facts.drives.contains(drive)
    {
        let used = listed(&facts.drives);
        return Judgement::not_testable(format!("the claim is about {drive}; this run used {used}"));
    }
    let (measurements, emulators) = &split_by_clock(measurements, facts);
    let published = claim.published.numbers(&set.rows);
    let evidence = Evidence { measurements, exact: &set.exact, all_exact: facts.deterministic, by_round: set.by_round };
    if let Some(note) = other_unit(claim, set, measurements) {
        return Judgement::not_testable(note);
    }
    let context = Context { evidence, published: &published, rows: &set.rows };
    let cases = cases(&claim.rule, &context);
    let emulators: Vec<&Measurement> = emulators.iter().filter(|one| concerns(claim, set, one)).collect();
    // A table without some of its rows is a different table.
    if matches!(claim.rule, Rule::Table { .. }) && !emulators.is_empty() {
        return Judgement::not_testable(
            "rows of the table are times under an emulated processor, which decide nothing",
        );
    }
    let Some(truth) = combine(&cases, &claim.holds) else {
        return Judgement::not_testable(match emulators.is_empty() {
            true => missing::unmeasured(claim, measurements, facts),
            false => "times under an emulated processor decide nothing".into(),
        });
    };
    let left_out = if emulators.is_empty() { "" } else { "times under an emulated processor are omitted" };
    let Listing { text: measured, contradicting } = Listing::of(&cases, &claim.holds);
    if let Some(why) = impossible(claim, &context) {
        return Judgement { measured, ..Judgement::not_testable(why) };
    }
    let truth = clear(claim, truth, &context);
    let (truth, control) = controlled(claim, truth, &context);
    let absent = missing::absent(claim, measurements);
    let truth = reserved(claim, truth, &absent, facts);
    let (truth, alone) = represented(claim, set, truth, measurements, facts);
    let (verdict, why) = verdict(claim, truth, facts);
    let note = sentences([why.detail, control, missing::words(&absent), alone.into(), left_out.into()]);
    let contradicting = if verdict.contradicts() { contradicting } else { 0 };
    Judgement { verdict, measured, contradicting, reason: why.reason, note }
}

fn verdict(claim: &Claim, truth: Truth, facts: &Facts) -> (Verdict, OpenReason) {
    let of_model = |plain: Verdict, model: Verdict| match model_objection(claim, facts) {
        Some(why) => (model, why.into()),
        None => (plain, "".into()),
    };
    match truth {
        Truth::Yes => of_model(Verdict::Supported, Verdict::ModelAgrees),
        Truth::No => of_model(Verdict::NotSupported, Verdict::ModelDiffers),
        Truth::Open(why) if facts.level == Level::Smoke => {
            (Verdict::Undecided, OpenReason { reason: format!("{} (at smoke scale)", why.reason), ..why })
        }
        Truth::Open(why) => (Verdict::Undecided, why),
    }
}

/// Returns the reason if no result could meet the claim.
fn impossible(claim: &Claim, context: &Context<'_>) -> Option<OpenReason> {
    let Possible { of, within, why } = claim.possible.as_ref()?;
    let found = cases(&Rule::Value { of: of.clone(), within: *within }, context);
    let beyond: Vec<Case> = found.into_iter().filter(|case| case.truth == Truth::No).collect();
    (!beyond.is_empty())
        .then(|| OpenReason { reason: why.clone(), detail: format!("[{}]: {}", of.metric, text(&beyond)) })
}

/// Returns the truth, or open if the result is certainly outside of the bounds and not certainly unlike the claim.
fn clear(claim: &Claim, truth: Truth, context: &Context<'_>) -> Truth {
    let Some(unclear) = claim.unclear.filter(|_| truth == Truth::No) else { return truth };
    match combine(&cases(&claim.rule.with_bounds(unclear), context), &claim.holds) {
        Some(Truth::No) => Truth::No,
        _ => Truth::Open("it is outside of the bounds, but the work states no tolerance".into()),
    }
}

/// Returns the truth if the run covers the claim. A run that was stopped or that measured only some of the named
/// conditions cannot support a claim about all of them. Nor can it contradict a claim about any of them. A short run at
/// the smoke scale contradicts nothing.
fn reserved(claim: &Claim, truth: Truth, absent: &BTreeSet<String>, facts: &Facts) -> Truth {
    let is_partial = match truth {
        Truth::Yes => needs_all(claim).0,
        Truth::No => needs_all(claim).1,
        Truth::Open(_) => return truth,
    };
    if !facts.changed.is_empty() {
        let detail = format!("changed: {}", facts.changed.join(", "));
        return Truth::Open(OpenReason {
            reason: "the run has parameters that no scale of the experiment has".into(),
            detail,
        });
    }
    if facts.stopped && (is_partial || truth == Truth::No) {
        return Truth::Open("the run was stopped before its end".into());
    }
    if !absent.is_empty() && is_partial {
        return Truth::Open("only some of the named conditions were measured".into());
    }
    let is_smoke = facts.level == Level::Smoke;
    match truth {
        Truth::Yes if is_smoke && is_partial && model_objection(claim, facts).is_none() => {
            Truth::Open("a larger scale may show exceptions".into())
        }
        Truth::No if is_smoke || facts.short => Truth::Open("short runs contradict no claim".into()),
        other => other,
    }
}

/// Returns whether all conditions are needed to support a claim, and whether they are needed to contradict it.
fn needs_all(claim: &Claim) -> (bool, bool) {
    match (&claim.rule, &claim.holds) {
        // A coefficient over some of the points is another one.
        (Rule::Correlation { .. }, _) => (true, true),
        (_, ConditionScope::Share { .. }) => (true, true),
        (Rule::Rank { changes: true, .. }, _) | (_, ConditionScope::Any) => (false, true),
        _ => (true, false),
    }
}

/// Returns the truth if the control holds, or open if repeated measurements of one condition differ significantly. Also
/// returns the control's result in words.
fn controlled(claim: &Claim, truth: Truth, context: &Context<'_>) -> (Truth, String) {
    let Some(Control { of, to, within }) = &claim.control else { return (truth, String::new()) };
    let rule = Rule::Ratio { of: of.clone(), to: to.clone(), within: *within };
    let found = cases(&rule, context);
    match combine(&found, &ConditionScope::Every) {
        None => (truth, format!("[{of}] was not measured, so the noise of the machine is unknown")),
        Some(Truth::No) => {
            let reason = "the same condition measured twice differs; repeat it on a quieter machine".into();
            let detail = format!("measured twice: {}", text(&found));
            (Truth::Open(OpenReason { reason, detail }), String::new())
        }
        Some(Truth::Open(_)) if truth.is_decided() => {
            let reason = "noise: the same condition measured twice is not shown to be equal".into();
            let detail = format!("measured twice: {}", text(&found));
            (Truth::Open(OpenReason { reason, detail }), String::new())
        }
        Some(_) => (truth, format!("the same condition measured twice: {}", text(&found))),
    }
}

/// Returns the reason why a model's result is not evidence for a claim, or `None`.
fn model_objection(claim: &Claim, facts: &Facts) -> Option<String> {
    if let (None, Some(own)) = (&claim.drive, &facts.own_model) {
        return Some(format!("{own} is your own model: its fit and its inputs are not known here"));
    }
    let model = facts.model.as_deref()?;
    claim.fitted.then(|| format!("{model} was fitted to this value or has it as an input"))
}

/// Returns the valid values, and those measured by the clock of an emulated processor.
fn split_by_clock<'a>(measurements: &'a [Measurement], facts: &Facts) -> (Cow<'a, [Measurement]>, Vec<Measurement>) {
    let is_emulators = |one: &Measurement| one.is_timing() && (facts.emulated || one.seconds == Seconds::Emulator);
    if !measurements.iter().any(is_emulators) {
        return (Cow::Borrowed(measurements), Vec::new());
    }
    let (emulators, real) = measurements.iter().cloned().partition(is_emulators);
    (Cow::Owned(real), emulators)
}

fn concerns(claim: &Claim, set: &ClaimSet, one: &Measurement) -> bool {
    match &claim.rule {
        Rule::Table { rows, .. } => set
            .rows
            .iter()
            .any(|row| rows.admits(&row.published.metric, &row.conditions()) && row.published.metric == one.metric),
        rule => rule.selections().iter().any(|selection| selection.admits(&one.metric, &one.condition)),
    }
}

/// Returns a note if the unit of a value differs from the published one. No tolerance compensates for that.
fn other_unit(claim: &Claim, set: &ClaimSet, measurements: &[Measurement]) -> Option<String> {
    let Rule::Value { of, within } = &claim.rule else { return None };
    let published = claim.published.unit(&set.rows);
    let found = of.of(measurements);
    let other = found.iter().find(|one| within.of_published() && !published.is_empty() && one.unit != published)?;
    Some(format!("[{of}] was measured in '{}' and published in '{published}'", other.unit))
}

/// Returns the truth and a note, or open if values with a random error are those of a single image.
fn represented(
    claim: &Claim,
    set: &ClaimSet,
    truth: Truth,
    measurements: &[Measurement],
    facts: &Facts,
) -> (Truth, &'static str) {
    let selections = claim.rule.selections();
    let values = selections.iter().flat_map(|selection| selection.of(measurements));
    let images: BTreeSet<u32> = values.map(|one| one.image).collect();
    if !facts.images || !truth.is_decided() || images.len() > 1 {
        return (truth, "");
    }
    match facts.deterministic || selections.iter().all(|one| set.exact.contains(&one.metric)) {
        true => (truth, "one image: the verdict is valid for this image only"),
        false => (Truth::Open("one image represents only itself: at least two are needed".into()), ""),
    }
}

/// Lists the cases of a control or of a precondition.
fn text(cases: &[Case]) -> String {
    Listing::of(cases, &ConditionScope::Every).text
}

fn listed(words: &[String]) -> String {
    if words.is_empty() { "none that has a name".into() } else { words.join(", ") }
}

fn sentences<const N: usize>(parts: [String; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
