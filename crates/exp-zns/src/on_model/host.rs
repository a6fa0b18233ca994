//! How fast a machine is at what a host does for files besides the drive: the guest is emulated, and its processor slow.

use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_volume::ScratchDirectory;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The emulated one.
    Guest,
    /// The one that emulates it.
    Host,
}

/// Speed at work that needs no drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostSpeed {
    /// Where.
    pub place: Place,
    /// Which work.
    pub work: String,
    /// How much of it in a second, the best of several rounds.
    pub per_second: f64,
}

/// Writing 4 KiB at a time over a file in memory, in an order that is not that of the file.
pub const OVERWRITING: &str = "overwriting blocks";

/// Blocks of the file, how many are written in a round, and rounds.
const FILE_BLOCKS: u64 = 8192;
const WRITES: u64 = 16_384;
const ROUNDS: usize = 12;
/// Odd, so that every block of a power of two comes by.
const STRIDE: u64 = 5_003;

impl HostSpeed {
    /// Measures this machine at [`OVERWRITING`], in /dev/shm.
    pub fn of_overwriting(place: Place) -> Result<Self, Failure> {
        let folder = ScratchDirectory::in_memory("host-speed")?;
        let path = folder.path().join("file");
        let file = File::create(&path).map_err(failed("create", &path))?;
        let block = [0xA5u8; 4096];
        let write = |number: u64| file.write_all_at(&block, number % FILE_BLOCKS * 4096);
        (0..FILE_BLOCKS).try_for_each(write).map_err(failed("write", &path))?;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            (0..WRITES).try_for_each(|number| write(number * STRIDE)).map_err(failed("write", &path))?;
            best = best.min(begin.elapsed().as_secs_f64());
        }
        Ok(Self { place, work: OVERWRITING.into(), per_second: WRITES as f64 / best })
    }

    /// How much of the guest's own time a machine like this one would have needed: the share for a replay. `None`: one of both
    /// was not measured.
    pub fn share(speeds: &[Self], work: &str) -> Option<f64> {
        let of = |place| {
            let speeds = speeds.iter().filter(|speed| speed.place == place && speed.work == work);
            speeds.map(|speed| speed.per_second).max_by(f64::total_cmp)
        };
        Some(of(Place::Guest)? / of(Place::Host)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_best_rounds() {
        let speed = |place, per_second| HostSpeed { place, work: "w".into(), per_second };
        let speeds = [speed(Place::Guest, 50.0), speed(Place::Guest, 100.0), speed(Place::Host, 1000.0)];
        assert_eq!(HostSpeed::share(&speeds, "w"), Some(0.1));
        assert_eq!(HostSpeed::share(&speeds[..2], "w"), None);
        assert_eq!(HostSpeed::share(&speeds, "v"), None);
    }
}
