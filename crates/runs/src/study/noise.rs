//! The noise floor of a study, and cells judged above it.

use super::matrix::ImageId;
use super::matrix_run::RunEvent;
use super::results::Cell;
use senesce_core::Seed;
use senesce_core::analysis::Better;
use senesce_stats::{Direction, judge, noise_floor};
use std::collections::{BTreeMap, BTreeSet};

/// Workload, file system and metric.
type Key = (usize, usize, String);

/// Noise floors (fractions) by workload, file system and metric.
pub type Noise = BTreeMap<Key, f64>;

/// Twins against the same cell's own runs on the same image. Each file system has its own floor: one that is noisy does not
/// hide what another shows.
pub(super) fn floors(events: &[RunEvent]) -> Noise {
    let twins: BTreeSet<(ImageId, usize)> =
        events.iter().filter(|event| event.id.twin).map(|event| (event.id.on, event.id.workload)).collect();
    let mut pairs: BTreeMap<Key, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for event in events.iter().filter(|event| twins.contains(&(event.id.on, event.id.workload))) {
        for one in &event.metrics {
            let (own, twin) = pairs.entry((event.id.workload, event.id.on.fs, one.metric.clone())).or_default();
            if event.id.twin { twin.push(one.value.get()) } else { own.push(one.value.get()) }
        }
    }
    pairs.into_iter().filter_map(|(key, pair)| Some((key, noise_floor(&[pair])?))).collect()
}

/// Judges every cell against the first state of the same file system under the same workload and metric.
pub(super) fn judge_all(cells: &mut [Cell], noise: &Noise) {
    let key = |cell: &Cell| (cell.workload, cell.fs, cell.what.metric.clone());
    let mut references: BTreeMap<_, (usize, Vec<Vec<f64>>)> = BTreeMap::new();
    for cell in cells.iter() {
        let known = references.entry(key(cell)).or_insert_with(|| (cell.state, cell.groups.clone()));
        if cell.state < known.0 {
            *known = (cell.state, cell.groups.clone());
        }
    }
    for cell in cells {
        let key = key(cell);
        let Some((state, reference)) = references.get(&key) else { continue };
        if *state == cell.state {
            continue;
        }
        let mut rng = Seed(0).stream(&format!("study/judge/{}/{}/{}", cell.workload, cell.fs, cell.state));
        let direction = match cell.what.better {
            Better::Lower => Direction::LowerIsBetter,
            _ => Direction::HigherIsBetter,
        };
        let floor = noise.get(&key).copied().unwrap_or(0.0);
        cell.judgement = Some(judge(&cell.groups, reference, direction, floor, &mut rng));
    }
}
