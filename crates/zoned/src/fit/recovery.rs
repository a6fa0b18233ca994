//! Tests whether a fit recovers constants: simulates a drive with known constants, measures and fits it from another
//! start model.

use super::block::{FittedBlock, FittedConstant, FittedUncertainty, Pass, fit, in_parallel, observations};
use super::constants::Constants;
use super::design::{Design, Effort, design, start_model};
use super::probe::Values;
use crate::error::ZonedError;
use crate::sim::model::Model;
use crate::survey::Survey;
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;
use std::collections::BTreeMap;

/// Maximum relative change of a constant.
const ALTERED: f64 = 0.25;
const SWEEPS: u32 = 2;
const REPETITIONS: u32 = 3;

#[derive(Debug, Clone)]
pub struct RecoveredConstant {
    pub block: String,
    pub truth: f64,
    pub found: FittedConstant,
    pub settled: bool,
}

impl RecoveredConstant {
    pub fn error(&self) -> f64 {
        self.found.value / self.truth - 1.0
    }

    /// Returns whether the constant is reported as determined, but is off by more than 2 % and three standard
    /// deviations.
    pub fn is_wrong(&self) -> bool {
        let error = self.error().abs();
        let stated = self.found.deviation.unwrap_or(f64::INFINITY);
        self.found.is_determined() && error > 0.02 && (stated >= 0.02 || error > 3.0 * stated)
    }
}

/// Returns `model` with each constant multiplied by a random factor from 0.75 to 1.25.
pub fn altered(model: &Model, names: &[String], seed: Seed) -> Result<Model, ZonedError> {
    let mut constants = Constants::of(model)?;
    for name in names {
        let mut stream = seed.stream(name);
        let before = constants.get(name).unwrap_or(0.0);
        // Factors that give an invalid model are drawn again.
        for _ in 0..100 {
            let even = (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            constants.set(name, before * (1.0 + ALTERED * (2.0 * even - 1.0)))?;
            if constants.model().is_ok() {
                break;
            }
        }
    }
    constants.model()
}

/// Measures `drive` and fits its constants from `start`, only in blocks whose name contains `word`.
pub fn recover(
    drive: &Model,
    start: &Model,
    effort: Effort,
    seed: Seed,
    word: &str,
) -> Result<Vec<RecoveredConstant>, ZonedError> {
    let mut survey = Survey::of(&"sim:zn540".parse()?)?;
    survey.geometry = drive.geometry(None)?;
    let Design { mut blocks, .. } = design(&survey, effort)?;
    blocks.retain(|block| block.name.contains(word));
    let mut constants = Constants::of(&start_model(&survey, start, "fitted")?)?;
    let truth = Constants::of(drive)?;
    let probes: Vec<_> = blocks.iter().flat_map(|block| &block.probes).collect();
    let each: Vec<(usize, u32)> =
        (0..probes.len()).flat_map(|probe| (0..REPETITIONS).map(move |repetition| (probe, repetition))).collect();
    let measured = in_parallel(each.len(), |index| {
        let (probe, repetition) = each[index];
        let seed = seed.child(&format!("{}/{repetition}", probes[probe].key));
        probes[probe].averaged(seed, |seed| probes[probe].model(drive, seed))
    });
    let measured: Vec<Values> = measured.into_iter().collect::<Result<_, _>>()?;
    let observed = observations(each.iter().zip(&measured).map(|((probe, _), values)| (&*probes[*probe].key, values)));
    if !word.is_empty() {
        // Constants of other blocks keep their true values.
        let own: Vec<&String> = blocks.iter().flat_map(|block| &block.constants).collect();
        for name in truth.names().iter().filter(|name| !own.contains(name)) {
            constants.set(name, truth.get(name).unwrap_or(0.0))?;
        }
    }
    let mut found: BTreeMap<String, RecoveredConstant> = BTreeMap::new();
    let mut known = FittedUncertainty::default();
    for sweep in 0..SWEEPS {
        for block in &blocks {
            let pass = if sweep + 1 == SWEEPS { Pass::Last(&known) } else { Pass::First };
            let FittedBlock { constants: found_here, settled } =
                fit(&constants.model()?, block, &observed, pass, seed.child(&format!("fit/{sweep}")))?;
            for one in found_here {
                if let Some(deviation) = one.deviation {
                    known.add(&one.key, deviation, &one.correlations);
                }
                if one.deviation.is_some() {
                    constants.set(&one.key, one.value)?;
                }
                let truth = truth.get(&one.key).unwrap_or(f64::NAN);
                found.insert(
                    one.key.clone(),
                    RecoveredConstant { block: block.name.clone(), truth, found: one, settled },
                );
            }
        }
    }
    Ok(found.into_values().collect())
}
