//! Commits that the file system made beside the clock, over all parts of a run: each goes on where the one before it ended.

use super::Event;

/// How many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unasked {
    /// The file system does not count its commits, or nothing was executed.
    Unknown,
    /// In all parts.
    Of(u64),
    /// In the parts that came to an end; one was killed, and its count with it.
    AtLeast(u64),
}

impl Unasked {
    /// Of the events of a run in their order.
    pub fn of<'a>(events: impl Iterator<Item = &'a Event>) -> Self {
        let mut ended: Vec<Option<u64>> = Vec::new();
        let mut begun = 1;
        for event in events {
            match event {
                Event::Executed(executed) => ended.push(executed.unasked_commits),
                Event::Reconciled(_) => begun += 1,
                _ => {}
            }
        }
        Self::counted(&ended, begun)
    }

    /// Of the parts that came to an end, of so many that began.
    fn counted(ended: &[Option<u64>], begun: usize) -> Self {
        match ended.iter().copied().sum::<Option<u64>>() {
            Some(commits) if !ended.is_empty() && ended.len() >= begun => Self::Of(commits),
            Some(commits) if !ended.is_empty() => Self::AtLeast(commits),
            _ => Self::Unknown,
        }
    }

    /// Their number where it is known.
    pub fn commits(self) -> Option<u64> {
        match self {
            Self::Of(commits) => Some(commits),
            Self::AtLeast(_) | Self::Unknown => None,
        }
    }

    /// What they say of the layout.
    pub fn caveat(self) -> Option<String> {
        let times = match self {
            Self::Unknown | Self::Of(0) => return None,
            Self::Of(commits) => format!("{commits} times"),
            Self::AtLeast(commits) => {
                format!("{commits} times or more (a part of the run was killed, and its count with it)")
            }
        };
        Some(format!(
            "the file system committed {times} beside the clock (its own timer, a full journal, or a sync by somebody else on this \
             machine): the same plan may end in another layout"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_run_count() {
        assert_eq!(Unasked::counted(&[Some(4), Some(2)], 2), Unasked::Of(6));
        assert_eq!(Unasked::counted(&[Some(4), None], 2), Unasked::Unknown);
        assert_eq!((Unasked::counted(&[], 1), Unasked::counted(&[None], 1)), (Unasked::Unknown, Unasked::Unknown));
        assert_eq!(Unasked::counted(&[Some(0)], 1).caveat(), None);
        assert!(Unasked::Of(6).caveat().unwrap().contains("committed 6 times beside the clock"));
    }

    #[test]
    fn a_part_that_was_killed_leaves_no_number() {
        let killed = Unasked::counted(&[Some(0)], 2);
        assert_eq!((killed, killed.commits()), (Unasked::AtLeast(0), None));
        assert!(killed.caveat().unwrap().contains("0 times or more (a part of the run was killed"));
    }
}
