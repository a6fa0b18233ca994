//! Speed of a machine at file work without its drives. The guest's processor is emulated and slow.

use senesce_core::Failure;
use senesce_core::failure::failed;
use senesce_volume::ScratchDirectory;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// The machine that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MachineRole {
    /// The emulated guest.
    Guest,
    /// The host of the guest.
    Host,
}

/// Speed of work that needs no drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostSpeed {
    /// The machine.
    pub place: MachineRole,
    /// The kind of work.
    pub work: String,
    /// Amount of work per second, the best of several rounds.
    pub per_second: f64,
}

pub(crate) const OVERWRITING: &str = "overwriting blocks";

/// Blocks of the file, blocks written per round, and rounds.
const FILE_BLOCKS: u64 = 8192;
const WRITES: u64 = 16_384;
const ROUNDS: usize = 12;
/// Odd, so that it visits every block when their number is a power of two.
const STRIDE: u64 = 5_003;

impl HostSpeed {
    pub(crate) fn of_overwriting(place: MachineRole) -> Result<Self, Failure> {
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

    /// Divides the guest's speed by the host's: the share of the guest's own time to use in a replay. `None` if either
    /// is unknown.
    pub(crate) fn share(speeds: &[Self], work: &str) -> Option<f64> {
        let of = |place| {
            let speeds = speeds.iter().filter(|speed| speed.place == place && speed.work == work);
            speeds.map(|speed| speed.per_second).max_by(f64::total_cmp)
        };
        Some(of(MachineRole::Guest)? / of(MachineRole::Host)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_uses_best_rounds() {
        let speed = |place, per_second| HostSpeed { place, work: "w".into(), per_second };
        let speeds =
            [speed(MachineRole::Guest, 50.0), speed(MachineRole::Guest, 100.0), speed(MachineRole::Host, 1000.0)];
        assert_eq!(HostSpeed::share(&speeds, "w"), Some(0.1));
        assert_eq!(HostSpeed::share(&speeds[..2], "w"), None);
        assert_eq!(HostSpeed::share(&speeds, "v"), None);
    }
}
