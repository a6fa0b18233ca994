//! Write amplification of uniform random writes compared with Desnoyers' formula (ACM Transactions on Storage 10(2), 2014).

use crate::{measured, points, values, word};
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::Rows;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed};
use senesce_devmodel::ssd::amplification::{Uniform, desnoyers, measured as simulated};
use senesce_devmodel::ssd::parameters::Policy;
use senesce_runner::{Context, Experiment, NoEvent, Planned, Recorded, Run};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

const FACTOR: &str = "write amplification";
const FORMULA: &str = "write amplification by the formula";
/// Minimum number of spare blocks, so that the formula's assumption of many blocks holds.
const LEAST_SPARE_BLOCKS: f64 = 8.0;

pub struct WriteAmplification;

/// Drives and overwrites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// spare areas in percent of the capacity, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub spare: Vec<f64>,
    /// pages of a block, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u32).range(2..=65_536))]
    pub pages_per_block: Vec<u32>,
    /// pages of the flash
    #[arg(long, value_parser = value_parser!(u32).range(1024..=1 << 26))]
    pub pages: u32,
    /// overwrites of the capacity before and during the measurement: BEFORE,DURING
    #[arg(long, value_delimiter = ',', num_args = 1, value_parser = value_parser!(u32).range(1..=100))]
    pub rounds: Vec<u32>,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Drive {
    /// Spare area in percent.
    spare: f64,
    /// Pages of a block.
    pages_per_block: u32,
    /// Choice of the block to clean.
    policy: Policy,
}

fn policy_word(policy: Policy) -> &'static str {
    match policy {
        Policy::Fifo => "fifo",
        Policy::Greedy => "greedy",
        Policy::CostBenefit => "cost-benefit",
    }
}

impl Spec {
    fn check(&self) -> Result<(u32, u32), Failure> {
        let [before, during] = self.rounds[..] else {
            return Err(Failure::usage("rounds: expected two numbers BEFORE,DURING, for example 3,2"));
        };
        for spare in &self.spare {
            if !(1.0..=400.0).contains(spare) {
                return Err(Failure::usage(format!("spare: {spare} % is out of range; use 1 to 400")));
            }
            for pages in &self.pages_per_block {
                let blocks = f64::from(self.pages / pages);
                if blocks * (1.0 - 1.0 / (1.0 + spare / 100.0)) < LEAST_SPARE_BLOCKS {
                    return Err(Failure::usage(format!(
                        "a drive of {} pages with {pages} in a block has fewer than {LEAST_SPARE_BLOCKS} spare blocks at {spare} %: \
                         use more --pages",
                        self.pages
                    )));
                }
            }
        }
        Ok((before, during))
    }
}

impl Run for WriteAmplification {
    const KIND: &'static str = "write-amplification";
    const PUBLISHED: &'static str = include_str!("../data/published/write-amplification.csv");
    const CLAIMS: &'static str = include_str!("../data/published/write-amplification.claims.toml");
    type Spec = Spec;
    type Event = NoEvent;
    type Step = Drive;

    fn facts(_spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { model: Some("the flash translation layer".into()), deterministic: true, ..facts }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<Drive>>, Failure> {
        let (before, during) = spec.check()?;
        let mut steps = Vec::new();
        for policy in [Policy::Fifo, Policy::Greedy] {
            for &spare in &spec.spare {
                for &pages_per_block in &spec.pages_per_block {
                    let drive = Drive { spare, pages_per_block, policy };
                    let action = format!(
                        "overwrite at random: {spare} % spare, {pages_per_block} pages a block, {}",
                        policy_word(policy)
                    );
                    let writes =
                        f64::from(spec.pages) * f64::from(1 + before + during) * desnoyers(1.0 + spare / 100.0);
                    steps.push(Planned::new(drive, action, "model").costing(Bytes(0), writes / 1e7));
                }
            }
        }
        Ok(steps)
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, drive: &Drive, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let uniform = Uniform {
            spare_share: drive.spare / 100.0,
            pages_per_block: drive.pages_per_block,
            blocks: spec.pages / drive.pages_per_block,
            policy: drive.policy,
            rounds: spec.check()?,
            seed: context.seed.child("write-amplification"),
        };
        let (spare, pages) = (drive.spare.to_string(), drive.pages_per_block.to_string());
        let under = [("spare", spare.as_str()), ("pages_per_block", &pages), ("policy", policy_word(drive.policy))];
        context.measure(measured(FACTOR, "", Better::Lower, simulated(&uniform), &under)?);
        if drive.policy == Policy::Fifo {
            // The formula is independent of blocks.
            let factor = desnoyers(1.0 + uniform.spare_share);
            if !context.recorded().measurements().any(|one| one.metric == FORMULA && word(one, "spare") == spare) {
                context.measure(measured(FORMULA, "", Better::Lower, factor, &under[..1])?);
            }
        }
        Ok(())
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let all: Vec<&Measurement> = recorded.measurements().collect();
        let formula: BTreeMap<&str, f64> =
            values(&all, FORMULA).map(|one| (word(one, "spare"), one.value.get())).collect();
        Ok(Analysis {
            title: "Write amplification of random writes".into(),
            summary: "A drive is filled in order and then overwritten at uniformly random pages. Moved pages join the host's. \
                      First-in-first-out cleaning has a formula; greedy cleaning is below it, more so with small blocks."
                .into(),
            figures: vec![figure(&all)],
            tables: vec![table(&all, &formula)],
            caveats: vec!["modelled: no drive was written".into()],
            result: json!({"formula": formula, "cells": values(&all, FACTOR).map(|one| json!({
                "condition": one.condition, "value": one.value,
                "against_formula": formula.get(word(one, "spare")).map(|law| one.value.get() / law),
            })).collect::<Vec<_>>()}),
            ..Analysis::default()
        })
    }
}

impl Experiment for WriteAmplification {
    const TITLE: &'static str = "Write amplification of random writes over spare area, block size and cleaning";
    const PAGE: &'static str = include_str!("../docs/experiments/write-amplification.md");

    fn defaults(level: Level) -> Spec {
        Spec {
            spare: level.of([
                vec![7.0, 28.0],
                vec![5.0, 7.0, 10.0, 15.0, 20.0, 28.0, 40.0],
                vec![5.0, 7.0, 10.0, 15.0, 20.0, 28.0, 40.0],
            ]),
            pages_per_block: level.of([vec![64], vec![64, 128, 512], vec![32, 64, 128, 256, 512, 1024]]),
            pages: level.of([1 << 18, 1 << 19, 1 << 21]),
            rounds: vec![3, 2],
        }
    }
}

fn table(all: &[&Measurement], formula: &BTreeMap<&str, f64>) -> Table {
    let law = |one: &Measurement| formula.get(word(one, "spare")).copied();
    Rows::of(values(all, FACTOR))
        .column("cleaning", |one| word(one, "policy"))
        .column("spare (%)", |one| word(one, "spare"))
        .column("pages per block", |one| word(one, "pages_per_block"))
        .column("write amplification", |one| &one.value)
        .column("formula", law)
        .column("difference (%)", |one| law(one).map(|law| (one.value.get() / law - 1.0) * 100.0))
        .table("factors", "Write amplification, simulated and by the formula")
}

fn figure(all: &[&Measurement]) -> Figure {
    let mut series =
        vec![Series::new("formula, first in, first out", Mark::Predicted, points(all, FORMULA, "spare", |_| true))];
    let mut kinds: Vec<(&str, &str)> =
        values(all, FACTOR).map(|one| (word(one, "policy"), word(one, "pages_per_block"))).collect();
    kinds.sort_by_key(|(policy, pages)| (*policy, pages.parse::<u32>().unwrap_or(0)));
    kinds.dedup();
    for (policy, pages) in kinds {
        let of =
            points(all, FACTOR, "spare", |one| word(one, "policy") == policy && word(one, "pages_per_block") == pages);
        series.push(Series::new(format!("{policy}, {pages} pages a block"), Mark::Modelled, of));
    }
    Figure {
        id: "factors".into(),
        title: "Write amplification over the spare area".into(),
        caption: "Uniform random writes of single pages to a full drive.".into(),
        device: "modelled: a flash translation layer".into(),
        better: Better::Lower,
        kind: FigureKind::Lines {
            x: Axis::linear("spare area (% of the capacity)").from_zero(),
            y: Axis::linear("write amplification").from_zero(),
            series,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_spare_blocks_are_reported() {
        let spec = Spec { spare: vec![5.0], pages_per_block: vec![1024], pages: 1 << 16, rounds: vec![3, 2] };
        assert!(spec.check().unwrap_err().to_string().contains("use more --pages"));
        let rounds = Spec { rounds: vec![3], ..WriteAmplification::defaults(Level::Smoke) };
        assert!(rounds.check().unwrap_err().to_string().contains("two numbers"));
        for level in [Level::Smoke, Level::Quick, Level::Paper] {
            WriteAmplification::defaults(level).check().unwrap();
        }
    }
}
