use super::extended_spec::ExtendedSpec;
use senesce_aging::measure::Measures;
use senesce_aging::parts::{part_name, whole_sha256};
use senesce_aging::{
    AgingError, Data, DirectoryTarget, FileComparison, Interleaved, Limit, PartialReconciliation, Planner,
    Reconciliation, Shard, Summary, Tally,
};
use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Failure, Progress, machine};
use senesce_volume::ClaimedDirectory;
use senesce_volume::limits::memory_left;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

pub(crate) fn parts_of(parts: u32, rank: u32, ranks: u32) -> Vec<u32> {
    (0..parts).filter(|part| part % ranks == rank).collect()
}

pub(crate) struct Own {
    parts: u32,
    planners: Vec<(u32, Planner)>,
    pub shard: Option<Shard>,
}

impl Own {
    /// Creates the planners of a share (`None`: everything) of an aging, positioned after all operations below `from`.
    pub(crate) fn new(course: &ExtendedSpec, shard: Option<Shard>, from: u64) -> Result<Self, Failure> {
        let parts = course.spec.parts;
        let numbers = match shard {
            Some(shard) if parts > 1 => parts_of(parts, shard.index, shard.count),
            _ => (0..parts).collect(),
        };
        let planner = |part| Ok((part, course.planner_at(part, from)?));
        let planners = numbers.into_iter().map(planner).collect::<Result<_, Failure>>()?;
        Ok(Self { parts, planners, shard: shard.filter(|_| parts == 1) })
    }

    pub(crate) fn operations(&mut self, from: u64, len: u64) -> Interleaved<'_> {
        let own = self.planners.iter_mut().map(|(part, planner)| (*part, planner)).collect();
        Interleaved::new(self.parts, own, from, len)
    }

    /// Creates the back ends: the directory itself, or one subdirectory per part. `writers` files are written
    /// concurrently.
    pub(crate) fn backends<'a>(
        &self,
        root: &'a ClaimedDirectory,
        data: Data,
        writers: u32,
    ) -> Vec<DirectoryTarget<'a>> {
        let backend = |(part, planner): &(u32, Planner)| {
            let backend = DirectoryTarget::new(planner.plan().clone(), root, data).writers(writers as usize);
            if self.parts > 1 { backend.below(part_name(*part)) } else { backend }
        };
        self.planners.iter().map(backend).collect()
    }

    pub(crate) fn clear(
        &self,
        backends: &[DirectoryTarget<'_>],
        comparison: FileComparison,
        after_file: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Vec<PartialReconciliation>, AgingError> {
        let parts = self.planners.iter().zip(backends);
        let clear = |((_, planner), backend): (&(u32, Planner), &DirectoryTarget<'_>)| {
            senesce_aging::clear(planner, backend, self.shard, comparison, after_file)
        };
        parts.map(clear).collect()
    }

    /// Returns the bytes of all files.
    fn bytes(&self) -> u64 {
        let of_planner =
            |(_, planner): &(u32, Planner)| planner.namespace().files().map(|live| live.file.size).sum::<u64>();
        self.planners.iter().map(of_planner).sum()
    }

    /// Brings the directories to the recorded state.
    ///
    /// # Errors
    /// As [`senesce_aging::reconcile`]; an interrupt, between two files whose contents are compared.
    pub(crate) fn reconcile(
        &self,
        backends: &[DirectoryTarget<'_>],
        comparison: FileComparison,
        (progress, interrupt): (&dyn Progress, &Interrupt),
    ) -> Result<Reconciliation, AgingError> {
        if comparison == FileComparison::Content {
            progress.phase("comparing files with the record", self.bytes() >> 20, "MiB");
        }
        let mut compared = 0;
        let cleared = self.clear(backends, comparison, &mut |bytes| {
            compared += bytes;
            progress.position(compared >> 20, "");
            if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.restore(backends, cleared)
    }

    pub(crate) fn restore(
        &self,
        backends: &[DirectoryTarget<'_>],
        cleared: Vec<PartialReconciliation>,
    ) -> Result<Reconciliation, AgingError> {
        let mut all = Reconciliation::default();
        for (((_, planner), backend), cleared) in self.planners.iter().zip(backends).zip(cleared) {
            let done = cleared.restore(planner, backend)?;
            all.removed += done.removed;
            all.restored += done.restored;
            all.repaired += done.repaired;
        }
        Ok(all)
    }

    pub(crate) fn states(&self) -> Vec<PartState> {
        self.planners.iter().map(|(part, planner)| PartState::of(*part, planner)).collect()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartState {
    part: u32,
    summary: Summary,
    limit: Limit,
    tally: Tally,
    namespace_sha256: String,
}

impl PartState {
    pub(crate) fn of(part: u32, planner: &Planner) -> Self {
        // The clock of a divided plan is that of its first part.
        let commits = if part == 0 { planner.commits() } else { 0 };
        Self {
            part,
            summary: planner.plan().summary().clone(),
            limit: planner.plan().spec().limit,
            tally: Tally { commits, ..planner.tally() },
            namespace_sha256: planner.namespace_sha256(),
        }
    }
}

pub(crate) struct WholePlan {
    pub summary: Summary,
    pub ends_by: &'static str,
    pub measures: Measures,
    pub namespace_sha256: String,
    pub part_sha256: Vec<String>,
    pub positions: u64,
}

impl WholePlan {
    pub(crate) fn of(course: &ExtendedSpec, mut states: Vec<PartState>) -> Result<Self, Failure> {
        states.sort_by_key(|state| state.part);
        let mut tally = Tally::default();
        states.iter().for_each(|state| tally.add(&state.tally));
        let limit = states.first().map_or(Limit::Bound, |state| state.limit);
        let digests: Vec<String> = states.iter().map(|state| state.namespace_sha256.clone()).collect();
        let summaries: Vec<Summary> = states.into_iter().map(|state| state.summary).collect();
        let longest = summaries.iter().map(|summary| summary.t_end).max().unwrap_or(0);
        let summary = Summary::of_parts(&summaries).ok_or_else(|| Failure::usage("a plan has at least one part"))?;
        let measures = course.spec.measures(&tally)?;
        Ok(Self {
            ends_by: ends_by(limit, &measures, summary.rounding_bound()),
            measures,
            namespace_sha256: whole_sha256(&digests),
            positions: longest * u64::from(summary.parts),
            part_sha256: if summary.parts > 1 { digests } else { Vec::new() },
            summary,
        })
    }
}

fn ends_by(limit: Limit, measures: &Measures, rounding_bound: f64) -> &'static str {
    match limit {
        Limit::Bound => "convergence",
        Limit::Overwrites(_) | Limit::AtMost { .. } => "overwrites",
        Limit::Operations(_) => "operations",
        Limit::Confidence(p) if measures.chi_square.minimum_p() >= p => "confidence",
        Limit::Confidence(_) if measures.rmse.age <= rounding_bound => "convergence",
        Limit::Confidence(_) => "operations",
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    bytes: Bytes,
    whose: &'static str,
}

impl Memory {
    /// Returns the memory of this machine or of its control group; `None` if the kernel reports neither.
    pub(crate) fn here() -> Option<Self> {
        Self::least(machine::memory_total(), memory_left())
    }

    fn least(machine: Option<Bytes>, group: Option<Bytes>) -> Option<Self> {
        let machine = machine.map(|bytes| Self { bytes, whose: "of this machine" });
        let group = group.map(|bytes| Self { bytes, whose: "available to the control group of this process" });
        machine.into_iter().chain(group).min_by_key(|memory| memory.bytes)
    }
}

/// Returns a warning if the planners on this machine need more than a quarter of `memory`. `ranks` execute the plan,
/// `here` of them on this machine.
pub(crate) fn memory_words(summary: &Summary, ranks: u32, here: u32, memory: Memory) -> Option<String> {
    let held = if summary.parts > 1 { summary.parts.div_ceil(ranks) } else { 1 };
    let each = summary.planner_bytes(held);
    let needed = Bytes(each.0 * u64::from(here));
    let remedy = match (summary.parts, ranks) {
        (1, 1) => {
            "divide the plan with --parts and run it on several ranks with --mpi; each rank then holds only its \
             own parts"
        }
        (1, _) => {
            "divide the plan with --parts, a multiple of the number of ranks; each rank then holds only its \
            own parts"
        }
        _ => "use more ranks on more machines",
    };
    let Memory { bytes, whose } = memory;
    (needed.0 > bytes.0 / 4)
        .then(|| format!("{} files: the plan takes {needed} of the {bytes} of memory {whose}; {remedy}", summary.files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_aging::{AgingPlan, Limit, PlanSpec, Profile};
    use senesce_core::Seed;

    #[test]
    fn large_plans_warn_with_a_remedy() {
        let profile = Profile::builtin("agrawal").unwrap();
        let spec = PlanSpec { limit: Limit::Overwrites(1.0), ..PlanSpec::new(profile, Bytes::gib(4096), Seed(1)) };
        let part = AgingPlan::new(&spec).unwrap().summary().clone();
        let each = part.planner_bytes(1);
        let of = |parts: usize| Summary::of_parts(&vec![part.clone(); parts]).unwrap();
        assert_eq!(of(8).planner_bytes(8).0, 8 * each.0);
        let memory = |bytes| Memory::least(Some(Bytes(bytes)), None).unwrap();
        let enough = memory(each.0 * 4);
        assert_eq!(memory_words(&of(1), 1, 1, enough), None);
        let scarce = memory(each.0 * 4 - 4);
        let alone = memory_words(&of(1), 1, 1, scarce).unwrap();
        assert!(alone.contains("--parts") && alone.contains("--mpi") && alone.contains(&each.to_string()), "{alone}");
        // Every rank would hold the whole plan. Of 8 parts, each of 4 ranks on 2 machines holds two.
        assert!(memory_words(&of(1), 4, 2, enough).unwrap().contains("--parts, a multiple of the number of ranks"));
        assert_eq!(memory_words(&of(8), 4, 2, memory(each.0 * 16)), None);
        assert!(memory_words(&of(8), 4, 2, scarce).unwrap().ends_with("use more ranks on more machines"));
    }

    #[test]
    fn control_group_limit_below_machine_memory_counts() {
        let of = |machine, group| Memory::least(machine, group).map(|memory| (memory.bytes, memory.whose));
        let (less, more) = (Some(Bytes::gib(2)), Some(Bytes::gib(8)));
        assert_eq!(of(less, more), Some((Bytes::gib(2), "of this machine")));
        assert_eq!(of(more, less), Some((Bytes::gib(2), "available to the control group of this process")));
        assert_eq!(of(None, None), None);
        assert!(Memory::here().is_some());
    }

    #[test]
    fn every_part_has_one_rank() {
        let mut all: Vec<u32> = (0..3).flat_map(|rank| parts_of(8, rank, 3)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<_>>());
        assert!(parts_of(2, 5, 7).is_empty());
    }
}
