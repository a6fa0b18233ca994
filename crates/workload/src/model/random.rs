//! Generators and distributions of the language.

/// The 48-bit linear congruential generator of POSIX `drand48`: x' = (0x5DEECE66D x + 0xB) mod 2^48.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drand48(u64);

impl Drand48 {
    /// Starts with the given 48-bit state. Filebench never seeds `drand48`; glibc's initial state is 0.
    pub(crate) fn with_state(state: u64) -> Self {
        Self(state & ((1 << 48) - 1))
    }

    /// Draws a number uniform in [0, 1).
    pub(crate) fn next_f64(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        self.0 as f64 / (1u64 << 48) as f64
    }
}

/// glibc's `rand()` (additive feedback, degree 31, separation 3), by which Filebench decides which files exist at the start.
/// glibc manual, "Pseudo-Random Numbers"; the recurrence is `r[i] = r[i-3] + r[i-31] mod 2^32`, output `r[i] >> 1`.
#[derive(Debug, Clone)]
pub(crate) struct GlibcRand {
    state: [u32; 31],
    index: usize,
}

/// Of `rand()`.
pub(crate) const RAND_MAX: u64 = 0x7fff_ffff;

impl GlibcRand {
    /// Creates the state after `srand(seed)`; an unseeded program has seed 1.
    pub(crate) fn with_seed(seed: u32) -> Self {
        let mut state = [0u32; 31];
        let mut word = i64::from(if seed == 0 { 1 } else { seed as i32 });
        for slot in &mut state {
            *slot = word as u32;
            word = (16_807 * word) % 0x7fff_ffff;
            if word < 0 {
                word += 0x7fff_ffff;
            }
        }
        let mut generator = Self { state, index: 3 };
        for _ in 0..310 {
            generator.next();
        }
        generator
    }

    /// Returns the next number, 0 to [`RAND_MAX`].
    #[allow(clippy::should_implement_trait)]
    pub(crate) fn next(&mut self) -> u32 {
        let other = self.state[(self.index + 28) % 31];
        let slot = &mut self.state[self.index];
        *slot = slot.wrapping_add(other);
        self.index = (self.index + 1) % 31;
        *slot >> 1
    }
}

/// Draws a gamma-distributed number of the given shape and scale 1. Shape above 1: Knuth, The Art of Computer
/// Programming, vol. 2, 3rd edition, 3.4.1, algorithm A; otherwise algorithm G (answer to exercise 16).
pub(crate) fn knuth_gamma(shape: f64, uniform: &mut impl FnMut() -> f64) -> f64 {
    if shape > 1.0 {
        let root = ((2.0 * shape) - 1.0).sqrt();
        loop {
            let y = (std::f64::consts::PI * uniform()).tan();
            let x = root * y + shape - 1.0;
            if x <= 0.0 {
                continue;
            }
            let bound = (1.0 + y * y) * ((shape - 1.0) * (x / (shape - 1.0)).ln() - root * y).exp();
            if uniform() <= bound {
                return x;
            }
        }
    }
    let p = std::f64::consts::E / (shape + std::f64::consts::E);
    loop {
        let u = uniform();
        let v = positive(uniform);
        let (x, q) = if u < p {
            let x = v.powf(1.0 / shape);
            (x, (-x).exp())
        } else {
            let x = 1.0 - v.ln();
            (x, x.powf(shape - 1.0))
        };
        if uniform() < q {
            return x;
        }
    }
}

fn positive(uniform: &mut impl FnMut() -> f64) -> f64 {
    loop {
        let number = uniform();
        if number > 0.0 {
            return number;
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// `randvar` of type uniform: from `min` to 2 mean - min.
    UniformAround,
    /// `randvar` of type gamma with this shape: `min` plus a gamma variable of mean mean - min.
    GammaAround(f64),
    /// `randvar` of type tabular: 100 cells of (base, range), normalised to minimum 0 and mean 1.
    Table(Vec<(f64, f64)>),
    Uniform {
        lower: f64,
        upper: f64,
    },
    /// `cvar-gamma` with this shape.
    Gamma(f64),
    Exponential,
    /// `cvar-erlang` with this order.
    Erlang(u32),
    /// `cvar-normal` with this standard deviation.
    Normal(f64),
    /// `cvar-lognormal`: exp of a normal variable with mean `scale` and standard deviation `shape`.
    LogNormal {
        /// Standard deviation of the logarithm.
        shape: f64,
        scale: f64,
    },
    Triangular {
        lower: f64,
        upper: f64,
        mode: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
}

/// Source of uniform numbers of a random variable during population. During the run, every thread has its own seeded generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberSource {
    /// The process-wide `drand48` (`cvar-gamma`).
    SharedDrand48,
    /// Its own `erand48` with this state (`randvar`).
    OwnErand48(u64),
    /// A seeded generator, in place of one seeded from the clock by Filebench.
    Seeded,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RandomVariable {
    /// Name without the dollar sign.
    pub name: String,
    pub distribution: Distribution,
    pub mean: f64,
    /// `randvar`: the minimum. `cvar`: lower values are raised to it.
    pub min: f64,
    /// `cvar`: higher values are lowered to it.
    pub max: f64,
    /// Values are rounded to multiples; 0: not rounded.
    pub round: f64,
    pub source: NumberSource,
}

impl RandomVariable {
    pub(crate) fn sample(&self, uniform: &mut impl FnMut() -> f64) -> f64 {
        use Distribution as D;
        match &self.distribution {
            D::UniformAround => self.rounded(uniform() * 2.0 * (self.mean - self.min) + self.min),
            D::GammaAround(shape) => {
                let scale = (self.mean - self.min) / shape;
                self.rounded(scale * knuth_gamma(*shape, uniform) + self.min)
            }
            D::Table(cells) => {
                let place = uniform() * cells.len() as f64;
                let (base, range) = cells.get(place as usize).copied().unwrap_or_default();
                self.rounded((base + range * place.fract()) * (self.mean - self.min) + self.min)
            }
            _ => self.clamped(self.raw(uniform)),
        }
    }

    fn raw(&self, uniform: &mut impl FnMut() -> f64) -> f64 {
        use Distribution as D;
        match self.distribution {
            D::Uniform { lower, upper } => lower + uniform() * (upper - lower),
            D::Gamma(shape) => self.mean / shape * knuth_gamma(shape, uniform),
            D::Exponential => -self.mean * positive(uniform).ln(),
            D::Erlang(order) => {
                let product: f64 = (0..order.max(1)).map(|_| positive(uniform)).product();
                -self.mean * product.ln() / f64::from(order.max(1))
            }
            D::Normal(sigma) => self.mean + sigma * standard_normal(uniform),
            D::LogNormal { shape, scale } => (scale + shape * standard_normal(uniform)).exp(),
            D::Triangular { lower, upper, mode } => {
                let (u, span) = (uniform(), upper - lower);
                if span <= 0.0 {
                    lower
                } else if u <= (mode - lower) / span {
                    lower + (u * span * (mode - lower)).sqrt()
                } else {
                    upper - ((1.0 - u) * span * (upper - mode)).sqrt()
                }
            }
            D::Weibull { shape, scale } => scale * (-positive(uniform).ln()).powf(1.0 / shape),
            D::UniformAround | D::GammaAround(_) | D::Table(_) => self.mean,
        }
    }

    fn rounded(&self, value: f64) -> f64 {
        if self.round == 0.0 { value } else { (value / self.round).round() * self.round }
    }

    /// Rounds as custom variables do: to the nearest multiple, the lower one in the middle; then applies the bounds.
    fn clamped(&self, value: f64) -> f64 {
        let value = if self.round >= 1.0 {
            let lower = (value / self.round).floor() * self.round;
            if value - lower > self.round / 2.0 { lower + self.round } else { lower }
        } else {
            value
        };
        value.clamp(self.min, self.max.max(self.min))
    }
}

/// Draws one of the two numbers of Box and Muller's transformation.
fn standard_normal(uniform: &mut impl FnMut() -> f64) -> f64 {
    let radius = (-2.0 * positive(uniform).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drand48_and_rand_start_as_in_glibc() {
        let mut drand48 = Drand48::with_state(0);
        let first: Vec<f64> = (0..3).map(|_| drand48.next_f64()).collect();
        assert_eq!(first, [3.907985046680551e-14, 0.0009853946746503084, 0.04163100159461308]);
        let mut rand = GlibcRand::with_seed(1);
        let first: Vec<u32> = (0..5).map(|_| rand.next()).collect();
        assert_eq!(first, [1804289383, 846930886, 1681692777, 1714636915, 1957747793]);
    }

    #[test]
    fn gamma_samples_are_fixed() {
        let mut drand48 = Drand48::with_state(0);
        let mut uniform = || drand48.next_f64();
        let sizes: Vec<u64> = (0..4).map(|_| (131_072.0 / 1.5 * knuth_gamma(1.5, &mut uniform)) as u64).collect();
        assert_eq!(sizes, GOLDEN_SIZES);
        let small: Vec<u64> = (0..4).map(|_| (1e6 * knuth_gamma(0.5, &mut uniform)) as u64).collect();
        assert_eq!(small, GOLDEN_SMALL);
    }

    /// Computed independently, with glibc's `drand48` and the same two algorithms in another language.
    const GOLDEN_SIZES: [u64; 4] = [43690, 59945, 316471, 80562];
    const GOLDEN_SMALL: [u64; 4] = [206509, 2583, 63685, 656795];

    fn variable(distribution: Distribution, mean: f64) -> RandomVariable {
        RandomVariable {
            name: "x".into(),
            distribution,
            mean,
            min: 0.0,
            max: f64::MAX,
            round: 0.0,
            source: NumberSource::Seeded,
        }
    }

    #[test]
    fn distributions_have_their_means() {
        let cells = (0..100).map(|cell| if cell < 50 { (0.0, 1.0) } else { (1.0, 1.0) }).collect();
        let cases = [
            (variable(Distribution::UniformAround, 8.0), 8.0),
            (variable(Distribution::GammaAround(1.5), 8.0), 8.0),
            (variable(Distribution::Table(cells), 8.0), 8.0),
            (variable(Distribution::Uniform { lower: 2.0, upper: 4.0 }, 0.0), 3.0),
            (variable(Distribution::Gamma(0.7), 8.0), 8.0),
            (variable(Distribution::Exponential, 8.0), 8.0),
            (variable(Distribution::Erlang(3), 8.0), 8.0),
            (variable(Distribution::Normal(1.0), 8.0), 8.0),
            (variable(Distribution::LogNormal { shape: 0.5, scale: 1.0 }, 0.0), (1.0f64 + 0.125).exp()),
            (variable(Distribution::Triangular { lower: 0.0, upper: 9.0, mode: 3.0 }, 0.0), 4.0),
            (variable(Distribution::Weibull { shape: 1.0, scale: 8.0 }, 0.0), 8.0),
        ];
        for (variable, mean) in cases {
            let mut drand48 = Drand48::with_state(7);
            let mut uniform = || drand48.next_f64();
            let count = 200_000;
            let sum: f64 = (0..count).map(|_| variable.sample(&mut uniform)).sum();
            let found = sum / f64::from(count);
            assert!((found / mean - 1.0).abs() < 0.02, "{:?}: {found} instead of {mean}", variable.distribution);
        }
    }

    #[test]
    fn rounding_and_bounds_hold() {
        let mut drand48 = Drand48::with_state(3);
        let mut uniform = || drand48.next_f64();
        let mut rounded = variable(Distribution::UniformAround, 4096.0);
        rounded.round = 512.0;
        let mut bounded = variable(Distribution::Exponential, 100.0);
        (bounded.min, bounded.max, bounded.round) = (50.0, 150.0, 10.0);
        for _ in 0..1000 {
            assert_eq!(rounded.sample(&mut uniform) % 512.0, 0.0);
            let value = bounded.sample(&mut uniform);
            assert!((50.0..=150.0).contains(&value) && value % 10.0 == 0.0, "{value}");
        }
    }
}
