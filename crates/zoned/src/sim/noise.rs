//! Portable random delays: exponential quantiles from a table, so that results do not depend on libm.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;

const STEPS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Noise {
    generator: Pcg64,
    /// Quantiles of the unit exponential distribution, scaled by 2^16; their mean is close to 2^16.
    quantiles: Box<[u32; STEPS]>,
}

impl Noise {
    pub(crate) fn new(seed: Seed, stream: &str) -> Self {
        let mut quantiles = Box::new([0; STEPS]);
        for (step, quantile) in quantiles.iter_mut().enumerate() {
            let probability = (step as f64 + 0.5) / STEPS as f64;
            *quantile = (-(1.0 - probability).ln() * 65536.0).round() as u32;
        }
        Self { generator: seed.stream(stream), quantiles }
    }

    #[inline]
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        let quantile = self.quantiles[(self.generator.next_u64() >> 54) as usize];
        (mean * u64::from(quantile)) >> 16
    }

    /// Returns `mean` with a one-sided spread: never much below it, with an exponential tail above. Preserves the mean.
    pub(crate) fn around(&mut self, mean: u64, spread: f64) -> u64 {
        let width = (mean as f64 * spread) as u64;
        mean - width + self.exponential(width)
    }

    /// Returns `mean` with a symmetric, uniform spread.
    pub(crate) fn near(&mut self, mean: u64, spread: f64) -> u64 {
        let even = (self.generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (mean as f64 * (1.0 + spread * (2.0 * even - 1.0))) as u64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        ((self.generator.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_preserve_the_mean() {
        let mut noise = Noise::new(Seed(1), "test");
        let count = 100_000;
        let sum: u64 = (0..count).map(|_| noise.exponential(1000)).sum();
        assert!((sum as f64 / f64::from(count) - 1000.0).abs() < 15.0, "{}", sum as f64 / f64::from(count));
        let sum: u64 = (0..count).map(|_| noise.around(1000, 0.05)).sum();
        assert!((sum as f64 / f64::from(count) - 1000.0).abs() < 2.0);
        let sum: u64 = (0..count).map(|_| noise.near(1000, 0.2)).sum();
        assert!((sum as f64 / f64::from(count) - 1000.0).abs() < 2.0);
    }
}
