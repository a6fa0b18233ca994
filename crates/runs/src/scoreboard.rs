//! The result of every claim of each document, over all runs.
//!
//! If several runs tested a claim, the latest at the largest scale that decided it counts.

use crate::history;
use senesce_claims::{ClaimSet, Work, unjudged};
use senesce_core::analysis::{Finding, Score, Verdict, score_json};
use senesce_core::{Analysis, Failure, Level, Record};
use senesce_runner::{Registry, Reproducible};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name and version of the JSON document.
const SCHEMA: &str = "senesce-scoreboard/1";

pub struct Scoreboard {
    /// The documents whose experiments senesce reproduces, then other works.
    pub documents: Vec<Document>,
    pub runs: usize,
    /// Runs that could not be read, with the reason.
    pub unread: Vec<String>,
}

pub struct Document {
    pub work: Work,
    pub entries: Vec<Entry>,
}

/// A claim with its verdict and the run that it is from.
pub struct Entry {
    pub experiment: &'static str,
    pub finding: Finding,
    pub run: Option<UsedRun>,
}

#[derive(Debug, Clone)]
pub struct UsedRun {
    pub path: PathBuf,
    pub scale: Option<Level>,
    pub date: Option<String>,
    /// Other runs that decided the claim.
    pub others: usize,
    /// Those of them with another verdict.
    pub contrary: usize,
}

struct Tested {
    run: PathBuf,
    scale: Option<Level>,
    date: Option<String>,
    findings: BTreeMap<String, Finding>,
}

pub fn scoreboard(registry: &Registry, below: &[PathBuf]) -> Result<Scoreboard, Failure> {
    let mut tested: BTreeMap<&'static str, Vec<Tested>> = BTreeMap::new();
    let mut unread = Vec::new();
    for entry in &history::entries(below)? {
        let is_of = |experiment: &&dyn Reproducible| entry.kind.as_deref() == Some(experiment.kind());
        let Some(experiment) = registry.experiments().find(is_of) else { continue };
        match findings(registry, &entry.run) {
            Ok((scale, findings)) => {
                let one = Tested { run: entry.run.clone(), scale, date: entry.date.clone(), findings };
                tested.entry(experiment.kind()).or_default().push(one);
            }
            Err(failure) => unread.push(format!("{}: {failure}", entry.run.display())),
        }
    }
    let runs = tested.values().map(Vec::len).sum();
    Ok(Scoreboard { documents: documents(registry, &tested)?, runs, unread })
}

type Findings = (Option<Level>, BTreeMap<String, Finding>);

fn findings(registry: &Registry, run: &Path) -> Result<Findings, Failure> {
    let record = Record::open(run)?;
    let Analysis { findings, .. } = registry.analyse(&record)?;
    Ok((record.plan.scale, findings.into_iter().map(|finding| (finding.id.clone(), finding)).collect()))
}

fn documents(registry: &Registry, tested: &BTreeMap<&'static str, Vec<Tested>>) -> Result<Vec<Document>, Failure> {
    let mut documents: Vec<Document> =
        Work::DOCUMENTS.iter().map(|work| Document { work: *work, entries: Vec::new() }).collect();
    for experiment in registry.experiments().filter(|experiment| !experiment.claims().is_empty()) {
        let set = ClaimSet::parse(experiment.claims(), experiment.published())
            .map_err(|error| Failure::usage(format!("{}: {error}", experiment.kind())))?;
        let runs = tested.get(experiment.kind()).map(Vec::as_slice).unwrap_or_default();
        for (work, finding) in unjudged(&set) {
            let entry = entry(experiment.kind(), finding, runs);
            match documents.iter_mut().find(|known| known.work == work) {
                Some(document) => document.entries.push(entry),
                None => documents.push(Document { work, entries: vec![entry] }),
            }
        }
    }
    Ok(documents)
}

fn entry(experiment: &'static str, finding: Finding, runs: &[Tested]) -> Entry {
    let found: Vec<(&Tested, &Finding)> =
        runs.iter().filter_map(|run| Some((run, run.findings.get(&finding.id)?))).collect();
    // Runs are sorted by date, and the last of equals is chosen.
    let Some((run, best)) = found.iter().max_by_key(|(run, one)| (rank(one.verdict), run.scale)) else {
        let reason = format!("senesce reproduce {experiment}");
        return Entry { experiment, finding: Finding { reason, ..finding }, run: None };
    };
    let decided = || found.iter().filter(|(other, one)| rank(one.verdict) == DECIDED && other.run != run.run);
    let used = UsedRun {
        path: run.run.clone(),
        scale: run.scale,
        date: run.date.clone(),
        others: decided().count(),
        contrary: decided().filter(|(_, one)| one.verdict != best.verdict).count(),
    };
    Entry { experiment, finding: (*best).clone(), run: Some(used) }
}

const DECIDED: u8 = 2;

fn rank(verdict: Verdict) -> u8 {
    match verdict {
        verdict if verdict.is_decided() || verdict.is_of_model() => DECIDED,
        Verdict::Undecided => 1,
        _ => 0,
    }
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
    /// Whether senesce reproduces the experiments of the work, rather than single claims of it.
    pub fn is_main(&self) -> bool {
        Work::DOCUMENTS.contains(&self.work)
    }

    /// The findings with the run used in the note.
    pub fn findings(&self) -> Vec<Finding> {
        self.entries.iter().map(Entry::described).collect()
    }

    /// The score of what the document states, or of what senesce adds.
    pub fn score(&self, stated: bool) -> Score {
        let of = self.entries.iter().map(|entry| &entry.finding).filter(|finding| finding.stated == stated);
        Score::of(of.map(|finding| finding.verdict))
    }

    fn to_json(&self) -> Value {
        let findings: Vec<Finding> = self.entries.iter().map(|entry| entry.finding.clone()).collect();
        json!({
            "document": self.work.citation(),
            "score": score_json(&findings),
            "claims": self.entries.iter().map(Entry::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Entry {
    fn described(&self) -> Finding {
        let used = self.run.as_ref().map_or(String::new(), |run| format!("{}: {}", self.experiment, run.words()));
        let parts = [used, self.finding.note.clone()];
        let note = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        Finding { note, ..self.finding.clone() }
    }

    fn to_json(&self) -> Value {
        let run = self.run.as_ref().map(|run| {
            json!({"path": run.path, "scale": run.scale, "date": run.date, "others": run.others, "contrary": run.contrary})
        });
        json!({
            "experiment": self.experiment,
            "id": self.finding.id,
            "claim": self.finding.claim,
            "source": self.finding.source,
            "stated": self.finding.stated,
            "published": self.finding.published,
            "measured": self.finding.measured,
            "verdict": self.finding.verdict,
            "reason": self.finding.reason,
            "note": self.finding.note,
            "run": run,
        })
    }
}

impl UsedRun {
    /// `run frag-intra-6072a33e (quick), the latest at the largest scale of 3 that decide it`.
    fn words(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy();
        let scale = self.scale.map_or(String::new(), |scale| format!(" ({})", scale.name()));
        let others = match (self.others, self.contrary) {
            (0, _) => String::new(),
            (others, 0) => format!(", the latest at the largest scale of {} that decide it", others + 1),
            (others, contrary) => {
                format!(", the latest at the largest scale of {}; {contrary} decide otherwise", others + 1)
            }
        };
        format!("run {name}{scale}{others}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(run: &str, scale: Level, verdict: Verdict) -> Tested {
        let finding = Finding { id: "a".into(), verdict, ..Finding::default() };
        let findings = BTreeMap::from([("a".to_string(), finding)]);
        Tested { run: run.into(), scale: Some(scale), date: None, findings }
    }

    fn chosen(runs: &[Tested]) -> (Verdict, Option<String>) {
        let finding = Finding { id: "a".into(), verdict: Verdict::NotRun, ..Finding::default() };
        let entry = entry("e", finding, runs);
        (entry.finding.verdict, entry.run.map(|run| run.words()))
    }

    #[test]
    fn latest_run_at_the_largest_scale_that_decides_counts() {
        let runs = [
            tested("first", Level::Quick, Verdict::Supported),
            tested("second", Level::Quick, Verdict::NotSupported),
            tested("smoke", Level::Smoke, Verdict::Supported),
            tested("paper", Level::Paper, Verdict::Undecided),
        ];
        let (verdict, words) = chosen(&runs);
        assert_eq!(verdict, Verdict::NotSupported);
        let words = words.unwrap();
        assert_eq!(words, "run second (quick), the latest at the largest scale of 3; 2 decide otherwise");
        assert_eq!(chosen(&runs[3..]).0, Verdict::Undecided);
        assert_eq!(chosen(&[]), (Verdict::NotRun, None));
    }
}
