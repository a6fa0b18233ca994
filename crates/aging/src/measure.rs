//! Measures the distance of the live files from the profile.

use crate::chi_square::ChiSquare;
use crate::plan::{AgingPlan, Births, ChangeCounts};
use crate::planner::Planner;
use serde::{Deserialize, Serialize};

/// Root mean square error of each histogram over its bins, as a fraction of all files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rmse {
    /// Of the relative ages.
    pub age: f64,
    /// Of the sizes.
    pub size: f64,
    /// Of the depths.
    pub depth: f64,
}

/// Allocated bytes of live files over the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FullnessRange {
    /// Target.
    pub target: f64,
    /// Minimum since the end of the fill.
    pub min: f64,
    /// Maximum since the end of the fill.
    pub max: f64,
    /// Now.
    pub end: f64,
}

/// The three tests, and their combination.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquares {
    /// All three combined.
    #[serde(flatten)]
    pub all: ChiSquare,
    /// Relative ages.
    pub age: ChiSquare,
    /// Sizes.
    pub size: ChiSquare,
    /// Depths.
    pub depth: ChiSquare,
}

impl ChiSquares {
    pub fn minimum_p(&self) -> f64 {
        self.age.p.min(self.size.p).min(self.depth.p)
    }
}

/// Target and actual counts of one histogram. Labels are right edges of age bins, sizes in bytes, or depths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Right edge, size or depth of each bin, ascending.
    pub labels: Vec<f64>,
    /// Target shares; they sum to 1.
    pub target: Vec<f64>,
    /// Live files in each bin.
    pub files: Vec<u64>,
}

impl Histogram {
    fn rmse(&self) -> f64 {
        let total = self.files.iter().sum::<u64>().max(1) as f64;
        let square = |(share, files): (&f64, &u64)| (*files as f64 / total - share).powi(2);
        let sum: f64 = self.target.iter().zip(&self.files).map(square).sum();
        (sum / self.target.len() as f64).sqrt()
    }
}

/// The state of a run, measured on the live files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Completed operations.
    pub operations: u64,
    /// Completed creates.
    pub creates: u64,
    /// Completed deletes.
    pub deletes: u64,
    /// Commits requested by the clock.
    pub commits: u64,
    /// Live files.
    pub files_live: u64,
    /// Bytes created, in whole blocks, over the capacity.
    pub overwrites: f64,
    /// Errors of the three histograms.
    pub rmse: Rmse,
    /// Fullness after the fill.
    pub fullness: FullnessRange,
    /// Total variation distance of the sizes created so far from the profile.
    pub created_size_tv: f64,
    /// Chi-square tests of the three histograms.
    pub chi_square: ChiSquares,
    /// Relative ages, youngest first.
    pub ages: Histogram,
    /// Sizes.
    pub sizes: Histogram,
    /// Depths.
    pub depths: Histogram,
    /// Temporal locality of the live files; `None` if it is undefined or not part of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<f64>,
    /// Changes of files so far.
    #[serde(default)]
    pub changes: ChangeCounts,
    /// Live files with a pending change, whose size or name still differs; 0 at the end of a plan.
    #[serde(default)]
    pub changes_under_way: u64,
}

/// Counts of a run that can be summed over the parts of a divided plan. The bins are those of the plan's histograms, ages
/// youngest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Completed operations.
    pub operations: u64,
    /// Completed creates.
    pub creates: u64,
    /// Commits requested by the clock; for a divided plan, those of its first part.
    pub commits: u64,
    /// Created bytes, in whole blocks.
    pub bytes_created: u64,
    /// Allocated bytes of live files.
    pub bytes_live: u64,
    /// Minimum allocated bytes since the end of the fill. The sum over parts is a lower bound of the minimum of the whole.
    pub bytes_least: u64,
    /// Maximum allocated bytes since the end of the fill. The sum over parts is an upper bound of the maximum of the whole.
    pub bytes_most: u64,
    /// Created files by size.
    pub created: Vec<u64>,
    /// Live files by age.
    pub ages: Vec<u64>,
    /// Live files by size.
    pub sizes: Vec<u64>,
    /// Live files by depth.
    pub depths: Vec<u64>,
    /// Successive births of live files, if the plan has a temporal locality.
    #[serde(default)]
    pub births: Births,
    /// Changes so far.
    #[serde(default)]
    pub changes: ChangeCounts,
    /// Live files with a pending change.
    #[serde(default)]
    pub changes_under_way: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.creates += other.creates;
        self.commits += other.commits;
        self.bytes_created += other.bytes_created;
        self.bytes_live += other.bytes_live;
        self.bytes_least += other.bytes_least;
        self.bytes_most += other.bytes_most;
        add_each(&mut self.created, &other.created);
        add_each(&mut self.ages, &other.ages);
        add_each(&mut self.sizes, &other.sizes);
        add_each(&mut self.depths, &other.depths);
        self.births.add(&other.births);
        self.changes.add(&other.changes);
        self.changes_under_way += other.changes_under_way;
    }
}

fn add_each(counts: &mut Vec<u64>, others: &[u64]) {
    counts.resize(counts.len().max(others.len()), 0);
    for (count, other) in counts.iter_mut().zip(others) {
        *count += other;
    }
}

impl Planner {
    /// Counts the live files; ages are relative to the operations so far. Takes time proportional to their number.
    pub fn tally(&self) -> Tally {
        let (plan, totals) = (self.plan(), self.totals());
        let starts = plan.timeline.starts(&plan.ages, self.operations_done());
        let mut ages = vec![0; plan.ages.len()];
        let mut levels = vec![0; plan.tree.levels() as usize];
        for record in self.live().iter() {
            ages[starts.partition_point(|start| *start <= record.birth()) - 1] += 1;
            levels[plan.tree.level_of(record.directory) as usize] += 1;
        }
        ages.reverse();
        let stable = totals.bytes_least != u64::MAX;
        Tally {
            operations: totals.operations,
            creates: totals.creates,
            commits: self.commits(),
            bytes_created: totals.bytes_created,
            bytes_live: totals.live_now(),
            bytes_least: if stable { totals.bytes_least } else { totals.live_now() },
            bytes_most: if stable { totals.bytes_most } else { totals.live_now() },
            created: by_size(plan, totals.created.iter().copied()),
            ages,
            sizes: by_size(plan, self.live().classes().iter().map(|slots| u64::from(slots.live()))),
            depths: plan.depths.iter().map(|(depth, _)| levels[*depth as usize]).collect(),
            births: self.plan().spec.locality.map_or_else(Births::default, |_| self.births()),
            changes: self.changes_done(),
            changes_under_way: self.pending_changes(),
        }
    }

    fn births(&self) -> Births {
        let mut order: Vec<(u64, u32)> = self.live().iter().map(|record| (record.birth(), record.directory)).collect();
        order.sort_unstable();
        Births::of(order.into_iter().map(|(_, directory)| directory), self.plan().tree.count())
    }

    /// Compares the live files with the profile; costs as much as [`Self::tally`].
    pub fn measures(&self) -> Measures {
        self.plan().measures(1, &self.tally())
    }
}

fn by_size(plan: &AgingPlan, counts: impl Iterator<Item = u64>) -> Vec<u64> {
    let rows = plan.size_rows();
    let mut sizes = vec![0; rows.len()];
    for (class, count) in plan.classes.iter().zip(counts) {
        if let Some(index) = rows.iter().position(|(row, _)| *row == class.row) {
            sizes[index] += count;
        }
    }
    sizes
}

impl AgingPlan {
    /// Measures of the counts of this plan, or of the sum over `parts` plans like it.
    pub fn measures(&self, parts: u32, tally: &Tally) -> Measures {
        let (ages, sizes, depths) = self.histograms(tally);
        let capacity = self.spec.capacity.0 as f64 * f64::from(parts);
        let share = |bytes: u64| bytes as f64 / capacity;
        let test = |histogram: &Histogram| ChiSquare::new(&histogram.files, &histogram.target);
        let (age, size, depth) = (test(&ages), test(&sizes), test(&depths));
        let deletes = tally.operations - tally.creates;
        Measures {
            operations: tally.operations,
            creates: tally.creates,
            deletes,
            commits: tally.commits,
            files_live: tally.creates - deletes,
            overwrites: share(tally.bytes_created),
            rmse: Rmse { age: ages.rmse(), size: sizes.rmse(), depth: depths.rmse() },
            fullness: FullnessRange {
                target: self.fullness,
                min: share(tally.bytes_least),
                max: share(tally.bytes_most),
                end: share(tally.bytes_live),
            },
            created_size_tv: total_variation(&tally.created, &sizes.target),
            chi_square: ChiSquares { all: ChiSquare::combined(&[age, size, depth]), age, size, depth },
            ages,
            sizes,
            depths,
            locality: tally.births.locality(),
            changes: tally.changes,
            changes_under_way: tally.changes_under_way,
        }
    }

    fn histograms(&self, tally: &Tally) -> (Histogram, Histogram, Histogram) {
        let (profile, rows) = (&self.spec.profile, self.size_rows());
        (
            Histogram {
                labels: profile.ages.iter().map(|row| row.edge).collect(),
                target: self.ages.iter().rev().map(|bin| bin.share).collect(),
                files: tally.ages.clone(),
            },
            Histogram {
                labels: rows.iter().map(|(row, _)| profile.sizes[*row].bytes.0 as f64).collect(),
                target: rows.iter().map(|(_, share)| *share).collect(),
                files: tally.sizes.clone(),
            },
            Histogram {
                labels: self.depths.iter().map(|(depth, _)| f64::from(*depth)).collect(),
                target: self.depths.iter().map(|(_, share)| *share).collect(),
                files: tally.depths.clone(),
            },
        )
    }
}

fn total_variation(counts: &[u64], target: &[f64]) -> f64 {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().zip(target).map(|(count, target)| (*count as f64 / total - target).abs()).sum::<f64>() / 2.0
}
