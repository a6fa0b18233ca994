//! Finds stripe and dies of a drive from the rates of random reads at different alignments (Jun et al., FAST 2024, figure 8).

use crate::{measured, points, values, word};
use clap::{Args, value_parser};
use senesce_claims::Facts;
use senesce_core::Rows;
use senesce_core::analysis::{Axis, Better, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Analysis, Bytes, Failure, Level, Measurement, Seed};
use senesce_devmodel::ssd::alignment::{DEPTH, GREATEST_BYTES, WrittenInOrder, measure_alignment};
use senesce_devmodel::{DeviceModel, Flash, Parameters};
use senesce_runner::{Context, Experiment, NoEvent, Planned, Recorded, Run};
use serde::{Deserialize, Serialize};
use serde_json::json;

const RATE: &str = "random read rate";
const FOUND: &str = "stripe found";
const TRUE: &str = "stripe of the geometry";

pub struct SsdAlignment;

/// Models and reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// models of flash drives from `senesce device list`, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub models: Vec<String>,
    /// reads at each alignment
    #[arg(long, value_parser = value_parser!(u32).range(100..=1_000_000))]
    pub reads: u32,
}

fn flash(name: &str) -> Result<Flash, Failure> {
    match DeviceModel::load(name)?.parameters {
        Parameters::FlashSsd(flash) => Ok(flash),
        _ => Err(Failure::usage(format!("models: {name} has no flash translation layer, so its dies cannot be found"))),
    }
}

/// Returns the number of bytes after which the same die follows, by the geometry.
fn stripe(flash: &Flash) -> u64 {
    flash.program_bytes() * u64::from(flash.geometry.dies())
}

impl Run for SsdAlignment {
    const KIND: &'static str = "ssd-alignment";
    const PUBLISHED: &'static str = include_str!("../data/published/ssd-alignment.csv");
    const CLAIMS: &'static str = include_str!("../data/published/ssd-alignment.claims.toml");
    type Spec = Spec;
    type Event = NoEvent;
    type Step = String;

    fn facts(spec: &Spec, _recorded: &Recorded<Self>, facts: Facts) -> Facts {
        Facts { model: Some(spec.models.join(", ")), deterministic: true, drives: spec.models.clone(), ..facts }
    }

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<String>>, Failure> {
        let step = |name: &String| {
            flash(name)?;
            let action =
                format!("{} random reads of 4 KiB at each alignment up to {}", spec.reads, Bytes(GREATEST_BYTES));
            Ok(Planned::new(name.clone(), action, name.clone()).costing(Bytes(0), f64::from(spec.reads) * 256.0 / 5e5))
        };
        spec.models.iter().map(step).collect()
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, name: &String, context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let flash = flash(name)?;
        let seen = measure_alignment(&mut WrittenInOrder::new(&flash), spec.reads as usize, context.seed)?;
        let stripe = stripe(&flash);
        for (alignment, rate) in &seen.mb_per_s {
            let kib = (alignment >> 10).to_string();
            let at = if alignment.is_multiple_of(stripe) { "multiple" } else { "else" };
            let under = [("model", name.as_str()), ("alignment_kib", &kib), ("stripe", at)];
            context.measure(measured(RATE, "MB/s", Better::Higher, *rate, &under)?);
        }
        let under = [("model", name.as_str())];
        context.measure(measured(TRUE, "bytes", Better::Neither, stripe as f64, &under)?);
        match seen.stripe_bytes {
            Some(found) => context.measure(measured(FOUND, "bytes", Better::Neither, found as f64, &under)?),
            None => context.caveat(format!(
                "no alignment of {name} stands out: its stripe of {} is larger than {}, or reads wait for something \
                 other than dies",
                Bytes(stripe),
                Bytes(GREATEST_BYTES)
            )),
        }
        if let Some(die) = seen.die_bytes {
            context.measure(measured("die granularity found", "bytes", Better::Neither, die as f64, &under)?);
        }
        Ok(())
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let all: Vec<&Measurement> = recorded.measurements().collect();
        Ok(Analysis {
            title: "Alignment of random reads on flash".into(),
            summary: format!(
                "A drive is written in order and then read at random, 4 KiB at a time and {DEPTH} at once, at multiples of an \
                 alignment. If that is a multiple of the stripe, all reads go to one die."
            ),
            figures: vec![figure(&all, &spec.models)],
            tables: vec![table(&all, &spec.models)],
            caveats: vec![
                "modelled: no drive was read; use `senesce device measure --alignment` for a real one".into(),
            ],
            result: json!({"models": spec.models, "measured": all}),
            ..Analysis::default()
        })
    }
}

impl Experiment for SsdAlignment {
    const TITLE: &'static str = "Stripe and die of a flash drive, found by the alignment of random reads";
    const PAGE: &'static str = include_str!("../docs/experiments/ssd-alignment.md");

    fn defaults(level: Level) -> Spec {
        Spec {
            models: level
                .of([vec!["ssd:fast24"], vec!["ssd:fast24", "ssd:970-pro"], vec!["ssd:fast24", "ssd:970-pro"]])
                .into_iter()
                .map(String::from)
                .collect(),
            reads: level.of([300, 2000, 10_000]),
        }
    }
}

fn table(all: &[&Measurement], models: &[String]) -> Table {
    let of = |model: &String, metric| values(all, metric).find(|one| word(one, "model") == model).map(|one| one.value);
    Rows::of(models)
        .column("model", |model| model)
        .column("stripe of the geometry (bytes)", |model| of(model, TRUE))
        .column("stripe found (bytes)", |model| of(model, FOUND))
        .column("die granularity found (bytes)", |model| of(model, "die granularity found"))
        .table("found", "Stripe and die found by alignment")
}

fn figure(all: &[&Measurement], models: &[String]) -> Figure {
    let of = |model: &String| {
        let points = points(all, RATE, "alignment_kib", |one| word(one, "model") == model);
        Series::new(model, Mark::Modelled, points)
    };
    Figure {
        id: "alignment".into(),
        title: "Random reads by alignment".into(),
        caption: "Dips are at multiples of the stripe, smaller ones at multiples of its half and quarter.".into(),
        device: format!("modelled: {}", models.join(", ")),
        better: Better::Higher,
        kind: FigureKind::Lines {
            x: Axis::linear("alignment (KiB)").from_zero(),
            y: Axis::linear("rate (MB/s)").from_zero(),
            series: models.iter().map(of).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drives_with_dies_have_alignments() {
        assert!(flash("850-evo").unwrap_err().to_string().contains("no flash translation layer"));
        assert_eq!(stripe(&flash("ssd:fast24").unwrap()), 256 << 10);
    }
}
