//! Proves that two kinds of agings leave equal layouts: equality of each value, not the absence of a difference.

use crate::aged_image::ImageLayout;
use senesce_stats::equivalence::{Margin, histogram_distance, within_margin};
use serde::{Deserialize, Serialize};

/// Probability of declaring different layouts equal, for each value.
const ERROR: f64 = 0.05;
/// If two standard deviations of the reference exceed the margin, the margin replaces them: no aging is known more precisely.
const DEVIATIONS: f64 = 2.0;

/// Comparison of one layout value of two kinds of agings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Name of the value.
    pub measure: String,
    /// Mean over the agings of this kind; for a distribution the median distance from the reference.
    pub sample: f64,
    /// Mean over the agings of the reference; 0 for a distribution.
    pub reference: f64,
    /// Largest difference that counts as equal.
    pub margin: f64,
    /// The larger p of both one-sided tests; `None` for a distribution.
    pub p: Option<f64>,
    /// Whether both are proven equal.
    pub equal: bool,
}

struct Measure {
    name: &'static str,
    of: fn(&ImageLayout) -> f64,
    margin: Margin,
}

const TENTH: Margin = Margin { share: 0.1, least: 0.0, deviations: DEVIATIONS };

fn measures() -> [Measure; 7] {
    let tenth = |name, of| Measure { name, of, margin: TENTH };
    [
        tenth("extents per file", ImageLayout::extents_per_file),
        Measure {
            name: "fragmented files",
            of: |layout| layout.fragmented_files as f64,
            margin: Margin { share: 0.15, least: 5.0, deviations: DEVIATIONS },
        },
        tenth("static layout score", |layout| layout.static_layout_score),
        tenth("tree layout score", |layout| layout.tree_layout_score),
        tenth("free extents", |layout| layout.free_extents as f64),
        Measure {
            name: "largest free extent (logarithm)",
            of: |layout| (layout.largest_free_bytes.max(1) as f64).ln(),
            margin: Margin { share: 0.0, least: LARGEST_FACTOR.ln(), deviations: DEVIATIONS },
        },
        tenth("modelled read (s)", |layout| layout.read_seconds),
    ]
}

const LARGEST_FACTOR: f64 = 1.5;

pub(crate) fn answer(equal: Option<bool>) -> &'static str {
    match equal {
        Some(true) => "yes",
        Some(false) => "no",
        None => "too few agings",
    }
}

/// Compares the agings of a kind with a reference; `None` if either has too few agings for the tests.
pub(crate) fn compare(sample: &[&ImageLayout], reference: &[&ImageLayout]) -> Option<Vec<Comparison>> {
    let mut compared = Vec::new();
    for measure in measures() {
        let values = |layouts: &[&ImageLayout]| layouts.iter().map(|layout| (measure.of)(layout)).collect::<Vec<f64>>();
        let (ours, theirs) = (values(sample), values(reference));
        let found = within_margin(&ours, &theirs, measure.margin).ok()?;
        compared.push(Comparison {
            measure: measure.name.into(),
            sample: senesce_stats::mean(&ours)?,
            reference: senesce_stats::mean(&theirs)?,
            margin: found.margin,
            p: Some(found.p),
            equal: found.is_proven(ERROR),
        });
    }
    type Values = fn(&ImageLayout) -> &Vec<f64>;
    let distributions: [(&str, Values); 2] = [
        ("free space by size of extent", |layout| &layout.free_blocks),
        ("files by number of extents", |layout| &layout.files_by_extents),
    ];
    for (name, of) in distributions {
        let histograms = |layouts: &[&ImageLayout]| layouts.iter().map(|layout| of(layout).clone()).collect::<Vec<_>>();
        let found = histogram_distance(&histograms(sample), &histograms(reference))?;
        compared.push(Comparison {
            measure: name.into(),
            sample: found.distance,
            reference: 0.0,
            margin: found.limit,
            p: None,
            equal: found.is_within(),
        });
    }
    Some(compared)
}

/// Returns whether every value is proven equal; `None` if too few agings were compared.
pub(crate) fn all_equal(compared: Option<&[Comparison]>) -> Option<bool> {
    compared.map(|compared| compared.iter().all(|one| one.equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts(extents: u64, scatter: u64) -> Vec<ImageLayout> {
        let layout = |index: u64| ImageLayout {
            files: 1000,
            extents: extents + index * scatter,
            fragmented_files: 40 + index,
            static_layout_score: 0.99,
            tree_layout_score: 0.8,
            free_extents: 900 + index * scatter,
            largest_free_bytes: 20 << 20,
            read_seconds: 9.0,
            free_blocks: vec![100.0 + index as f64, 50.0, 10.0],
            files_by_extents: vec![900.0, 90.0 + index as f64, 10.0],
        };
        (0..8).map(layout).collect()
    }

    fn compared(sample: &[ImageLayout], reference: &[ImageLayout]) -> Vec<Comparison> {
        compare(&sample.iter().collect::<Vec<_>>(), &reference.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn equal_agings_are_proven_equal_and_others_are_not() {
        let reference = layouts(1500, 3);
        let same = compared(&reference, &reference);
        assert_eq!(all_equal(Some(&same)), Some(true), "{same:?}");
        let other = compared(&layouts(1900, 3), &reference);
        assert_eq!(all_equal(Some(&other)), Some(false));
        let extents = other.iter().find(|one| one.measure == "extents per file").unwrap();
        assert!(!extents.equal && extents.p.unwrap() > 0.5);
        assert!(other.iter().any(|one| one.equal));
    }

    #[test]
    fn different_distribution_of_free_space_is_not_equal() {
        let reference = layouts(1500, 3);
        let mut sample = layouts(1500, 3);
        sample.iter_mut().for_each(|layout| layout.free_blocks = vec![10.0, 50.0, 100.0]);
        let found = compared(&sample, &reference);
        let differing: Vec<&str> = found.iter().filter(|one| !one.equal).map(|one| &*one.measure).collect();
        assert_eq!(differing, ["free space by size of extent"]);
    }

    #[test]
    fn few_agings_prove_nothing() {
        let few = layouts(1500, 3);
        let few: Vec<&ImageLayout> = few.iter().take(4).collect();
        assert_eq!(compare(&few, &few), None);
        assert_eq!(all_equal(None), None);
    }
}
