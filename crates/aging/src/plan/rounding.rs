//! Whole numbers near given shares, on which the exactness of a plan depends.

/// Shares of `total` by largest remainder (Hamilton's method): each is the floor or ceiling of its share, their sum is `total`,
/// and no other such choice has a smaller squared error.
pub(crate) fn apportion(weights: &[f64], total: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / sum * total as f64).collect();
    let high: Vec<u64> = weights.iter().map(|weight| if *weight > 0.0 { total } else { 0 }).collect();
    fit(&shares, &vec![0; weights.len()], &high, total).unwrap_or_default()
}

/// Returns the whole numbers nearest to `targets` (least squares) between `low` and `high` with the sum `total`.
/// Returns `None` if the bounds exclude it.
pub(crate) fn fit(targets: &[f64], low: &[u64], high: &[u64], total: u64) -> Option<Vec<u64>> {
    fit_scaled(targets, &vec![1.0; targets.len()], low, high, total)
}

/// Rounds like [`fit`], with the difference shared in proportion to `scales`.
pub(crate) fn fit_scaled(targets: &[f64], scales: &[f64], low: &[u64], high: &[u64], total: u64) -> Option<Vec<u64>> {
    if low.iter().zip(high).any(|(low, high)| low > high) {
        return None;
    }
    let (least, most) = (low.iter().sum::<u64>(), high.iter().sum::<u64>());
    if total < least || total > most {
        return None;
    }
    let clamped = |shift: f64, index: usize| {
        (targets[index] + shift * scales[index]).clamp(low[index] as f64, high[index] as f64)
    };
    let shift = common_shift(targets.len(), total as f64, &clamped);
    let exact: Vec<f64> = (0..targets.len()).map(|index| clamped(shift, index)).collect();
    let mut fitted: Vec<u64> = exact.iter().map(|value| (value + 1e-9).floor() as u64).collect();
    settle(&exact, low, high, total, &mut fitted);
    Some(fitted)
}

/// Returns the shift of all targets after which the clamped targets sum to `total` (the projection on the simplex).
fn common_shift(count: usize, total: f64, clamped: &impl Fn(f64, usize) -> f64) -> f64 {
    let sum = |shift: f64| (0..count).map(|index| clamped(shift, index)).sum::<f64>();
    if (sum(0.0) - total).abs() < 1e-9 * total.max(1.0) {
        return 0.0;
    }
    let (mut below, mut above) = (-1.0, 1.0);
    while sum(below) > total && below > -1e30 {
        below *= 2.0;
    }
    while sum(above) < total && above < 1e30 {
        above *= 2.0;
    }
    for _ in 0..128 {
        let middle = 0.5 * (below + above);
        if sum(middle) < total {
            below = middle;
        } else {
            above = middle;
        }
    }
    0.5 * (below + above)
}

/// Raises the floors to the sum `total`, one unit at a time at the largest remainder.
fn settle(exact: &[f64], low: &[u64], high: &[u64], total: u64, fitted: &mut [u64]) {
    let mut sum: u64 = fitted.iter().sum();
    while sum != total {
        let up = sum < total;
        let remainder = |index: usize| exact[index] - fitted[index] as f64;
        let movable = |index: &usize| if up { fitted[*index] < high[*index] } else { fitted[*index] > low[*index] };
        let order = |a: &usize, b: &usize| remainder(*a).total_cmp(&remainder(*b)).then(b.cmp(a));
        let candidates = (0..fitted.len()).filter(movable);
        let chosen = if up { candidates.max_by(order) } else { candidates.min_by(order) };
        let Some(index) = chosen else { return };
        if up {
            fitted[index] += 1;
            sum += 1;
        } else {
            fitted[index] -= 1;
            sum -= 1;
        }
    }
}

/// Rounds the table `rows[i] * columns[j] / total` (controlled rounding, Cox 1987, JASA 82:398). Every cell becomes its
/// floor or ceiling, and every row and column keeps its sum. Both margins must have the same sum.
pub(crate) fn controlled(rows: &[u64], columns: &[u64]) -> Vec<Vec<u64>> {
    let total: u64 = rows.iter().sum();
    debug_assert_eq!(total, columns.iter().sum::<u64>());
    let total = total.max(1);
    let share = |row: u64, column: u64| u128::from(row) * u128::from(column);
    let split = |row: u64, pick: fn(u128, u128) -> u128| -> Vec<u64> {
        columns.iter().map(|column| pick(share(row, *column), u128::from(total)) as u64).collect()
    };
    let mut table: Vec<Vec<u64>> = rows.iter().map(|row| split(*row, |a, b| a / b)).collect();
    let mut rest: Vec<Vec<u64>> = rows.iter().map(|row| split(*row, |a, b| a % b)).collect();
    for start in 0..rows.len() {
        while rest[start].iter().any(|part| *part > 0) {
            let cycle = find_cycle(&rest, start);
            if cycle.is_empty() {
                break;
            }
            push_along(&cycle, total, &mut rest, &mut table);
        }
    }
    table
}

/// Finds a closed walk over fractional cells that alternates between rows and columns. It exists because rows and
/// columns have whole sums, so no row or column has a single fractional cell.
fn find_cycle(rest: &[Vec<u64>], row: usize) -> Vec<(usize, usize)> {
    // Even positions of the walk are rows, odd ones are columns.
    let mut walk = vec![row];
    loop {
        let at = walk[walk.len() - 1];
        let from = walk.len().checked_sub(2).map(|index| walk[index]);
        let on_row = walk.len() % 2 == 1;
        let fractional = |other: &usize| if on_row { rest[at][*other] > 0 } else { rest[*other][at] > 0 };
        let width = if on_row { rest[at].len() } else { rest.len() };
        let Some(next) = (0..width).find(|other| Some(*other) != from && fractional(other)) else { return Vec::new() };
        let parity = walk.len() % 2;
        let before = (parity..walk.len()).step_by(2).find(|index| walk[*index] == next);
        walk.push(next);
        if let Some(start) = before {
            let cell = |index: usize| {
                let (one, two) = (walk[index], walk[index + 1]);
                if index.is_multiple_of(2) { (one, two) } else { (two, one) }
            };
            return (start..walk.len() - 1).map(cell).collect();
        }
    }
}

/// Moves as much as possible from the odd to the even cells of the cycle, which makes at least one of them whole.
fn push_along(cycle: &[(usize, usize)], total: u64, rest: &mut [Vec<u64>], table: &mut [Vec<u64>]) {
    let room = |index: usize, part: u64| if index.is_multiple_of(2) { total - part } else { part };
    let amount = cycle.iter().enumerate().map(|(index, (row, column))| room(index, rest[*row][*column])).min();
    let amount = amount.unwrap_or(0);
    for (index, (row, column)) in cycle.iter().enumerate() {
        let part = &mut rest[*row][*column];
        *part = if index.is_multiple_of(2) { *part + amount } else { *part - amount };
        if *part == total {
            *part = 0;
            table[*row][*column] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn largest_remainder_keeps_the_sum_and_leaves_empty_bins_empty() {
        assert_eq!(apportion(&[1.0, 0.0, 1.0, 1.0], 10), [4, 0, 3, 3]);
        assert_eq!(apportion(&[5.0], 7), [7]);
    }

    #[test]
    fn impossible_bounds_are_reported() {
        assert_eq!(fit(&[1.0, 1.0], &[0, 0], &[1, 1], 3), None);
        assert_eq!(fit(&[5.0, 1.0, 1.0], &[0, 0, 0], &[3, 9, 9], 7), Some(vec![3, 2, 2]));
    }

    proptest! {
        #[test]
        fn rounding_error_stays_below_half(weights in prop::collection::vec(0.0f64..100.0, 1..40), total in 1u64..100_000) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let shares = apportion(&weights, total);
            let sum: f64 = weights.iter().sum();
            prop_assert_eq!(shares.iter().sum::<u64>(), total);
            let square: f64 = shares.iter().zip(&weights).map(|(n, w)| (*n as f64 - w / sum * total as f64).powi(2)).sum();
            prop_assert!((square / weights.len() as f64).sqrt() <= 0.5 + 1e-6);
        }

        #[test]
        fn tables_keep_their_margins(rows in prop::collection::vec(0u64..5000, 1..30), cut in prop::collection::vec(1u64..1000, 1..40)) {
            let total: u64 = rows.iter().sum();
            let weights: Vec<f64> = cut.iter().map(|w| *w as f64).collect();
            let columns = apportion(&weights, total);
            let table = controlled(&rows, &columns);
            for (row, cells) in rows.iter().zip(&table) {
                prop_assert_eq!(*row, cells.iter().sum::<u64>());
                for (column, cell) in columns.iter().zip(cells) {
                    let share = *row as f64 * *column as f64 / total.max(1) as f64;
                    prop_assert!((*cell as f64 - share).abs() < 1.0);
                }
            }
            for (index, column) in columns.iter().enumerate() {
                prop_assert_eq!(*column, table.iter().map(|cells| cells[index]).sum::<u64>());
            }
        }
    }
}
