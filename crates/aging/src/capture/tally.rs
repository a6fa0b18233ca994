//! Histograms of fixed size, and the profile made from them.

use super::births::BirthOrder;
use super::changes::FileState;
use super::edges::{AgeEdge, choose_edges};
use crate::error::AgingError;
use crate::profile::{AgeRow, DepthRow, Profile, SizeRow};
use senesce_core::Bytes;

/// Bins of age per factor of two.
const STEPS: usize = 8;
const AGE_BINS: usize = 64 * STEPS;

#[derive(Debug, Clone)]
pub struct Tally {
    /// Files and bytes by power of two: bin 0 holds empty files, bin `k` sizes in (2^(k-2), 2^(k-1)].
    sizes: Vec<(u64, u128)>,
    ages: Vec<u64>,
    oldest: u64,
    depths: Vec<u64>,
    directories: Vec<u64>,
    pub files: u64,
    pub bytes: u128,
    name_bytes: u64,
    /// Files whose age is that of their birth.
    pub by_birth: u64,
    /// Files whose age is that of their last modification, because their birth is unknown.
    pub by_modification: u64,
    pub unreadable: u64,
    pub vanished: u64,
    /// Mount points below the top, which are skipped.
    pub other_file_systems: u64,
    /// Births of all files; empty for copies, whose births are the times of copying.
    pub(super) births: BirthOrder,
    /// Every file, if snapshots are compared.
    pub seen: Vec<FileState>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sizes: vec![(0, 0); 66],
            ages: vec![0; AGE_BINS],
            oldest: 1,
            depths: Vec::new(),
            directories: Vec::new(),
            files: 0,
            bytes: 0,
            name_bytes: 0,
            by_birth: 0,
            by_modification: 0,
            unreadable: 0,
            vanished: 0,
            other_file_systems: 0,
            births: BirthOrder::default(),
            seen: Vec::new(),
        }
    }
}

impl Tally {
    /// Counts a regular file; `depth` is the number of directories between the top and the file.
    pub(crate) fn file(&mut self, size: u64, age_seconds: u64, depth: usize) {
        let bin = match size {
            0 => 0,
            _ => 1 + (64 - (size - 1).leading_zeros()) as usize,
        };
        self.sizes[bin].0 += 1;
        self.sizes[bin].1 += u128::from(size);
        self.age(age_seconds);
        count(&mut self.depths, depth, 1);
        self.files += 1;
        self.bytes += u128::from(size);
    }

    /// Counts a file's name.
    pub(crate) fn name(&mut self, bytes: usize) {
        self.name_bytes += bytes as u64;
    }

    fn age(&mut self, seconds: u64) {
        let age = seconds.max(1);
        self.ages[age_bin(age)] += 1;
        self.oldest = self.oldest.max(age);
    }

    /// Counts the ages of all files again, relative to the latest of their births and modifications, or only of modifications
    /// if births are useless (`by_birth`). Times after `now`, in seconds since 1970, are invalid and ignored, unless all are:
    /// then the clock is wrong.
    pub(crate) fn reset_age_edges(&mut self, files: &[FileState], by_birth: bool, now: i64) {
        let born = |seen: &FileState| seen.born.filter(|_| by_birth);
        let time = |seen: &FileState| born(seen).unwrap_or(seen.modified).0;
        let times = files.iter().flat_map(|seen| [time(seen), seen.modified.0]);
        let newest = times.clone().filter(|seconds| *seconds <= now).max().or_else(|| times.max()).unwrap_or(0);
        self.ages.fill(0);
        self.oldest = 1;
        self.by_birth = files.iter().filter(|seen| born(seen).is_some()).count() as u64;
        self.by_modification = files.len() as u64 - self.by_birth;
        if !by_birth {
            self.births = BirthOrder::default();
        }
        for seen in files {
            self.age((newest.saturating_sub(time(seen)).max(0) as u64).saturating_add(1));
        }
    }

    /// Counts a directory at a level (1: directly below the top).
    pub(crate) fn directory(&mut self, level: usize) {
        count(&mut self.directories, level, 1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.sizes.iter_mut().zip(&other.sizes) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        for (mine, theirs) in self.ages.iter_mut().zip(&other.ages) {
            *mine += theirs;
        }
        self.oldest = self.oldest.max(other.oldest);
        for (depth, files) in other.depths.iter().enumerate() {
            count(&mut self.depths, depth, *files);
        }
        for (level, directories) in other.directories.iter().enumerate() {
            count(&mut self.directories, level, *directories);
        }
        self.files += other.files;
        self.bytes += other.bytes;
        self.name_bytes += other.name_bytes;
        self.by_birth += other.by_birth;
        self.by_modification += other.by_modification;
        self.unreadable += other.unreadable;
        self.vanished += other.vanished;
        self.other_file_systems += other.other_file_systems;
        self.births.merge(&other.births);
        self.seen.extend(&other.seen);
    }

    /// Returns the mean length of the names; `None` if they were not counted.
    fn mean_name(&self) -> Option<u8> {
        let mean = (self.name_bytes + self.files / 2).checked_div(self.files)?;
        u8::try_from(mean).ok().filter(|mean| *mean > 0)
    }

    /// Returns the profile, and the cost of each age edge. Edges that would make a plan longer than `most_per_file`
    /// operations per live file are omitted.
    ///
    /// # Errors
    /// [`AgingError::Profile`] without a regular file.
    pub fn profile(
        &self,
        name: &str,
        source: &str,
        fullness: Option<f64>,
        most_per_file: f64,
    ) -> Result<(Profile, Vec<AgeEdge>), AgingError> {
        if self.files == 0 {
            return Err(AgingError::profile(name, "no regular file to make a profile from"));
        }
        let filled = self.sizes.iter().filter(|(files, _)| *files > 0);
        let sizes = filled.map(|(files, bytes)| SizeRow {
            bytes: Bytes(bytes.div_ceil(u128::from(*files)) as u64),
            weight: *files as f64,
        });
        let depths = self.depths.iter().enumerate().map(|(depth, files)| DepthRow {
            depth: depth as u32,
            weight: *files as f64,
            subdirectories: self.directories.get(depth + 1).copied().unwrap_or(0) as u32,
        });
        let fine = self.ages.iter().enumerate().filter(|(_, files)| **files > 0);
        let fine: Vec<(u64, u64)> = fine.map(|(bin, files)| (age_edge(bin).min(self.oldest), *files)).collect();
        let edges = choose_edges(&fine, self.oldest, most_per_file);
        let kept = edges.iter().filter(|edge| edge.kept);
        let profile = Profile {
            name: name.into(),
            source: source.into(),
            fullness: fullness.map(|value| (value.clamp(0.01, 0.99) * 1e4).round() / 1e4),
            locality: self.births.locate().locality,
            name_bytes: self.mean_name(),
            burst: None,
            sizes: sizes.collect(),
            depths: depths.collect(),
            ages: kept.map(|edge| AgeRow { edge: edge.seconds as f64, weight: edge.files as f64 }).collect(),
            changes: Vec::new(),
        };
        profile.validate().map_err(|problem| AgingError::profile(name, problem))?;
        Ok((profile, edges))
    }
}

fn count(counts: &mut Vec<u64>, index: usize, by: u64) {
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    counts[index] += by;
}

/// Returns the bin of an age: its power of two and the next three bits, so that a bin is at most 12.5 % wide.
fn age_bin(age: u64) -> usize {
    let power = age.ilog2() as usize;
    let step = if power >= 3 { (age >> (power - 3)) & 7 } else { (age << (3 - power)) & 7 };
    power * STEPS + step as usize
}

fn age_edge(bin: usize) -> u64 {
    let (power, step) = (bin / STEPS, (bin % STEPS) as u128);
    let (own, next) = (((8 + step) << power) >> 3, ((9 + step) << power) >> 3);
    own.max(next - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_have_the_mean_size_of_their_bin() {
        let mut tally = Tally::default();
        for (size, age) in [(0, 5), (3, 100), (4, 1000), (5, 10_000), (100, 100_000)] {
            tally.file(size, age, 2);
        }
        let (profile, _) = tally.profile("t", "", None, 1e9).unwrap();
        let sizes: Vec<u64> = profile.sizes.iter().map(|row| row.bytes.0).collect();
        assert_eq!(sizes, [0, 4, 5, 100]);
        assert_eq!(profile.sizes[1].weight, 2.0);
    }

    #[test]
    fn snapshot_ages_are_relative_to_their_latest_time() {
        let seen = |born: i64, modified: i64| FileState {
            inode: born as u64,
            born: Some((born, 0)),
            size: 1,
            modified: (modified, 0),
            path: born as u64,
        };
        let files = [seen(1000, 1000), seen(1900, 1950)];
        let mut tally = Tally::default();
        files.iter().for_each(|_| tally.file(1, 1 << 30, 0));
        let oldest = |tally: &Tally| tally.profile("t", "", None, 1e9).unwrap().0.ages.last().unwrap().edge;
        assert_eq!(oldest(&tally), (1u64 << 30) as f64);
        tally.reset_age_edges(&files, true, 9000);
        assert_eq!((oldest(&tally), tally.by_birth, tally.by_modification), (951.0, 2, 0));
        // In copies, births are those of the copying.
        tally.reset_age_edges(&[seen(5000, 100), seen(5001, 400)], false, 9000);
        assert_eq!((oldest(&tally), tally.by_birth, tally.by_modification), (301.0, 0, 2));
        // A time in the future does not shift the other ages.
        tally.reset_age_edges(&[seen(1000, 1000), seen(1200, 1 << 40), seen(1 << 40, 1300)], true, 9000);
        assert_eq!((oldest(&tally), tally.by_birth), (301.0, 3));
        tally.reset_age_edges(&files, true, 500);
        assert_eq!(oldest(&tally), 951.0);
    }

    proptest! {
        #[test]
        fn age_bins_hold_their_ages(age in 1u64..1 << 50) {
            let bin = age_bin(age);
            prop_assert!(age <= age_edge(bin), "{age} {bin} {}", age_edge(bin));
            prop_assert!(age_edge(bin) as f64 <= age as f64 * 1.126 + 1.0);
            prop_assert!(age_bin(age + 1) >= bin);
        }
    }
}
