//! How often gates of equal sides fail: gates are drawn from one with many agings, and judged by the same rules.

use crate::run::{AgedStep, CompletedAgings, GateAnswer, GateStep, answer, judge_all, pairs_needed};
use crate::spec::GateSpec;
use crate::words::of;
use rand::seq::SliceRandom;
use senesce_core::{Failure, Record, Seed};

/// Source of the variant in a drawn gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The variant of the record, with the same seeds.
    Own,
    /// The reference, with other seeds.
    OtherSeeds,
}

/// Answers of drawn gates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrawnGates {
    pub gates: u32,
    pub worse: u32,
    pub no_verdict: u32,
    /// Gates that needed more than the first number of pairs.
    pub extended: u32,
}

/// Draws gates of 4 pairs, extended to 8, from the seeds of a record that have both sides and a sham.
///
/// # Errors
/// The record is not that of a gate, or has too few seeds.
pub fn redraw(record: &Record, variant: Variant, gates: u32, seed: Seed) -> Result<DrawnGates, Failure> {
    let (mut spec, agings, _) = of(record)?;
    (spec.gate.pairs, spec.gate.max_pairs) = (4, 8);
    let mut random = seed.stream("gate/redraw");
    let mut seeds = agings.complete_seeds();
    let wanted = spec.gate.max_pairs as usize * if variant == Variant::Own { 1 } else { 2 };
    if seeds.len() < 2 * wanted {
        return Err(Failure::usage(format!("{} complete seeds: {} are needed", seeds.len(), 2 * wanted)));
    }
    let mut drawn = DrawnGates { gates, ..DrawnGates::default() };
    for _ in 0..gates {
        seeds.shuffle(&mut random);
        drawn.count(&spec, &drawn_gate(&spec, &agings, variant, &seeds));
    }
    Ok(drawn)
}

fn drawn_gate(spec: &GateSpec, agings: &CompletedAgings, variant: Variant, seeds: &[u32]) -> CompletedAgings {
    let pairs = spec.gate.max_pairs as usize;
    let others = match variant {
        Variant::Own => &seeds[..pairs],
        Variant::OtherSeeds => &seeds[pairs..2 * pairs],
    };
    let source = usize::from(variant == Variant::Own);
    let one = |number: usize| {
        let of = |seed, side, sham| GateStep { seed, side, sham };
        let (seed, other, number) = (seeds[number], others[number], number as u32);
        [(of(seed, 0, false), 0, false), (of(other, source, false), 1, false), (of(seed, 0, true), 0, true)]
            .map(|(step, side, sham)| (step, of(number, side, sham)))
    };
    let copied = |(from, to): (GateStep, GateStep)| Some(AgedStep { step: to, aged: agings.get(from)?.clone() });
    (0..pairs).flat_map(one).filter_map(copied).collect()
}

impl DrawnGates {
    fn count(&mut self, spec: &GateSpec, agings: &CompletedAgings) {
        let pairs = pairs_needed(spec, agings);
        self.extended += u32::from(pairs > spec.gate.pairs);
        match answer(&judge_all(spec, &agings.below(pairs)), 0) {
            GateAnswer::Worse => self.worse += 1,
            GateAnswer::NoVerdict => self.no_verdict += 1,
            GateAnswer::NotWorse => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{agings, gate};
    use std::collections::BTreeSet;

    #[test]
    fn drawn_gates_have_the_seeds_and_sides_of_their_variant() {
        let spec = gate(8);
        let value = |step: GateStep| f64::from(step.seed * 10 + step.side as u32 * 2 + u32::from(step.sham));
        let all = agings(40, &mut |step| value(step));
        let seeds: Vec<u32> = all.complete_seeds().into_iter().rev().collect();
        for (variant, side) in [(Variant::Own, 2.0), (Variant::OtherSeeds, 0.0)] {
            let drawn = drawn_gate(&spec, &all, variant, &seeds);
            assert_eq!((drawn.pairs().count(), drawn.shams().count()), (8, 8));
            let (one, other): (BTreeSet<u64>, BTreeSet<u64>) = drawn
                .pairs()
                .map(|(one, other)| (one.disk_seconds as u64 / 10, other.disk_seconds as u64 / 10))
                .unzip();
            assert_eq!(one == other, variant == Variant::Own);
            assert_eq!(one.is_disjoint(&other), variant == Variant::OtherSeeds);
            assert!(drawn.pairs().all(|(_, other)| other.disk_seconds % 10.0 == side));
            assert!(drawn.shams().all(|(plain, sham)| sham.disk_seconds == plain.disk_seconds + 1.0));
        }
    }

    #[test]
    fn worse_variants_fail_every_drawn_gate() {
        let spec = gate(8);
        let worse = agings(40, &mut |step| if step.side == 1 { 2000.0 } else { 1000.0 + f64::from(step.seed % 3) });
        let mut drawn = DrawnGates::default();
        drawn.count(&spec, &drawn_gate(&spec, &worse, Variant::Own, &worse.complete_seeds()));
        drawn.count(&spec, &drawn_gate(&spec, &worse, Variant::OtherSeeds, &worse.complete_seeds()));
        assert_eq!((drawn.worse, drawn.extended), (1, 0));
    }
}
