//! Why steps failed, counted and grouped.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Counts each reason, the most frequent first.
pub(crate) fn counted<'a>(reasons: impl Iterator<Item = &'a str>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().map(|(reason, count)| (reason.into(), count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

/// Groups items whose reasons differ only in numbers and paths. A group has the first of its reasons.
pub fn group_by_reason<'a, T>(items: impl IntoIterator<Item = (&'a str, T)>) -> Vec<(&'a str, Vec<T>)> {
    let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit() || letter == '/');
    let mut groups: Vec<(Vec<&str>, &str, Vec<T>)> = Vec::new();
    for (reason, item) in items {
        let words: Vec<&str> = reason.split_whitespace().filter(is_word).collect();
        match groups.iter_mut().find(|(known, ..)| *known == words) {
            Some((.., items)) => items.push(item),
            None => groups.push((words, reason, vec![item])),
        }
    }
    groups.into_iter().map(|(_, reason, items)| (reason, items)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_the_most_frequent_is_first() {
        let reasons = counted(["no space", "steal", "steal"].into_iter());
        assert_eq!(reasons, [("steal".to_string(), 2), ("no space".into(), 1)]);
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_joined() {
        let items = [("lost 0.067 s", 'a'), ("no space in /a", 'b'), ("lost 0.1 s", 'c'), ("no space in /b", 'd')];
        assert_eq!(group_by_reason(items), [("lost 0.067 s", vec!['a', 'c']), ("no space in /a", vec!['b', 'd'])]);
        assert!(group_by_reason([("lost 1 s", 1), ("found 1 s", 2)]).len() == 2);
    }
}
