//! Interleaves measurements on several mounted file systems, so that background load affects all of them.

use super::shuffle;
use super::subject::{Setup, Subject, SubjectKind};
use senesce_core::analysis::Better;
use senesce_core::{Failure, Measurement};
use senesce_runner::{Context, Run};
use senesce_tierfs::Stats;
use serde::{Deserialize, Serialize};

/// Bpfs mode measured a second time. Its difference from itself is the noise of this machine.
pub(crate) const AGAIN: &str = "bpfs again";

/// An event in addition to the measured values.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Counters of a tier file system in a round.
    Stats {
        /// File system.
        subject: String,
        /// Round, from 0.
        round: u64,
        stats: Stats,
    },
}

pub(crate) struct InterleavedRound<'a> {
    pub kinds: &'a [SubjectKind],
    pub setup: &'a Setup,
    pub key: &'a str,
    /// The conditions: a name, and the word for measured values.
    pub conditions: &'a [(String, String)],
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    pub metric: &'static str,
    pub unit: &'static str,
    pub value: f64,
    pub under: Option<(&'static str, &'static str)>,
}

impl Reading {
    pub(crate) fn new(metric: &'static str, unit: &'static str, value: f64) -> Self {
        Self { metric, unit, value, under: None }
    }

    pub(crate) fn under(self, name: &'static str, word: &'static str) -> Self {
        Self { under: Some((name, word)), ..self }
    }
}

/// Returns the turns: index of a subject, and the name of its values.
pub(crate) fn iterations(kinds: &[SubjectKind]) -> Vec<(usize, &'static str)> {
    let mut turns: Vec<_> = kinds.iter().enumerate().map(|(index, kind)| (index, kind.name())).collect();
    if kinds.contains(&SubjectKind::Anticache) {
        turns.extend(kinds.iter().position(|kind| *kind == SubjectKind::Bpfs).map(|index| (index, AGAIN)));
    }
    turns
}

impl InterleavedRound<'_> {
    /// Runs one round on fresh file systems: calls `measure` with a subject and the index of a condition, and records the
    /// values. The order of the subjects is random for each condition.
    pub(crate) fn round<R: Run<Event = Event>>(
        &self,
        round: u64,
        context: &mut Context<'_, R>,
        measure: impl Fn(&Subject, usize) -> Result<Vec<Reading>, Failure>,
    ) -> Result<(), Failure> {
        let subjects =
            self.kinds.iter().map(|kind| Subject::start(*kind, self.setup)).collect::<Result<Vec<_>, _>>()?;
        context.progress.phase(&format!("round {}", round + 1), self.conditions.len() as u64, "conditions");
        self.take(round, context, |place, index| measure(&subjects[place], index))?;
        for subject in subjects {
            if let Some(fs) = subject.tier() {
                let stats = fs.stats();
                context.record(Event::Stats { subject: subject.kind.name().into(), round, stats });
            }
            subject.stop()?;
        }
        Ok(())
    }

    /// Runs all measurements of a round: calls `measure` with the indexes of a subject and of a condition.
    fn take<R: Run>(
        &self,
        round: u64,
        context: &mut Context<'_, R>,
        measure: impl Fn(usize, usize) -> Result<Vec<Reading>, Failure>,
    ) -> Result<(), Failure> {
        for (index, (condition, word)) in self.conditions.iter().enumerate() {
            context.progress.position(index as u64, condition);
            let mut order = iterations(self.kinds);
            shuffle(&mut order, context.seed, &format!("tier/order/{round}/{condition}"));
            for (place, name) in order {
                context.check_interrupt()?;
                let readings = measure(place, index)?;
                // An interrupted measurement ends early with incomplete values.
                context.check_interrupt()?;
                for reading in readings {
                    let one = Measurement::new(reading.metric, reading.unit, Better::Lower, reading.value)?;
                    let one = Measurement { repetition: round as u32, ..one };
                    let one = one.under("subject", name).under(self.key, word);
                    context.measure(reading.under.into_iter().fold(one, |one, (name, word)| one.under(name, word)));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::Disk;
    use super::super::setup;
    use super::*;
    use senesce_core::interrupt::Interrupt;
    use senesce_core::{Analysis, Bytes, Record, Seed, Size, Span};
    use senesce_runner::{Conduct, NoEvent, Planned, Recorded, State, conduct};
    use senesce_tierfs::cold::Latency;

    /// A round of one turn, in which the user requests an interrupt.
    struct InterruptedRound;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Spec {}

    impl Run for InterruptedRound {
        const KIND: &'static str = "stopped";
        type Spec = Spec;
        type Event = NoEvent;
        type Step = u64;

        fn steps(_spec: &Spec, _seed: Seed) -> Result<Vec<Planned<u64>>, Failure> {
            Ok(vec![Planned::new(0, "take turns", "-")])
        }

        fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
            Ok(Self)
        }

        fn step(&mut self, _spec: &Spec, round: &u64, context: &mut Context<'_, Self>) -> Result<(), Failure> {
            let (size, disk, interrupt) = (Size(Bytes::mib(1)), Disk::default(), context.interrupt);
            let setup = setup(size, size, Span::from_millis(1), 1, (Latency::HDD, &disk));
            let conditions = [("4K".to_string(), "4096".to_string())];
            let turns =
                InterleavedRound { kinds: &[SubjectKind::Bpfs], setup: &setup, key: "size", conditions: &conditions };
            turns.take(*round, context, |_, _| {
                interrupt.request();
                Ok(vec![Reading::new("latency", "us", 1.0)])
            })
        }

        fn analyse(_spec: &Spec, _recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
            Ok(Analysis { result: serde_json::json!({}), ..Analysis::default() })
        }
    }

    #[test]
    fn interrupted_iteration_is_not_recorded() {
        let (directory, interrupt) = (tempfile::tempdir().unwrap(), Interrupt::new());
        let path = directory.path().join("run");
        let how = Conduct { interrupt: &interrupt, ..Conduct::quietly(&path) };
        assert_eq!(conduct::<InterruptedRound>(&Spec {}, Seed(1), &how).unwrap().state, State::Interrupted);
        let record = Record::open(&path).unwrap();
        assert!(Recorded::<InterruptedRound>::of(&record).unwrap().measurements().next().is_none());
    }

    #[test]
    fn bpfs_mode_has_a_second_iteration_with_anticache() {
        assert_eq!(
            iterations(&[SubjectKind::Anticache, SubjectKind::Bpfs]),
            [(0, "anticache"), (1, "bpfs"), (1, AGAIN)]
        );
        assert_eq!(iterations(&[SubjectKind::Bpfs, SubjectKind::Ext4]), [(0, "bpfs"), (1, "ext4")]);
    }
}
