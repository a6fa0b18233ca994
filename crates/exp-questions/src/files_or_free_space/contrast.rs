//! Ratios of aged to young, blocked by seed.

use super::work::{MeasuredState, NewFiles, Seconds, Written};
use super::{Aging, LayoutAge};
use senesce_core::Size;
use senesce_stats::verdict::{Decision, Direction, Rule, decide};
use senesce_stats::{Interval, Mean, Ratio, Unit};
use serde::Serialize;

/// Changes up to this are irrelevant.
pub(super) const MARGIN: f64 = 0.03;
/// Of each interval alone.
pub(super) const ERROR: f64 = 0.05;

/// The four states of one aging of one seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub seed: u32,
    /// By age of files, and of free space.
    states: [[&'a MeasuredState; 2]; 2],
}

impl<'a> Block<'a> {
    /// Returns the block of a seed; `None` if a state is missing.
    fn of(all: &[&'a MeasuredState], seed: u32) -> Option<Self> {
        let state = |files, free| {
            let is_it = |one: &&&MeasuredState| (one.step.seed, one.step.files, one.step.free) == (seed, files, free);
            all.iter().find(is_it).copied()
        };
        let pair = |files| Some([state(files, LayoutAge::Young)?, state(files, LayoutAge::Aged)?]);
        Some(Self { seed, states: [pair(LayoutAge::Young)?, pair(LayoutAge::Aged)?] })
    }

    pub(super) fn state(&self, files: LayoutAge, free: LayoutAge) -> &'a MeasuredState {
        self.states[files as usize][free as usize]
    }

    pub(super) fn all(&self) -> [&'a MeasuredState; 4] {
        let [young, aged] = self.states;
        [young[0], young[1], aged[0], aged[1]]
    }
}

/// Returns the agings in the order of the record, each with its blocks and the number of seeds that lack a state.
pub(super) fn blocks(states: &[MeasuredState]) -> Vec<(Aging, Vec<Block<'_>>, usize)> {
    let mut agings: Vec<Aging> = Vec::new();
    for one in states {
        if !agings.contains(&one.step.aging) {
            agings.push(one.step.aging.clone());
        }
    }
    let of = |aging: Aging| {
        let all: Vec<&MeasuredState> = states.iter().filter(|one| one.step.aging == aging).collect();
        let mut seeds: Vec<u32> = all.iter().map(|one| one.step.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let blocks: Vec<Block<'_>> = seeds.iter().filter_map(|seed| Block::of(&all, *seed)).collect();
        let missing = seeds.len() - blocks.len();
        (aging, blocks, missing)
    };
    agings.into_iter().map(of).collect()
}

/// A difference between states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Factor {
    Files,
    FreeSpace,
    /// The ratio of free space with aged files over that with young files.
    Interaction,
}

impl Factor {
    pub(super) const ALL: [Self; 3] = [Self::Files, Self::FreeSpace, Self::Interaction];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::FreeSpace => "free space",
            Self::Interaction => "interaction",
        }
    }

    /// Returns the aged and the young value; the other factor counts half each.
    fn pair(self, block: &Block<'_>, value: &dyn Fn(&MeasuredState) -> Option<f64>) -> Option<(f64, f64)> {
        use LayoutAge::{Aged, Young};
        let mean = |one: (LayoutAge, LayoutAge), other: (LayoutAge, LayoutAge)| {
            Some((value(block.state(one.0, one.1))? * value(block.state(other.0, other.1))?).sqrt())
        };
        match self {
            Self::Files => Some((mean((Aged, Aged), (Aged, Young))?, mean((Young, Aged), (Young, Young))?)),
            Self::FreeSpace => Some((mean((Aged, Aged), (Young, Aged))?, mean((Aged, Young), (Young, Young))?)),
            Self::Interaction => {
                let (both, one) = (mean((Aged, Aged), (Young, Young))?, mean((Aged, Young), (Young, Aged))?);
                // Square roots of ratios of ratios.
                Some((both * both, one * one))
            }
        }
    }

    /// Decides on the value, and counts the seeds that have it.
    pub(super) fn decide(
        self,
        blocks: &[Block<'_>],
        value: &dyn Fn(&MeasuredState) -> Option<f64>,
    ) -> (Decision, usize) {
        let pairs: Vec<(f64, f64)> = blocks.iter().filter_map(|block| self.pair(block, value)).collect();
        let ratio = Ratio::paired(&pairs, Mean::Geometric, Unit::Image);
        (decide(&ratio, Rule { direction: Direction::LowerIsBetter, margin: MARGIN }, ERROR), pairs.len())
    }
}

type Value = Box<dyn Fn(&MeasuredState) -> Option<f64>>;

/// A measured value of a state. More is worse in all.
pub(super) struct Metric {
    pub workload: Workload,
    pub value_name: &'static str,
    pub unit: &'static str,
    pub value: Value,
}

/// A workload; with the size of its new files, if they have one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Workload(pub &'static str, pub Option<Size>);

impl Metric {
    fn of(
        workload: Workload,
        (value_name, unit): (&'static str, &'static str),
        value: impl Fn(&MeasuredState) -> Option<f64> + 'static,
    ) -> Self {
        Self { workload, value_name, unit, value: Box::new(value) }
    }

    pub(super) fn name(&self) -> String {
        let Workload(name, size) = self.workload;
        let size = size.map_or_else(String::new, |size| format!(" {size}"));
        format!("{name}{size}, {}", self.value_name)
    }

    pub(super) fn is_write_to_disk(&self) -> bool {
        (self.workload.0, self.value_name) == (WRITE, "disk")
    }
}

pub(super) const WRITE: &str = "write";

/// Returns the metrics of a state, in the order of measuring.
pub(super) fn metrics(one: &MeasuredState) -> Vec<Metric> {
    let mut all = of_seconds(Workload("cold read", None), |one| Some(one.cold_read));
    for NewFiles { size, .. } in &one.new_files {
        let size = *size;
        let found = move |one: &MeasuredState| one.new_files.iter().find(|new| new.size == size).copied();
        all.extend(of_new(Workload(WRITE, Some(size)), found));
        all.extend(of_seconds(Workload("read back", Some(size)), move |one| Some(found(one)?.read_back)));
    }
    all.extend(of_written(Workload("overwrite", None), |one| Some(one.overwrite)));
    all.extend(of_new(Workload("append", None), |one| Some(one.append)));
    all.extend(of_seconds(Workload("read back appended", None), |one| Some(one.append.read_back)));
    all
}

fn of_seconds(workload: Workload, of: impl Fn(&MeasuredState) -> Option<Seconds> + Copy + 'static) -> Vec<Metric> {
    vec![
        Metric::of(workload, ("disk", "s"), move |one| Some(of(one)?.disk)),
        Metric::of(workload, ("SSD", "s"), move |one| Some(of(one)?.ssd)),
    ]
}

fn of_written(workload: Workload, of: impl Fn(&MeasuredState) -> Option<Written> + Copy + 'static) -> Vec<Metric> {
    let mut all = vec![Metric::of(workload, ("requests", "requests"), move |one| Some(of(one)?.requests as f64))];
    all.extend(of_seconds(workload, move |one| Some(of(one)?.seconds)));
    all
}

fn of_new(workload: Workload, of: impl Fn(&MeasuredState) -> Option<NewFiles> + Copy + 'static) -> Vec<Metric> {
    let mut all = vec![Metric::of(workload, ("extents", "extents"), move |one| Some(of(one)?.extents as f64))];
    all.extend(of_written(workload, move |one| Some(of(one)?.written)));
    all
}

/// A factor's effect on a metric under an aging.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Effect {
    pub aging: String,
    pub factor: Factor,
    pub metric: String,
    pub is_write_to_disk: bool,
    pub is_ssd: bool,
    /// Size of the new files over the mean free extent of the aged free space.
    pub size_over_extent: Option<f64>,
    pub verdict: &'static str,
    pub interval: Option<Interval>,
    pub seeds: usize,
}

impl Effect {
    pub(super) fn is_cost(&self) -> bool {
        self.verdict == "worse"
    }
}
