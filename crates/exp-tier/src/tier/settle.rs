//! Waits until the expected share of a file is cold, and verifies it.

use senesce_core::failure::failed;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_tierfs::TierFs;
use std::cmp::Ordering;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
/// Maximum time of the evictor for a file that was just written.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum deviation of the cold share of a settled file from the nominal one.
const ALLOWANCE: f64 = 0.02;
/// Maximum number of times that blocks are read back before a file counts as too cold.
const WARMINGS: usize = 4;

/// Waits until the evictor is idle and the cold share is that of file and threshold; returns which blocks are cold. Blocks
/// evicted in excess, because memory of another file became free meanwhile, are read back.
///
/// # Errors
/// The evictor did not reach its threshold, or the share stays different: then the file system's own map contradicts
/// the measurement.
pub(crate) fn settle(fs: &TierFs, path: &Path, threshold: Bytes) -> Result<Vec<bool>, Failure> {
    let metadata = path.metadata().map_err(failed("inspect", path))?;
    let nominal = nominal_share(Bytes(metadata.len()), threshold);
    let settled = settle_inode(fs, metadata.ino() as u32, nominal);
    let settled = settled.map_err(|error| failed("inspect the blocks of", path)(error.into()))?;
    settled.map_err(|message| unsettled(&format!("{}: {message}", path.display())))
}

/// Returns the share of a file that the idle evictor leaves cold, whatever the nominal share.
pub(crate) fn share_left_cold(fs: &TierFs, path: &Path) -> Result<f64, Failure> {
    let metadata = path.metadata().map_err(failed("inspect", path))?;
    wait_for_evictor(fs).map_err(|message| unsettled(&message))?;
    let map = fs.cold_blocks_of(metadata.ino() as u32);
    Ok(cold_share(&map.map_err(|error| failed("inspect the blocks of", path)(error.into()))?))
}

/// Settles a file like [`settle`], by inode number; returns a message if it does not settle.
fn settle_inode(fs: &TierFs, ino: u32, nominal: f64) -> Result<Result<Vec<bool>, String>, rustix::io::Errno> {
    for _ in 0..=WARMINGS {
        if let Err(message) = wait_for_evictor(fs) {
            return Ok(Err(message));
        }
        let map = fs.cold_blocks_of(ino)?;
        match compare(&map, nominal) {
            Ordering::Equal => return Ok(Ok(map)),
            Ordering::Less => return Ok(Err(contradiction(&map, nominal))),
            Ordering::Greater => read_back(fs, ino, &map, nominal)?,
        }
    }
    let map = fs.cold_blocks_of(ino)?;
    Ok(if compare(&map, nominal) == Ordering::Equal { Ok(map) } else { Err(contradiction(&map, nominal)) })
}

fn wait_for_evictor(fs: &TierFs) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while fs.stats().resident_blocks > fs.stats().threshold_blocks {
        if Instant::now() > deadline {
            let stats = fs.stats();
            return Err(format!(
                "{} blocks are in memory after {} s and the threshold is {}{}",
                stats.resident_blocks,
                PATIENCE.as_secs(),
                stats.threshold_blocks,
                stats.cold_store_failure.map(|message| format!("; {message}")).unwrap_or_default()
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn cold_share(map: &[bool]) -> f64 {
    map.iter().filter(|cold| **cold).count() as f64 / map.len().max(1) as f64
}

fn compare(map: &[bool], nominal: f64) -> Ordering {
    match cold_share(map) - nominal {
        off if off < -ALLOWANCE => Ordering::Less,
        off if off > ALLOWANCE => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Reads the excess cold blocks, spread over the file: a block that is read returns to memory.
fn read_back(fs: &TierFs, ino: u32, map: &[bool], nominal: f64) -> Result<(), rustix::io::Errno> {
    let mut block = [0; BLOCK as usize];
    for index in too_many(map, nominal) {
        fs.read(ino, index * BLOCK, &mut block)?;
    }
    Ok(())
}

/// Returns the indexes of cold blocks that should be in memory, evenly spread over the cold ones.
fn too_many(map: &[bool], nominal: f64) -> impl Iterator<Item = u64> {
    let cold: Vec<u64> = (0..).zip(map).filter(|(_, cold)| **cold).map(|(index, _)| index).collect();
    let many = cold.len().saturating_sub((nominal * map.len() as f64).round() as usize);
    (0..many).map(move |number| cold[number * cold.len() / many])
}

fn contradiction(map: &[bool], nominal: f64) -> String {
    let percent = |share: f64| share * 100.0;
    format!(
        "{:.1} % are cold; the sizes of file and threshold imply {:.1} %",
        percent(cold_share(map)),
        percent(nominal)
    )
}

fn unsettled(message: &str) -> Failure {
    Failure::new(ExitCode::RunFailed, format!("the evictor did not settle: {message}"))
}

/// Returns the share of a file that does not fit below the threshold.
pub(crate) fn nominal_share(file: Bytes, threshold: Bytes) -> f64 {
    1.0 - (threshold.0 as f64 / file.0.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_tierfs::format::ROOT_INO;
    use senesce_tierfs::pair::{self, MakeRequest, make};
    use senesce_tierfs::{NewInode, Options, Promotion};

    #[test]
    fn nominal_share_is_the_excess_over_the_threshold() {
        assert_eq!(nominal_share(Bytes::mib(1000), Bytes::mib(400)), 0.6);
        assert_eq!(nominal_share(Bytes::mib(10), Bytes::mib(40)), 0.0);
    }

    /// Makes a file of 2048 blocks on an unmounted file system, with `cold` of them evicted.
    fn file_with(cold: usize, promotion: Promotion) -> (TierFs, u32, tempfile::TempDir) {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (nvm, cold_store) = (directory.path().join("nvm"), directory.path().join("cold"));
        let request = MakeRequest {
            nvm: nvm.clone(),
            nvm_size: Some(Bytes::mib(16)),
            cold: cold_store.clone(),
            cold_size: None,
            erase: Vec::new(),
        };
        make(&request).unwrap();
        let pair = pair::open(&nvm, &cold_store, false).unwrap();
        let options = Options { threshold: Bytes::mib(4), promotion, ..Options::default() };
        let fs = TierFs::open(Box::new(pair.nvm), Box::new(pair.cold), &nvm, &options).unwrap();
        let new = NewInode { mode: 0o100_644, uid: 0, gid: 0, rdev: 0, target: &[] };
        let ino = fs.create(ROOT_INO, b"file", &new).unwrap().ino;
        for piece in 0..8u64 {
            fs.write(ino, piece << 20, &vec![piece as u8; 1 << 20], false).unwrap();
        }
        let mut evicted = 0;
        while evicted < cold {
            evicted += fs.evict(cold - evicted);
        }
        (fs, ino, directory)
    }

    #[test]
    fn too_cold_file_is_warmed_to_the_requested_share() {
        let (fs, ino, _directory) = file_with(1500, Promotion::Always);
        let map = settle_inode(&fs, ino, 0.5).unwrap().unwrap();
        let cold = map.iter().filter(|cold| **cold).count();
        assert_eq!((map.len(), cold), (2048, 1024));
    }

    #[test]
    fn file_that_stays_too_cold_or_hot_is_not_measured() {
        let (fs, ino, _directory) = file_with(1500, Promotion::Never);
        assert_eq!(
            settle_inode(&fs, ino, 0.5).unwrap().unwrap_err(),
            "73.2 % are cold; the sizes of file and threshold imply 50.0 %"
        );
        let (fs, ino, _directory) = file_with(1200, Promotion::Always);
        assert_eq!(
            settle_inode(&fs, ino, 0.9).unwrap().unwrap_err(),
            "58.6 % are cold; the sizes of file and threshold imply 90.0 %"
        );
    }

    #[test]
    fn blocks_to_read_back_are_spread_over_the_cold_ones() {
        let map: Vec<bool> = (0..10).map(|index| index > 1).collect();
        assert_eq!(too_many(&map, 0.4).collect::<Vec<_>>(), [2, 4, 6, 8]);
        assert_eq!(too_many(&map, 0.8).count(), 0);
        let compared = [0.9, 0.79, 0.7].map(|nominal| compare(&map, nominal));
        assert_eq!(compared, [Ordering::Less, Ordering::Equal, Ordering::Greater]);
    }
}
