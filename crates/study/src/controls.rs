//! Controls: the same cell on the same image, measured in two interleaved halves. A difference between them is not an
//! effect of the cell.

use crate::matrix_run::RunEvent;
use senesce_core::Measurement;
use senesce_runs::decided::direction;
use senesce_stats::verdict::FAMILY_ERROR;
use senesce_stats::{Arm, Decision, Mean, Ratio, Rule, decide_all};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct Control {
    pub workload: usize,
    pub fs: usize,
    pub what: Measurement,
    pub decision: Decision,
}

type Halves = BTreeMap<(usize, usize), (Measurement, Vec<f64>, Vec<f64>)>;

pub(crate) fn of(events: &[RunEvent]) -> Vec<Control> {
    let place = |event: &RunEvent| (event.id.on, event.id.workload);
    let twins: BTreeSet<_> = events.iter().filter(|event| event.id.twin).map(place).collect();
    let mut halves = Halves::new();
    for event in events.iter().filter(|event| twins.contains(&place(event)) && !event.is_emulated()) {
        let Some(what) = event.metrics.first() else { continue };
        let key = (event.id.workload, event.id.on.fs);
        let (_, own, twin) = halves.entry(key).or_insert_with(|| (what.clone(), Vec::new(), Vec::new()));
        if event.id.twin { twin.push(what.value.get()) } else { own.push(what.value.get()) }
    }
    let with_direction = halves.into_iter().filter_map(|(key, half)| Some((key, direction(half.0.better)?, half)));
    let all: Vec<_> = with_direction.collect();
    let arm = |values: &[f64]| Arm::single(values, Mean::Geometric);
    let family: Vec<_> = all
        .iter()
        .map(|(_, direction, (_, own, twin))| {
            let ratio = arm(twin).and_then(|twin| Ok(Ratio::of(&twin, &arm(own)?)));
            (ratio, Rule::new(*direction))
        })
        .collect();
    let decisions = decide_all(&family, FAMILY_ERROR);
    all.into_iter()
        .zip(decisions)
        .map(|(((workload, fs), _, (what, ..)), decision)| Control { workload, fs, what, decision })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{ImageId, RunId};
    use senesce_core::analysis::Better;

    fn events(fs: usize, own: f64, twin: f64) -> Vec<RunEvent> {
        let wobble = [0.99, 1.0, 1.01, 1.0, 0.995, 1.005];
        let of = |twin: bool, centre: f64| {
            wobble.iter().enumerate().map(move |(repetition, factor)| RunEvent {
                id: RunId { on: ImageId { fs, state: 0, image: 0 }, workload: 0, repetition: repetition as u32, twin },
                metrics: vec![Measurement::new("throughput", "1/s", Better::Higher, centre * factor).unwrap()],
                overhead_seconds: 0.0,
                seconds: 1.0,
                guest: None,
            })
        };
        of(false, own).chain(of(true, twin)).collect()
    }

    #[test]
    fn difference_in_a_control_is_reported() {
        let found = of(&[events(0, 100.0, 100.0), events(1, 100.0, 80.0)].concat());
        let words: Vec<&str> = found.iter().map(|control| control.decision.verdict.word()).collect();
        assert_eq!(words, ["equivalent", "worse"]);
        assert!(of(&events(0, 1.0, 1.0)[..6]).is_empty(), "a control needs a second half");
    }
}
