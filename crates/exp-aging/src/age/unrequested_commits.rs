//! Counts commits that the run did not request, over all of its parts. Each part continues where the previous one ended.

use super::{AgeSpec, Event};
use senesce_aging::Clock;
use senesce_aging::execute::sets_commit_time;
use senesce_core::number_of;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnrequestedCommits {
    /// The file system does not count its commits, or nothing was executed.
    Unknown,
    Of(u64),
    /// Commits in the parts that completed; another part was killed or failed, and its count was lost.
    AtLeast(u64),
}

impl UnrequestedCommits {
    pub(crate) fn of<'a>(events: impl Iterator<Item = &'a Event>) -> Self {
        let mut ended: Vec<Option<u64>> = Vec::new();
        let mut begun = 1;
        let mut goes_on = false;
        for event in events {
            match event {
                Event::Executed(executed) => {
                    ended.push(executed.unasked_commits);
                    goes_on = false;
                }
                Event::Reconciled(_) => {
                    begun += 1;
                    goes_on = true;
                }
                Event::Checkpoint(checkpoint) if checkpoint.operation > 0 => goes_on = false,
                // The run starts from operation 0: the commits of an earlier aging in memory do not matter. An aging that is
                // not in memory may also continue at operation 0 if no later checkpoint exists.
                Event::Checkpoint(_) if !goes_on => (ended, begun) = (Vec::new(), 1),
                _ => {}
            }
        }
        Self::counted(&ended, begun)
    }

    /// Sums up the parts that completed; `begun` parts were started.
    fn counted(ended: &[Option<u64>], begun: usize) -> Self {
        match ended.iter().copied().sum::<Option<u64>>() {
            Some(commits) if !ended.is_empty() && ended.len() >= begun => Self::Of(commits),
            Some(commits) if !ended.is_empty() => Self::AtLeast(commits),
            _ => Self::Unknown,
        }
    }

    pub(crate) fn commits(self) -> Option<u64> {
        match self {
            Self::Of(commits) => Some(commits),
            Self::AtLeast(_) | Self::Unknown => None,
        }
    }

    pub(crate) fn caveat(self) -> Option<String> {
        let times = match self {
            Self::Unknown | Self::Of(0) => return None,
            Self::Of(commits) => number_of(commits, "time"),
            Self::AtLeast(commits) => {
                let times = number_of(commits, "time");
                format!("{times} or more (the count of a part of the run was lost when it was killed or failed)")
            }
        };
        Some(format!(
            "the file system committed {times} in addition to the requested commits (its own timer, a full \
             journal, or a sync by another process); the same plan may end in another layout"
        ))
    }
}

/// Returns a caveat for a mount option that sets the time between commits, if only the plan commits: without a pace, no
/// time passes on a virtual clock.
pub(super) fn unused_commit_time(spec: &AgeSpec, clock: Clock, has_virtual_clock: bool) -> Option<String> {
    let commits_by_plan = has_virtual_clock && !clock.is_none() && spec.pace().is_none();
    (commits_by_plan && sets_commit_time(&spec.mount_options)).then(|| {
        "the mount option commit= has no effect here: the commits come from the plan (--commit-share); with --time-scale \
         they come from the file system's timer"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::super::events::{Checkpoint, tests};
    use super::super::spec::tests::age_spec;
    use super::*;
    use senesce_aging::{Data, Reconciliation};

    fn executed(unasked_commits: u64) -> Event {
        tests::executed("interrupt", unasked_commits)
    }

    fn checkpoint(operation: u64) -> Event {
        Event::Checkpoint(Checkpoint { operation, seconds: 1.0 })
    }

    #[test]
    fn continued_parts_count_and_restarts_do_not() {
        let first = [checkpoint(0), checkpoint(700), executed(4)];
        let went_on = [Event::Reconciled(Reconciliation::default()), checkpoint(700), checkpoint(900), executed(2)];
        assert_eq!(UnrequestedCommits::of(first.iter().chain(&went_on)), UnrequestedCommits::Of(6));
        // An image in memory is lost when the run is interrupted.
        let second = [checkpoint(0), checkpoint(900), executed(2)];
        assert_eq!(UnrequestedCommits::of(first.iter().chain(&second)), UnrequestedCommits::Of(2));
    }

    #[test]
    fn killed_part_without_later_checkpoint_is_not_forgotten() {
        let killed = [checkpoint(0)];
        let reconciled = Event::Reconciled(Reconciliation::default());
        let went_on = [reconciled, checkpoint(0), checkpoint(0), checkpoint(900), executed(2)];
        assert_eq!(UnrequestedCommits::of(killed.iter().chain(&went_on)), UnrequestedCommits::AtLeast(2));
        // Stopped before any operation, but after a commit by another process.
        let stopped = [checkpoint(0), checkpoint(0), executed(1)];
        assert_eq!(UnrequestedCommits::of(stopped.iter().chain(&went_on)), UnrequestedCommits::Of(3));
        // An image in memory: it starts again after a part that continued.
        let second = [checkpoint(0), checkpoint(800), executed(5)];
        assert_eq!(UnrequestedCommits::of(went_on.iter().chain(&second)), UnrequestedCommits::Of(5));
    }

    #[test]
    fn all_parts_of_a_run_count() {
        assert_eq!(UnrequestedCommits::counted(&[Some(4), Some(2)], 2), UnrequestedCommits::Of(6));
        assert_eq!(UnrequestedCommits::counted(&[Some(4), None], 2), UnrequestedCommits::Unknown);
        assert_eq!(
            (UnrequestedCommits::counted(&[], 1), UnrequestedCommits::counted(&[None], 1)),
            (UnrequestedCommits::Unknown, UnrequestedCommits::Unknown)
        );
        assert_eq!(UnrequestedCommits::counted(&[Some(0)], 1).caveat(), None);
        assert!(
            UnrequestedCommits::Of(6)
                .caveat()
                .unwrap()
                .contains("committed 6 times in addition to the requested commits")
        );
    }

    #[test]
    fn killed_or_failed_part_has_no_exact_count() {
        let killed = UnrequestedCommits::counted(&[Some(0)], 2);
        assert_eq!((killed, killed.commits()), (UnrequestedCommits::AtLeast(0), None));
        let caveat = killed.caveat().unwrap();
        assert!(caveat.contains("0 times or more (the count") && caveat.contains("killed or failed"), "{caveat}");
    }

    #[test]
    fn commit_time_without_effect_is_a_caveat() {
        let spec = |options: &str, pace| AgeSpec { mount_options: options.into(), ..age_spec(Data::Write, pace) };
        let has_caveat = |spec: &AgeSpec, clock, is_virtual| unused_commit_time(spec, clock, is_virtual).is_some();
        assert!(has_caveat(&spec("noatime,commit=1", None), Clock::default(), true));
        assert!(!has_caveat(&spec("noatime", None), Clock::default(), true));
        assert!(!has_caveat(&spec("commit=1", None), Clock::default(), false), "timers of the machine");
        assert!(!has_caveat(&spec("commit=1", None), Clock::NONE, true));
        assert!(!has_caveat(&spec("commit=1", Some(10.0)), Clock::default(), true), "time passes");
    }
}
