//! The order of file systems in every state, and whether it changes.

use super::results::{Cell, Results};
use senesce_core::Seed;
use senesce_core::analysis::{Better, Table};
use senesce_stats::{rank_flips, rank_order};
use serde_json::json;

/// Groups of every file system in one state under one metric, with names; those without values are left out.
fn systems(cells: &[&Cell], state: usize) -> Vec<(usize, Vec<Vec<f64>>)> {
    cells.iter().filter(|cell| cell.state == state).map(|cell| (cell.fs, cell.groups.clone())).collect()
}

pub(super) fn ranks_table(results: &Results) -> Table {
    let mut table = Table::new("ranks", "Rank order, the best first", &["workload", "metric", "state", "order"]);
    for cells in results.by_metric() {
        for (state, spec) in results.spec.state.iter().enumerate() {
            let systems = systems(&cells, state);
            if systems.len() < 2 {
                continue;
            }
            let groups: Vec<Vec<Vec<f64>>> = systems.iter().map(|(_, groups)| groups.clone()).collect();
            let mut order = rank_order(&groups);
            if cells[0].what.better == Better::Lower {
                order.reverse();
            }
            let names: Vec<&str> =
                order.iter().map(|&place| results.spec.file_system[systems[place].0].name.as_str()).collect();
            let workload = &results.spec.workload[cells[0].workload].name;
            table.row(vec![json!(workload), json!(cells[0].what.metric), json!(spec.name), json!(names.join(" > "))]);
        }
    }
    table
}

/// A pair of file systems between the first and another state.
pub(super) struct NamedFlip {
    pub workload: String,
    pub metric: String,
    pub first: String,
    pub second: String,
    pub state: String,
    pub observed: bool,
    pub probability: f64,
}

pub(super) fn flips(results: &Results) -> Vec<NamedFlip> {
    let mut all = Vec::new();
    for cells in results.by_metric() {
        let Some(reference) = cells.iter().map(|cell| cell.state).min() else { continue };
        for (state, spec) in results.spec.state.iter().enumerate().filter(|(state, _)| *state != reference) {
            let (before, after) = (systems(&cells, reference), systems(&cells, state));
            // Resampling a single value gives that value again: nothing could be unsure.
            let judged = |systems: &[(usize, Vec<Vec<f64>>)], fs: usize| {
                systems.iter().any(|(one, groups)| *one == fs && groups.iter().map(Vec::len).sum::<usize>() > 1)
            };
            let common = before.iter().map(|(fs, _)| *fs).filter(|fs| judged(&before, *fs) && judged(&after, *fs));
            let common: Vec<usize> = common.collect();
            let pick = |from: &[(usize, Vec<Vec<f64>>)]| -> Vec<Vec<Vec<f64>>> {
                common
                    .iter()
                    .filter_map(|fs| from.iter().find(|(one, _)| one == fs))
                    .map(|(_, groups)| groups.clone())
                    .collect()
            };
            let mut rng = Seed(0).stream(&format!("study/flips/{state}/{}", cells[0].what.metric));
            let name = |place: usize| results.spec.file_system[common[place]].name.clone();
            all.extend(rank_flips(&pick(&before), &pick(&after), &mut rng).into_iter().map(|flip| NamedFlip {
                workload: results.spec.workload[cells[0].workload].name.clone(),
                metric: cells[0].what.metric.clone(),
                first: name(flip.first),
                second: name(flip.second),
                state: spec.name.clone(),
                observed: flip.observed,
                probability: flip.probability,
            }));
        }
    }
    all
}

pub(super) fn flips_table(results: &Results, flips: &[NamedFlip]) -> Table {
    let columns = ["workload", "metric", "pair", "state", "order flips", "probability"];
    let title = format!("Does the order change against '{}'?", results.spec.state[0].name);
    let mut table = Table::new("flips", &title, &columns);
    for flip in flips {
        table.row(vec![
            json!(flip.workload),
            json!(flip.metric),
            json!(format!("{} and {}", flip.first, flip.second)),
            json!(flip.state),
            json!(if flip.observed { "yes" } else { "no" }),
            json!(flip.probability),
        ]);
    }
    table
}
