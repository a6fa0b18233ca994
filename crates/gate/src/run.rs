//! The agings of a gate: which are still to do, and those that are done.

use crate::aged::Aged;
use crate::judge::{ALARM, MetricVerdict, Verdict, judge};
use crate::metric::{METRICS, primaries};
use crate::spec::GateSpec;
use serde::{Deserialize, Serialize};

/// One aging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GateStep {
    /// Seed: the number of its pair.
    pub seed: u32,
    /// Index of the file system.
    pub side: usize,
    /// Whether a file was created and deleted before.
    pub sham: bool,
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// An image was aged.
    Aged(Box<AgedStep>),
}

/// An image and the step that aged it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgedStep {
    pub step: GateStep,
    pub aged: Aged,
}

/// Returns all steps of the seeds below `pairs`: both sides, and a sham of the reference.
pub(crate) fn steps(pairs: u32) -> impl Iterator<Item = GateStep> {
    (0..pairs).flat_map(|seed| {
        [(0, false), (1, false), (0, true)].into_iter().map(move |(side, sham)| GateStep { seed, side, sham })
    })
}

/// The agings that are done.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompletedAgings(Vec<AgedStep>);

impl CompletedAgings {
    pub(crate) fn of<'a>(events: impl Iterator<Item = &'a Event>) -> Self {
        Self(events.map(|Event::Aged(one)| (**one).clone()).collect())
    }

    pub(crate) fn all(&self) -> &[AgedStep] {
        &self.0
    }

    pub(crate) fn get(&self, step: GateStep) -> Option<&Aged> {
        self.0.iter().find(|one| one.step == step).map(|one| &one.aged)
    }

    fn seeds(&self) -> impl Iterator<Item = u32> {
        0..self.0.iter().map(|one| one.step.seed + 1).max().unwrap_or(0)
    }

    /// Returns the reference and variant of each seed that has both.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Aged, &Aged)> {
        let side = |seed, side| self.get(GateStep { seed, side, sham: false });
        self.seeds().filter_map(move |seed| Some((side(seed, 0)?, side(seed, 1)?)))
    }

    /// Returns the reference and its sham of each seed that has both.
    pub(crate) fn shams(&self) -> impl Iterator<Item = (&Aged, &Aged)> {
        let one = |seed, sham| self.get(GateStep { seed, side: 0, sham });
        self.seeds().filter_map(move |seed| Some((one(seed, false)?, one(seed, true)?)))
    }

    /// Returns whether both sides of every pair have the same layout, also of the slow append.
    pub(crate) fn are_identical(&self) -> bool {
        let is_same = |(one, other): (&Aged, &Aged)| one.layout().is_some_and(|own| other.layout() == Some(own));
        self.pairs().count() > 0 && self.pairs().all(is_same)
    }

    /// Returns the seeds with both sides and a sham.
    pub(crate) fn complete_seeds(&self) -> Vec<u32> {
        let has_all = |seed: &u32| steps(1).all(|step| self.get(GateStep { seed: *seed, ..step }).is_some());
        self.seeds().filter(has_all).collect()
    }

    /// Returns the agings of seeds below `pairs`.
    pub(crate) fn below(&self, pairs: u32) -> Self {
        Self(self.0.iter().filter(|one| one.step.seed < pairs).cloned().collect())
    }
}

impl FromIterator<AgedStep> for CompletedAgings {
    fn from_iter<I: IntoIterator<Item = AgedStep>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// Returns the verdicts after the last analysis, each with its share of the error.
pub(crate) fn judge_all(spec: &GateSpec, agings: &CompletedAgings) -> Vec<MetricVerdict> {
    let rules = &spec.gate;
    let analyses = if rules.max_pairs > rules.pairs { 2.0 } else { 1.0 };
    // An alarm is one end of an interval.
    let error = 2.0 * ALARM / (primaries() as f64 * analyses);
    METRICS.iter().map(|metric| judge(metric, agings, rules.minimum_effect, error)).collect()
}

/// Returns the number of pairs that are needed: the maximum if the first analysis leaves a primary metric open.
pub(crate) fn pairs_needed(spec: &GateSpec, agings: &CompletedAgings) -> u32 {
    let first = agings.below(spec.gate.pairs);
    let is_complete = first.pairs().count() as u32 == spec.gate.pairs;
    let judged = judge_all(spec, &first);
    let is_worse = judged.iter().any(|one| one.primary && one.verdict == Verdict::Worse);
    let is_open = judged.iter().any(|one| one.primary && one.verdict == Verdict::Undecided);
    if is_complete && is_open && !is_worse { spec.gate.max_pairs } else { spec.gate.pairs }
}

/// The answer to the question of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GateAnswer {
    /// A primary metric is worse.
    Worse,
    /// None is worse.
    NotWorse,
    /// An aging failed, or a primary metric is not testable.
    NoVerdict,
}

/// Returns the answer; `failed` is the number of failed agings.
pub(crate) fn answer(judged: &[MetricVerdict], failed: usize) -> GateAnswer {
    let any = |verdict| judged.iter().any(|one| one.primary && one.verdict == verdict);
    if failed > 0 || judged.is_empty() || any(Verdict::NotTestable) {
        GateAnswer::NoVerdict
    } else if any(Verdict::Worse) {
        GateAnswer::Worse
    } else {
        GateAnswer::NotWorse
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn gate(max_pairs: u32) -> GateSpec {
        let text = crate::EXAMPLE.replace("max_pairs = 8", &format!("max_pairs = {max_pairs}"));
        toml::from_str(&text).unwrap()
    }

    /// Makes agings whose every measured value is `value` of their step.
    pub(crate) fn agings(pairs: u32, value: &mut dyn FnMut(GateStep) -> f64) -> CompletedAgings {
        let aged = |value: f64| Aged {
            files: 1,
            extents: value as u64,
            discontinuities: value as u64,
            free_extents: Some(value as u64),
            mean_free_bytes: Some(value),
            free_histogram: Vec::new(),
            disk_seconds: value,
            ssd_seconds: value,
            append_extents: value,
            metadata_bytes: value as u64,
            operations: Some(1),
            requests: 1,
            written_bytes: 1,
            flushes: 0,
            commits: None,
            digest: None,
            mount_options: String::new(),
            mkfs_version: None,
        };
        CompletedAgings(steps(pairs).map(|step| AgedStep { step, aged: aged(value(step)) }).collect())
    }

    impl CompletedAgings {
        pub(crate) fn change_all(&mut self, change: impl Fn(&mut Aged)) {
            self.0.iter_mut().for_each(|one| change(&mut one.aged));
        }

        pub(crate) fn set_digests(&mut self, digest: impl Fn(GateStep) -> String) {
            self.0.iter_mut().for_each(|one| one.aged.digest = Some(digest(one.step)));
        }
    }

    #[test]
    fn undecided_gate_is_extended_once() {
        let spec = gate(8);
        let spread = |step: GateStep| 1000.0 + 200.0 * f64::from((step.seed * 7 + step.side as u32 * 3) % 5);
        assert_eq!(pairs_needed(&spec, &agings(0, &mut |_| 1.0)), 4);
        assert_eq!(pairs_needed(&spec, &agings(4, &mut |step| spread(step))), 8, "undecided");
        assert_eq!(pairs_needed(&spec, &agings(8, &mut |step| spread(step))), 8);
        assert_eq!(pairs_needed(&spec, &agings(4, &mut |_| 1000.0)), 4, "equivalent");
        let worse = |step: GateStep| if step.side == 1 { 2000.0 } else { 1000.0 };
        assert_eq!(pairs_needed(&spec, &agings(4, &mut |step| worse(step))), 4, "worse");
    }

    #[test]
    fn each_seed_has_both_sides_and_a_sham() {
        let all: Vec<GateStep> = steps(3).collect();
        assert_eq!(all.len(), 9);
        let agings = agings(3, &mut |_| 1.0);
        assert_eq!((agings.pairs().count(), agings.shams().count()), (3, 3));
        assert!(all.iter().all(|step| !(step.sham && step.side == 1)));
    }
}
