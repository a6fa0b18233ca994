//! Compact letter display: treatments that share a letter do not differ significantly (Piepho 2004, insert and absorb).

/// Groups of `count` treatments, as ascending indices. Two treatments share a group unless `apart` lists them, in any order.
/// Groups are ordered by their first members.
pub(crate) fn groups(count: usize, apart: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut groups = vec![(0..count).collect::<Vec<usize>>()];
    groups.retain(|group| !group.is_empty());
    for (one, other) in apart.iter().filter(|(one, other)| one != other) {
        let (split, whole): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.contains(one) && group.contains(other));
        groups = whole;
        for group in split {
            let without = |left_out| group.iter().copied().filter(|member| member != left_out).collect::<Vec<_>>();
            insert(&mut groups, without(one));
            insert(&mut groups, without(other));
        }
    }
    groups.sort();
    groups
}

/// Adds a group unless it is part of another; removes groups that are part of it.
fn insert(groups: &mut Vec<Vec<usize>>, new: Vec<usize>) {
    let holds = |outer: &[usize], inner: &[usize]| inner.iter().all(|member| outer.contains(member));
    if !groups.iter().any(|group| holds(group, &new)) {
        groups.retain(|group| !holds(&new, group));
        groups.push(new);
    }
}

/// Letters of each treatment: "a", "ab", ...; after "z" comes "{27}".
pub(crate) fn letters(count: usize, groups: &[Vec<usize>]) -> Vec<String> {
    let letter = |place: usize| match u8::try_from(place) {
        Ok(place) if place < 26 => char::from(b'a' + place).to_string(),
        _ => format!("{{{}}}", place + 1),
    };
    let of = |treatment: usize| {
        groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.contains(&treatment))
            .map(|(place, _)| letter(place))
            .collect()
    };
    (0..count).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlapping_groups_share_letters() {
        assert_eq!(letters(3, &groups(3, &[(0, 2)])), ["a", "ab", "b"]);
        assert_eq!(letters(3, &groups(3, &[])), ["a", "a", "a"]);
        assert_eq!(letters(3, &groups(3, &[(0, 1), (0, 2), (1, 2)])), ["a", "b", "c"]);
        assert!(groups(0, &[]).is_empty());
        assert_eq!(letters(28, &(0..28).map(|k| vec![k]).collect::<Vec<_>>())[25..], ["z", "{27}", "{28}"]);
    }

    proptest! {
        #[test]
        fn letters_are_shared_exactly_by_treatments_that_do_not_differ(pairs in prop::collection::vec((0usize..7, 0usize..7), 0..18)) {
            let groups = groups(7, &pairs);
            let apart = |a, b| pairs.iter().any(|pair| *pair == (a, b) || *pair == (b, a));
            for a in 0..7 {
                for b in 0..7 {
                    let share = groups.iter().any(|group| group.contains(&a) && group.contains(&b));
                    prop_assert!(a == b || share != apart(a, b), "{a} {b} {groups:?}");
                }
            }
        }
    }
}
