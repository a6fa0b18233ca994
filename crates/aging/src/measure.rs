//! How near the live files are to the profile.

use crate::plan::{AgeBin, AgingPlan};
use crate::planner::Planner;
use serde::{Deserialize, Serialize};
use statrs::function::gamma::gamma_ur;

/// Root mean square error of each histogram, over its bins, as fractions of all files.
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
    /// What was asked for.
    pub target: f64,
    /// Least since the end of the fill.
    pub min: f64,
    /// Greatest since the end of the fill.
    pub max: f64,
    /// Now.
    pub end: f64,
}

/// Pearson's chi-square test of counts against shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquare {
    /// The statistic.
    pub statistic: f64,
    /// Degrees of freedom after pooling.
    pub dof: u64,
    /// Probability of a statistic at least as great when the counts follow the shares; 1 without degrees of freedom.
    pub p: f64,
}

impl ChiSquare {
    /// Neighbouring bins are pooled until each expects at least 5 (Cochran 1954); what is left over at the end joins
    /// the last pool.
    pub fn new(counts: &[u64], shares: &[f64]) -> Self {
        let total: u64 = counts.iter().sum();
        let mut pools: Vec<(f64, f64)> = Vec::new();
        let mut open = (0.0, 0.0);
        for (count, share) in counts.iter().zip(shares) {
            open = (open.0 + *count as f64, open.1 + share * total as f64);
            if open.1 >= 5.0 {
                pools.push(open);
                open = (0.0, 0.0);
            }
        }
        match pools.last_mut() {
            Some(last) => *last = (last.0 + open.0, last.1 + open.1),
            None => pools.push(open),
        }
        let term =
            |(count, expected): &(f64, f64)| if *expected > 0.0 { (count - expected).powi(2) / expected } else { 0.0 };
        Self::of(pools.iter().map(term).sum(), pools.len() as u64 - 1)
    }

    /// The three tests as one: statistics and degrees of freedom of independent tests add up.
    pub fn combined(tests: &[Self]) -> Self {
        Self::of(tests.iter().map(|test| test.statistic).sum(), tests.iter().map(|test| test.dof).sum())
    }

    fn of(statistic: f64, dof: u64) -> Self {
        // statrs knows the gamma function for positive finite arguments only.
        let p = match statistic {
            _ if dof == 0 || statistic <= 0.0 => 1.0,
            _ if statistic.is_finite() => gamma_ur(dof as f64 / 2.0, statistic / 2.0),
            _ => 0.0,
        };
        Self { statistic, dof, p }
    }
}

/// The three tests, and all of them as one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquares {
    /// All three together.
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
    /// The smallest p of the three tests.
    pub fn least_p(&self) -> f64 {
        self.age.p.min(self.size.p).min(self.depth.p)
    }
}

/// One histogram: what was asked for and what is there. Labels are right edges of age bins, sizes in bytes, depths.
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
    /// Operations done; ages are relative to these.
    pub operations: u64,
    /// Creates done.
    pub creates: u64,
    /// Deletes done.
    pub deletes: u64,
    /// Live files.
    pub files_live: u64,
    /// Bytes created, in whole blocks, over the capacity.
    pub overwrites: f64,
    /// Error of the three histograms.
    pub rmse: Rmse,
    /// Fullness during the stable phase.
    pub fullness: FullnessRange,
    /// Total variation distance between the sizes created so far and the profile.
    pub created_size_tv: f64,
    /// Chi-square tests of the three histograms.
    pub chi_square: ChiSquares,
    /// Ages, youngest first.
    pub ages: Histogram,
    /// Sizes.
    pub sizes: Histogram,
    /// Depths.
    pub depths: Histogram,
}

impl Planner {
    /// Measures the live files against the profile; ages are relative to the operations done so far. Takes time in
    /// proportion to the number of live files.
    pub fn measures(&self) -> Measures {
        let plan = self.plan();
        let totals = self.totals();
        let (ages, sizes, depths) = histograms(self, plan);
        let capacity = plan.spec.capacity.0 as f64;
        let stable = totals.bytes_least != u64::MAX;
        let share = |bytes: u64| bytes as f64 / capacity;
        let now = share(totals.bytes_live);
        let test = |histogram: &Histogram| ChiSquare::new(&histogram.files, &histogram.target);
        let (age, size, depth) = (test(&ages), test(&sizes), test(&depths));
        Measures {
            operations: totals.operations,
            creates: totals.creates,
            deletes: totals.deletes,
            files_live: totals.creates - totals.deletes,
            overwrites: self.overwrites(),
            rmse: Rmse { age: ages.rmse(), size: sizes.rmse(), depth: depths.rmse() },
            fullness: FullnessRange {
                target: plan.fullness,
                min: if stable { share(totals.bytes_least) } else { now },
                max: if stable { share(totals.bytes_most) } else { now },
                end: now,
            },
            created_size_tv: created_size_tv(plan, &totals.created, &sizes.target),
            chi_square: ChiSquares { all: ChiSquare::combined(&[age, size, depth]), age, size, depth },
            ages,
            sizes,
            depths,
        }
    }
}

fn histograms(planner: &Planner, plan: &AgingPlan) -> (Histogram, Histogram, Histogram) {
    let starts = starts(&plan.ages, planner.operations_done());
    let rows = plan.size_rows();
    let mut ages = vec![0; plan.ages.len()];
    let mut levels = vec![0; plan.tree.levels() as usize];
    let mut sizes = vec![0; rows.len()];
    for record in planner.live().iter() {
        ages[starts.partition_point(|start| *start <= record.birth()) - 1] += 1;
        levels[plan.tree.level_of(record.directory) as usize] += 1;
    }
    for (class, slots) in plan.classes.iter().zip(planner.live().classes()) {
        if let Some(index) = rows.iter().position(|(row, _)| *row == class.row) {
            sizes[index] += u64::from(slots.live());
        }
    }
    ages.reverse();
    let profile = &plan.spec.profile;
    let depth = |row: &(u32, f64)| f64::from(row.0);
    (
        Histogram {
            labels: profile.ages.iter().map(|row| row.edge).collect(),
            target: plan.ages.iter().rev().map(|bin| bin.share).collect(),
            files: ages,
        },
        Histogram {
            labels: rows.iter().map(|(row, _)| profile.sizes[*row].bytes.0 as f64).collect(),
            target: rows.iter().map(|(_, share)| *share).collect(),
            files: sizes,
        },
        Histogram {
            labels: plan.depths.iter().map(depth).collect(),
            target: plan.depths.iter().map(|(_, share)| *share).collect(),
            files: plan.depths.iter().map(|(depth, _)| levels[*depth as usize]).collect(),
        },
    )
}

/// First birth of each age bin (oldest first) when `operations` are done.
fn starts(bins: &[AgeBin], operations: u64) -> Vec<u64> {
    bins.iter().map(|bin| crate::plan::first_birth(bin.begin, operations)).collect()
}

fn created_size_tv(plan: &AgingPlan, created: &[u64], target: &[f64]) -> f64 {
    let total = created.iter().sum::<u64>().max(1) as f64;
    let rows = plan.size_rows();
    let mut shares = vec![0.0; rows.len()];
    for (class, count) in plan.classes.iter().zip(created) {
        if let Some(index) = rows.iter().position(|(row, _)| *row == class.row) {
            shares[index] += *count as f64 / total;
        }
    }
    shares.iter().zip(target).map(|(created, target)| (created - target).abs()).sum::<f64>() / 2.0
}
