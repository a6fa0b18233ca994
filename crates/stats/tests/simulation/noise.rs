//! Noise with known truth.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

/// Shapes of noise around 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoiseShape {
    /// Normal, redrawn until positive.
    Normal,
    /// Lognormal with mean 1.
    Lognormal,
}

pub fn generator(seed: u8) -> Pcg64 {
    Pcg64::from_seed([seed; 32])
}

pub fn normal(rng: &mut impl Rng) -> f64 {
    StandardNormal.sample(rng)
}

pub fn uniform(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

impl NoiseShape {
    /// One value with this coefficient of variation.
    pub fn draw(self, variation: f64, rng: &mut impl Rng) -> f64 {
        match self {
            Self::Normal => loop {
                let value = 1.0 + variation * normal(rng);
                if value > 0.0 {
                    return value;
                }
            },
            Self::Lognormal => {
                let variance = variation.powi(2).ln_1p();
                (variance.sqrt() * normal(rng) - variance / 2.0).exp()
            }
        }
    }

    pub fn sample(self, centre: f64, variation: f64, count: usize, rng: &mut impl Rng) -> Vec<f64> {
        (0..count).map(|_| centre * self.draw(variation, rng)).collect()
    }

    /// Logarithms of the true geometric and arithmetic mean, by the trapezoidal rule over the density.
    pub fn log_means(self, variation: f64) -> [f64; 2] {
        if self == Self::Lognormal {
            return [-variation.powi(2).ln_1p() / 2.0, 0.0];
        }
        let (mut mass, mut logs, mut values) = (0.0, 0.0, 0.0);
        for step in -80_000..=80_000 {
            let deviate = f64::from(step) * 1e-4;
            let value = 1.0 + variation * deviate;
            if value > 0.0 {
                let density = (-deviate * deviate / 2.0).exp();
                mass += density;
                logs += density * value.ln();
                values += density * value;
            }
        }
        [logs / mass, (values / mass).ln()]
    }
}

/// Share of `trials` for which `hit` is true.
pub fn share(trials: usize, mut hit: impl FnMut() -> bool) -> f64 {
    (0..trials).filter(|_| hit()).count() as f64 / trials as f64
}
