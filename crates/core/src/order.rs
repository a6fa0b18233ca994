//! Order of texts with numbers, for the rows of tables.

use std::cmp::Ordering;

/// A text that sorts by the numbers in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByNumbers(pub String);

impl Ord for ByNumbers {
    fn cmp(&self, other: &Self) -> Ordering {
        by_numbers(&self.0, &other.0)
    }
}

impl PartialOrd for ByNumbers {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares texts by the numbers in them: `round=2` comes before `round=10`, and `share=0.25` before `share=0.5`.
pub fn by_numbers(one: &str, other: &str) -> Ordering {
    let (mut ours, mut theirs) = (one, other);
    while !ours.is_empty() && !theirs.is_empty() {
        let (our_part, our_rest) = ours.split_at(part(ours));
        let (their_part, their_rest) = theirs.split_at(part(theirs));
        let order = match (our_part.parse::<f64>(), their_part.parse::<f64>()) {
            (Ok(ours), Ok(theirs)) if is_number(our_part) && is_number(their_part) => ours.total_cmp(&theirs),
            _ => our_part.cmp(their_part),
        };
        if order.is_ne() {
            return order;
        }
        (ours, theirs) = (our_rest, their_rest);
    }
    ours.len().cmp(&theirs.len()).then_with(|| one.cmp(other))
}

fn is_number(text: &str) -> bool {
    text.starts_with(|sign: char| sign.is_ascii_digit())
}

/// Returns the length of the number at the beginning of a text, or of the text before its first number.
fn part(text: &str) -> usize {
    if !is_number(text) {
        return text.find(|sign: char| sign.is_ascii_digit()).unwrap_or(text.len());
    }
    let whole = digits(text);
    match text[whole..].strip_prefix('.').map_or(0, digits) {
        0 => whole,
        decimals => whole + 1 + decimals,
    }
}

/// Returns the number of digits at the beginning of a text.
fn digits(text: &str) -> usize {
    text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_texts_sort_by_value() {
        let ordered = [
            "",
            "fs=btrfs round=9",
            "fs=ext4 round=1",
            "fs=ext4 round=2",
            "fs=ext4 round=2 state=aged",
            "fs=ext4 round=10",
            "fs=xfs share=0.25",
            "fs=xfs share=0.5",
            "p99 latency",
            "p99.9 latency",
        ];
        let mut sorted = ordered.map(|text| ByNumbers(text.into())).to_vec();
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted.iter().map(|one| one.0.as_str()).collect::<Vec<_>>(), ordered);
        assert_eq!(by_numbers("level 07", "level 7"), Ordering::Less, "different texts are never equal");
    }

    proptest! {
        #[test]
        fn order_is_total(texts in prop::collection::vec("[a=. 0-2é]{0,6}", 3)) {
            let [a, b, c] = &texts[..] else { panic!("three texts") };
            prop_assert_eq!(by_numbers(a, b), by_numbers(b, a).reverse());
            prop_assert_eq!(by_numbers(a, b).is_eq(), a == b);
            if by_numbers(a, b).is_le() && by_numbers(b, c).is_le() {
                prop_assert!(by_numbers(a, c).is_le());
            }
        }
    }
}
