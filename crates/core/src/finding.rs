//! Results of claims, and how many of them were decided.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Result of testing a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies within the claim.
    Supported,
    /// The interval lies outside of the claim.
    NotSupported,
    /// The interval crosses the bound of the claim.
    Undecided,
    /// Not testable on this device or at this scale.
    #[default]
    NotTestable,
    /// A simulator agrees with a value it was fitted to.
    ModelAgrees,
    /// A simulator differs from a value it was fitted to.
    ModelDiffers,
    /// No run tested it; only in overviews of runs.
    NotRun,
}

impl Verdict {
    /// All verdicts in the order of a score.
    pub const ALL: [Self; 7] = [
        Self::Supported,
        Self::NotSupported,
        Self::ModelAgrees,
        Self::ModelDiffers,
        Self::Undecided,
        Self::NotTestable,
        Self::NotRun,
    ];

    /// Returns the text for reports.
    pub fn text(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::NotSupported => "not supported",
            Self::Undecided => "undecided",
            Self::NotTestable => "not testable here",
            Self::ModelAgrees => "model agrees",
            Self::ModelDiffers => "model differs",
            Self::NotRun => "not run",
        }
    }

    /// Returns whether measurements decided the claim.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Supported | Self::NotSupported)
    }

    /// Returns whether the values contradict the claim.
    pub fn contradicts(self) -> bool {
        matches!(self, Self::NotSupported | Self::ModelDiffers)
    }

    /// Returns whether a model was compared with a value that it was fitted to.
    pub fn is_of_model(self) -> bool {
        matches!(self, Self::ModelAgrees | Self::ModelDiffers)
    }
}

/// A claim with its published and measured values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the claim in its experiment; empty if the finding has no claim.
    #[serde(default)]
    pub id: String,
    /// The claim in one sentence.
    pub claim: String,
    /// Author and location of the claim.
    #[serde(default)]
    pub source: String,
    /// The work that it is from: the source without the location.
    #[serde(default)]
    pub work: String,
    /// Its location in the work: a section, figure or table.
    #[serde(default)]
    pub place: String,
    /// Whether the document or its data states it; senesce added the others.
    #[serde(default)]
    pub stated: bool,
    /// Published value with unit.
    pub published: String,
    /// The rule of the claim in words; empty if the finding has no claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule_text: String,
    /// Measured values with units, by condition; see [`crate::MeasuredList`].
    pub measured: String,
    /// Number of the first values in `measured` that contradict a claim that is not supported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contradicting: usize,
    /// Result of comparing `measured` with `published`.
    pub verdict: Verdict,
    /// Why it is neither supported nor not supported: the same words for all claims with the same obstacle.
    #[serde(default)]
    pub reason: String,
    /// Explanation, if needed.
    pub note: String,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Number of claims by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score([usize; Verdict::ALL.len()]);

impl Score {
    /// Counts the verdicts.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut score = Self::default();
        for verdict in verdicts {
            if let Some(index) = Verdict::ALL.iter().position(|known| *known == verdict) {
                score.0[index] += 1;
            }
        }
        score
    }

    /// Returns the number of claims with any verdict.
    pub fn claims(&self) -> usize {
        self.0.iter().sum()
    }

    /// Returns the number of claims with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        Verdict::ALL.iter().zip(self.0).find(|(known, _)| **known == verdict).map_or(0, |(_, count)| count)
    }

    /// Lists the counts above 0: `3 supported, 1 not supported, 8 undecided`.
    pub fn words(&self) -> String {
        let counted = Verdict::ALL.iter().zip(self.0).filter(|(_, count)| *count > 0);
        counted.map(|(verdict, count)| format!("{count} {}", verdict.text())).collect::<Vec<_>>().join(", ")
    }

    /// Returns the counts by verdict, and their sum as `claims`.
    pub fn to_json(&self) -> Value {
        let counts = Verdict::ALL.iter().zip(self.0).map(|(verdict, count)| (key(*verdict), json!(count)));
        Value::Object(counts.chain([("claims".to_string(), json!(self.claims()))]).collect::<Map<_, _>>())
    }
}

fn key(verdict: Verdict) -> String {
    verdict.text().trim_end_matches(" here").replace(' ', "_")
}

/// Returns the score of what documents state, and that of the claims that senesce adds; a line each if there are any.
pub fn score_lines(findings: &[Finding]) -> Vec<String> {
    let (stated, added): (Vec<&Finding>, Vec<&Finding>) = findings.iter().partition(|finding| finding.stated);
    let works: BTreeSet<&str> = stated.iter().map(|finding| finding.work.as_str()).collect();
    let of = if works.len() == 1 { "the paper".to_string() } else { format!("{} papers", works.len()) };
    let line = |all: &[&Finding], one: String, several: String| {
        let score = Score::of(all.iter().map(|finding| finding.verdict));
        let what = if all.len() == 1 { one } else { several };
        (!all.is_empty()).then(|| format!("{} {what}: {}", all.len(), score.words()))
    };
    let lines = [
        line(&stated, format!("statement of {of}"), format!("statements of {of}")),
        line(&added, "claim that senesce adds".into(), "claims that senesce adds".into()),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns both scores: `{"stated": {...}, "added": {...}}`.
pub fn score_json(findings: &[Finding]) -> Value {
    let of = |stated: bool| {
        Score::of(findings.iter().filter(|finding| finding.stated == stated).map(|finding| finding.verdict)).to_json()
    };
    json!({"stated": of(true), "added": of(false)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_counts_statements_separately_from_added_claims() {
        let finding = |stated, verdict| Finding { stated, verdict, work: "W".into(), ..Finding::default() };
        let findings = [
            finding(true, Verdict::Undecided),
            finding(true, Verdict::Supported),
            finding(true, Verdict::Undecided),
            finding(false, Verdict::NotTestable),
        ];
        assert_eq!(
            score_lines(&findings),
            ["3 statements of the paper: 1 supported, 2 undecided", "1 claim that senesce adds: 1 not testable here"]
        );
        let json = score_json(&findings);
        assert_eq!((&json["stated"]["undecided"], &json["added"]["not_testable"]), (&json!(2), &json!(1)));
        assert!(score_lines(&[]).is_empty());
    }
}
