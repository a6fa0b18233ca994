//! The setting of `senesce demo`, and the range of its factors over other seeds.

use super::spec::AgeSpec;
use senesce_core::{Bytes, Failure, Seed};
use senesce_stats::{mean, standard_deviation, student};

/// A volume that is aged enough in seconds. Blocks of 4 KiB, because mkfs.ext4 chooses 1 KiB below 512 MiB.
pub const TARGET: &str = "memory:256M";
/// The same in half a minute, on a slow kernel.
pub const SMALL: &str = "memory:128M";
const FLAGS: [&str; 5] = ["--copies", "--overwrites", "8", "--truncate-sizes", "--mkfs-options=-b4096"];

/// A small ext4 has no space for 80 %.
const SMALL_FULLNESS: [&str; 2] = ["--fullness", "70%"];

/// The flags of the demo on a target.
pub fn flags(target: &str) -> Vec<&'static str> {
    let fullness: &[&str] = if target == TARGET { &[] } else { &SMALL_FULLNESS };
    [&FLAGS, fullness].concat()
}

/// Measured with these flags (data/demo).
const SEEDS: &str = include_str!("../../../../data/demo/seeds.csv");

/// # Errors
/// The profile cannot be read.
pub fn spec(target: &str) -> Result<AgeSpec, Failure> {
    AgeSpec::of_flags(&flags(target))?.on(Some(target.parse()?))
}

/// The target of the demo with this memory: [`TARGET`], or the largest smaller one. Two images and the program's own data are held at
/// the same time.
pub fn target_for(available: Bytes) -> &'static str {
    let fits = |mebibytes: u64| Bytes::mib(2 * mebibytes + 128) <= available;
    [(256, TARGET), (128, SMALL)].into_iter().find(|(size, _)| fits(*size)).map_or("memory:64M", |(_, target)| target)
}

pub(super) fn is_demo(spec: &AgeSpec) -> bool {
    let plain = |spec: &AgeSpec| AgeSpec { seed: Seed(0), ..spec.clone() };
    self::spec(TARGET).is_ok_and(|demo| plain(&demo) == plain(spec))
}

/// The range of each factor that holds 95 % of agings with other seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ranges {
    pub age: (f64, f64),
    pub placement: (f64, f64),
    pub pieces: (f64, f64),
    pub order: (f64, f64),
}

/// Prediction intervals for one more aging. `None` if the table is damaged.
pub(super) fn ranges() -> Option<Ranges> {
    let rows: Option<Vec<[f64; 5]>> = SEEDS.lines().skip(1).map(row).collect();
    let rows = rows.filter(|rows| !rows.is_empty())?;
    let seeds = rows.len() as f64;
    let reach = student::quantile(0.025, seeds - 1.0) * (1.0 + 1.0 / seeds).sqrt();
    let range = |of: fn(&[f64; 5]) -> f64| {
        let values: Vec<f64> = rows.iter().map(of).collect();
        let (mean, deviation) = (mean(&values)?, standard_deviation(&values)?);
        Some((mean - reach * deviation, mean + reach * deviation))
    };
    Some(Ranges {
        age: range(|[_, _, unaged, aged, _]| aged / unaged)?,
        placement: range(|[_, _, unaged, aged, pieces]| aged / unaged / pieces)?,
        pieces: range(|[.., pieces]| *pieces)?,
        order: range(|[_, ordered, unaged, ..]| unaged / ordered)?,
    })
}

fn row(line: &str) -> Option<[f64; 5]> {
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
            (Bytes::mib(100), "memory:64M"),
        ] {
            assert_eq!(target_for(available), target);
            assert_eq!(is_demo(&spec(target).unwrap()), target == TARGET);
        }
    }

    #[test]
    fn committed_seeds_show_a_cost_of_age_and_of_order() {
        let ranges = ranges().unwrap();
        assert!(SEEDS.lines().count() > 5);
        for (least, most) in [ranges.age, ranges.placement, ranges.pieces, ranges.order] {
            assert!(1.0 < least && least < most && most < 2.0 * least, "{ranges:?}");
        }
        assert!(is_demo(&AgeSpec { seed: Seed(9), ..spec(TARGET).unwrap() }));
        assert!(!is_demo(&AgeSpec { fullness: Some(0.5), ..spec(TARGET).unwrap() }));
    }
}
