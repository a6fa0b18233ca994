//! Directories of new files under temporal locality: most files are created in the directory of the previous file.
//!
//! Files that stay and files that will be deleted are two sequences, each with its own directory. Those that stay fill the
//! directories of each depth evenly, a few directories at a time; depths are then independent of sizes, but not of ages. A
//! coin decides whether the next file goes into the same directory. Its probability is corrected by the pairs so far, so that
//! their share in a whole plan is exact to a few files.

use super::random::{Alias, below};
use crate::plan::{AgingPlan, Bounds, apportion};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Correction of the probability per missing pair.
const GAIN: f64 = 0.1;

/// Mean number of directories in use. With 3, files that are created 10 births apart have a locality of about 1/3, the median of
/// real trees (data/locality).
const IN_USE: u64 = 3;

#[derive(Debug, Clone, Copy)]
struct Open {
    directory: u32,
    /// Files that it still needs, at least 1.
    left: u64,
    /// Files that stay and are born before its first one.
    start: u64,
}

#[derive(Debug, Clone, Default)]
struct Walk {
    directory: Option<u32>,
    /// Whole numbers, in the form in which they are used for every file.
    pairs: f64,
    same: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Neighbours {
    /// Share of successive births in the same directory.
    share: f64,
    /// Whether every directory is filled before the next.
    is_most: bool,
    in_use: Vec<Open>,
    /// The next directories, the last one first.
    coming: Vec<Open>,
    /// Births of files that stay.
    births: u64,
    /// First directory and number of directories of each depth of the plan.
    levels: Vec<(u32, u32)>,
    staying: Walk,
    passing: Walk,
    random: Pcg64,
}

impl Walk {
    fn wants_same(&self, share: f64, random: &mut Pcg64) -> bool {
        let missing = share * self.pairs - self.same;
        unit(random) < share + GAIN * missing
    }

    fn enter(&mut self, directory: u32) -> u32 {
        self.pairs += f64::from(u8::from(self.directory.is_some()));
        self.same += f64::from(u8::from(self.directory == Some(directory)));
        self.directory = Some(directory);
        directory
    }
}

impl Neighbours {
    /// Returns `None` without locality, and in a single directory.
    pub(super) fn new(plan: &AgingPlan) -> Option<Box<Self>> {
        let locality = plan.spec.locality.filter(|locality| *locality > 0.0)?;
        let shares: Vec<f64> = plan.depths.iter().map(|(_, share)| *share).collect();
        let files = apportion(&shares, plan.fill);
        let bounds = Bounds::new(&plan.tree, &plan.depths, &files)?;
        let mut random = plan.spec.seed.stream("aging/neighbours");
        let coming = schedule(directories(plan, &files), plan.fill, &mut random);
        let is_most = locality >= bounds.most();
        let (staying, passing) = (Walk::default(), Walk::default());
        let share = bounds.share(locality);
        let levels = plan.depths.iter().map(|(depth, _)| plan.tree.level(*depth)).collect();
        Some(Box::new(Self { share, is_most, in_use: Vec::new(), coming, births: 0, levels, staying, passing, random }))
    }

    /// Continues after files that exist and stay, with their directories in the order of births.
    pub(super) fn after(plan: &AgingPlan, directories: &[u32]) -> Option<Box<Self>> {
        let mut next = Self::new(plan)?;
        let mut files = vec![0u64; plan.tree.count() as usize];
        for directory in directories {
            next.staying.enter(*directory);
            files[*directory as usize] += 1;
        }
        next.births = directories.len() as u64;
        next.coming.iter_mut().for_each(|open| open.left = open.left.saturating_sub(files[open.directory as usize]));
        next.coming.retain(|open| open.left > 0);
        Some(next)
    }

    /// Chooses the directory of a file that stays.
    pub(super) fn staying(&mut self, depths: &Alias) -> u32 {
        self.start();
        let wants_same = self.is_most || self.staying.wants_same(self.share, &mut self.random);
        let here = self.in_use.iter().position(|open| Some(open.directory) == self.staying.directory);
        let next = here.filter(|_| wants_same).or_else(|| self.other(here));
        let directory = next.map(|index| self.fill(index)).unwrap_or_else(|| self.any(depths));
        self.staying.enter(directory)
    }

    /// Takes the directories that are due into use, and more if fewer than two are.
    fn start(&mut self) {
        while let Some(next) = self.coming.last() {
            if next.start > self.births && self.in_use.len() > 1 {
                break;
            }
            self.in_use.extend(self.coming.pop());
        }
        self.births += 1;
    }

    /// Chooses a directory in use other than `here`, or `here` if it is the only one.
    fn other(&mut self, here: Option<usize>) -> Option<usize> {
        let others = self.in_use.len() - usize::from(here.is_some());
        if others == 0 {
            return here;
        }
        let index = below(&mut self.random, others as u64) as usize;
        Some(index + usize::from(here.is_some_and(|here| index >= here)))
    }

    fn fill(&mut self, index: usize) -> u32 {
        let open = &mut self.in_use[index];
        let directory = open.directory;
        open.left -= 1;
        if open.left == 0 {
            self.in_use.swap_remove(index);
        }
        directory
    }

    /// Returns a directory drawn by the depths of the profile.
    fn any(&mut self, depths: &Alias) -> u32 {
        let (first, width) = self.levels[depths.draw(&mut self.random)];
        first + below(&mut self.random, u64::from(width)) as u32
    }

    /// Chooses the directory of a file that will be deleted.
    pub(super) fn passing(&mut self, depths: &Alias) -> u32 {
        let wants_same = self.passing.wants_same(self.share, &mut self.random);
        let same = self.passing.directory.filter(|_| wants_same);
        let directory = same.unwrap_or_else(|| self.any(depths));
        self.passing.enter(directory)
    }
}

/// Returns all directories that get files: each of a depth gets the same number, or one more.
fn directories(plan: &AgingPlan, files: &[u64]) -> Vec<Open> {
    let of_depth = |((depth, _), files): (&(u32, f64), &u64)| {
        let (first, width) = plan.tree.level(*depth);
        let (each, more) = (files / u64::from(width), files % u64::from(width));
        (0..width).map(move |index| Open {
            directory: first + index,
            left: each + u64::from(u64::from(index) < more),
            start: 0,
        })
    };
    plan.depths.iter().zip(files).flat_map(of_depth).filter(|open| open.left > 0).collect()
}

/// Spreads the directories over the `files` of a plan, so that about [`IN_USE`] are in use at any time and each can be filled
/// before the end. Sorted by their start, the last one first.
fn schedule(mut directories: Vec<Open>, files: u64, random: &mut Pcg64) -> Vec<Open> {
    for open in &mut directories {
        let latest = files.saturating_sub(IN_USE * open.left);
        open.start = below(random, latest + 1);
    }
    directories.sort_by_key(|open| std::cmp::Reverse(open.start));
    directories
}

/// Draws a number above 0 and below 1.
fn unit(random: &mut Pcg64) -> f64 {
    // Signed numbers are converted by a single instruction.
    ((random.next_u64() >> 11).cast_signed() as f64 + 0.5) / (1u64 << 53) as f64
}
