//! Selects the age edges of a captured profile: narrow bins of young files would need very many operations.

use serde::{Deserialize, Serialize};

/// A candidate for an age edge, and its cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AgeEdge {
    /// Right edge in seconds.
    pub seconds: u64,
    /// Files between the previous kept edge and this one; for an omitted candidate, the files of its own narrow bin.
    pub files: u64,
    /// Operations per live file that a plan needs for this bin.
    pub operations_per_file: f64,
    /// Whether the profile has this edge.
    pub kept: bool,
}

/// Edges near the oldest age divided by powers of two, youngest first. A bin that needs more than `most` operations per live
/// file is merged with its older neighbour, and the oldest with its younger one. A bin needs twice its share of files over its
/// share of time; the oldest needs one over its share of time (Theorem A.1 of CMU-PDL-16-105). `fine` has (maximum age, files)
/// of narrow bins, ascending.
pub(crate) fn choose_edges(fine: &[(u64, u64)], oldest: u64, most: f64) -> Vec<AgeEdge> {
    let mut bins = candidates(fine, oldest);
    let total: u64 = bins.iter().map(|(_, files)| files).sum();
    let mut left_out = Vec::new();
    let cost = |bins: &[(u64, u64)], index: usize| {
        let before = if index == 0 { 0 } else { bins[index - 1].0 };
        let time = (bins[index].0 - before) as f64 / oldest as f64;
        let share = bins[index].1 as f64 / total as f64;
        if index + 1 == bins.len() { 1.0 / time } else { 2.0 * share / time }
    };
    while bins.len() > 1 {
        let costs: Vec<f64> = (0..bins.len()).map(|index| cost(&bins, index)).collect();
        let Some(worst) = (0..bins.len()).max_by(|a, b| costs[*a].total_cmp(&costs[*b])) else { break };
        if costs[worst] <= most {
            break;
        }
        let younger = worst.min(bins.len() - 2);
        let (seconds, files) = bins.remove(younger);
        bins[younger].1 += files;
        left_out.push(AgeEdge { seconds, files, operations_per_file: costs[worst], kept: false });
    }
    let kept = (0..bins.len()).map(|index| AgeEdge {
        seconds: bins[index].0,
        files: bins[index].1,
        operations_per_file: cost(&bins, index),
        kept: true,
    });
    let mut edges: Vec<AgeEdge> = kept.chain(left_out).collect();
    edges.sort_by_key(|edge| edge.seconds);
    edges
}

fn candidates(fine: &[(u64, u64)], oldest: u64) -> Vec<(u64, u64)> {
    let mut bins: Vec<(u64, u64)> = Vec::new();
    let mut ages = fine.iter().rev().peekable();
    let mut edge = oldest;
    while ages.peek().is_some() {
        let below = edge / 2;
        let mut files = 0;
        while let Some((_, count)) = ages.next_if(|(age, _)| *age > below) {
            files += count;
        }
        // The next edge is the maximum age of a narrow bin, so that every file is counted in the right bin.
        bins.push((edge, files));
        edge = ages.peek().map_or(below, |(age, _)| *age);
        if edge < below {
            bins.push((below, 0));
        }
    }
    bins.reverse();
    bins.dedup_by_key(|bin| bin.0);
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_of_young_files_is_merged_with_older_ones() {
        let fine = [(10, 900), (500, 50), (1000, 50)];
        let edges = choose_edges(&fine, 1000, 100.0);
        assert!(edges.iter().any(|edge| !edge.kept && edge.seconds == 10 && edge.operations_per_file > 100.0));
        assert!(edges.iter().filter(|edge| edge.kept).all(|edge| edge.operations_per_file <= 100.0));
        let free = choose_edges(&fine, 1000, f64::INFINITY);
        assert!(free.iter().all(|edge| edge.kept));
    }

    proptest! {
        #[test]
        fn no_file_is_lost(ages in prop::collection::btree_map(1u64..1 << 30, 1u64..1000, 1..50), most in 2.0f64..1000.0) {
            let fine: Vec<(u64, u64)> = ages.into_iter().collect();
            let oldest = fine[fine.len() - 1].0;
            let edges = choose_edges(&fine, oldest, most);
            let kept: Vec<_> = edges.iter().filter(|edge| edge.kept).collect();
            prop_assert_eq!(kept.iter().map(|edge| edge.files).sum::<u64>(), fine.iter().map(|(_, files)| files).sum::<u64>());
            prop_assert_eq!(kept[kept.len() - 1].seconds, oldest);
            prop_assert!(kept.windows(2).all(|pair| pair[0].seconds < pair[1].seconds));
            prop_assert!(kept.len() == 1 || kept.iter().all(|edge| edge.operations_per_file <= most));
            for edge in &kept {
                let below: u64 = fine.iter().filter(|(age, _)| *age <= edge.seconds).map(|(_, files)| files).sum();
                let stated: u64 = kept.iter().filter(|other| other.seconds <= edge.seconds).map(|other| other.files).sum();
                prop_assert_eq!(below, stated);
            }
        }
    }
}
