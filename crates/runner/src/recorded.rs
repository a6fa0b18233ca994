//! A record read back with the types of its kind.

use crate::{Run, contradiction};
use hdrhistogram::Histogram;
use senesce_core::record::RecordError;
use senesce_core::{Environment, Failure, Measurement, Record, Seed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Events that every kind of run may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Common {
    /// One measured value.
    Measurement(Measurement),
    /// A caveat for readers of the results ("measured without ...").
    Caveat(String),
    /// A step is done, with all its records.
    Done(DoneStep),
    /// A step, or the run outside its steps, failed.
    Failed(FailedStep),
    /// The failure outside the steps did not recur in a later part of the run.
    Recovered,
    /// The user ended this part of the run.
    Interrupted,
    /// An image that this run made.
    OwnImage(OwnImage),
    /// Another machine did steps of the run: its description by the crate that sent them there.
    Elsewhere(Value),
}

impl Common {
    const KINDS: [&str; 8] =
        ["measurement", "caveat", "done", "failed", "recovered", "interrupted", "own-image", "elsewhere"];

    pub fn is_kind(kind: &str) -> bool {
        Self::KINDS.contains(&kind)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoneStep {
    /// The step in the notation of its kind.
    pub step: Value,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedStep {
    /// The step in the notation of its kind; none: the run outside its steps.
    pub step: Option<Value>,
    /// The reason, in words.
    pub reason: String,
    /// Its duration; 0 in records without it.
    #[serde(default)]
    pub seconds: f64,
}

/// Identifies an image file: an inode number alone is reused soon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnImage {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    /// Creation time of the inode, in nanoseconds since 1970; none: the file system does not record it.
    pub made_ns: Option<u64>,
}

pub enum AnyEvent<'a, R: Run> {
    Own(&'a R::Event),
    Failed { step: R::Step, reason: &'a str, seconds: f64 },
}

/// An event of the kind's own, or one that every kind may have.
#[derive(Debug, Clone)]
pub enum RecordedEvent<E> {
    Own(E),
    Common(Common),
}

pub struct Recorded<R: Run> {
    pub path: PathBuf,
    pub seed: Seed,
    pub environment: Environment,
    pub(crate) entries: Vec<(f64, RecordedEvent<R::Event>)>,
    /// The line of each entry, from 1.
    lines: Vec<usize>,
    /// Steps done, in the notation of their kind.
    pub(crate) done: BTreeSet<String>,
}

fn if_valid<T>(read: Result<T, RecordError>) -> Result<Option<T>, Failure> {
    use std::io::ErrorKind::{InvalidFilename, InvalidInput, NotFound, Other};
    match read {
        Ok(found) => Ok(Some(found)),
        Err(RecordError::Io(error)) if !matches!(error.kind(), NotFound | InvalidFilename | InvalidInput | Other) => {
            Err(RecordError::Io(error).into())
        }
        Err(_) => Ok(None),
    }
}

impl<R: Run> Recorded<R> {
    /// Decodes every event. An error names the line of the first event that its kind does not know or that contradicts
    /// others.
    pub fn of(record: &Record) -> Result<Self, Failure> {
        let mut recorded = Self {
            path: record.path.clone(),
            seed: record.plan.seed,
            environment: record.environment.clone(),
            entries: Vec::with_capacity(record.events.len()),
            lines: Vec::with_capacity(record.events.len()),
            done: BTreeSet::new(),
        };
        for event in &record.events {
            let damaged = |error: serde_json::Error| RecordError::Damaged {
                path: record.path.join("events.jsonl"),
                line: event.line,
                problem: format!(
                    "event '{}' does not belong to a run of kind '{}': {error}; events of every run: {}",
                    event.kind,
                    R::KIND,
                    Common::KINDS.join(", ")
                ),
            };
            let named = json!({&event.kind: event.data.value()});
            let entry = match Common::KINDS.contains(&event.kind.as_str()) {
                true => RecordedEvent::Common(Common::deserialize(named).map_err(damaged)?),
                false => RecordedEvent::Own(R::Event::deserialize(named).map_err(damaged)?),
            };
            recorded.add(event.line, event.t, entry);
        }
        contradiction::check(record, &recorded)?;
        Ok(recorded)
    }

    /// Adds the event in a line, from 1.
    pub(crate) fn add(&mut self, line: usize, t: f64, entry: RecordedEvent<R::Event>) {
        if let RecordedEvent::Common(Common::Done(done)) = &entry {
            self.done.insert(done.step.to_string());
        }
        self.entries.push((t, entry));
        self.lines.push(line);
    }

    /// Reads a latency histogram that a step stored, in nanoseconds.
    pub fn histogram(&self, name: &str) -> Result<Histogram<u64>, Failure> {
        Ok(senesce_core::record::read_histogram(&self.path, name)?)
    }

    /// Reads a latency histogram as [`Self::histogram`] does. `None`: its file is missing or invalid. Other errors say
    /// nothing about the record.
    pub fn histogram_if_valid(&self, name: &str) -> Result<Option<Histogram<u64>>, Failure> {
        if_valid(senesce_core::record::read_histogram(&self.path, name))
    }

    /// Returns the kind's own events, in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &R::Event> {
        self.timed_events().map(|(_, event)| event)
    }

    /// Returns the kind's own events, each with the seconds since its part of the run began.
    pub(crate) fn timed_events(&self) -> impl DoubleEndedIterator<Item = (f64, &R::Event)> {
        self.entries.iter().filter_map(|(t, entry)| match entry {
            RecordedEvent::Own(event) => Some((*t, event)),
            RecordedEvent::Common(_) => None,
        })
    }

    /// Returns all events in order, each with its line from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &RecordedEvent<R::Event>)> {
        self.lines.iter().copied().zip(self.entries.iter().map(|(_, entry)| entry))
    }

    /// Returns the kind's own events, each with its line from 1.
    pub fn own_lines(&self) -> impl Iterator<Item = (usize, &R::Event)> {
        self.lines().filter_map(|(line, entry)| match entry {
            RecordedEvent::Own(event) => Some((line, event)),
            RecordedEvent::Common(_) => None,
        })
    }

    fn common(&self) -> impl DoubleEndedIterator<Item = &Common> {
        self.entries.iter().filter_map(|(_, entry)| match entry {
            RecordedEvent::Common(common) => Some(common),
            RecordedEvent::Own(_) => None,
        })
    }

    /// Returns whether the user ended the last part of the run.
    pub fn was_interrupted(&self) -> bool {
        matches!(self.entries.last(), Some((_, RecordedEvent::Common(Common::Interrupted))))
    }

    /// Returns the measured values, in order.
    pub fn measurements(&self) -> impl Iterator<Item = &Measurement> {
        self.common().filter_map(|common| match common {
            Common::Measurement(one) => Some(one),
            _ => None,
        })
    }

    /// Caveats, each once, without the hint of a failure that they quote.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats: Vec<String> = Vec::new();
        for common in self.common() {
            let Common::Caveat(message) = common else { continue };
            let message = message.split("\nhint:").next().unwrap_or_default();
            if !caveats.iter().any(|one| one == message) {
                caveats.push(message.into());
            }
        }
        caveats
    }

    pub fn is_done(&self, step: &R::Step) -> bool {
        serde_json::to_value(step).is_ok_and(|step| self.done.contains(&step.to_string()))
    }

    pub fn steps_done(&self) -> usize {
        self.done.len()
    }

    pub fn has_done_a_step(&self) -> bool {
        !self.done.is_empty()
    }

    /// Returns the steps whose last try failed, with the reason; `None` stands for a failure outside the steps.
    pub fn failures(&self) -> Vec<(Option<R::Step>, &str)> {
        let mut failures: Vec<(&Option<Value>, &str)> = Vec::new();
        for common in self.common() {
            match common {
                Common::Failed(failed) => {
                    failures.retain(|(step, _)| *step != &failed.step);
                    failures.push((&failed.step, &failed.reason));
                }
                Common::Recovered => failures.retain(|(step, _)| step.is_some()),
                _ => {}
            }
        }
        failures.retain(|(step, _)| step.as_ref().is_none_or(|step| !self.done.contains(&step.to_string())));
        let typed = |step: &Option<Value>| step.as_ref().and_then(|step| R::Step::deserialize(step).ok());
        failures.into_iter().map(|(step, reason)| (typed(step), reason)).collect()
    }

    /// Returns the kind's own events and the failed tries of steps, in order.
    pub fn moments(&self) -> impl Iterator<Item = AnyEvent<'_, R>> {
        self.entries.iter().filter_map(|(_, entry)| match entry {
            RecordedEvent::Own(event) => Some(AnyEvent::Own(event)),
            RecordedEvent::Common(Common::Failed(failed)) => {
                let step = R::Step::deserialize(failed.step.as_ref()?).ok()?;
                Some(AnyEvent::Failed { step, reason: &failed.reason, seconds: failed.seconds })
            }
            RecordedEvent::Common(_) => None,
        })
    }

    /// Returns the machines that did steps of the run in place of this one.
    pub fn elsewhere(&self) -> impl Iterator<Item = &Value> {
        self.common().filter_map(|common| match common {
            Common::Elsewhere(machine) => Some(machine),
            _ => None,
        })
    }

    pub(crate) fn own_images(&self) -> impl Iterator<Item = &OwnImage> {
        self.common().filter_map(|common| match common {
            Common::OwnImage(image) => Some(image),
            _ => None,
        })
    }
}
