//! Values that follow from identical layouts. They are equal, whatever the difference of two runs is assumed to be.

use super::{Key, key};
use senesce_core::{Measurement, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Root seed of a run, and number of its image.
type ImageKey = (String, u32);

/// Digest of a layout, and the bits of a value that follows from it.
type LayoutValue = (Option<String>, u64);

/// The values of one side by metric and image, with their layouts; empty if no value follows from a layout.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct LayoutValues(BTreeMap<Key, BTreeMap<ImageKey, BTreeSet<LayoutValue>>>);

impl LayoutValues {
    pub(crate) fn of(records: &[&Record], measured: &[Vec<Measurement>]) -> Self {
        let mut all = Self::default();
        if !measured.iter().flatten().any(|one| one.layout.is_some()) {
            return all;
        }
        for (record, values) in records.iter().zip(measured) {
            let seed = seed(record);
            for one in values {
                let value = (one.layout.clone(), one.value.get().to_bits());
                let images = all.0.entry(key(one)).or_default();
                images.entry((seed.clone(), one.image)).or_default().insert(value);
            }
        }
        all
    }

    /// Returns the metrics whose images have the same seeds on both sides, and each the same layout and value.
    pub(crate) fn shared_with(&self, other: &Self) -> BTreeSet<Key> {
        let is_one_layout = |values: &BTreeSet<LayoutValue>| {
            values.len() == 1 && values.first().is_some_and(|(layout, _)| layout.is_some())
        };
        let is_same = |key: &Key, images: &BTreeMap<ImageKey, BTreeSet<LayoutValue>>| {
            other.0.get(key) == Some(images) && images.values().all(is_one_layout)
        };
        self.0.iter().filter(|(key, images)| is_same(key, images)).map(|(key, _)| key.clone()).collect()
    }
}

/// Returns the seed in the specification, or else that of the plan.
fn seed(record: &Record) -> String {
    let plan = &record.plan;
    plan.spec.get("seed").map_or_else(|| plan.seed.0.to_string(), ToString::to_string)
}
