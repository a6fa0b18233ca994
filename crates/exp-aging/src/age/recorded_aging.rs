//! Finds the state of a target in its record. An end of the execution is valid until a later event.

use super::copies::Copies;
use super::events::{Checkpoint, Event, ExaminedLayout, ExecutionEnd, ExtentSample, Rehearsal, Sample};
use super::new_file::ModelledNewFile;
use senesce_aging::Reconciliation;
use senesce_core::Record;
use senesce_runner::Common;
use senesce_runs::bench::MeasuredColdRead;

#[derive(Default)]
pub(super) struct RecordedAging<'a> {
    pub rehearsal: Option<&'a Rehearsal>,
    /// The end of the execution, unless the run continued and was then killed or failed.
    pub executed: Option<&'a ExecutionEnd>,
    pub layout: Option<&'a ExaminedLayout>,
    pub copies: Option<&'a Copies>,
    pub measured: Option<&'a MeasuredColdRead>,
    pub samples: Vec<Sample>,
    pub extents: Vec<ExtentSample>,
    pub warnings: Vec<&'a str>,
    pub reached: Option<Checkpoint>,
    /// Files that were removed or created again when interrupted parts of the run continued.
    pub repaired: u64,
    pub is_continued: bool,
}

/// Returns the number of files that differed from the record.
pub(super) fn differing_files(done: &Reconciliation) -> u64 {
    done.removed + done.restored + done.repaired
}

/// Returns whether the run recorded a request for other limits, and no work, since `before` was read.
pub(super) fn has_only_a_request_since(before: &Record) -> bool {
    let is_preparation = |kind: &str| Common::is_kind(kind) || ["spec", "rehearsal", "target"].contains(&kind);
    let is_work = |event: &senesce_core::record::Event| !is_preparation(&event.kind);
    let requested = before.events.len() + 1;
    Record::open(&before.path).is_ok_and(|now| !now.events.iter().skip(requested).any(is_work))
}

impl<'a> RecordedAging<'a> {
    pub(crate) fn of(events: impl Iterator<Item = &'a Event>) -> Self {
        let mut found = Self::default();
        for event in events {
            match event {
                Event::Rehearsal(rehearsal) => {
                    found.forget_the_end();
                    found.rehearsal = Some(rehearsal);
                }
                Event::Continued => {
                    found.forget_the_end();
                    found.is_continued = true;
                }
                Event::Reconciled(done) => {
                    found.forget_the_end();
                    found.repaired += differing_files(done);
                }
                Event::Sample(sample) => {
                    found.forget_the_end();
                    found.samples.push(sample.clone());
                }
                Event::Extents(seen) => found.extents.push(*seen),
                Event::Checkpoint(checkpoint) => {
                    found.forget_the_end();
                    // The run starts from operation 0: an earlier aging in memory is lost.
                    if checkpoint.operation == 0 {
                        found.is_continued = false;
                        found.samples.clear();
                        found.extents.clear();
                    }
                    found.reached = Some(*checkpoint);
                }
                Event::Executed(executed) => {
                    found.forget_the_end();
                    found.executed = Some(executed);
                }
                Event::Layout(layout) => found.layout = Some(layout),
                Event::Copies(copies) => found.copies = Some(copies),
                Event::MeasuredRead(read) => found.measured = Some(read),
                Event::KernelWarning(line) => found.warnings.push(line),
                _ => {}
            }
        }
        found
    }

    /// Returns the modelled new file; `None` if the free extents are unknown.
    pub(super) fn new_file(&self) -> Option<ModelledNewFile> {
        let free = self.layout?.layout.as_ref()?.free_space.as_ref()?;
        ModelledNewFile::of(self.rehearsal?.summary.capacity, free)
    }

    fn forget_the_end(&mut self) {
        (self.executed, self.layout, self.copies, self.measured) = (None, None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::tests::executed;
    use super::*;

    fn sample(operations: u64) -> Event {
        Event::Sample(Sample { operations, seconds: 1.0, fullness: 0.5, overwrites: 1.0, distance: None })
    }

    fn checkpoint(operation: u64) -> Event {
        Event::Checkpoint(Checkpoint { operation, seconds: 1.0 })
    }

    #[test]
    fn samples_before_a_restart_are_ignored() {
        let operations = |events: &[Event]| -> Vec<u64> {
            RecordedAging::of(events.iter()).samples.iter().map(|sample| sample.operations).collect()
        };
        let lost = [checkpoint(0), sample(10), checkpoint(700), sample(700)];
        let second = [checkpoint(0), sample(20), checkpoint(300)];
        assert_eq!(operations(&[&lost[..], &second[..]].concat()), [20]);
        let went_on = [checkpoint(700), sample(900)];
        assert_eq!(operations(&[&lost[..], &went_on[..]].concat()), [10, 700, 900]);
    }

    #[test]
    fn end_before_later_operations_is_ignored() {
        let seen = Event::Layout(Box::new(ExaminedLayout { problem: "none".into(), ..ExaminedLayout::default() }));
        let ended = [checkpoint(0), checkpoint(700), executed("time", 0), seen, Event::Closed(700)];
        let found = RecordedAging::of(ended.iter());
        assert!(found.executed.is_some() && found.layout.is_some());
        for later in [Event::Reconciled(Reconciliation::default()), checkpoint(700), sample(800)] {
            let killed = [&ended[..], &[later]].concat();
            let found = RecordedAging::of(killed.iter());
            assert!(found.executed.is_none() && found.layout.is_none());
            assert_eq!(found.reached.map(|reached| reached.operation), Some(700));
        }
    }

    #[test]
    fn files_repaired_by_all_parts_of_a_run_are_counted() {
        let reconciled = |removed| Event::Reconciled(Reconciliation { removed, restored: 2, repaired: 1 });
        let events = [checkpoint(0), reconciled(4), checkpoint(700), executed("interrupt", 0), reconciled(0)];
        assert_eq!(RecordedAging::of(events.iter()).repaired, 10);
    }

    #[test]
    fn layout_belongs_only_to_its_own_end() {
        let seen = Event::Layout(Box::new(ExaminedLayout { problem: "none".into(), ..ExaminedLayout::default() }));
        let events = [executed("time", 0), seen, checkpoint(700), checkpoint(900), executed("interrupt", 0)];
        let found = RecordedAging::of(events.iter());
        assert_eq!(found.executed.map(|executed| &*executed.stopped_by), Some("interrupt"));
        assert!(found.layout.is_none(), "no layout was read then");
    }
}
