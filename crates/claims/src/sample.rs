//! Groups measurements: one sample per combination of free conditions.

use crate::selection::{Condition, Selection};
use senesce_core::Measurement;
use senesce_stats::mean;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// The independent values: means of images if there are several, else the repetitions.
    pub units: Vec<f64>,
    pub values: usize,
    /// Whether the value has no random error (a count, a computation, a deterministic model).
    pub exact: bool,
    /// The repetition of each unit if all conditions alternate within one; else empty.
    pub rounds: Vec<u32>,
    /// The image of each unit if there are several; else empty.
    pub images: Vec<u32>,
}

impl Sample {
    fn of(images: &Images, exact: bool, by_round: bool) -> Self {
        let values = images.values().map(Vec::len).sum();
        let one_image = images.len() == 1;
        if by_round && one_image {
            let (rounds, units) = images.values().flat_map(|all| round_means(all)).unzip();
            return Self { units, values, exact, rounds, images: Vec::new() };
        }
        let of_image = |all: &Vec<(u32, f64)>| all.iter().map(|(_, value)| *value).collect::<Vec<_>>();
        if one_image {
            let units = images.values().flat_map(of_image).collect();
            return Self { units, values, exact, rounds: Vec::new(), images: Vec::new() };
        }
        let of_image = |(image, all): (&u32, &Vec<(u32, f64)>)| Some((*image, mean(&of_image(all))?));
        let (images, units) = images.iter().filter_map(of_image).unzip();
        Self { units, values, exact, rounds: Vec::new(), images }
    }

    pub(crate) fn mean(&self) -> f64 {
        mean(&self.units).unwrap_or(f64::NAN)
    }

    pub(crate) fn of_image(&self, image: u32) -> Option<f64> {
        let place = self.images.iter().position(|one| *one == image)?;
        self.units.get(place).copied()
    }
}

fn round_means(values: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (round, value) in values {
        rounds.entry(*round).or_default().push(*value);
    }
    rounds.into_iter().filter_map(|(round, values)| Some((round, mean(&values)?))).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub condition: Condition,
    /// The free conditions of its selection.
    pub key: Condition,
    pub sample: Sample,
}

type Images = BTreeMap<u32, Vec<(u32, f64)>>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub measurements: &'a [Measurement],
    /// Metrics without random error.
    pub exact: &'a BTreeSet<String>,
    pub all_exact: bool,
    /// Whether all conditions alternate within a repetition, so that background load affects all of them.
    pub by_round: bool,
}

impl Evidence<'_> {
    pub(crate) fn cells(&self, selection: &Selection) -> Vec<Cell> {
        let mut groups: BTreeMap<&Condition, Images> = BTreeMap::new();
        for one in selection.of(self.measurements) {
            let image = groups.entry(&one.condition).or_default().entry(one.image).or_default();
            image.push((one.repetition, one.value.get()));
        }
        let exact = self.all_exact || self.exact.contains(&selection.metric);
        groups
            .into_iter()
            .map(|(condition, images)| Cell {
                condition: condition.clone(),
                key: selection.free(condition),
                sample: Sample::of(&images, exact, self.by_round),
            })
            .collect()
    }

    pub(crate) fn unit(&self, selection: &Selection) -> &str {
        let first = self.measurements.iter().find(|one| selection.admits(&one.metric, &one.condition));
        first.map_or("", |one| &one.unit)
    }

    /// Pairs of cells of two selections that agree in every free condition that both have. If the selections have different
    /// words for one condition (`fs=*` against `fs=ext4|xfs`), each cell is paired with each, but not with itself.
    pub(crate) fn pairs(&self, of: &Selection, to: &Selection) -> Vec<(Cell, Cell)> {
        let crossed =
            |key: &String| matches!((of.when.get(key), to.when.get(key)), (Some(one), Some(other)) if one != other);
        let shared = |cell: &Cell| -> Condition {
            cell.key.iter().filter(|(key, _)| !crossed(key)).map(|(key, word)| (key.clone(), word.clone())).collect()
        };
        let with_key = |cell: Cell| (shared(&cell), cell);
        let references: Vec<(Condition, Cell)> = self.cells(to).into_iter().map(with_key).collect();
        let mut found = Vec::new();
        for (key, cell) in self.cells(of).into_iter().map(with_key) {
            for (_, other) in references.iter().filter(|(other, _)| agree(&key, other)) {
                if of.metric != to.metric || cell.condition != other.condition {
                    found.push((cell.clone(), other.clone()));
                }
            }
        }
        found
    }
}

/// Returns whether two conditions agree in all common keys.
pub(crate) fn agree(a: &Condition, b: &Condition) -> bool {
    a.iter().all(|(key, value)| b.get(key).is_none_or(|other| other == value))
}

/// Merges both conditions; a key with different values becomes `a over b`.
pub(crate) fn joined(a: &Condition, b: &Condition) -> Condition {
    let mut all = b.clone();
    for (key, word) in a {
        let both = match b.get(key) {
            Some(other) if other != word => format!("{word} over {other}"),
            _ => word.clone(),
        };
        all.insert(key.clone(), both);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Better;

    fn measured(state: &str, fs: &str, image: u32, value: f64) -> Measurement {
        let one = Measurement::new("rate", "1/s", Better::Higher, value).unwrap().under("state", state).under("fs", fs);
        Measurement { image, ..one }
    }

    #[test]
    fn several_images_are_the_units() {
        let one_image = [measured("aged", "ext4", 0, 1.0), measured("aged", "ext4", 0, 3.0)];
        let evidence = |measurements| {
            Evidence { measurements, exact: &BTreeSet::new(), all_exact: false, by_round: false }
                .cells(&"rate".parse().unwrap())
        };
        assert_eq!(evidence(&one_image)[0].sample.units, vec![1.0, 3.0]);
        let two = [&one_image[..], &[measured("aged", "ext4", 1, 5.0)]].concat();
        assert_eq!(evidence(&two)[0].sample.units, vec![2.0, 5.0]);
    }

    #[test]
    fn pairs_agree_in_conditions_free_in_both() {
        let all = [
            measured("aged", "ext4", 0, 1.0).under("profile", "agrawal"),
            measured("aged", "xfs", 0, 2.0).under("profile", "agrawal"),
            measured("fresh", "ext4", 0, 3.0),
            measured("fresh", "btrfs", 0, 4.0),
        ];
        let evidence = Evidence { measurements: &all, exact: &BTreeSet::new(), all_exact: false, by_round: false };
        let pairs =
            evidence.pairs(&"rate where state=aged".parse().unwrap(), &"rate where state=fresh".parse().unwrap());
        assert_eq!(pairs.len(), 1);
        assert_eq!((pairs[0].0.sample.mean(), pairs[0].1.sample.mean()), (1.0, 3.0));
        let others = evidence.pairs(&"rate where fs=ext4".parse().unwrap(), &"rate where fs=*".parse().unwrap());
        assert!(others.iter().all(|(a, b)| a.condition != b.condition));
        let crossed = evidence.pairs(
            &"rate where state=aged, fs=*".parse().unwrap(),
            &"rate where state=aged, fs=ext4|xfs".parse().unwrap(),
        );
        assert_eq!(crossed.len(), 2, "ext4 over xfs and xfs over ext4");
        assert_eq!(joined(&crossed[0].0.key, &crossed[0].1.key)["fs"], "ext4 over xfs");
    }
}
