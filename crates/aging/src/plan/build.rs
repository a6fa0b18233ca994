//! Decides how many files of each size and depth are created, deleted and kept in each stretch of a run.

use super::changes::expected_changes;
use super::classes::{Class, Shortfall, classes};
use super::compress::{self, Timeline};
use super::directories::DirectoryTree;
use super::rounding::{apportion, controlled, fit, fit_scaled};
use super::schedule::{self, Span, age_bins};
use super::sizes::Sizes;
use super::{AgingPlan, Bounds, Churn, DEFAULT_FULLNESS, PlanSpec, PlannedLocality, Summary, limit};
use crate::error::AgingError;
use senesce_core::Bytes;

/// A stretch of operations within one age bin, with all counts decided in advance.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Segment {
    pub creates: Vec<u64>,
    pub deletes: Vec<u64>,
    pub stay: Vec<u64>,
    /// Creates per depth (as in `AgingPlan::depths`) that stay to the end.
    pub stay_depths: Vec<u64>,
    pub leading_deletes: u8,
}

impl Segment {
    pub(crate) fn len(&self) -> u64 {
        self.creates.iter().sum::<u64>() + self.deletes.iter().sum::<u64>()
    }
}

/// The part of a plan that is independent of its length.
pub(super) struct Draft<'a> {
    pub spec: &'a PlanSpec,
    pub fullness: f64,
    pub sizes: Sizes,
    pub classes: Vec<Class>,
    shortfall: Shortfall,
    pub depths: Vec<(u32, f64)>,
    pub ages: Vec<schedule::AgeBin>,
}

pub(super) fn plan(spec: &PlanSpec) -> Result<AgingPlan, AgingError> {
    let name = &spec.profile.name;
    spec.profile.validate().map_err(|problem| AgingError::profile(name, problem))?;
    let fullness = spec.fullness.or(spec.profile.fullness).unwrap_or(DEFAULT_FULLNESS);
    if !(fullness > 0.0 && fullness < 1.0) {
        return Err(AgingError::Plan(format!("fullness is {fullness}; it must be above 0 and below 1")));
    }
    let draft = Draft::new(spec, fullness, Sizes::new(spec, fullness)?);
    let mean: f64 = draft.classes.iter().map(|class| class.churn * class.allocated).sum();
    spec.clock.check(spec.capacity, fullness, mean)?;
    compress::check(spec)?;
    let room: Vec<u64> = draft.classes.iter().map(|class| class.files).collect();
    let mut nearest: Option<(f64, Vec<Segment>, Timeline)> = None;
    for operations in limit::operations(&draft)? {
        if operations >= 1 << 48 {
            return Err(AgingError::Plan(format!("{operations} operations exceed the maximum, 2^48")));
        }
        let (mut segments, timeline) = draft.segments(operations)?;
        let wanted = spec.limit.bytes(spec.capacity);
        let miss = wanted.map_or(0.0, |wanted| limit::settle_bytes(&draft.classes, &room, wanted, 0.0, &mut segments));
        if nearest.as_ref().is_none_or(|(least, ..)| miss < *least) {
            nearest = Some((miss, segments, timeline));
        }
    }
    let (_, segments, timeline) = nearest.ok_or_else(|| impossible("its limit"))?;
    Ok(draft.finish(timeline, segments))
}

impl<'a> Draft<'a> {
    fn new(spec: &'a PlanSpec, fullness: f64, sizes: Sizes) -> Self {
        let total: f64 = spec.profile.depths.iter().map(|row| row.weight).sum();
        let rows = spec.profile.depths.iter().filter(|row| row.weight > 0.0);
        let (classes, shortfall) = classes(spec, &sizes, fullness);
        Self {
            spec,
            fullness,
            classes,
            shortfall,
            sizes,
            depths: rows.map(|row| (row.depth, row.weight / total)).collect(),
            ages: age_bins(&spec.profile),
        }
    }

    /// Returns the segments of a run that represents `operations`, in the order of time, and their positions.
    pub(crate) fn segments(&self, operations: u64) -> Result<(Vec<Segment>, Timeline), AgingError> {
        let files = self.sizes.total_files;
        if operations < files {
            return Ok((vec![self.part_of_the_fill(operations)], Timeline::even(operations)));
        }
        let mut spans = schedule::spans(&self.ages, operations, files);
        let most: Vec<u64> = spans.iter().map(Span::capacity).collect();
        let stay = schedule::stayers(&self.ages, &most, files).ok_or_else(|| impossible("age bins"))?;
        if let Some(compression) = &self.spec.compression {
            compression.shorten(&mut spans, &stay, files)?;
        }
        let size_table = self.spread_over_strata(&controlled(&stay, &self.sizes.files));
        let depth_shares: Vec<f64> = self.depths.iter().map(|(_, share)| *share).collect();
        let depth_table = controlled(&stay, &apportion(&depth_shares, files));
        let mut segments = self.fill_segments(&spans, &size_table, &depth_table)?;
        self.churn_segments(&spans, &size_table, &depth_table, &mut segments)?;
        Ok((segments, Timeline::new(&spans, operations)))
    }

    fn part_of_the_fill(&self, operations: u64) -> Segment {
        let shares: Vec<f64> = self.classes.iter().map(|class| class.files as f64).collect();
        let none = vec![0; self.classes.len()];
        Segment {
            creates: apportion(&shares, operations),
            deletes: none.clone(),
            stay: none,
            stay_depths: vec![0; self.depths.len()],
            leading_deletes: 0,
        }
    }

    /// Splits the columns of a table (size bins) into their classes; each row and class keeps its sum.
    fn spread_over_strata(&self, table: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let mut wide: Vec<Vec<u64>> = vec![Vec::with_capacity(self.classes.len()); table.len()];
        for (bin, size) in self.sizes.bins.iter().enumerate() {
            let strata: Vec<u64> = self.classes.iter().filter(|class| class.row == size.row).map(|c| c.files).collect();
            let rows: Vec<u64> = table.iter().map(|row| row[bin]).collect();
            for (row, cells) in wide.iter_mut().zip(controlled(&rows, &strata)) {
                row.extend(cells);
            }
        }
        wide
    }

    /// Creates one segment per age bin that overlaps the fill. The bin's stayers come from the fill in proportion to
    /// its creates.
    fn fill_segments(
        &self,
        spans: &[Span],
        sizes: &[Vec<u64>],
        depths: &[Vec<u64>],
    ) -> Result<Vec<Segment>, AgingError> {
        let mut left: Vec<u64> = self.classes.iter().map(|class| class.files).collect();
        let mut segments = Vec::new();
        let mut passing = Vec::new();
        for (bin, span) in spans.iter().enumerate().filter(|(_, span)| span.fill > 0) {
            let stay = fill_part(&sizes[bin], span)?;
            let total = stay.iter().sum();
            let stay_depths = part(&depths[bin], total).ok_or_else(|| impossible("depths of the fill"))?;
            for (class, count) in stay.iter().enumerate() {
                left[class] -= count;
            }
            passing.push(span.fill - total);
            segments.push(Segment { stay, stay_depths, ..Segment::default() });
        }
        for (segment, passing) in segments.iter_mut().zip(controlled(&passing, &left)) {
            segment.creates = segment.stay.iter().zip(passing).map(|(stay, passing)| stay + passing).collect();
            segment.deletes = vec![0; self.classes.len()];
        }
        Ok(segments)
    }

    /// Creates one segment of deletes and creates per age bin. Deletes per class follow the churn by error diffusion: a
    /// deficit of one bin is compensated in the next.
    fn churn_segments(
        &self,
        spans: &[Span],
        sizes: &[Vec<u64>],
        depths: &[Vec<u64>],
        segments: &mut Vec<Segment>,
    ) -> Result<(), AgingError> {
        let mut kept: Vec<u64> = vec![0; self.classes.len()];
        let mut created: Vec<f64> = vec![0.0; self.classes.len()];
        for segment in segments.iter() {
            for class in 0..kept.len() {
                kept[class] += segment.stay[class];
                created[class] += segment.creates[class] as f64;
            }
        }
        if self.spec.churn == Churn::Bins {
            created.fill(0.0);
        }
        for (bin, span) in spans.iter().enumerate().filter(|(_, span)| span.pairs > 0) {
            let filled = if span.fill > 0 { fill_part(&sizes[bin], span)? } else { vec![0; kept.len()] };
            let stay: Vec<u64> = sizes[bin].iter().zip(&filled).map(|(all, filled)| all - filled).collect();
            let depths_filled = part(&depths[bin], filled.iter().sum()).ok_or_else(|| impossible("depths"))?;
            let stay_depths = depths[bin].iter().zip(depths_filled).map(|(all, filled)| all - filled).collect();
            let mut pairs = churn_pairs(&self.classes, span.played, &stay, &kept, &created)?;
            self.shortfall.provide(&mut pairs, &stay);
            for class in 0..kept.len() {
                kept[class] += stay[class];
                created[class] += pairs[class] as f64;
            }
            let leading_deletes = if bin == 0 { 0 } else { span.leading_deletes };
            segments.push(Segment { creates: pairs.clone(), deletes: pairs, stay, stay_depths, leading_deletes });
        }
        Ok(())
    }

    fn finish(self, timeline: Timeline, segments: Vec<Segment>) -> AgingPlan {
        let tree = DirectoryTree::new(&self.spec.profile);
        let operations = timeline.played();
        let summary = self.summary(&timeline, &segments, &tree);
        AgingPlan {
            spec: self.spec.clone(),
            fullness: self.fullness,
            fill: self.sizes.total_files,
            size_rows: self.sizes.bins.iter().map(|bin| (bin.row, bin.share)).collect(),
            classes: self.classes,
            large: self.shortfall.large,
            tree,
            depths: self.depths,
            ages: self.ages,
            timeline,
            segments,
            operations,
            summary,
        }
    }

    fn summary(&self, timeline: &Timeline, segments: &[Segment], tree: &DirectoryTree) -> Summary {
        let operations = timeline.played();
        let files = self.sizes.total_files;
        let profile = &self.spec.profile;
        let bytes_created = limit::bytes_created(&self.classes, segments);
        let created = creates(segments, &vec![0; self.classes.len()]);
        let filled = self.classes.iter().filter(|class| class.files > 0);
        let largest = filled.map(|class| class.allocated).fold(0.0, f64::max);
        let t_bound = schedule::bound(&self.ages, files);
        let none = |share: f64| share > 0.0 && (share * files as f64) < 0.5;
        let without_files = |(bin, count): (&super::sizes::SizeBin, &u64)| {
            (bin.share > 0.0 && *count == 0).then_some(profile.sizes[bin.row].bytes)
        };
        let live = files.min(operations);
        let empty_ages = self.ages.iter().zip(profile.ages.iter().rev());
        Summary {
            profile: profile.name.clone(),
            capacity: self.spec.capacity,
            fullness: self.fullness,
            files,
            t_bound,
            t_end: operations,
            creates: (operations + live) / 2,
            deletes: (operations - live) / 2,
            bytes_created: Bytes(bytes_created as u64),
            overwrites: bytes_created / self.spec.capacity.0 as f64,
            bytes_live: Bytes(if live == files { self.sizes.bytes } else { bytes_created } as u64),
            files_at_most: files + self.classes.iter().map(|class| class.ghosts).sum::<u64>(),
            directories: tree.count(),
            truncated: self.sizes.truncated.clone(),
            empty_sizes: self.sizes.bins.iter().zip(&self.sizes.files).filter_map(without_files).collect(),
            empty_depths: self.depths.iter().filter(|(_, share)| none(*share)).map(|(depth, _)| *depth).collect(),
            empty_ages: empty_ages.filter(|(bin, _)| none(bin.share)).map(|(_, row)| row.edge).collect(),
            below_bound: (timeline.operations_represented() as f64) < t_bound.floor(),
            virtual_t: timeline.operations_represented(),
            locality: self.locality(tree),
            clock: self.spec.clock,
            changes: profile.changes.iter().any(|row| row.rates().iter().any(|rate| *rate != 0.0)),
            rewrites: profile.changes.iter().any(|row| row.overwrites > 0.0),
            changes_expected: expected_changes(self.spec, &self.classes, &created),
            largest_file: Bytes(largest as u64),
            parts: 1,
        }
    }
}

impl Draft<'_> {
    fn locality(&self, tree: &DirectoryTree) -> Option<PlannedLocality> {
        let asked = self.spec.locality?;
        let shares: Vec<f64> = self.depths.iter().map(|(_, share)| *share).collect();
        let bounds = Bounds::new(tree, &self.depths, &apportion(&shares, self.sizes.total_files))?;
        Some(PlannedLocality { asked, most: bounds.most() })
    }
}

pub(super) fn creates(segments: &[Segment], before: &[u64]) -> Vec<u64> {
    let of = |class: usize| segments.iter().map(|segment| segment.creates[class]).sum::<u64>();
    before.iter().enumerate().map(|(class, before)| before + of(class)).collect()
}

/// Pairs of delete and create per class: at least the files that stay, none without a free slot.
pub(super) fn churn_pairs(
    classes: &[Class],
    total: u64,
    stay: &[u64],
    kept: &[u64],
    created: &[f64],
) -> Result<Vec<u64>, AgingError> {
    let so_far = created.iter().sum::<f64>() + total as f64;
    let targets: Vec<f64> =
        classes.iter().zip(created).map(|(class, created)| class.churn * so_far - created).collect();
    let shares: Vec<f64> = classes.iter().map(|class| class.churn).collect();
    let free = |class: &Class, kept: u64| class.churn > 0.0 && class.files + class.ghosts > kept;
    let high: Vec<u64> =
        classes.iter().zip(kept).map(|(class, kept)| if free(class, *kept) { total } else { 0 }).collect();
    fit_scaled(&targets, &shares, stay, &high, total).ok_or_else(|| impossible("churn"))
}

pub(super) fn fill_share(total: u64, span: &Span) -> u64 {
    let share = total as f64 * span.fill as f64 / span.capacity().max(1) as f64;
    (share.round() as u64).clamp(total.saturating_sub(span.pairs), total.min(span.fill))
}

fn fill_part(stay: &[u64], span: &Span) -> Result<Vec<u64>, AgingError> {
    part(stay, fill_share(stay.iter().sum(), span)).ok_or_else(|| impossible("the fill"))
}

fn part(counts: &[u64], total: u64) -> Option<Vec<u64>> {
    let sum: u64 = counts.iter().sum();
    let targets: Vec<f64> = counts.iter().map(|count| *count as f64 / sum.max(1) as f64 * total as f64).collect();
    fit(&targets, &vec![0; counts.len()], counts, total)
}

fn impossible(what: &str) -> AgingError {
    AgingError::Plan(format!("no whole numbers satisfy the quotas of {what}; choose a larger volume or another limit"))
}
