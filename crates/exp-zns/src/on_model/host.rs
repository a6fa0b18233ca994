//! How fast a machine is at what a host does for files besides the drive: the guest is emulated, and its processor slow.

use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_volume::ScratchDirectory;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
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

/// Bytes of files that are replaced in memory.
pub const REPLACING: &str = "replacing files";

/// Files that are replaced in a round, and rounds.
const FILES: usize = 32;
const ROUNDS: usize = 12;

impl HostSpeed {
    /// Measures this machine at [`REPLACING`]: files of one size are removed, made and written in /dev/shm.
    ///
    /// # Errors
    /// Without a file system in memory, or without space in it.
    pub fn of_replacing(place: Place, file_bytes: u64) -> Result<Self, Failure> {
        let folder = ScratchDirectory::in_memory("host-speed")?;
        let content = vec![0xA5u8; file_bytes as usize];
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            (0..FILES).try_for_each(|number| replace(&folder.path().join(number.to_string()), &content))?;
            best = best.min(begin.elapsed().as_secs_f64());
        }
        Ok(Self { place, work: REPLACING.into(), per_second: FILES as f64 * file_bytes as f64 / best })
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

fn replace(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if path.exists() {
        fs::remove_file(path).map_err(failed("remove", path))?;
    }
    fs::write(path, content).map_err(failed("write", path))
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
