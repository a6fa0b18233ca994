//! Chooses blocks to read, and times the reads.

use super::{BLOCK, PreparedFile};
use hdrhistogram::Histogram;
use rand::Rng;
use rustix::fs::{Advice, OFlags, fadvise};
use senesce_core::failure::failed;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_tierfs::TierFs;
use senesce_tierfs::cold::AlignedBuffer;
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadTarget {
    pub block: u64,
    pub cold: bool,
}

pub(super) struct Reads {
    /// In nanoseconds.
    pub latencies: Histogram<u64>,
    /// Percent of reads of blocks in memory that fetched; `None` without such reads or without a counter.
    pub missed_percent: Option<f64>,
}

/// Chooses the blocks to read: cold ones with the given probability, else blocks in memory.
pub(super) fn choose(prepared: &PreparedFile, percent: f64, reads: u64, seed: Seed) -> Vec<ReadTarget> {
    let mut rng = seed.stream("tier/coldness");
    let mut below = |limit: u64| ((u128::from(rng.next_u64()) * u128::from(limit)) >> 64) as u64;
    let mut aim = || {
        let wanted = below(1_000_000) < (percent * 10_000.0) as u64;
        let cold = if wanted { !prepared.cold.is_empty() } else { prepared.resident.is_empty() };
        let list = if cold { &prepared.cold } else { &prepared.resident };
        ReadTarget { block: list[below(list.len() as u64) as usize], cold }
    };
    (0..reads).map(|_| aim()).collect()
}

/// Counts the first uses of cold blocks. On ext4 a block is fetched at its first use and stays in memory.
pub(super) fn first_uses(aims: &[ReadTarget]) -> u64 {
    aims.iter().filter(|aim| aim.cold).map(|aim| aim.block).collect::<HashSet<u64>>().len() as u64
}

/// Times every read. On a tier file system the reads bypass the kernel's page cache, which would hide the tiers. Its counter,
/// read between the reads, shows which of them fetched.
pub(super) fn read_blocks(path: &Path, fs: Option<&TierFs>, aims: &[ReadTarget]) -> Result<Reads, Failure> {
    let mut options = OpenOptions::new();
    options.read(true);
    if fs.is_some() {
        options.custom_flags(OFlags::DIRECT.bits() as i32);
    }
    let file = options.open(path).map_err(failed("open", path))?;
    if fs.is_none() {
        fadvise(&file, 0, None, Advice::Random).map_err(|error| failed("advise", path)(error.into()))?;
    }
    let mut buffer = AlignedBuffer::new(1);
    let new = Histogram::new_with_bounds(1, 60_000_000_000, 3);
    let mut latencies = new.map_err(|error| Failure::new(ExitCode::RunFailed, error.to_string()))?;
    let counted = || fs.map_or(0, |fs| fs.stats().fetched);
    let (mut in_memory, mut missed) = (0u64, 0u64);
    let mut fetched = counted();
    for aim in aims {
        let start = Instant::now();
        file.read_exact_at(&mut buffer, aim.block * BLOCK).map_err(failed("read", path))?;
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
        let before = std::mem::replace(&mut fetched, counted());
        in_memory += u64::from(!aim.cold);
        missed += u64::from(!aim.cold && fetched > before);
    }
    let has_counter = fs.is_some() && in_memory > 0;
    Ok(Reads { latencies, missed_percent: has_counter.then(|| 100.0 * missed as f64 / in_memory as f64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_cold_blocks_is_as_requested() {
        let prepared = PreparedFile { path: "x".into(), resident: (0..100).collect(), cold: (100..300).collect() };
        let cold = |percent| {
            let aims = choose(&prepared, percent, 10_000, Seed(1));
            assert!(aims.iter().all(|aim| aim.cold == (aim.block >= 100)));
            aims.iter().filter(|aim| aim.cold).count()
        };
        assert_eq!((cold(0.0), cold(100.0)), (0, 10_000));
        assert!((2700..3300).contains(&cold(30.0)));
        let aims = [1, 100, 100, 101].map(|block| ReadTarget { block, cold: block >= 100 });
        assert_eq!(first_uses(&aims), 2);
    }
}
