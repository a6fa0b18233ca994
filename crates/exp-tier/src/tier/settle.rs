//! Waiting until the evictor has done its work, and proof that it has.

use senesce_core::{Bytes, ExitCode, Failure};
use senesce_tierfs::TierFs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the evictor may take for a file that was just written.
const PATIENCE: Duration = Duration::from_secs(120);
/// How far the cold share of a settled file may lie from the nominal one.
const ALLOWANCE: f64 = 0.02;

/// Which blocks of a file are cold once the evictor has nothing left to do.
///
/// # Errors
/// It did not get down to its threshold, or the share is another one than file and threshold make: the file system's own
/// counters then contradict what is to be measured.
pub fn settle(fs: &TierFs, path: &Path, threshold: Bytes) -> Result<Vec<bool>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    while fs.stats().resident_blocks > fs.stats().threshold_blocks {
        if Instant::now() > deadline {
            let stats = fs.stats();
            return Err(unsettled(format!(
                "{} blocks are in memory after {} s and the threshold is {}{}",
                stats.resident_blocks,
                PATIENCE.as_secs(),
                stats.threshold_blocks,
                stats.cold_store_failure.map(|words| format!("; {words}")).unwrap_or_default()
            )));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let failed = |error| senesce_core::failure::failed("look at", path)(error);
    let metadata = path.metadata().map_err(failed)?;
    let map = fs.cold_blocks_of(metadata.ino() as u32).map_err(|error| failed(error.into()))?;
    let nominal = nominal_share(Bytes(metadata.len()), threshold);
    let found = map.iter().filter(|cold| **cold).count() as f64 / map.len().max(1) as f64;
    // Fewer than what was there before it is as good as nothing: only a share that is too small is a contradiction.
    if found < nominal - ALLOWANCE {
        return Err(unsettled(format!(
            "{:.1} % of {} are cold; file and threshold make {:.1} %",
            found * 100.0,
            path.display(),
            nominal * 100.0
        )));
    }
    Ok(map)
}

fn unsettled(words: String) -> Failure {
    Failure::new(ExitCode::RunFailed, format!("the evictor did not settle: {words}"))
}

/// The share of a file that does not fit below the threshold.
pub fn nominal_share(file: Bytes, threshold: Bytes) -> f64 {
    1.0 - (threshold.0 as f64 / file.0.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nominal_share_is_what_exceeds_the_threshold() {
        assert_eq!(nominal_share(Bytes::mib(1000), Bytes::mib(400)), 0.6);
        assert_eq!(nominal_share(Bytes::mib(10), Bytes::mib(40)), 0.0);
    }
}
