//! The chunk-size trial of the DMV study: chunks of a fixed pseudo-random stream, their mean and population deviation.

use super::spec::ChunkerSpec;
use super::{Chunker, FastCdc, Fixed, RollingSum};

/// Marsaglia's xorshift128 as in the crate rand 0.3 (`XorShiftRng`): the study took the low byte of every output.
#[derive(Debug, Clone)]
pub struct XorShift {
    x: u32,
    y: u32,
    z: u32,
    w: u32,
}

impl XorShift {
    /// Creates the generator with the study's seed, `[255, 20, 110, 0]`.
    pub fn study() -> Self {
        Self { x: 255, y: 20, z: 110, w: 0 }
    }

    #[inline]
    pub(crate) fn next_u32(&mut self) -> u32 {
        let t = self.x ^ (self.x << 11);
        self.x = self.y;
        self.y = self.z;
        self.z = self.w;
        self.w = self.w ^ (self.w >> 19) ^ t ^ (t >> 8);
        self.w
    }

    /// Fills `bytes` with the low byte of one output each.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next_u32() as u8;
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Chunk sizes in order. The study used the index of the last byte as the size of the first chunk, so that one is a byte
    /// short.
    pub sizes: Vec<u64>,
    pub bytes: u64,
}

impl Trial {
    /// Returns the mean chunk size in bytes; `None` without chunks.
    pub fn mean(&self) -> Option<f64> {
        let count = self.sizes.len();
        (count > 0).then(|| self.sizes.iter().sum::<u64>() as f64 / count as f64)
    }

    /// Returns the population standard deviation in bytes, as the study printed it.
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.sizes.iter().map(|size| (*size as f64 - mean).powi(2)).sum();
        Some((squares / self.sizes.len() as f64).sqrt())
    }
}

/// Parameters of the study's trial: 100 chunks, aborted after 2^30 bytes.
pub const CHUNKS: usize = 100;
#[cfg(test)]
pub(crate) const GIVE_UP_BYTES: u64 = 1 << 30;

pub(crate) fn rolling_sum_trial(window: usize, divisor: u32, reset: bool, chunks: usize, give_up_bytes: u64) -> Trial {
    let mut chunker = RollingSum::new(window, divisor, reset);
    let mut source = XorShift::study();
    let mut block = vec![0; 1 << 16];
    let mut trial = Trial { sizes: Vec::with_capacity(chunks), bytes: 0 };
    let mut previous = 0;
    while trial.sizes.len() < chunks && trial.bytes < give_up_bytes {
        source.fill(&mut block);
        let mut rest = &block[..];
        while trial.sizes.len() < chunks {
            let Some(read) = chunker.next_flag(rest) else { break };
            rest = &rest[read..];
            let index = trial.bytes + (block.len() - rest.len()) as u64 - 1;
            trial.sizes.push(index - previous);
            previous = index;
        }
        trial.bytes += block.len() as u64;
    }
    trial
}

/// Runs any chunker on the study's stream, with the true size of every chunk.
pub fn trial(spec: &ChunkerSpec, chunks: usize, give_up_bytes: u64) -> Trial {
    let mut chunker: Box<dyn Chunker> = match *spec {
        ChunkerSpec::RollingSum { window, divisor, reset } => {
            return rolling_sum_trial(window, divisor, reset, chunks, give_up_bytes);
        }
        ChunkerSpec::FastCdc { average } => Box::new(FastCdc::new(average)),
        ChunkerSpec::Fixed { size } => Box::new(Fixed::new(size)),
    };
    let mut source = XorShift::study();
    let mut pending = Vec::new();
    let mut trial = Trial { sizes: Vec::with_capacity(chunks), bytes: 0 };
    while trial.sizes.len() < chunks && trial.bytes < give_up_bytes {
        let filled = pending.len();
        pending.resize(filled + (1 << 16), 0);
        source.fill(&mut pending[filled..]);
        trial.bytes += 1 << 16;
        let mut start = 0;
        while trial.sizes.len() < chunks {
            let Some(length) = chunker.cut(&pending[start..], false) else { break };
            trial.sizes.push(length as u64);
            start += length;
        }
        pending.drain(..start);
    }
    trial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_matches_the_study() {
        let mut bytes = [0; 10];
        XorShift::study().fill(&mut bytes);
        assert_eq!(bytes, [7, 179, 173, 173, 109, 225, 168, 201, 120, 240]);
    }

    /// Checks all 160 published cells; 300.85 is a tie that prints as 300.8 or 300.9, depending on the rounding rule.
    #[test]
    fn published_cells_match_to_the_printed_digit() {
        let published = include_str!("../../data/dmv/rolling_hash.csv");
        let mut ties = 0;
        let mut cells = 0;
        for line in published.lines().filter(|line| line.starts_with("no,") || line.starts_with("yes,")) {
            let fields: Vec<&str> = line.split(',').collect();
            let (window, divisor) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
            let trial = rolling_sum_trial(window, divisor, fields[0] == "yes", CHUNKS, GIVE_UP_BYTES);
            for (value, printed) in [(trial.mean().unwrap(), fields[3]), (trial.deviation().unwrap(), fields[4])] {
                if format!("{value:.1}") != printed {
                    ties += 1;
                    let distance = (value - printed.parse::<f64>().unwrap()).abs();
                    assert!((distance - 0.05).abs() < 1e-9, "{line}: {value}");
                }
            }
            cells += 1;
        }
        assert_eq!(cells, 160);
        assert!(ties <= 1);
    }
}
