//! Scoreboards as JSON documents: what a repository keeps of its runs.

use super::{AllTested, Document, RunFacts, Scoreboard, Tested, UsedRun};
use senesce_claims::{ClaimSet, unjudged};
use senesce_core::Failure;
use senesce_core::analysis::{Finding, score_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Name and version of the JSON document.
const SCHEMA: &str = "senesce-scoreboard/2";

/// A claim in the document.
#[derive(Serialize, Deserialize)]
struct ArchivedClaim {
    experiment: String,
    #[serde(flatten)]
    finding: Finding,
    run: Option<UsedRun>,
}

#[derive(Deserialize)]
struct ArchivedDocument {
    claims: Vec<ArchivedClaim>,
}

#[derive(Deserialize)]
struct Archive {
    schema: String,
    documents: Vec<ArchivedDocument>,
    other_works: Vec<ArchivedDocument>,
}

impl Scoreboard {
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
        })
    }
}

impl Document {
    fn to_json(&self) -> Value {
        let findings: Vec<Finding> = self.entries.iter().map(|entry| entry.finding.clone()).collect();
        let claim = |entry: &super::Entry| ArchivedClaim {
            experiment: entry.experiment.into(),
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

/// Adds the claims of an archived scoreboard, grouped by run.
pub(super) fn read(path: &Path, tested: &mut AllTested) -> Result<(), Failure> {
    let refuse = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = senesce_core::input::text(path).map_err(|error| refuse(error.to_string()))?;
    let archive: Archive = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    if archive.schema != SCHEMA {
        return Err(refuse(format!("{}, not {SCHEMA}", archive.schema)));
    }
    for claim in archive.documents.into_iter().chain(archive.other_works).flat_map(|document| document.claims) {
        let Some(UsedRun { facts, .. }) = claim.run else { continue };
        let finding = (claim.finding.id.clone(), claim.finding);
        findings_of(tested.entry(claim.experiment).or_default(), facts).extend([finding]);
    }
    Ok(())
}

fn findings_of(runs: &mut Vec<Tested>, run: RunFacts) -> &mut BTreeMap<String, Finding> {
    let at = runs.iter().position(|known| known.run == run).unwrap_or_else(|| {
        runs.push(Tested { run, findings: BTreeMap::new() });
        runs.len() - 1
    });
    &mut runs[at].findings
}

/// Removes archived claims that this version states differently or no longer has, and names them. The others get the sources of this
/// version.
pub(super) fn discard_changed(sets: &[(&'static str, ClaimSet)], tested: &mut AllTested) -> Vec<String> {
    let mut discarded = Vec::new();
    for (experiment, runs) in tested {
        let set = sets.iter().find(|(kind, _)| kind == experiment).map(|(_, set)| set);
        let current: Vec<Finding> = set.into_iter().flat_map(unjudged).map(|(_, finding)| finding).collect();
        let same = |finding: &Finding| {
            let is_same = |one: &&Finding| {
                (&one.id, &one.claim, &one.published) == (&finding.id, &finding.claim, &finding.published)
            };
            current.iter().find(is_same).cloned()
        };
        for run in runs {
            run.findings.retain(|id, finding| {
                let Some(Finding { source, work, place, stated, .. }) = same(finding) else {
                    discarded.push(format!("{experiment} {id} of {}: this version has another claim", run.run.name));
                    return false;
                };
                *finding = Finding { source, work, place, stated, ..finding.clone() };
                true
            });
        }
    }
    discarded
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;
    use senesce_claims::Work;
    use senesce_core::analysis::Verdict;

    const CLAIMS: &str = r#"
        [[claim]]
        id = "a"
        sentence = "A holds."
        source = { work = "geriatrix", place = "section 1" }
        published = { words = "always" }
        [claim.rule.not-testable]
        why = "a test"
    "#;

    /// A scoreboard with the claim, as one run supports it.
    fn board(set: &ClaimSet) -> Scoreboard {
        let finding = Finding { verdict: Verdict::Supported, measured: "1".into(), ..unjudged(set).remove(0).1 };
        let facts = RunFacts { name: "run".into(), load: Some(1.5), seed: Some(u64::MAX), ..RunFacts::default() };
        let run = Some(UsedRun { facts, others: 0, contrary: 0 });
        let document = Document { work: Work::Geriatrix, entries: vec![Entry { experiment: "e", finding, run }] };
        Scoreboard { documents: vec![document], runs: 1, unread: Vec::new() }
    }

    #[test]
    fn archived_runs_are_read_again_and_changed_claims_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board.json");
        let set = ClaimSet::parse(CLAIMS, "").unwrap();
        let board = board(&set);
        std::fs::write(&path, board.to_json().to_string()).unwrap();
        let mut tested = AllTested::new();
        read(&path, &mut tested).unwrap();
        let entry = &board.documents[0].entries[0];
        assert_eq!(tested["e"][0].findings["a"], entry.finding);
        assert_eq!(tested["e"][0].run, entry.run.as_ref().unwrap().facts);
        assert!(discard_changed(&[("e", set)], &mut tested).is_empty());
        let changed = ClaimSet::parse(&CLAIMS.replace("always", "often"), "").unwrap();
        assert_eq!(discard_changed(&[("e", changed)], &mut tested).len(), 1);
        assert!(tested["e"][0].findings.is_empty());
        std::fs::write(&path, board.to_json().to_string().replace(SCHEMA, "senesce-scoreboard/1")).unwrap();
        assert!(read(&path, &mut tested).is_err());
    }
}
