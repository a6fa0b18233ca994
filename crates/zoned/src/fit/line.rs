//! A linear form through many runs of a model with different constants. Runs with the same seed share an offset. If
//! values follow the constants smoothly, their differences give derivatives with little scatter (blocks in the sense of
//! Box, Hunter and Hunter, Statistics for Experimenters, 1978, chapter 7).

use super::least_squares::inverse;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation<'a> {
    /// Offsets of the constants from the centre.
    pub by: &'a [f64],
    pub value: f64,
    /// Runs with the same number share a seed.
    pub seed: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Mean over seeds at the centre, with its standard error.
    pub at: f64,
    pub uncertain: f64,
    /// Derivatives, and their variances in units of the scatter.
    numbers: Vec<f64>,
    inverse: Vec<Vec<f64>>,
    /// Residual scatter of runs with the same seed.
    pub scatter: f64,
}

impl Line {
    /// Fits the form; `None` if there are too few runs. A seed's offset is a parameter if more than one run has that
    /// seed.
    pub(crate) fn through(seen: &[Observation<'_>]) -> Option<Self> {
        let size = seen.first()?.by.len();
        let seeds = Seeds::of(seen, size);
        let free = seen.len().checked_sub(size + seeds.count()).filter(|free| *free > 0)? as f64;
        let apart: Vec<(Vec<f64>, f64)> = seen.iter().map(|one| seeds.without(one)).collect();
        let product = |a: usize, b: usize| apart.iter().map(|(row, _)| row[a] * row[b]).sum::<f64>();
        let inverse = inverse((0..size).map(|a| (0..size).map(|b| product(a, b)).collect()).collect())?;
        let right: Vec<f64> = (0..size).map(|a| apart.iter().map(|(row, value)| row[a] * value).sum()).collect();
        let numbers: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
        let squares: f64 = apart.iter().map(|(row, value)| (value - dot(row, &numbers)).powi(2)).sum();
        let scatter = (squares / free).sqrt();
        let (at, own) = seeds.at_centre(&numbers, scatter);
        let mean = seeds.mean_place();
        let tilt: f64 = inverse.iter().zip(&mean).map(|(row, part)| part * dot(row, &mean)).sum();
        let uncertain = (own + scatter.powi(2) * tilt.max(0.0)).sqrt();
        Some(Self { at, uncertain, numbers, inverse, scatter })
    }

    pub(crate) fn number(&self, index: usize) -> f64 {
        self.numbers[index]
    }

    /// Returns a derivative moved towards 0 by its standard error: values indistinguishable from scatter become 0.
    pub(crate) fn cautious(&self, index: usize) -> f64 {
        let error = self.scatter * self.inverse[index][index].max(0.0).sqrt();
        (self.numbers[index].abs() - error).max(0.0) * self.numbers[index].signum()
    }

    /// Returns whether two derivatives differ by more than `errors` standard errors of their difference.
    pub(crate) fn differ(&self, one: usize, other: usize, errors: f64) -> bool {
        let of = |a: usize, b: usize| self.inverse[a][b];
        let variance = of(one, one) + of(other, other) - 2.0 * of(one, other);
        (self.numbers[one] - self.numbers[other]).abs() > errors * self.scatter * variance.max(0.0).sqrt()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Means by seed: of the offsets and of the value.
struct Seeds {
    means: Vec<(usize, Vec<f64>, f64)>,
    /// Position of a seed in `means`.
    index: std::collections::BTreeMap<usize, usize>,
    all: usize,
}

impl Seeds {
    /// Groups the runs by seed; one common mean if every run has a different seed.
    fn of(seen: &[Observation<'_>], size: usize) -> Self {
        let mut index = std::collections::BTreeMap::new();
        for one in seen {
            let next = index.len();
            index.entry(one.seed).or_insert(next);
        }
        if index.len() == seen.len() {
            index.values_mut().for_each(|number| *number = 0);
        }
        let count = index.values().max().map_or(0, |most| most + 1);
        let mut means = vec![(0, vec![0.0; size], 0.0); count];
        for one in seen {
            let (count, by, value) = &mut means[index[&one.seed]];
            *count += 1;
            by.iter_mut().zip(one.by).for_each(|(sum, part)| *sum += part);
            *value += one.value;
        }
        for (count, by, value) in &mut means {
            by.iter_mut().for_each(|part| *part /= *count as f64);
            *value /= *count as f64;
        }
        Self { means, index, all: seen.len() }
    }

    fn count(&self) -> usize {
        self.means.len()
    }

    fn without(&self, one: &Observation<'_>) -> (Vec<f64>, f64) {
        let (_, by, value) = &self.means[self.index[&one.seed]];
        (one.by.iter().zip(by).map(|(part, mean)| part - mean).collect(), one.value - value)
    }

    fn mean_place(&self) -> Vec<f64> {
        let count = self.count() as f64;
        let part = |index: usize| self.means.iter().map(|(_, by, _)| by[index]).sum::<f64>() / count;
        (0..self.means.first().map_or(0, |(_, by, _)| by.len())).map(part).collect()
    }

    /// Returns the mean at the centre, and its variance without that of the derivatives.
    fn at_centre(&self, numbers: &[f64], scatter: f64) -> (f64, f64) {
        let each: Vec<f64> = self.means.iter().map(|(_, by, value)| value - dot(by, numbers)).collect();
        let count = each.len() as f64;
        let at = each.iter().sum::<f64>() / count;
        let apart = each.iter().map(|one| (one - at).powi(2)).sum::<f64>();
        let variance = match each.len() {
            1 => scatter.powi(2) / self.all as f64,
            _ => apart / (count - 1.0) / count,
        };
        (at, variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::Rng;
    use senesce_core::Seed;

    /// Returns 5 + 300 a - 100 b plus an offset per seed plus noise. The first runs are at the centre.
    fn runs(count: usize, seeds: usize, there: usize, noise: f64) -> Vec<([f64; 2], f64, usize)> {
        let mut stream = Seed(3).stream("test");
        let mut even = move || 2.0 * (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 1.0;
        let added: Vec<f64> = (0..seeds).map(|_| 10.0 * even()).collect();
        let one = |number: usize| {
            let by = if number < there { [0.0, 0.0] } else { [0.1 * even(), 0.1 * even()] };
            let value = 5.0 + 300.0 * by[0] - 100.0 * by[1] + added[number % seeds] + noise * even();
            (by, value, number % seeds)
        };
        (0..count).map(one).collect()
    }

    fn line(runs: &[([f64; 2], f64, usize)]) -> Option<Line> {
        let seen: Vec<Observation<'_>> =
            runs.iter().map(|(by, value, seed)| Observation { by, value: *value, seed: *seed }).collect();
        Line::through(&seen)
    }

    #[test]
    fn seed_offsets_make_the_centre_uncertain_but_not_the_derivatives() {
        let line = line(&runs(60, 20, 20, 0.01)).unwrap();
        assert!((line.number(0) - 300.0).abs() < 0.3 && (line.number(1) + 100.0).abs() < 0.3, "{line:?}");
        assert!((0.8..1.8).contains(&line.uncertain) && (line.at - 5.0).abs() < 3.0 * line.uncertain, "{line:?}");
        assert!(line.scatter < 0.02 && line.cautious(0) < line.number(0), "{line:?}");
    }

    #[test]
    fn runs_with_distinct_seeds_share_one_mean() {
        let line = line(&runs(100, 100, 20, 0.0)).unwrap();
        assert!((line.at - 5.0).abs() < 3.0 * line.uncertain && line.uncertain < 1.0, "{line:?}");
        assert!((line.number(0) - 300.0).abs() < 60.0 && line.scatter > 3.0, "{line:?}");
    }

    #[test]
    fn too_few_runs_give_no_line() {
        assert!(line(&runs(22, 20, 20, 0.1)).is_none());
    }
}
