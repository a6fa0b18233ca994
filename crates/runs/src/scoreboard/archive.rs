//! Scoreboards as JSON documents: what a repository keeps of its runs.

use super::{AllTested, CurrentClaim, Document, ExperimentResult, RunFacts, Scoreboard, TestedRun, UsedRun, results};
use senesce_claims::Limits;
use senesce_core::Failure;
use senesce_core::analysis::{Finding, score_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Name and version of the JSON document.
const SCHEMA: &str = "senesce-scoreboard/3";

/// A claim in the document.
#[derive(Serialize, Deserialize)]
struct ArchivedClaim {
    experiment: String,
    rule: String,
    #[serde(flatten)]
    finding: Finding,
    run: Option<UsedRun>,
}

#[derive(Deserialize)]
struct ArchivedDocument {
    claims: Vec<ArchivedClaim>,
}

#[derive(Deserialize)]
struct Header {
    schema: String,
}

#[derive(Deserialize)]
struct Archive {
    documents: Vec<ArchivedDocument>,
    other_works: Vec<ArchivedDocument>,
    results: Vec<ExperimentResult>,
}

/// Objects and lists above a claim.
const LEVELS: usize = 4;

impl Scoreboard {
    /// Returns the document of [`Self::to_json`] as text.
    pub fn to_text(&self) -> String {
        text(&self.to_json(), LEVELS) + "\n"
    }

    pub fn to_json(&self) -> Value {
        let of = |is_main: bool| -> Vec<Value> {
            self.documents.iter().filter(|one| one.is_main() == is_main).map(Document::to_json).collect()
        };
        json!({
            "schema": SCHEMA,
            "runs": self.runs,
            "unread": self.unread,
            "documents": of(true),
            "other_works": of(false),
            "results": self.results,
        })
    }
}

/// Formats JSON with a line for each claim and each part of a result, so that changes are visible in version control.
fn text(value: &Value, levels: usize) -> String {
    let joined = |open: char, parts: Vec<String>, close: char| format!("{open}\n{}\n{close}", parts.join(",\n"));
    match value {
        Value::Object(members) if levels > 0 && !members.is_empty() => {
            let member = |(key, value): (&String, &Value)| format!("{}: {}", json!(key), text(value, levels - 1));
            joined('{', members.iter().map(member).collect(), '}')
        }
        Value::Array(items) if levels > 0 && !items.is_empty() => {
            joined('[', items.iter().map(|item| text(item, levels - 1)).collect(), ']')
        }
        other => other.to_string(),
    }
}

impl Document {
    fn to_json(&self) -> Value {
        let findings: Vec<Finding> = self.entries.iter().map(|entry| entry.finding.clone()).collect();
        let claim = |entry: &super::ScoreboardEntry| ArchivedClaim {
            experiment: entry.experiment.into(),
            rule: entry.rule.clone(),
            finding: entry.finding.clone(),
            run: entry.run.clone(),
        };
        json!({
            "document": self.work.citation(),
            "score": score_json(&findings),
            "claims": self.entries.iter().map(claim).collect::<Vec<_>>(),
        })
    }
}

/// Adds the claims of an archived scoreboard, grouped by run, with the sources of this version. Returns those whose rule or
/// published values this version has changed, or that it no longer has: their verdicts do not count.
pub(super) fn read(
    path: &Path,
    claims: &[CurrentClaim],
    tested: &mut AllTested,
    results: &mut Vec<ExperimentResult>,
) -> Result<Vec<String>, Failure> {
    let refuse = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = senesce_core::input::text(path).map_err(|error| refuse(error.to_string()))?;
    let Header { schema } = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    if schema != SCHEMA {
        return Err(refuse(format!("{schema}, not {SCHEMA}")));
    }
    let archive: Archive = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    archive.results.into_iter().for_each(|result| results::keep(results, result));
    let mut discarded = Vec::new();
    for archived in archive.documents.into_iter().chain(archive.other_works).flat_map(|document| document.claims) {
        let ArchivedClaim { experiment, rule, finding, run } = archived;
        let Some(UsedRun { facts, .. }) = run else { continue };
        let is_same = |claim: &&CurrentClaim| {
            (claim.experiment, &claim.rule, &claim.finding.id) == (&experiment, &rule, &finding.id)
        };
        let Some(CurrentClaim { finding: now, limits, .. }) = claims.iter().find(is_same) else {
            discarded.push(format!("{experiment} {}: this version uses a different rule", finding.id));
            continue;
        };
        let Finding { source, work, place, stated, rule_text, .. } = now.clone();
        let finding = Finding { source, work, place, stated, rule_text, ..counted(finding, limits) };
        findings_of(tested.entry(experiment).or_default(), facts).insert(finding.id.clone(), finding);
    }
    Ok(discarded)
}

/// Returns the finding with the contradicting values first, and their number, which older archives do not have.
fn counted(finding: Finding, limits: &Limits) -> Finding {
    if !finding.verdict.contradicts() || finding.contradicting > 0 {
        return finding;
    }
    let (measured, contradicting) = limits.contradicting_first(&finding.measured);
    Finding { measured, contradicting, ..finding }
}

fn findings_of(runs: &mut Vec<TestedRun>, run: RunFacts) -> &mut BTreeMap<String, Finding> {
    let at = runs.iter().position(|known| known.run == run).unwrap_or_else(|| {
        runs.push(TestedRun { run, findings: BTreeMap::new() });
        runs.len() - 1
    });
    &mut runs[at].findings
}

#[cfg(test)]
mod tests {
    use super::super::{ScoreboardEntry, claims_of};
    use super::*;
    use senesce_claims::{ClaimSet, Work};
    use senesce_core::Analysis;
    use senesce_core::analysis::Verdict;

    const CLAIMS: &str = r#"
        [[claim]]
        id = "a"
        sentence = "A is large."
        source = { work = "geriatrix", place = "section 1" }
        published = { words = "always" }
        [claim.rule.value]
        of = "size"
        within = { at-least = 10.0 }
    "#;

    fn claims(text: &str) -> Vec<CurrentClaim> {
        claims_of("e", &ClaimSet::parse(text, "").unwrap())
    }

    /// Returns a scoreboard with the claim, as one run supports it.
    fn board() -> Scoreboard {
        let CurrentClaim { experiment, rule, finding, .. } = claims(CLAIMS).remove(0);
        let finding = Finding { verdict: Verdict::Supported, measured: "11".into(), ..finding };
        let facts = RunFacts { name: "run".into(), load: Some(1.5), seed: Some(u64::MAX), ..RunFacts::default() };
        let run = Some(UsedRun { facts, others: 0, contrary: 0 });
        let document =
            Document { work: Work::Geriatrix, entries: vec![ScoreboardEntry { experiment, rule, finding, run }] };
        let facts = RunFacts { name: "run".into(), ..RunFacts::default() };
        let analysis = Analysis { title: "E".into(), ..Analysis::default() };
        let results = vec![ExperimentResult { experiment: "e".into(), run: facts, analysis }];
        Scoreboard { documents: vec![document], results, runs: 1, unread: Vec::new() }
    }

    #[test]
    fn archived_runs_are_read_again_and_changed_rules_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board.json");
        let board = board();
        assert_eq!(serde_json::from_str::<Value>(&board.to_text()).unwrap(), board.to_json());
        std::fs::write(&path, board.to_text()).unwrap();
        let read = |claims: &[CurrentClaim]| {
            let mut tested = AllTested::new();
            let mut results = Vec::new();
            let discarded = read(&path, claims, &mut tested, &mut results).unwrap();
            assert_eq!(results, board.results);
            (tested, discarded.len())
        };
        let (tested, discarded) = read(&claims(CLAIMS));
        let entry = &board.documents[0].entries[0];
        assert_eq!((&tested["e"][0].findings["a"], discarded), (&entry.finding, 0));
        assert_eq!(tested["e"][0].run, entry.run.as_ref().unwrap().facts);
        for (old, new) in [("always", "often"), ("10.0", "12.0"), ("is large", "is small")] {
            assert_eq!(read(&claims(&CLAIMS.replace(old, new))), (AllTested::new(), 1), "{new}");
        }
        let (moved, discarded) = read(&claims(&CLAIMS.replace("section 1", "section 2")));
        assert_eq!((moved["e"][0].findings["a"].place.as_str(), discarded), ("section 2", 0));
    }

    #[test]
    fn contradicting_values_of_older_archives_are_counted() {
        let CurrentClaim { finding, limits, .. } = claims(CLAIMS).remove(0);
        let measured = "fs=a: 12; fs=b: 9";
        let of = |verdict| {
            let counted = counted(Finding { verdict, measured: measured.into(), ..finding.clone() }, &limits);
            (counted.measured, counted.contradicting)
        };
        assert_eq!(of(Verdict::NotSupported), ("fs=b: 9; fs=a: 12".into(), 1));
        assert_eq!(of(Verdict::Undecided), (measured.into(), 0));
    }

    #[test]
    fn other_documents_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board.json");
        for text in [r#"{"schema": "senesce-scoreboard/2"}"#, "{}", "no JSON"] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path, &[], &mut AllTested::new(), &mut Vec::new()).is_err(), "{text}");
        }
    }
}
