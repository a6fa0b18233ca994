//! The order in which a report answers: the answer, the score, the leading figures, then the claims by outcome.

use senesce_core::analysis::{Analysis, Finding, Verdict};

/// Returns the answer in one sentence: the first paragraph of the summary if it has several, else what the claims show.
pub fn answer(analysis: &Analysis) -> Option<String> {
    match analysis.summary.split_once("\n\n") {
        Some((answer, _)) => Some(answer.trim().to_string()),
        None => of_findings(&analysis.findings),
    }
}

/// Returns the summary without the answer.
pub fn method(analysis: &Analysis) -> &str {
    analysis.summary.split_once("\n\n").map_or(analysis.summary.as_str(), |(_, rest)| rest)
}

fn of_findings(findings: &[Finding]) -> Option<String> {
    let any_stated = findings.iter().any(|finding| finding.stated);
    let asked: Vec<&Finding> = findings.iter().filter(|finding| finding.stated == any_stated).collect();
    let with =
        |verdict: Verdict| asked.iter().copied().filter(|finding| finding.verdict == verdict).collect::<Vec<_>>();
    for (verdict, words) in [
        (Verdict::NotSupported, "Not supported here"),
        (Verdict::Supported, "Supported here"),
        (Verdict::ModelDiffers, "The model differs from a value that it knows"),
        (Verdict::ModelAgrees, "The model agrees with a value that it knows"),
    ] {
        if let [first, others @ ..] = &with(verdict)[..] {
            let more = if others.is_empty() { String::new() } else { format!(" ({} more below)", others.len()) };
            return Some(format!("{words}: {}{more}", with_values(first)));
        }
    }
    let reason = reasons(&asked).into_iter().max_by_key(|(_, all)| all.len())?.0;
    let what = if any_stated { "statement of the paper" } else { "claim" };
    Some(format!("This run decides no {what}; the most frequent reason: {reason}."))
}

fn with_values(finding: &Finding) -> String {
    let claim = finding.claim.trim_end_matches('.');
    let values: Vec<String> = [("published", &finding.published), ("measured", &finding.measured)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}: {}", value.split("; ").next().unwrap_or_default()))
        .collect();
    if values.is_empty() { format!("{claim}.") } else { format!("{claim}; {}.", values.join(", ")) }
}

fn reasons<'a>(findings: &[&'a Finding]) -> Vec<(&'a str, Vec<&'a Finding>)> {
    let mut groups: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        match groups.iter_mut().find(|(known, _)| *known == finding.reason) {
            Some((_, all)) => all.push(finding),
            None => groups.push((&finding.reason, vec![finding])),
        }
    }
    groups
}

/// Claims with the same outcome: the decided ones, or those with one reason for no decision.
pub struct Block<'a> {
    /// Heading, with the reason if nothing was decided.
    pub title: String,
    /// Whether its claims have different verdicts.
    pub shows_verdicts: bool,
    pub groups: Vec<Group<'a>>,
}

/// Claims from one figure, section or table.
pub struct Group<'a> {
    pub source: String,
    pub findings: Vec<&'a Finding>,
}

/// Returns the work of all statements, or else of all claims, if there is only one. Pages name it once above them.
pub fn common_work(findings: &[Finding]) -> Option<&str> {
    let any_stated = findings.iter().any(|finding| finding.stated);
    let asked = findings.iter().filter(|finding| finding.stated == any_stated);
    let mut works = asked.map(|finding| finding.work.as_str());
    let first = works.next().filter(|work| !work.is_empty())?;
    works.all(|work| work == first).then_some(first)
}

/// Groups the claims: decided ones, those of a model, and then by reason the undecided and the untested.
pub fn blocks(findings: &[Finding]) -> Vec<Block<'_>> {
    let common = common_work(findings);
    let of = |wanted: fn(Verdict) -> bool| -> Vec<&Finding> {
        let mut all: Vec<&Finding> = findings.iter().filter(|finding| wanted(finding.verdict)).collect();
        all.sort_by_key(|finding| !finding.stated);
        all
    };
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let decided = of(Verdict::is_decided);
    if !decided.is_empty() {
        blocks.push(Block { title: "Decided".into(), shows_verdicts: true, groups: grouped(decided, common) });
    }
    for (title, shows_verdicts, wanted) in [
        ("Compared with a model", true, Verdict::is_of_model as fn(Verdict) -> bool),
        ("Undecided", false, |verdict| verdict == Verdict::Undecided),
        ("Not testable here", false, |verdict| verdict == Verdict::NotTestable),
        ("Not run", false, |verdict| verdict == Verdict::NotRun),
    ] {
        let mut reasons = reasons(&of(wanted));
        reasons.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
        let titled = |reason: &str| if reason.is_empty() { title.to_string() } else { format!("{title}: {reason}") };
        for (reason, all) in reasons {
            blocks.push(Block { title: titled(reason), shows_verdicts, groups: grouped(all, common) });
        }
    }
    blocks
}

fn grouped<'a>(findings: Vec<&'a Finding>, common: Option<&str>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for finding in findings {
        let source = source_in(finding, common);
        match groups.iter_mut().find(|group| group.source == source) {
            Some(group) => group.findings.push(finding),
            None => groups.push(Group { source, findings: vec![finding] }),
        }
    }
    groups
}

/// Returns the place in the common work, or the whole source.
fn source_in(finding: &Finding, common: Option<&str>) -> String {
    let is_common = common.is_some_and(|work| work == finding.work);
    let source = if is_common { &finding.place } else { &finding.source };
    match (finding.stated, source.is_empty()) {
        (true, _) => source.clone(),
        (false, true) => "added by senesce".into(),
        (false, false) => format!("added by senesce: {source}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(claim: &str, place: &str, verdict: Verdict, reason: &str) -> Finding {
        Finding {
            claim: claim.into(),
            work: "W".into(),
            place: place.into(),
            source: format!("W, {place}"),
            stated: true,
            verdict,
            reason: reason.into(),
            ..Finding::default()
        }
    }

    #[test]
    fn decided_claims_come_first_and_each_reason_once() {
        let findings = [
            finding("a", "Figure 1", Verdict::NotTestable, "no drive"),
            finding("b", "Figure 1", Verdict::Undecided, "too few"),
            finding("c", "Figure 2", Verdict::Supported, ""),
            finding("d", "Figure 2", Verdict::Undecided, "too few"),
            Finding { stated: false, ..finding("e", "Figure 2", Verdict::NotSupported, "") },
        ];
        let found = blocks(&findings);
        let titles: Vec<&str> = found.iter().map(|block| block.title.as_str()).collect();
        assert_eq!(titles, ["Decided", "Undecided: too few", "Not testable here: no drive"]);
        let sources = |block: &Block<'_>| block.groups.iter().map(|group| group.source.clone()).collect::<Vec<_>>();
        assert_eq!(sources(&found[0]), ["Figure 2", "added by senesce: Figure 2"]);
        assert_eq!(sources(&found[1]), ["Figure 1", "Figure 2"]);
    }

    #[test]
    fn answer_states_the_refuted_claim_or_the_most_frequent_reason() {
        let analysis = |findings: Vec<Finding>| Analysis { summary: "How.".into(), findings, ..Analysis::default() };
        let open = || finding("b.", "Figure 1", Verdict::Undecided, "too few");
        let refuted = Finding {
            published: "30 times".into(),
            measured: "1.5 times".into(),
            ..finding("It is slow.", "Figure 1", Verdict::NotSupported, "")
        };
        let found = answer(&analysis(vec![open(), refuted])).unwrap();
        assert_eq!(found, "Not supported here: It is slow; published: 30 times, measured: 1.5 times.");
        let none = answer(&analysis(vec![open()])).unwrap();
        assert_eq!(none, "This run decides no statement of the paper; the most frequent reason: too few.");
        assert_eq!(answer(&analysis(vec![])), None);
        let without_claims = Analysis { summary: "Age costs half.\n\nHow.".into(), ..Analysis::default() };
        assert_eq!((answer(&without_claims).as_deref(), method(&without_claims)), (Some("Age costs half."), "How."));
    }
}
