//! Claims as they stand in `data/published/EXPERIMENT.claims.toml`.

use crate::row::Row;
use crate::rule::{Bounds, Holds, Rule};
use crate::selection::Selection;
use senesce_core::published;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// All claims about one experiment, with its published values.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSet {
    /// Metrics without random error: counts and computations. Their single values can be judged.
    pub exact: BTreeSet<String>,
    /// Whether all conditions take turns within a repetition: values are then compared within repetitions.
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
    /// What is claimed, in our words.
    pub sentence: String,
    /// Who says it, and where.
    pub source: Source,
    /// What was published.
    pub published: Published,
    /// The only drive or device it speaks of; a run without it cannot test the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Whether a simulator of ours was fitted to it or told it.
    #[serde(default)]
    pub fitted: bool,
    /// For which of the free conditions the rule must hold.
    #[serde(default)]
    pub holds: Holds,
    /// What was measured twice under one condition: where it certainly differs from itself, nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// What decides it.
    pub rule: Rule,
    /// What a reader must know.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// One condition measured twice, and the quotient that the machine must keep to be believed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The second time.
    pub of: Selection,
    /// The first time.
    pub to: Selection,
    /// Where the quotient must lie.
    pub within: Bounds,
}

/// Where a claim stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The work.
    pub work: Work,
    /// Section, figure, table, file.
    pub place: String,
    /// How we know it.
    #[serde(default)]
    pub kind: SourceKind,
}

impl Source {
    /// Work, place and kind in words.
    pub fn citation(&self) -> String {
        format!("{}, {}{}", self.work.citation(), self.place, self.kind.text())
    }
}

/// How we know what a work says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The document itself was read.
    #[default]
    Document,
    /// A sheet of facts about it was read.
    Facts,
    /// It stands in a table of data.
    Table,
    /// Quoted from memory; the text was not at hand.
    Unverified,
}

impl SourceKind {
    fn text(self) -> &'static str {
        match self {
            Self::Document => "",
            Self::Facts => " (by way of a facts sheet)",
            Self::Table => " (data table)",
            Self::Unverified => " (unverified: quoted from memory)",
        }
    }
}

/// The works that claims come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The technical report on profile-driven aging.
    Geriatrix,
    /// The released tool of that report, as measured on a machine of ours.
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
    /// What the guest does on machines like this one.
    GuestFacts,
    /// Users whose xfs was full early.
    EnospcReports,
}

impl Work {
    /// Authors, title, place and year.
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

/// What was published: rows of the experiment's table, or numbers, or words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Rows of the table, as `METRIC | CONDITION`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// Numbers that stand in no row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// Their unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Whether what counts is the first number over the second.
    #[serde(default)]
    pub quotient: bool,
    /// What was published where it is not a number, or what the numbers are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

impl Published {
    fn found<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        self.rows.iter().flat_map(|name| rows.iter().filter(move |row| *name == row.name())).collect()
    }

    /// The numbers as they were published.
    fn raw(&self, rows: &[Row]) -> Vec<f64> {
        if self.rows.is_empty() {
            self.values.clone()
        } else {
            self.found(rows).iter().map(|row| row.published.value).collect()
        }
    }

    /// The published numbers that a rule's tolerance is around.
    pub fn numbers(&self, rows: &[Row]) -> Vec<f64> {
        match self.raw(rows)[..] {
            [over, under] if self.quotient => vec![over / under],
            ref numbers => numbers.to_vec(),
        }
    }

    /// The unit of the published numbers; empty where they have none or are a quotient.
    pub fn unit(&self, rows: &[Row]) -> String {
        if self.quotient {
            return String::new();
        }
        self.found(rows).first().map_or(self.unit.clone(), |row| row.published.unit.clone())
    }

    /// Numbers with unit, or the words.
    pub fn text(&self, rows: &[Row]) -> String {
        let unit = self.found(rows).first().map_or(self.unit.clone(), |row| row.published.unit.clone());
        let numbers: Vec<String> = self.raw(rows).iter().map(|number| crate::text::number(*number)).collect();
        let told = format!("{} {unit}", numbers.join(if self.quotient { " over " } else { ", " })).trim().to_string();
        match (numbers.is_empty(), self.words.is_empty()) {
            (true, _) => self.words.clone(),
            (false, true) => told,
            (false, false) => format!("{told} ({})", self.words),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// Not TOML, or not these fields.
    #[error("claims file: {0}")]
    Syntax(String),
    /// The table of published values is wrong.
    #[error(transparent)]
    Published(#[from] published::PublishedError),
    #[error("claim '{id}': {problem}")]
    Claim { id: String, problem: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// How the words of the table's conditions are taken apart.
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
    /// A file that is not understood, names that stand twice, rows that do not exist, rules that cannot decide.
    pub fn parse(claims: &str, table: &str) -> Result<Self, ClaimsError> {
        let file: File = toml::from_str(claims).map_err(|error| ClaimsError::Syntax(error.to_string()))?;
        let rows: Vec<Row> =
            published::parse(table)?.into_iter().map(|published| Row::of(published, &file.conditions)).collect();
        let mut ids = BTreeSet::new();
        for claim in &file.claim {
            let error = |problem: String| ClaimsError::Claim { id: claim.id.clone(), problem };
            if !ids.insert(&claim.id) {
                return Err(error("this name stands there twice".into()));
            }
            check(claim, &rows).map_err(error)?;
        }
        Ok(Self { exact: file.exact, by_round: file.by_round, claims: file.claim, rows })
    }
}

fn check(claim: &Claim, rows: &[Row]) -> Result<(), String> {
    let published = &claim.published;
    if published.rows.is_empty() && published.values.is_empty() && published.words.is_empty() {
        return Err("what was published is missing".into());
    }
    if !published.rows.is_empty() && !published.values.is_empty() {
        return Err("a value stands in the table or here, not in both".into());
    }
    if claim.sentence.trim().is_empty() || claim.source.place.trim().is_empty() {
        return Err("sentence or place is missing".into());
    }
    for name in &published.rows {
        if !rows.iter().any(|row| *name == row.name()) {
            return Err(format!("there is no row '{name}'"));
        }
    }
    if published.quotient && !published.raw(rows).get(1).is_some_and(|under| *under != 0.0) {
        return Err("a quotient needs two numbers, the second not zero".into());
    }
    if let Rule::Table { rows: pattern, .. } = &claim.rule
        && !rows.iter().any(|row| pattern.admits(&row.published.metric, &row.conditions()))
    {
        return Err("no row of the table fits the pattern".into());
    }
    if claim.control.as_ref().is_some_and(|control| control.within.resolve(&[]).is_none()) {
        return Err("a control needs at-least or at-most".into());
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
    fn a_claim_is_read_with_its_row() {
        let text = claim(&format!("published = {{ rows = [\"correlation | hdd\"] }}\n{VALUE}"));
        let set = ClaimSet::parse(&text, TABLE).unwrap();
        assert_eq!(set.claims[0].published.numbers(&set.rows), vec![-0.93]);
    }

    #[test]
    fn what_cannot_be_decided_is_refused() {
        let problem = |more: &str| ClaimSet::parse(&claim(more), TABLE).unwrap_err().to_string();
        assert!(problem(&format!("published = {{ rows = [\"correlation | ssd\"] }}\n{VALUE}")).contains("no row"));
        assert!(problem(&format!("published = {{}}\n{VALUE}")).contains("missing"));
        assert!(problem(&format!("published = {{ words = \"much\" }}\n{VALUE}")).contains("bounds"));
        assert!(
            problem(&format!("published = {{ values = [1.0], quotient = true }}\n{VALUE}")).contains("two numbers")
        );
        assert!(problem(&format!("published = {{ words = \"much\" }}\ntypo = 1\n{VALUE}")).contains("typo"));
        let twice = claim("published = { words = \"x\" }\nrule = { not-testable = { why = \"x\" } }").repeat(2);
        assert!(ClaimSet::parse(&twice, TABLE).unwrap_err().to_string().contains("twice"));
    }
}
