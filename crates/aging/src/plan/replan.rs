//! Plans from a reached state: new limits for existing files.

use super::build::{Segment, churn_pairs};
use super::limit::{MOST_STEPS, ages_pass, bytes_created, operations_of, settle_bytes, steps, target_bytes};
use super::rounding::{apportion, controlled, fit};
use super::schedule::{self, Span};
use super::search::Search;
use super::{AgingPlan, Limit, Timeline};
use crate::error::AgingError;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Survivor {
    pub birth: u64,
    pub class: u16,
    pub depth: u16,
}

/// The state to plan from. Survivors are sorted by birth.
pub(crate) struct State {
    pub operations: u64,
    pub created: Vec<u64>,
    pub bytes_created: f64,
    pub survivors: Vec<Survivor>,
}

pub(crate) struct Decision {
    pub plan: AgingPlan,
    pub stays: Vec<bool>,
}

/// Operations that balance the volume first: deletes of files in ghost slots, creates of missing ones.
struct Repair {
    deletes: Vec<u64>,
    creates: Vec<u64>,
    /// The first operation after the deletes, and after the creates.
    emptied: u64,
    filled: u64,
}

impl Repair {
    fn new(plan: &AgingPlan, state: &State) -> Self {
        let mut live = vec![0u64; plan.classes.len()];
        for survivor in &state.survivors {
            live[usize::from(survivor.class)] += 1;
        }
        let files = || plan.classes.iter().map(|class| class.files).zip(&live);
        let deletes: Vec<u64> = files().map(|(files, live)| live.saturating_sub(files)).collect();
        let creates: Vec<u64> = files().map(|(files, live)| files.saturating_sub(*live)).collect();
        let emptied = state.operations + deletes.iter().sum::<u64>();
        let filled = emptied + creates.iter().sum::<u64>();
        Self { deletes, creates, emptied, filled }
    }
}

/// Plans `limit`, counted from the start of the run, from `state`: as close to the profile as the existing files and the
/// remaining operations allow.
pub(crate) fn replan(old: &AgingPlan, state: &State, limit: Limit) -> Result<Decision, AgingError> {
    if old.spec.compression.is_some() {
        let words =
            "a compressed plan ends when its ages are exact and accepts no other limit; age again without --compress";
        return Err(AgingError::Plan(words.into()));
    }
    let mut plan = old.clone();
    plan.spec.limit = limit;
    let repair = Repair::new(&plan, state);
    let draft = Draft { plan: old, state, repair: &repair };
    let wanted = limit.bytes(plan.spec.capacity);
    let mut nearest: Option<(f64, Vec<bool>)> = None;
    for operations in draft.lengths(limit)? {
        let mut stays = vec![false; state.survivors.len()];
        let mut segments = draft.segments(operations, &mut stays)?;
        let settle = |wanted| settle_bytes(&plan.classes, &repair.creates, wanted, state.bytes_created, &mut segments);
        let miss = wanted.map_or(0.0, settle);
        if nearest.as_ref().is_none_or(|(least, _)| miss < *least) {
            nearest = Some((miss, stays));
            (plan.operations, plan.segments) = (operations, segments);
        }
    }
    let (_, stays) = nearest.ok_or_else(|| draft.already_done())?;
    plan.timeline = Timeline::even(plan.operations);
    plan.resummarise(state);
    Ok(Decision { plan, stays })
}

struct Draft<'a> {
    plan: &'a AgingPlan,
    state: &'a State,
    repair: &'a Repair,
}

#[derive(Clone, Copy)]
struct SpanCapacity {
    existing: u64,
    repair: u64,
    pairs: u64,
}

impl SpanCapacity {
    fn all(self) -> u64 {
        self.existing + self.repair + self.pairs
    }
}

impl Draft<'_> {
    fn files(&self) -> u64 {
        self.plan.classes.iter().map(|class| class.files).sum()
    }

    fn lengths(&self, limit: Limit) -> Result<Vec<u64>, AgingError> {
        let filled = self.repair.filled;
        let mut lengths = match limit {
            Limit::Operations(most) if most <= filled => vec![most],
            Limit::Operations(most) => vec![most - (most - filled) % 2],
            Limit::Overwrites(times) => self.for_overwrites(times, None)?,
            Limit::AtMost { overwrites, operations } => self.for_overwrites(overwrites, Some(operations))?,
            Limit::Bound => vec![self.nearest(|counts, shares| rms(counts, shares) <= 0.5)],
            Limit::Confidence(p) => vec![self.nearest(|counts, shares| ages_pass(counts, shares, p))],
        };
        lengths.retain(|length| *length > self.state.operations);
        if lengths.is_empty() { Err(self.already_done()) } else { Ok(lengths) }
    }

    fn already_done(&self) -> AgingError {
        AgingError::Plan(format!(
            "the run has already done {} operations ({:.3} overwrites); the new limit must be higher",
            self.state.operations,
            self.state.bytes_created / self.plan.spec.capacity.0 as f64
        ))
    }

    fn for_overwrites(&self, times: f64, most: Option<u64>) -> Result<Vec<u64>, AgingError> {
        let (classes, filled) = (&self.plan.classes, self.repair.filled);
        let mean: f64 = classes.iter().map(|class| class.churn * class.allocated).sum();
        let target = target_bytes(times, self.plan.spec.capacity, mean)?;
        if target <= self.state.bytes_created {
            return Ok(Vec::new());
        }
        let done = steps(self.state.operations, filled);
        let longest = most.map_or(MOST_STEPS, |most| steps(most, filled)).clamp(done, MOST_STEPS);
        let search = Search { target, at_most: most.is_some(), range: (done, longest) };
        let bytes = |steps: u64| {
            let mut stays = vec![false; self.state.survivors.len()];
            let segments = self.segments(operations_of(steps, filled), &mut stays)?;
            Ok(self.state.bytes_created + bytes_created(classes, &segments))
        };
        let found = search.lengths(filled, |_| mean, bytes)?;
        Ok(found.into_iter().map(|steps| operations_of(steps, filled)).collect())
    }

    fn nearest(&self, good: impl Fn(&[u64], &[f64]) -> bool) -> u64 {
        let shares: Vec<f64> = self.plan.ages.iter().map(|bin| bin.share).collect();
        let bound = schedule::bound(&self.plan.ages, self.files());
        let mut length = self.repair.filled;
        let most = 4 * length.max(bound as u64);
        loop {
            let rooms: Vec<u64> = self.span_capacities(length).iter().map(|(_, room)| room.all()).collect();
            let counts = schedule::stayers(&self.plan.ages, &rooms, self.files());
            if length > most || counts.is_some_and(|counts| good(&counts, &shares)) {
                return length;
            }
            length += (length / 500).next_multiple_of(2).max(2);
        }
    }

    fn span_capacities(&self, operations: u64) -> Vec<(Span, SpanCapacity)> {
        let spans = schedule::spans(&self.plan.ages, operations, self.repair.filled.min(operations));
        let survivors = &self.state.survivors;
        let born_before = |birth: u64| survivors.partition_point(|survivor| survivor.birth < birth) as u64;
        let end = |index: usize| spans.get(index + 1).map_or(u64::MAX, |span| span.start);
        let room = |(index, span): (usize, &Span)| {
            let from = span.start.max(self.repair.emptied);
            let room = SpanCapacity {
                existing: born_before(end(index)) - born_before(span.start),
                repair: (span.start + span.fill).saturating_sub(from),
                pairs: span.pairs,
            };
            (*span, room)
        };
        spans.iter().enumerate().map(room).collect()
    }

    fn segments(&self, operations: u64, stays: &mut [bool]) -> Result<Vec<Segment>, AgingError> {
        let classes = self.plan.classes.len();
        let mut segments = Vec::new();
        let deletes = self.repair.deletes.iter().sum::<u64>();
        if deletes > 0 {
            segments.push(
                self.segment(vec![0; classes], self.cut(&self.repair.deletes, operations - self.state.operations)),
            );
        }
        if operations <= self.repair.filled {
            let creates = self.cut(&self.repair.creates, operations.saturating_sub(self.repair.emptied));
            segments.push(self.segment(creates, vec![0; classes]));
            return Ok(segments);
        }
        let rooms = self.span_capacities(operations);
        let quotas = Quotas::new(self, &rooms, stays)?;
        self.fresh_segments(&rooms, quotas, &mut segments)?;
        Ok(segments)
    }

    fn segment(&self, creates: Vec<u64>, deletes: Vec<u64>) -> Segment {
        let stay = vec![0; creates.len()];
        Segment { creates, deletes, stay, stay_depths: vec![0; self.plan.depths.len()], leading_deletes: 0 }
    }

    fn cut(&self, counts: &[u64], operations: u64) -> Vec<u64> {
        let weights: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        let sum = counts.iter().sum::<u64>();
        if operations >= sum { counts.to_vec() } else { apportion(&weights, operations) }
    }

    fn fresh_segments(
        &self,
        rooms: &[(Span, SpanCapacity)],
        quotas: Quotas,
        segments: &mut Vec<Segment>,
    ) -> Result<(), AgingError> {
        let classes = &self.plan.classes;
        let mut kept = quotas.kept;
        let mut missing = self.repair.creates.clone();
        let mut created: Vec<f64> = self.state.created.iter().map(|count| *count as f64).collect();
        let mut depths_left = quotas.depths;
        let mut take_depths = |count: u64| {
            let part = fit_part(&depths_left, count);
            for (left, taken) in depths_left.iter_mut().zip(&part) {
                *left -= taken;
            }
            part
        };
        for ((span, room), mut stay) in rooms.iter().zip(quotas.fresh) {
            if room.repair > 0 {
                let creates = fit_part(&missing, room.repair);
                let total: u64 = stay.iter().sum();
                let share = (total as f64 * room.repair as f64 / (room.repair + room.pairs) as f64).round() as u64;
                let high: Vec<u64> = stay.iter().zip(&creates).map(|(stay, creates)| *stay.min(creates)).collect();
                let staying = fit_part(&high, share.max(total.saturating_sub(room.pairs)).min(high.iter().sum()));
                let mut segment = self.segment(creates, vec![0; classes.len()]);
                segment.stay_depths = take_depths(staying.iter().sum());
                for class in 0..classes.len() {
                    missing[class] -= segment.creates[class];
                    created[class] += segment.creates[class] as f64;
                    kept[class] += staying[class];
                    stay[class] -= staying[class];
                }
                segment.stay = staying;
                segments.push(segment);
            }
            if room.pairs > 0 {
                let stay = fit_part(&stay, room.pairs.min(stay.iter().sum()));
                let pairs = churn_pairs(classes, room.pairs, &stay, &kept, &created)?;
                let mut segment = self.segment(pairs.clone(), pairs);
                segment.stay_depths = take_depths(stay.iter().sum());
                segment.leading_deletes = span.leading_deletes;
                for class in 0..classes.len() {
                    created[class] += segment.creates[class] as f64;
                    kept[class] += stay[class];
                }
                segment.stay = stay;
                segments.push(segment);
            }
        }
        Ok(())
    }
}

/// Number of files of each class that should stay, of the existing and the future ones.
struct Quotas {
    kept: Vec<u64>,
    fresh: Vec<Vec<u64>>,
    depths: Vec<u64>,
}

impl Quotas {
    fn new(draft: &Draft<'_>, rooms: &[(Span, SpanCapacity)], stays: &mut [bool]) -> Result<Self, AgingError> {
        let plan = draft.plan;
        let most: Vec<u64> = rooms.iter().map(|(_, room)| room.all()).collect();
        let impossible = || AgingError::Plan("existing files make this limit impossible".into());
        let quotas = schedule::stayers(&plan.ages, &most, draft.files()).ok_or_else(impossible)?;
        let files: Vec<u64> = plan.classes.iter().map(|class| class.files).collect();
        let table = controlled(&quotas, &files);
        let depth_shares: Vec<f64> = plan.depths.iter().map(|(_, share)| *share).collect();
        let mut budget = Budget { classes: files, depths: apportion(&depth_shares, draft.files()) };
        let mut first = 0;
        let mut taken = Vec::new();
        for ((_, room), (quota, row)) in rooms.iter().zip(quotas.iter().zip(&table)) {
            let group = &draft.state.survivors[first..first + room.existing as usize];
            let share = (*quota as f64 * room.existing as f64 / room.all().max(1) as f64).round() as u64;
            let count = share.clamp(quota.saturating_sub(room.repair + room.pairs), *quota).min(room.existing);
            taken.push(budget.choose(group, row, count, &mut stays[first..first + room.existing as usize]));
            first += room.existing as usize;
        }
        let open: Vec<u64> = quotas.iter().zip(&taken).map(|(quota, taken)| quota.saturating_sub(*taken)).collect();
        let fresh = controlled(&open, &fit_to(&budget.classes, open.iter().sum()));
        let depths = fit_to(&budget.depths, open.iter().sum());
        let kept = plan.classes.iter().zip(&budget.classes).map(|(class, left)| class.files - left).collect();
        Ok(Self { kept, fresh, depths })
    }
}

struct Budget {
    classes: Vec<u64>,
    depths: Vec<u64>,
}

impl Budget {
    /// Marks up to `count` files of one age bin, close to `row` per class and, if possible, within the remaining depths.
    /// Returns the number marked.
    fn choose(&mut self, group: &[Survivor], row: &[u64], count: u64, stays: &mut [bool]) -> u64 {
        let mut there = vec![0; row.len()];
        for survivor in group {
            there[usize::from(survivor.class)] += 1;
        }
        let high: Vec<u64> = there.iter().zip(&self.classes).map(|(there, left)| *there.min(left)).collect();
        let count = count.min(high.iter().sum());
        let sum = row.iter().sum::<u64>().max(1) as f64;
        let targets: Vec<f64> = row.iter().map(|cell| *cell as f64 / sum * count as f64).collect();
        let mut wanted = fit(&targets, &vec![0; row.len()], &high, count).unwrap_or(high);
        // First files with a depth that is still needed, then any.
        for within_depths in [true, false] {
            for (survivor, stays) in group.iter().zip(stays.iter_mut()) {
                let (class, depth) = (usize::from(survivor.class), usize::from(survivor.depth));
                if *stays || wanted[class] == 0 || (within_depths && self.depths[depth] == 0) {
                    continue;
                }
                *stays = true;
                wanted[class] -= 1;
                self.classes[class] -= 1;
                self.depths[depth] = self.depths[depth].saturating_sub(1);
            }
        }
        count - wanted.iter().sum::<u64>()
    }
}

/// Divides `total` in proportion to the given counts, or returns all of them if there are fewer.
fn fit_part(counts: &[u64], total: u64) -> Vec<u64> {
    let sum: u64 = counts.iter().sum();
    let targets: Vec<f64> = counts.iter().map(|count| *count as f64 / sum.max(1) as f64 * total as f64).collect();
    fit(&targets, &vec![0; counts.len()], counts, total).unwrap_or_else(|| counts.to_vec())
}

fn fit_to(counts: &[u64], total: u64) -> Vec<u64> {
    let weights: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
    if counts.iter().sum::<u64>() == 0 {
        let mut one = vec![0; counts.len()];
        one[0] = total;
        return one;
    }
    apportion(&weights, total)
}

fn rms(counts: &[u64], shares: &[f64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let square: f64 = counts.iter().zip(shares).map(|(count, share)| (*count as f64 - share * total).powi(2)).sum();
    (square / shares.len() as f64).sqrt()
}
