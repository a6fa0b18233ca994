//! Parses claims from `data/published/EXPERIMENT.claims.toml`.

use crate::holds::ConditionScope;
use crate::row::Row;
use crate::rule::{Bounds, Rule};
use crate::selection::Selection;
use senesce_core::published;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSet {
    /// Metrics without random error, that is counts and computations, whose single values can be compared.
    pub exact: BTreeSet<String>,
    /// Whether all conditions alternate within a repetition: values are then compared within repetitions.
    pub by_round: bool,
    pub claims: Vec<Claim>,
    /// Rows of `data/published/EXPERIMENT.csv`.
    pub rows: Vec<Row>,
}

/// One sentence of the literature that states a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Claim {
    /// Short name, unique in its experiment.
    pub id: String,
    /// The claim in our words.
    pub sentence: String,
    /// The work, and the place in it.
    pub source: Source,
    pub published: Published,
    /// The only drive or device that it is about; a run without it cannot test the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Whether one of our simulators was fitted to it or has it as an input.
    #[serde(default)]
    pub fitted: bool,
    /// The free conditions for which the rule must hold.
    #[serde(default)]
    pub holds: ConditionScope,
    /// A condition measured twice: if the two measurements differ significantly, nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// A result outside of the rule's bounds and within these is undecided: the publication states no tolerance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<Bounds>,
    /// A precondition on another value: outside of its bounds, no result could meet the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible: Option<Possible>,
    pub rule: Rule,
    /// Remarks for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A condition measured twice, and the allowed quotient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The second measurement.
    pub of: Selection,
    /// The first measurement.
    pub to: Selection,
    /// Bounds of the quotient.
    pub within: Bounds,
}

/// A value that limits the measured one, such as the rounding to whole files. Outside of the bounds, nothing is tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Possible {
    /// The limiting value.
    pub of: Selection,
    /// Bounds within which the claim is possible.
    pub within: Bounds,
    /// The reason in reports.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub work: Work,
    /// Section, figure, table, file.
    pub place: String,
    /// How its content is known.
    #[serde(default)]
    pub kind: SourceKind,
}

impl Source {
    pub fn citation(&self) -> String {
        format!("{}, {}{}", self.work.citation(), self.place, self.kind.text())
    }

    /// Returns whether the document or its data states the claim; others come from notes about it or from our own
    /// measurements.
    pub fn is_document(&self) -> bool {
        matches!(self.kind, SourceKind::Document | SourceKind::Table)
    }
}

/// How the content of a work is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// From the document itself.
    #[default]
    Document,
    /// From a facts sheet about the document.
    Facts,
    Table,
    /// Quoted from memory; the text was not available.
    Unverified,
    /// A statement of the document about something other than it measured, such as another kind of drive.
    Variant,
}

impl SourceKind {
    fn text(self) -> &'static str {
        match self {
            Self::Document => "",
            Self::Facts => " (by way of a facts sheet)",
            Self::Table => " (data table)",
            Self::Unverified => " (unverified: quoted from memory)",
            Self::Variant => " (a variant: the document measured something else)",
        }
    }
}

/// Sources of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The technical report on profile-driven aging.
    Geriatrix,
    /// The released tool of that report, as measured on one of our machines.
    GeriatrixTool,
    /// Fragmentation microbenchmarks, git and mail.
    Conway2017,
    /// Fragmentation under space pressure.
    Conway2019,
    /// BPFS with anti-caching: its evaluation.
    AntiCaching,
    /// BPFS itself.
    Bpfs,
    /// Object stores for version control: tuning experiments.
    Murphy2017,
    /// Characterisation of zoned drives.
    Doekemeijer2023,
    /// The workload generator's personalities.
    Filebench,
    /// Die collisions in flash drives.
    Jun2024,
    /// A log-structured file system that reorders while it cleans.
    Aalfs2020,
    /// Hot fragments.
    Park2021,
    /// Write amplification.
    Desnoyers2012,
    /// Behaviour of the guest on machines like this one.
    GuestFacts,
    /// Reports of xfs file systems that were full early.
    EnospcReports,
}

impl Work {
    /// The documents whose experiments senesce reproduces. From other publications it takes only single claims.
    pub const DOCUMENTS: [Self; 5] =
        [Self::Geriatrix, Self::Conway2017, Self::Doekemeijer2023, Self::Murphy2017, Self::AntiCaching];

    /// Returns the document to which its claims are counted.
    pub fn document(self) -> Self {
        match self {
            Self::GeriatrixTool => Self::Geriatrix,
            other => other,
        }
    }

    /// Returns the name for tables.
    pub fn short(self) -> &'static str {
        match self {
            Self::Geriatrix | Self::GeriatrixTool => "Geriatrix",
            Self::Conway2017 => "fragmentation",
            Self::Doekemeijer2023 => "ZNS",
            Self::Murphy2017 => "object store",
            Self::AntiCaching => "anti-caching",
            other => other.citation(),
        }
    }

    pub fn citation(self) -> &'static str {
        match self {
            Self::Geriatrix => "Kadekodi et al., Aging Gracefully with Geriatrix, CMU-PDL-16-105, 2016",
            Self::GeriatrixTool => "Geriatrix, released tool of 2018, as measured on 2 cores and Linux 6.18",
            Self::Conway2017 => "Conway et al., File Systems Fated for Senescence? Nonsense, Says Science!, FAST 2017",
            Self::Conway2019 => "Conway et al., Filesystem Aging: It's more Usage than Fullness, HotStorage 2019",
            Self::AntiCaching => "Evaluation of an anti-caching file system over BPFS",
            Self::Bpfs => "Condit et al., Better I/O Through Byte-Addressable, Persistent Memory, SOSP 2009",
            Self::Murphy2017 => "Murphy, Distributed Media Versioning, master's thesis, Tromsø 2017",
            Self::Doekemeijer2023 => {
                "Doekemeijer et al., Performance Characterization of NVMe Flash Devices with Zoned Namespaces, CLUSTER 2023"
            }
            Self::Filebench => "Filebench 1.5, personalities and public logs",
            Self::Jun2024 => "Jun et al., We Ain't Afraid of No File Fragmentation, FAST 2024",
            Self::Aalfs2020 => "AALFS, an adaptive log-structured file system, 2020",
            Self::Park2021 => "Park and Eom, FragPicker, SOSP 2021",
            Self::Desnoyers2012 => "Desnoyers, Analytic Models of SSD Write Performance, SYSTOR 2012 and ACM TOS 2014",
            Self::EnospcReports => {
                "Reports of full file systems with free space: SUSE knowledge base 7014320, amazon-eks-ami issue 1224, XFS list 2016"
            }
            Self::GuestFacts => "Measurements of the guest on 2 cores and Linux 6.18",
        }
    }
}

/// Published values: rows of the experiment's table, numbers or words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Rows of the table, as `METRIC | CONDITION`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// Published numbers that are not in the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Whether the value is the first number over the second.
    #[serde(default)]
    pub quotient: bool,
    /// The published result if it is not a number, or an explanation of the numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

impl Published {
    fn found<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        self.rows.iter().flat_map(|name| rows.iter().filter(move |row| *name == row.name())).collect()
    }

    fn raw(&self, rows: &[Row]) -> Vec<f64> {
        if self.rows.is_empty() {
            self.values.clone()
        } else {
            self.found(rows).iter().map(|row| row.published.value).collect()
        }
    }

    /// Returns the published numbers to which a rule's tolerance applies.
    pub fn numbers(&self, rows: &[Row]) -> Vec<f64> {
        match self.raw(rows)[..] {
            [over, under] if self.quotient => vec![over / under],
            ref numbers => numbers.to_vec(),
        }
    }

    pub fn unit(&self, rows: &[Row]) -> String {
        if self.quotient {
            return String::new();
        }
        self.found(rows).first().map_or(self.unit.clone(), |row| row.published.unit.clone())
    }

    pub fn text(&self, rows: &[Row]) -> String {
        let unit = self.found(rows).first().map_or(self.unit.clone(), |row| row.published.unit.clone());
        let numbers: Vec<String> = self.raw(rows).iter().map(|number| crate::text::number(*number)).collect();
        let stated = format!("{} {unit}", numbers.join(if self.quotient { " over " } else { ", " })).trim().to_string();
        match (numbers.is_empty(), self.words.is_empty()) {
            (true, _) => self.words.clone(),
            (false, true) => stated,
            (false, false) => format!("{stated} ({})", self.words),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// Invalid TOML or unknown fields.
    #[error("claims file: {0}")]
    Syntax(String),
    /// Invalid table of published values.
    #[error(transparent)]
    Published(#[from] published::PublishedError),
    #[error("claim '{id}': {problem}")]
    Claim { id: String, problem: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Templates that split the conditions of the table.
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    exact: BTreeSet<String>,
    #[serde(default, rename = "by-round")]
    by_round: bool,
    #[serde(default)]
    claim: Vec<Claim>,
}

impl ClaimSet {
    /// Reads `EXPERIMENT.claims.toml` and `EXPERIMENT.csv`.
    ///
    /// # Errors
    /// Invalid syntax, duplicate names, missing rows, rules that cannot decide.
    pub fn parse(claims: &str, table: &str) -> Result<Self, ClaimsError> {
        let file: File = toml::from_str(claims).map_err(|error| ClaimsError::Syntax(error.to_string()))?;
        let rows: Vec<Row> =
            published::parse(table)?.into_iter().map(|published| Row::of(published, &file.conditions)).collect();
        let mut ids = BTreeSet::new();
        for claim in &file.claim {
            let error = |problem: String| ClaimsError::Claim { id: claim.id.clone(), problem };
            if !ids.insert(&claim.id) {
                return Err(error("duplicate name".into()));
            }
            check(claim, &rows).map_err(error)?;
        }
        Ok(Self { exact: file.exact, by_round: file.by_round, claims: file.claim, rows })
    }
}

fn check(claim: &Claim, rows: &[Row]) -> Result<(), String> {
    let published = &claim.published;
    if published.rows.is_empty() && published.values.is_empty() && published.words.is_empty() {
        return Err("the published value is missing".into());
    }
    if !published.rows.is_empty() && !published.values.is_empty() {
        return Err("a value must be in the table or here, not in both".into());
    }
    if claim.sentence.trim().is_empty() || claim.source.place.trim().is_empty() {
        return Err("sentence or place is missing".into());
    }
    for name in &published.rows {
        if !rows.iter().any(|row| *name == row.name()) {
            return Err(format!("row '{name}' not found"));
        }
    }
    if published.quotient && !published.raw(rows).get(1).is_some_and(|under| *under != 0.0) {
        return Err("a quotient needs two numbers, and the second must not be zero".into());
    }
    if let Rule::Table { rows: pattern, .. } = &claim.rule
        && !rows.iter().any(|row| pattern.admits(&row.published.metric, &row.conditions()))
    {
        return Err("no row of the table matches the pattern".into());
    }
    if claim.control.as_ref().is_some_and(|control| control.within.resolve(&[]).is_none()) {
        return Err("a control needs at-least or at-most".into());
    }
    if let Some(unclear) = &claim.unclear
        && claim.rule.bounds().and(unclear.resolve(&published.numbers(rows))).is_none()
    {
        return Err("'unclear' needs at-least or at-most, and a rule with bounds".into());
    }
    claim.rule.problem(&published.numbers(rows)).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "metric,condition,value,unit,source,note\ncorrelation,hdd,-0.93,,x,\n\
                         iops,\"op=write,qd=1\",85,1/s,x,group:depth1 fitted\n";

    fn claim(more: &str) -> String {
        format!(
            "[[claim]]\nid = \"a\"\nsentence = \"It is so.\"\nsource = {{ work = \"conway2017\", place = \"Figure 1\" }}\n{more}\n"
        )
    }

    const VALUE: &str = "rule = { value = { of = \"r\", within = { plus-minus = 0.1 } } }";

    #[test]
    fn claim_is_read_with_its_row() {
        let text = claim(&format!("published = {{ rows = [\"correlation | hdd\"] }}\n{VALUE}"));
        let set = ClaimSet::parse(&text, TABLE).unwrap();
        assert_eq!(set.claims[0].published.numbers(&set.rows), vec![-0.93]);
    }

    #[test]
    fn undecidable_claims_are_refused() {
        let problem = |more: &str| ClaimSet::parse(&claim(more), TABLE).unwrap_err().to_string();
        assert!(problem(&format!("published = {{ rows = [\"correlation | ssd\"] }}\n{VALUE}")).contains("not found"));
        assert!(problem(&format!("published = {{}}\n{VALUE}")).contains("missing"));
        assert!(problem(&format!("published = {{ words = \"much\" }}\n{VALUE}")).contains("bounds"));
        assert!(
            problem(&format!("published = {{ values = [1.0], quotient = true }}\n{VALUE}")).contains("two numbers")
        );
        assert!(problem(&format!("published = {{ words = \"much\" }}\ntypo = 1\n{VALUE}")).contains("typo"));
        let twice = claim("published = { words = \"x\" }\nrule = { not-testable = { why = \"x\" } }").repeat(2);
        assert!(ClaimSet::parse(&twice, TABLE).unwrap_err().to_string().contains("duplicate name"));
    }
}
