//! Ranks with ties.

/// Ranks from 1; ties get the mean of their ranks.
pub(crate) fn ranks(sample: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_by(|&a, &b| sample[a].total_cmp(&sample[b]));
    let mut ranks = vec![0.0; sample.len()];
    let mut from = 0;
    while from < order.len() {
        let same = order[from..].iter().take_while(|&&index| sample[index] == sample[order[from]]).count().max(1);
        let shared = (2 * from + same + 1) as f64 / 2.0;
        for &index in &order[from..from + same] {
            ranks[index] = shared;
        }
        from += same;
    }
    ranks
}

/// Returns the sum of t^3 - t over groups of t equal values, the tie correction of rank tests.
pub(crate) fn tie_term(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|group| (group.len() as f64).powi(3) - group.len() as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_get_their_mean_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 4.0, 1.0, 5.0]), [3.0, 1.5, 4.0, 1.5, 5.0]);
        assert_eq!(tie_term(&[3.0, 1.0, 4.0, 1.0, 1.0]), 24.0);
    }
}
