//! The setting of `senesce demo`, and the range of its factors over other seeds.

use super::spec::AgeSpec;
use senesce_core::{Bytes, ExitCode, Failure, Seed};
use senesce_stats::{mean, standard_deviation, student};

/// A volume that can be aged enough within seconds. Blocks of 4 KiB, because mkfs.ext4 chooses 1 KiB below 512 MiB.
pub const TARGET: &str = "memory:256M";
/// The same in half a minute, on a slow kernel.
pub const SMALL: &str = "memory:128M";
const SMALLEST: &str = "memory:64M";
const FLAGS: [&str; 5] = ["--copies", "--overwrites", "8", "--truncate-sizes", "--mkfs-options=-b4096"];

/// A small ext4 has no space for 80 %.
const SMALL_FULLNESS: [&str; 2] = ["--fullness", "70%"];

/// Returns the flags of the demo on a target.
pub fn flags(target: &str) -> Vec<&'static str> {
    let fullness: &[&str] = if target == TARGET { &[] } else { &SMALL_FULLNESS };
    [&FLAGS, fullness].concat()
}

/// Targets, and results of other seeds with these flags (data/demo).
const SEEDS: [(&str, &str); 3] = [
    (TARGET, include_str!("../../../../data/demo/seeds.csv")),
    (SMALL, include_str!("../../../../data/demo/seeds-128.csv")),
    (SMALLEST, include_str!("../../../../data/demo/seeds-64.csv")),
];
/// The same in a user-mode kernel, which writes back at other times.
const GUEST_SEEDS: [(&str, &str); 1] = [(SMALL, include_str!("../../../../data/demo/seeds-guest.csv"))];

/// Returns the specification of the demo on a target.
///
/// # Errors
/// The profile cannot be read.
pub fn spec(target: &str) -> Result<AgeSpec, Failure> {
    AgeSpec::of_flags(&flags(target))?.on(Some(target.parse()?))
}

/// Returns the target of the demo that fits this memory: [`TARGET`], or the largest smaller one.
///
/// # Errors
/// [`ExitCode::Missing`]: too little memory for any.
pub fn target_for(available: Bytes) -> Result<&'static str, Failure> {
    let sizes = [(256, TARGET), (128, SMALL), (64, SMALLEST)];
    let fitting = sizes.into_iter().find(|(size, _)| memory_for(*size) <= available);
    fitting.map(|(_, target)| target).ok_or_else(|| {
        let words = format!(
            "too little memory: {available} available; an image in memory needs {}\nhint: end other programs",
            memory_for(64)
        );
        Failure::new(ExitCode::Missing, words)
    })
}

/// Returns the memory for two images and the program's own data, which are held at the same time.
fn memory_for(mebibytes: u64) -> Bytes {
    Bytes::mib(2 * mebibytes + 128)
}

/// The range of each factor that holds 95 % of agings with other seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ranges {
    pub age: (f64, f64),
    pub placement: (f64, f64),
    pub pieces: (f64, f64),
    pub order: (f64, f64),
    /// Age on the SATA SSD and on the NVMe drive.
    pub flash: [(f64, f64); 2],
    /// Pieces of a new file; needs 39 agings.
    pub new_file: Option<(f64, f64)>,
}

/// Columns: seed, ordered, unaged, aged, pieces, sata, nvme, new_file.
type Row = [f64; 8];

/// Returns the ranges for an aging with the flags of the demo. `None` for other agings, and for kernels and sizes
/// without seeds.
pub(super) fn ranges_of(spec: &AgeSpec, is_emulated: bool) -> Option<Ranges> {
    let tables: &[(&str, &str)] = if is_emulated { &GUEST_SEEDS } else { &SEEDS };
    let plain = |spec: &AgeSpec| AgeSpec { seed: Seed(0), ..spec.clone() };
    let is_demo = |target: &str| self::spec(target).is_ok_and(|demo| plain(&demo) == plain(spec));
    tables.iter().find(|(target, _)| is_demo(target)).and_then(|(_, seeds)| ranges(seeds))
}

/// Computes prediction intervals for one more aging. `None` if the table is damaged.
fn ranges(seeds: &str) -> Option<Ranges> {
    let rows: Option<Vec<Row>> = seeds.lines().skip(1).map(row).collect();
    let rows = rows.filter(|rows| !rows.is_empty())?;
    let seeds = rows.len() as f64;
    let reach = student::quantile(0.025, seeds - 1.0) * (1.0 + 1.0 / seeds).sqrt();
    let range = |of: fn(&Row) -> f64| {
        let values: Vec<f64> = rows.iter().map(of).collect();
        let (mean, deviation) = (mean(&values)?, standard_deviation(&values)?);
        Some((mean - reach * deviation, mean + reach * deviation))
    };
    // Skewed: the extremes of 39 or more agings hold 95 % of others, for any distribution.
    let pieces = rows.iter().map(|[.., new_file]| *new_file);
    let new_file = pieces.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let new_file = (rows.len() >= 39).then_some(new_file);
    Some(Ranges {
        age: range(|[_, _, unaged, aged, ..]| aged / unaged)?,
        placement: range(|[_, _, unaged, aged, pieces, ..]| aged / unaged / pieces)?,
        pieces: range(|[_, _, _, _, pieces, ..]| *pieces)?,
        order: range(|[_, ordered, unaged, ..]| unaged / ordered)?,
        flash: [range(|[.., sata, _, _]| *sata)?, range(|[.., nvme, _]| *nvme)?],
        new_file,
    })
}

fn row(line: &str) -> Option<Row> {
    let cells: Option<Vec<f64>> = line.split(',').map(|cell| cell.parse().ok()).collect();
    cells?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_fits_in_the_available_memory() {
        for (available, target) in [
            (Bytes::gib(24), TARGET),
            (Bytes::mib(640), TARGET),
            (Bytes::mib(639), "memory:128M"),
            (Bytes::mib(256), SMALLEST),
        ] {
            assert_eq!(target_for(available).unwrap(), target);
            assert!(ranges_of(&spec(target).unwrap(), false).is_some(), "{target}");
            assert_eq!(ranges_of(&spec(target).unwrap(), true).is_some(), target == SMALL);
        }
        assert_eq!(target_for(Bytes::mib(255)).unwrap_err().exit_code(), ExitCode::Missing);
    }

    #[test]
    fn committed_seeds_show_a_cost_of_age_and_of_order() {
        for (target, seeds) in SEEDS.iter().chain(&GUEST_SEEDS) {
            let ranges = ranges(seeds).unwrap();
            assert!(seeds.lines().count() > 5);
            let Ranges { age, placement, pieces, order, flash: [sata, nvme], new_file } = ranges;
            for (least, most) in [age, placement, pieces, order, sata, nvme] {
                assert!(1.0 < least && least < most && most < 2.0 * least, "{target}: {ranges:?}");
            }
            assert!(new_file.is_none_or(|(least, most)| 1.0 <= least && least < most), "{target}: {ranges:?}");
        }
        assert!(ranges_of(&AgeSpec { seed: Seed(9), ..spec(TARGET).unwrap() }, false).is_some());
        assert!(ranges_of(&AgeSpec { fullness: Some(0.5), ..spec(TARGET).unwrap() }, false).is_none());
    }
}
