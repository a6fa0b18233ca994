//! The result of every claim of each document, over all runs.
//!
//! If several runs tested a claim, the latest at the largest scale that decided it counts.

mod archive;
mod results;

pub use results::ExperimentResult;

use crate::history::{self, ListedRun};
use senesce_claims::{Claim, ClaimSet, Limits, Work, unjudged};
use senesce_core::analysis::{Finding, Score, Verdict};
use senesce_core::{Failure, Level, Record};
use senesce_runner::{Registry, Reproducible};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub struct Scoreboard {
    /// The documents whose experiments senesce reproduces, then other works.
    pub documents: Vec<Document>,
    /// One run of each experiment, in alphabetical order.
    pub results: Vec<ExperimentResult>,
    pub runs: usize,
    /// Runs and archived claims that could not be read, with the reason.
    pub unread: Vec<String>,
}

pub struct Document {
    pub work: Work,
    pub entries: Vec<ScoreboardEntry>,
}

/// A claim with its verdict and the run that it is from.
pub struct ScoreboardEntry {
    pub experiment: &'static str,
    /// Digest of the claim with its rule and its published values.
    rule: String,
    pub finding: Finding,
    pub run: Option<UsedRun>,
}

/// A claim of this version, which no run has tested yet.
struct CurrentClaim {
    experiment: &'static str,
    work: Work,
    rule: String,
    limits: Limits,
    finding: Finding,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsedRun {
    #[serde(flatten)]
    pub facts: RunFacts,
    /// Other runs that decided the claim.
    pub others: usize,
    /// Those of them with another verdict.
    pub contrary: usize,
}

/// The circumstances of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Name of its directory.
    pub name: String,
    pub scale: Option<Level>,
    /// When it began (RFC 3339, UTC).
    pub date: Option<String>,
    pub seed: Option<u64>,
    pub version: Option<String>,
    pub commit: Option<String>,
    pub kernel: Option<String>,
    pub processor: Option<String>,
    /// Number of logical processors.
    #[serde(default)]
    pub processors: Option<u64>,
    /// Load average when it began.
    pub load: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
struct TestedRun {
    run: RunFacts,
    findings: BTreeMap<String, Finding>,
}

/// What runs found, by experiment.
type AllTested = BTreeMap<String, Vec<TestedRun>>;

/// Reads the runs below directories, and archived scoreboards (`.json` files).
///
/// # Errors
/// A directory or a file cannot be read, or a file is not a scoreboard of this version.
pub fn scoreboard(registry: &Registry, sources: &[PathBuf]) -> Result<Scoreboard, Failure> {
    let (archives, below): (Vec<PathBuf>, Vec<PathBuf>) = sources.iter().cloned().partition(|source| source.is_file());
    let claims = current_claims(registry)?;
    let (mut tested, mut results, mut unread) = (AllTested::new(), Vec::new(), Vec::new());
    for path in archives {
        unread.extend(archive::read(&path, &claims, &mut tested, &mut results)?);
    }
    let experiments: Vec<&str> = registry.experiments().map(|experiment| experiment.kind()).collect();
    unread.extend(results::discard_unknown(&mut results, &experiments));
    let is_tested =
        |entry: &ListedRun| registry.experiments().any(|experiment| entry.kind.as_deref() == Some(experiment.kind()));
    for entry in &history::wanted_entries(registry, &below, is_tested)? {
        let is_of = |experiment: &&dyn Reproducible| entry.kind.as_deref() == Some(experiment.kind());
        let Some(experiment) = registry.experiments().find(is_of) else { continue };
        match of_run(registry, entry) {
            Ok((one, result)) => {
                result.into_iter().for_each(|result| results::keep(&mut results, result));
                let runs = tested.entry(experiment.kind().into()).or_default();
                // An archive may have the same run.
                runs.retain(|known| known.run.name != one.run.name);
                runs.push(one);
            }
            Err(failure) => unread.push(format!("{}: {failure}", entry.run.display())),
        }
    }
    tested.values_mut().for_each(|runs| runs.sort_by(|a, b| a.run.date.cmp(&b.run.date)));
    let runs = tested.values().map(Vec::len).sum();
    results.sort_by(|a, b| a.experiment.cmp(&b.experiment));
    Ok(Scoreboard { documents: documents(claims, &tested), results, runs, unread })
}

/// Returns the claims of a run, and its result if it is complete.
fn of_run(registry: &Registry, listed: &ListedRun) -> Result<(TestedRun, Option<ExperimentResult>), Failure> {
    let record = Record::open(&listed.run)?;
    let mut analysis = registry.analyse(&record)?;
    let findings = std::mem::take(&mut analysis.findings);
    let fact = |name: &str| record.environment.0.get(name);
    let run = RunFacts {
        name: listed.name(),
        scale: record.plan.scale,
        date: listed.date.clone(),
        seed: listed.seed,
        version: listed.version.clone(),
        commit: listed.commit.clone(),
        kernel: listed.kernel.clone(),
        processor: fact("cpu.model").and_then(Value::as_str).map(str::to_string),
        processors: fact("cpu.count").and_then(Value::as_u64),
        load: fact("run.load_average").and_then(Value::as_f64),
    };
    let result = (!record.is_partial()).then(|| ExperimentResult::new(&record.plan.kind, run.clone(), analysis));
    let findings = findings.into_iter().map(|finding| (finding.id.clone(), finding)).collect();
    Ok((TestedRun { run, findings }, result))
}

fn current_claims(registry: &Registry) -> Result<Vec<CurrentClaim>, Failure> {
    let mut all = Vec::new();
    for experiment in registry.experiments().filter(|experiment| !experiment.claims().is_empty()) {
        let set = ClaimSet::parse(experiment.claims(), experiment.published())
            .map_err(|error| Failure::usage(format!("{}: {error}", experiment.kind())))?;
        all.extend(claims_of(experiment.kind(), &set));
    }
    Ok(all)
}

fn claims_of(experiment: &'static str, set: &ClaimSet) -> Vec<CurrentClaim> {
    let current = |(claim, (work, finding)): (&Claim, (Work, Finding))| {
        let rule = rule_digest(claim, &finding.published);
        CurrentClaim { experiment, work, rule, limits: Limits::of(claim, set), finding }
    };
    set.claims.iter().zip(unjudged(set)).map(current).collect()
}

/// Hashes everything on which a verdict depends, but not the source and the note.
fn rule_digest(claim: &Claim, published: &str) -> String {
    let Claim { drive, fitted, holds, control, unclear, possible, rule, sentence, .. } = claim;
    let parts = json!([sentence, published, drive, fitted, holds, control, unclear, possible, rule]);
    blake3::hash(parts.to_string().as_bytes()).to_hex()[..16].to_string()
}

fn documents(claims: Vec<CurrentClaim>, tested: &AllTested) -> Vec<Document> {
    let mut documents: Vec<Document> =
        Work::DOCUMENTS.iter().map(|work| Document { work: *work, entries: Vec::new() }).collect();
    for claim in claims {
        let runs = tested.get(claim.experiment).map(Vec::as_slice).unwrap_or_default();
        let (work, entry) = (claim.work, entry(claim, runs));
        match documents.iter_mut().find(|known| known.work == work) {
            Some(document) => document.entries.push(entry),
            None => documents.push(Document { work, entries: vec![entry] }),
        }
    }
    documents
}

fn entry(CurrentClaim { experiment, rule, finding, .. }: CurrentClaim, runs: &[TestedRun]) -> ScoreboardEntry {
    let found: Vec<(&TestedRun, &Finding)> =
        runs.iter().filter_map(|run| Some((run, run.findings.get(&finding.id)?))).collect();
    // Runs are sorted by date, and the last of equals is chosen.
    let Some((run, best)) = found.iter().max_by_key(|(run, one)| (rank(one.verdict), run.run.scale)) else {
        let reason = format!("senesce reproduce {experiment}");
        return ScoreboardEntry { experiment, rule, finding: Finding { reason, ..finding }, run: None };
    };
    let decided = || found.iter().filter(|(other, one)| rank(one.verdict) == DECIDED && other.run != run.run);
    let used = UsedRun {
        facts: run.run.clone(),
        others: decided().count(),
        contrary: decided().filter(|(_, one)| one.verdict != best.verdict).count(),
    };
    ScoreboardEntry { experiment, rule, finding: (*best).clone(), run: Some(used) }
}

const DECIDED: u8 = 2;

fn rank(verdict: Verdict) -> u8 {
    match verdict {
        verdict if verdict.is_decided() || verdict.is_of_model() => DECIDED,
        Verdict::Undecided => 1,
        _ => 0,
    }
}

impl Document {
    /// Returns whether senesce reproduces the experiments of the work, rather than single claims of it.
    pub fn is_main(&self) -> bool {
        Work::DOCUMENTS.contains(&self.work)
    }

    /// Returns the findings with the run used in the note.
    pub fn findings(&self) -> Vec<Finding> {
        self.entries.iter().map(ScoreboardEntry::described).collect()
    }

    /// Returns the score of what the document states, or of what senesce adds.
    pub fn score(&self, stated: bool) -> Score {
        let of = self.entries.iter().map(|entry| &entry.finding).filter(|finding| finding.stated == stated);
        Score::of(of.map(|finding| finding.verdict))
    }
}

impl Scoreboard {
    /// Returns the runs whose verdicts count, by experiment.
    pub fn used_runs(&self) -> Vec<(&'static str, &RunFacts)> {
        let entries = self.documents.iter().flat_map(|document| &document.entries);
        let mut used: Vec<_> =
            entries.filter_map(|entry| Some((entry.experiment, &entry.run.as_ref()?.facts))).collect();
        used.sort_by(|(a, one), (b, other)| (a, &one.date, &one.name).cmp(&(b, &other.date, &other.name)));
        used.dedup();
        used
    }

    /// Returns the claims of an experiment, of all documents.
    pub fn findings_of(&self, experiment: &str) -> Vec<Finding> {
        let entries = self.documents.iter().flat_map(|document| &document.entries);
        entries.filter(|entry| entry.experiment == experiment).map(|entry| entry.finding.clone()).collect()
    }
}

impl ScoreboardEntry {
    /// Returns the finding, with its experiment and scale in the note: `frag-intra at quick`.
    fn described(&self) -> Finding {
        let used = self.run.as_ref().map_or(String::new(), |run| format!("{}{}", self.experiment, run.words()));
        let parts = [used, self.finding.note.clone()];
        let note = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        Finding { note, ..self.finding.clone() }
    }
}

impl UsedRun {
    /// Formats ` at quick, the latest at the largest scale of 3 that decide it`.
    fn words(&self) -> String {
        let scale = self.facts.scale.map_or(String::new(), |scale| format!(" at {}", scale.name()));
        let others = match (self.others, self.contrary) {
            (0, _) => String::new(),
            (others, 0) => format!(", the latest at the largest scale of {} that decide it", others + 1),
            (others, contrary) => {
                format!(", the latest at the largest scale of {}; {contrary} decide otherwise", others + 1)
            }
        };
        scale + &others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(run: &str, scale: Level, verdict: Verdict) -> TestedRun {
        let finding = Finding { id: "a".into(), verdict, ..Finding::default() };
        let findings = BTreeMap::from([("a".to_string(), finding)]);
        let run = RunFacts { name: run.into(), scale: Some(scale), ..RunFacts::default() };
        TestedRun { run, findings }
    }

    fn chosen(runs: &[TestedRun]) -> (Verdict, Option<UsedRun>) {
        let finding = Finding { id: "a".into(), verdict: Verdict::NotRun, ..Finding::default() };
        let claim = CurrentClaim {
            experiment: "e",
            work: Work::Geriatrix,
            rule: String::new(),
            limits: Limits::default(),
            finding,
        };
        let entry = entry(claim, runs);
        (entry.finding.verdict, entry.run)
    }

    #[test]
    fn latest_run_at_the_largest_scale_that_decides_counts() {
        let runs = [
            tested("first", Level::Quick, Verdict::Supported),
            tested("second", Level::Quick, Verdict::NotSupported),
            tested("smoke", Level::Smoke, Verdict::Supported),
            tested("paper", Level::Paper, Verdict::Undecided),
        ];
        let (verdict, run) = chosen(&runs);
        let run = run.unwrap();
        assert_eq!(
            (verdict, run.facts.name.as_str(), run.others, run.contrary),
            (Verdict::NotSupported, "second", 2, 2)
        );
        assert_eq!(chosen(&runs[3..]).0, Verdict::Undecided);
        assert_eq!(chosen(&[]), (Verdict::NotRun, None));
    }
}
