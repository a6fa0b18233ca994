//! Finds the length of a run that creates a number of bytes. Bytes need not grow with the length: rounding decides whether a
//! large file survives, and whether it is created again.

use crate::error::AgingError;

/// Maximum tries by the mean size, and of all kinds. Each is a pass over the age bins and classes of a plan; with existing
/// files also over those.
const BY_MEAN: usize = 16;
const TRIES: usize = 40;

pub(super) struct Search {
    pub target: f64,
    pub at_most: bool,
    pub range: (u64, u64),
}

type LengthTrial = (u64, f64);

impl Search {
    /// Returns the lengths worth planning from the `first` guess, where a step creates about `mean` bytes. It is one
    /// length, or the nearest on both sides of the target. Empty if even the minimum length creates too much.
    pub(crate) fn lengths(
        &self,
        first: u64,
        mean: impl Fn(u64) -> f64,
        mut bytes: impl FnMut(u64) -> Result<f64, AgingError>,
    ) -> Result<Vec<u64>, AgingError> {
        let mut tried: Vec<LengthTrial> = Vec::new();
        let mut next = Some(first.clamp(self.range.0, self.range.1));
        while let Some(steps) = next.filter(|_| tried.len() < TRIES) {
            let last = (steps, bytes(steps)? - self.target);
            tried.push(last);
            if !self.at_most && steps_missing(last, mean(steps)) == 0.0 {
                return Ok(vec![steps]);
            }
            next = self.next(&tried, last, &mean);
        }
        Ok(self.chosen(&tried))
    }

    fn next(&self, tried: &[LengthTrial], last: LengthTrial, mean: &impl Fn(u64) -> f64) -> Option<u64> {
        let by_mean = self.within(last.0 as f64 + steps_missing(last, mean(last.0)));
        let known = |steps: u64| tried.iter().any(|(other, _)| *other == steps);
        if tried.len() < BY_MEAN && !known(by_mean) {
            return Some(by_mean);
        }
        let Some(low) = longest_below(tried) else { return Some(self.range.0).filter(|least| !known(*least)) };
        let above = tried.iter().filter(|(steps, excess)| *excess > 0.0 && *steps > low.0);
        match above.map(|(steps, _)| *steps).min() {
            Some(high) => (high - low.0 > 1).then(|| low.0 + (high - low.0) / 2),
            None => {
                let farther = steps_missing(low, mean(low.0)).max(1.0) * 2.0;
                Some(self.within(low.0 as f64 + farther)).filter(|steps| *steps > low.0)
            }
        }
    }

    fn within(&self, steps: f64) -> u64 {
        steps.clamp(self.range.0 as f64, self.range.1 as f64) as u64
    }

    fn chosen(&self, tried: &[LengthTrial]) -> Vec<u64> {
        if self.at_most {
            return longest_below(tried).map(|(steps, _)| steps).into_iter().collect();
        }
        let below = tried.iter().filter(|(_, excess)| *excess <= 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        let above = tried.iter().filter(|(_, excess)| *excess > 0.0).min_by(|a, b| a.1.total_cmp(&b.1));
        below.into_iter().chain(above).map(|(steps, _)| *steps).collect()
    }
}

fn steps_missing((_, excess): LengthTrial, mean: f64) -> f64 {
    (-excess / mean).round()
}

fn longest_below(tried: &[LengthTrial]) -> Option<LengthTrial> {
    tried.iter().filter(|(_, excess)| *excess <= 0.0).max_by_key(|(steps, _)| *steps).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 10 bytes; one more large file at every odd length.
    fn bytes(steps: u64) -> f64 {
        (steps * 10 + steps % 2 * 1000) as f64
    }

    fn found(target: f64, at_most: bool, first: u64, range: (u64, u64)) -> (Vec<u64>, usize) {
        let mut passes = 0;
        let counted = |steps| {
            passes += 1;
            Ok(bytes(steps))
        };
        (Search { target, at_most, range }.lengths(first, |_| 10.0, counted).unwrap(), passes)
    }

    #[test]
    fn maximum_holds_if_bytes_jump() {
        for target in (0..5000).map(f64::from) {
            for first in [0, 1, 77, 4000] {
                let (lengths, passes) = found(target, true, first, (0, 1 << 46));
                assert_eq!(lengths.len(), 1);
                assert!(bytes(lengths[0]) <= target && passes <= TRIES, "{target}: {lengths:?} after {passes}");
            }
        }
        assert_eq!(found(5.0, true, 3, (1, 3)).0, Vec::<u64>::new());
    }

    #[test]
    fn exact_number_is_met_or_bracketed() {
        assert_eq!(found(800.0, false, 70, (0, 1 << 46)).0, [80]);
        // By the mean size only, the search would alternate between 51 and 0.
        let (lengths, passes) = found(505.0, false, 51, (0, 1 << 46));
        assert!(
            bytes(lengths[0]) <= 505.0 && bytes(lengths[1]) > 505.0 && passes <= TRIES,
            "{lengths:?} after {passes}"
        );
    }

    #[test]
    fn number_of_tries_is_bounded() {
        let mut passes = 0;
        let search = Search { target: 1e12, at_most: false, range: (0, 1 << 46) };
        let line = |steps: u64| {
            passes += 1;
            Ok(steps as f64 * 10.0)
        };
        assert_eq!(search.lengths(1, |_| 10.0, line).unwrap(), [100_000_000_000]);
        assert_eq!(passes, 2);
    }
}
