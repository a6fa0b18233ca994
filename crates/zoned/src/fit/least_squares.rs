//! Robust least squares on the logarithms of constants: Gauss-Newton steps with Huber weights (Huber, Robust
//! Statistics, 1981, section 7.8) at the scale of the median absolute residual. A weak prior at the start keeps
//! undetermined constants in place.

/// Standard deviation of the prior, as a logarithm.
const PRIOR: f64 = 1.5;
/// Residuals beyond this number of scales get less weight.
const HUBER: f64 = 2.5;
/// Maximum step of a constant, as a logarithm.
const LONGEST: f64 = 0.5;
/// A smaller step ends the search.
const ENOUGH: f64 = 2e-4;
/// A step that reduces the squares by less is the last one.
const LEAST_GAIN: f64 = 0.01;
pub(crate) const STEPS: usize = 12;

/// Residuals in standard deviations of the measurement, and their derivatives.
pub(crate) trait Problem {
    /// Residuals at the logarithms `x`; `None`: the constants are invalid.
    fn residuals(&mut self, x: &[f64]) -> Option<Vec<f64>>;

    /// Derivatives at `x`, where the residuals are `at`: one column per constant.
    fn derivatives(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>>;

    /// Returns the derivatives at `x` if upward and downward ones agree; otherwise the smaller one. Avoids reporting
    /// constants that are hidden by a larger one.
    fn derivatives_both_ways(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>>;
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Solution {
    pub x: Vec<f64>,
    pub covariance: Vec<Vec<f64>>,
    pub residuals: Vec<f64>,
    pub columns: Vec<Vec<f64>>,
    pub settled: bool,
}

/// Finds the constants with the smallest residuals. `None`: the start is invalid.
pub(crate) fn solve<P: Problem>(problem: &mut P, start: &[f64], steps: usize) -> Option<Solution> {
    let mut x = start.to_vec();
    let mut at = problem.residuals(&x)?;
    let mut settled = false;
    let mut columns = problem.derivatives(&x, &at);
    let mut moved = 0.0f64;
    for _ in 0..steps {
        if moved > 0.02 {
            columns = problem.derivatives(&x, &at);
            moved = 0.0;
        }
        let (step, gain) = step(&columns, &at, &x, start)?;
        let longest = step.iter().fold(0.0f64, |longest, part| longest.max(part.abs()));
        let Some((next, residuals, length)) = search(problem, &x, &step, longest, &at, start) else {
            // The derivatives were old: retry with new ones.
            if moved == 0.0 {
                settled = true;
                break;
            }
            moved = 1.0;
            continue;
        };
        (x, at, moved) = (next, residuals, moved + length);
        if length < ENOUGH || gain < LEAST_GAIN {
            settled = true;
            break;
        }
    }
    let columns = problem.derivatives_both_ways(&x, &at);
    let covariance = covariance(&columns, &at)?;
    Some(Solution { x, covariance, residuals: at, columns, settled })
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Open {
    pub columns: Vec<Vec<f64>>,
    pub covariance: Vec<Vec<f64>>,
}

impl Solution {
    /// Returns the standard deviation of each constant; the one before the search if rounding left none.
    pub(crate) fn deviation(&self) -> Vec<f64> {
        let variances = self.covariance.iter().enumerate().map(|(index, row)| row[index]);
        variances.map(|variance| if variance > 0.0 { variance.sqrt().min(PRIOR) } else { PRIOR }).collect()
    }

    /// Returns the correlation of the errors of two constants, -1 to 1; `None` if either has none.
    pub(crate) fn correlation(&self, one: usize, other: usize) -> Option<f64> {
        let variance = |index: usize| self.covariance[index][index].max(0.0);
        let together = self.covariance[one][other] / (variance(one) * variance(other)).sqrt();
        together.is_finite().then(|| together.clamp(-1.0, 1.0))
    }

    /// Adds the uncertainty of outside quantities. Never shrinks a variance, whatever rounding and omitted small
    /// correlations add up to.
    pub(crate) fn widen(&mut self, open: &Open) -> Option<()> {
        let alone: Vec<f64> = self.covariance.iter().enumerate().map(|(index, row)| row[index]).collect();
        let scale = scale(&self.residuals);
        let inverse = inverse(normal(&self.columns, &self.residuals, scale))?;
        let pull = |column: &[f64], other: &[f64]| -> f64 {
            let each = self.residuals.iter().zip(column.iter().zip(other));
            each.map(|(residual, (a, b))| weight(*residual, scale) * a * b).sum()
        };
        // Sensitivity of each constant to each quantity.
        let follows = |other: &Vec<f64>| -> Vec<f64> {
            let pulls: Vec<f64> = self.columns.iter().map(|column| pull(column, other)).collect();
            inverse.iter().map(|row| row.iter().zip(&pulls).map(|(a, b)| a * b).sum()).collect()
        };
        let moved: Vec<Vec<f64>> = open.columns.iter().map(follows).collect();
        for (one, row) in moved.iter().zip(&open.covariance) {
            for (other, together) in moved.iter().zip(row) {
                for (part, into) in one.iter().zip(&mut self.covariance) {
                    into.iter_mut().zip(other).for_each(|(into, other)| *into += part * together * other);
                }
            }
        }
        for (index, alone) in alone.into_iter().enumerate() {
            let wide = &mut self.covariance[index][index];
            *wide = wide.max(alone);
        }
        Some(())
    }
}

/// Tries ever shorter steps; returns the first that reduces the residuals.
fn search<P: Problem>(
    problem: &mut P,
    x: &[f64],
    step: &[f64],
    longest: f64,
    at: &[f64],
    start: &[f64],
) -> Option<(Vec<f64>, Vec<f64>, f64)> {
    let scale = scale(at);
    let before = cost(at, scale, x, start);
    let mut share = (LONGEST / longest.max(1e-12)).min(1.0);
    for _ in 0..5 {
        let next: Vec<f64> = x.iter().zip(step).map(|(x, step)| x + share * step).collect();
        if let Some(residuals) = problem.residuals(&next)
            && cost(&residuals, scale, &next, start) < before
        {
            return Some((next, residuals, share * longest));
        }
        share /= 3.0;
    }
    None
}

/// Returns the typical residual, at least the one expected from repetitions.
fn scale(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).map_or(1.0, |median| (median / 0.6745).max(1.0))
}

fn weight(residual: f64, scale: f64) -> f64 {
    let size = (residual / scale).abs();
    if size <= HUBER { 1.0 } else { HUBER / size }
}

fn cost(residuals: &[f64], scale: f64, x: &[f64], start: &[f64]) -> f64 {
    let loss = |residual: &f64| {
        let size = (residual / scale).abs();
        if size <= HUBER { size * size } else { HUBER * (2.0 * size - HUBER) }
    };
    let prior: f64 = x.iter().zip(start).map(|(x, start)| ((x - start) / PRIOR).powi(2)).sum();
    residuals.iter().map(loss).sum::<f64>() + prior / (scale * scale)
}

/// Returns the weighted normal equations: `J'WJ` plus the prior.
fn normal(columns: &[Vec<f64>], residuals: &[f64], scale: f64) -> Vec<Vec<f64>> {
    let product = |a: &[f64], b: &[f64]| -> f64 {
        residuals.iter().zip(a.iter().zip(b)).map(|(residual, (a, b))| weight(*residual, scale) * a * b).sum()
    };
    let mut matrix: Vec<Vec<f64>> = columns.iter().map(|a| columns.iter().map(|b| product(a, b)).collect()).collect();
    matrix.iter_mut().enumerate().for_each(|(index, row)| row[index] += 1.0 / (PRIOR * PRIOR));
    matrix
}

pub(crate) fn step(columns: &[Vec<f64>], residuals: &[f64], x: &[f64], start: &[f64]) -> Option<(Vec<f64>, f64)> {
    let scale = scale(residuals);
    let inverse = inverse(normal(columns, residuals, scale))?;
    let downhill = |(index, column): (usize, &Vec<f64>)| {
        let pull: f64 = column.iter().zip(residuals).map(|(a, r)| weight(*r, scale) * a * r).sum();
        -pull - (x[index] - start[index]) / (PRIOR * PRIOR)
    };
    let slope: Vec<f64> = columns.iter().enumerate().map(downhill).collect();
    let step: Vec<f64> = inverse.iter().map(|row| row.iter().zip(&slope).map(|(a, b)| a * b).sum()).collect();
    let gain = step.iter().zip(&slope).map(|(a, b)| a * b).sum();
    Some((step, gain))
}

/// Returns the covariance of the constants, scaled up if the residuals exceed the repetitions' scatter.
pub(crate) fn covariance(columns: &[Vec<f64>], residuals: &[f64]) -> Option<Vec<Vec<f64>>> {
    let inverse = inverse(normal(columns, residuals, scale(residuals)))?;
    let excess = excess(columns, residuals);
    Some(inverse.into_iter().map(|row| row.into_iter().map(|part| part * excess).collect()).collect())
}

/// Returns the ratio of the squared residuals to the repetitions' scatter.
pub(crate) fn excess(columns: &[Vec<f64>], residuals: &[f64]) -> f64 {
    let scale = scale(residuals);
    let free = residuals.len().saturating_sub(columns.len()).max(1) as f64;
    let spread: f64 = residuals.iter().map(|residual| weight(*residual, scale) * residual * residual).sum();
    (spread / free).max(1.0)
}

/// Gauss-Jordan elimination with pivoting; `None` for a singular matrix.
pub(crate) fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let head = matrix[column][column];
        if !head.is_finite() || head.abs() < 1e-300 {
            return None;
        }
        for value in matrix[column].iter_mut().chain(&mut inverse[column]) {
            *value /= head;
        }
        let (row, own) = (matrix[column].clone(), inverse[column].clone());
        for other in (0..size).filter(|other| *other != column) {
            let factor = matrix[other][column];
            let subtract =
                |to: &mut Vec<f64>, what: &[f64]| to.iter_mut().zip(what).for_each(|(to, what)| *to -= factor * what);
            subtract(&mut matrix[other], &row);
            subtract(&mut inverse[other], &own);
        }
    }
    Some(inverse)
}

/// Returns the derivative that is nearer to 0; 0 if the signs differ.
pub(crate) fn nearer(a: f64, b: f64) -> f64 {
    if a * b > 0.0 { a.abs().min(b.abs()) * a.signum() } else { 0.0 }
}

/// Applies [`nearer`] to all entries.
pub(crate) fn common(forward: Vec<Vec<f64>>, backward: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = forward.into_iter().zip(backward);
    columns.map(|(there, back)| there.into_iter().zip(back).map(|(a, b)| nearer(a, *b)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum of two exponentials, measured to one part in a thousand.
    struct Sum {
        measured: Vec<(f64, f64)>,
        seen: VisibleTerms,
    }

    #[derive(Clone, Copy)]
    enum VisibleTerms {
        Line,
        OnlySum,
        /// The first is hidden below 5.
        Hidden,
    }

    impl Sum {
        fn of(&self, x: &[f64]) -> Vec<f64> {
            let (a, b) = (x[0].exp(), x[1].exp());
            let at = |place: f64| match self.seen {
                VisibleTerms::Line => a + b * place,
                VisibleTerms::OnlySum => a + b,
                VisibleTerms::Hidden => a.max(5.0) + b * place,
            };
            self.measured.iter().map(|(place, value)| (at(*place) / value - 1.0) / 0.001).collect()
        }
    }

    impl Problem for Sum {
        fn residuals(&mut self, x: &[f64]) -> Option<Vec<f64>> {
            Some(self.of(x))
        }

        fn derivatives(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
            self.slopes(x, at, 1e-4)
        }

        fn derivatives_both_ways(&mut self, x: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
            common(self.slopes(x, at, 1e-4), &self.slopes(x, at, -1e-4))
        }
    }

    impl Sum {
        fn slopes(&self, x: &[f64], at: &[f64], step: f64) -> Vec<Vec<f64>> {
            let column = |index: usize| {
                let mut moved = x.to_vec();
                moved[index] += step;
                self.of(&moved).iter().zip(at).map(|(new, old)| (new - old) / step).collect()
            };
            (0..x.len()).map(column).collect()
        }
    }

    fn lines(wrong: &[(usize, f64)]) -> Vec<(f64, f64)> {
        let mut measured: Vec<(f64, f64)> =
            (0..10).map(|place| (f64::from(place), 5.0 + 2.0 * f64::from(place))).collect();
        wrong.iter().for_each(|(index, factor)| measured[*index].1 *= factor);
        measured
    }

    #[test]
    fn constants_are_found_despite_outliers() {
        let solve_it = |wrong: &[(usize, f64)]| {
            let mut problem = Sum { measured: lines(wrong), seen: VisibleTerms::Line };
            solve(&mut problem, &[1f64.ln(), 10f64.ln()], STEPS).unwrap()
        };
        let found = solve_it(&[]);
        assert!((found.x[0].exp() - 5.0).abs() < 0.01 && (found.x[1].exp() - 2.0).abs() < 0.01, "{found:?}");
        assert!(found.settled && found.deviation().iter().all(|deviation| *deviation < 0.003), "{found:?}");
        let found = solve_it(&[(4, 1.3)]);
        assert!((found.x[0].exp() - 5.0).abs() < 0.1 && (found.x[1].exp() - 2.0).abs() < 0.05, "{found:?}");
        assert!(found.deviation()[0] > 0.003, "what does not fit makes less certain: {found:?}");
    }

    #[test]
    fn constants_known_only_by_their_sum_are_uncertain() {
        let measured = (0..6).map(|place| (f64::from(place), 8.0)).collect();
        let found = solve(&mut Sum { measured, seen: VisibleTerms::OnlySum }, &[3f64.ln(), 3f64.ln()], STEPS).unwrap();
        assert!((found.x[0].exp() + found.x[1].exp() - 8.0).abs() < 0.01, "{found:?}");
        assert!(found.deviation().iter().all(|deviation| *deviation > 0.5), "{found:?}");
    }

    #[test]
    fn hidden_constant_is_uncertain_near_the_hiding_one() {
        let mut problem = Sum { measured: lines(&[]), seen: VisibleTerms::Hidden };
        let found = solve(&mut problem, &[5f64.ln(), 2f64.ln()], STEPS).unwrap();
        assert!(found.deviation()[0] > 0.5 && found.deviation()[1] < 0.003, "{found:?}");
    }

    /// Widens a solution by two outside quantities that enter by their sum: their errors cancel, and little uncertainty
    /// is left.
    #[test]
    fn correlations_of_outside_quantities_count() {
        let solve_it = || {
            let mut problem = Sum { measured: lines(&[]), seen: VisibleTerms::Line };
            solve(&mut problem, &[5f64.ln(), 2f64.ln()], STEPS).unwrap()
        };
        let widened = |correlation: f64| {
            let mut solution = solve_it();
            let column = solution.columns[0].clone();
            let covariance = vec![vec![0.01, 0.01 * correlation], vec![0.01 * correlation, 0.01]];
            solution.widen(&Open { columns: vec![column.clone(), column], covariance }).unwrap();
            solution.deviation()
        };
        let alone = solve_it().deviation();
        let [apart, against] = [0.0, -1.0].map(widened);
        assert!((0.13..0.15).contains(&apart[0]), "10 % each: {apart:?}");
        assert!((against[0] - alone[0]).abs() < 1e-9 && (apart[1] - alone[1]).abs() < 1e-3, "{against:?} {alone:?}");
        // An impossible correlation, as rounding may produce.
        let never = widened(-1.5);
        assert!(never.iter().zip(&alone).all(|(never, alone)| never >= alone), "{never:?} {alone:?}");
    }

    #[test]
    fn correlations_are_between_minus_one_and_one() {
        let solution = |covariance: Vec<Vec<f64>>| {
            let (x, residuals, columns) = (vec![0.0; 2], Vec::new(), Vec::new());
            Solution { x, covariance, residuals, columns, settled: true }
        };
        let of = |covariance: Vec<Vec<f64>>| solution(covariance).correlation(0, 1);
        let large = 9.0 * PRIOR * PRIOR;
        assert_eq!(of(vec![vec![large, -large / 2.0], vec![-large / 2.0, large]]), Some(-0.5));
        assert_eq!(of(vec![vec![0.01, 0.02], vec![0.02, 0.01]]), Some(1.0));
        for nothing in [0.0, -1e-9, f64::NAN] {
            let covariance = vec![vec![nothing, 0.02], vec![0.02, 0.01]];
            assert_eq!(of(covariance.clone()), None);
            assert_eq!(solution(covariance).deviation(), [PRIOR, 0.1], "nothing is certain without a reason");
        }
    }
}
