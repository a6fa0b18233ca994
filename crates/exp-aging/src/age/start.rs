//! Where a run starts: at its first operation, or at the state of an earlier part.

use super::Age;
use super::events::{Checkpoint, Event};
use super::spec::AgeSpec;
use senesce_aging::FileComparison;
use senesce_runner::Recorded;
use senesce_volume::TargetSpec;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Start {
    pub continues: bool,
    /// How to compare the files of the earlier part with the record.
    pub comparison: FileComparison,
    pub operation: u64,
    pub seconds: f64,
}

impl Start {
    pub(crate) fn of(spec: &AgeSpec, recorded: &Recorded<Age>) -> Self {
        Self::after(spec, &recorded.events().collect::<Vec<_>>())
    }

    fn after(spec: &AgeSpec, events: &[&Event]) -> Self {
        let Some(checkpoint) = last_of(events.iter().rev().copied()) else { return Self::default() };
        if matches!(spec.target, Some(TargetSpec::Memory { .. })) {
            return Self::default();
        }
        // A request for more leaves the target as it is, and so does opening it.
        let request = |event: &Event| event.prepares() || matches!(event, Event::Replanned(_) | Event::TimeLimit(_));
        let opening = |event: &Event| request(event) || matches!(event, Event::Continued);
        let ends_closed = |skipped: &dyn Fn(&Event) -> bool| {
            let last = events.iter().rev().find(|event| !skipped(event));
            matches!(last, Some(Event::Closed(_)))
        };
        // An image in memory is written to its file only when it is closed.
        if spec.in_memory && !ends_closed(&opening) {
            return Self::default();
        }
        let had_warnings = events.iter().any(|event| matches!(event, Event::KernelWarning(_)));
        let comparison = match !had_warnings && (spec.in_memory || ends_closed(&request)) {
            true => FileComparison::Size,
            false => FileComparison::Content,
        };
        Self { continues: true, comparison, operation: checkpoint.operation, seconds: checkpoint.seconds }
    }
}

pub(crate) fn last_checkpoint(recorded: &Recorded<Age>) -> Option<Checkpoint> {
    last_of(recorded.events().rev())
}

fn last_of<'a>(mut latest_first: impl Iterator<Item = &'a Event>) -> Option<Checkpoint> {
    latest_first.find_map(|event| match event {
        Event::Checkpoint(checkpoint) => Some(*checkpoint),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::events::{TimeLimit, tests};
    use super::super::spec::tests::age_spec;
    use super::*;
    use senesce_aging::Data;

    #[test]
    fn contents_are_compared_unless_the_target_was_closed() {
        let checkpoint = Event::Checkpoint(Checkpoint { operation: 700, seconds: 1.0 });
        let executed = tests::executed("interrupt", 0);
        let more_time = Event::TimeLimit(TimeLimit { max_seconds: None });
        let closed = Event::Closed(700);
        let warning = Event::KernelWarning("I/O error, dev loop0".into());
        let of = |target: &str, in_memory, events: &[&Event]| {
            let spec = AgeSpec { target: Some(target.parse().unwrap()), in_memory, ..age_spec(Data::Write, None) };
            let start = Start::after(&spec, events);
            start.continues.then_some(start.comparison)
        };
        let cases = [
            (vec![], None, None),
            (vec![&checkpoint], Some(FileComparison::Content), None),
            (vec![&checkpoint, &executed], Some(FileComparison::Content), None),
            (vec![&checkpoint, &executed, &closed], Some(FileComparison::Size), Some(FileComparison::Size)),
            (vec![&checkpoint, &closed, &more_time], Some(FileComparison::Size), Some(FileComparison::Size)),
            (vec![&checkpoint, &warning, &closed], Some(FileComparison::Content), Some(FileComparison::Content)),
            // The target was mounted again, and the part that did so was killed.
            (vec![&checkpoint, &closed, &Event::Continued], Some(FileComparison::Content), Some(FileComparison::Size)),
        ];
        for (events, on_image, on_image_in_memory) in cases {
            assert_eq!(of("image:k.img,size=1G", false, &events), on_image, "{events:?}");
            assert_eq!(of("image:k.img,size=1G", true, &events), on_image_in_memory, "{events:?}");
            assert_eq!(of("memory:1G", false, &events), None);
        }
    }
}
