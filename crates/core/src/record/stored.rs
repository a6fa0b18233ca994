//! The record of a run for reading.

use super::error::RecordError;
use super::events_file::Tail;
use super::files::{ENVIRONMENT, EVENTS, SUMMARY};
use super::identity::{FileSums, Identity, sum};
use super::lines::{Lines, read_events};
use super::overview::{self, Overview};
use super::side_files::SideFiles;
use super::{Event, data};
use crate::environment::Environment;
use crate::input::InputFolder;
use crate::plan::Plan;
#[cfg(test)]
use hdrhistogram::Histogram;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Maximum number of reads while a running run replaces its environment.
const MOST_READS: usize = 20;

/// Reads again while the record seems damaged, unless `state` was the same before and after the last read.
fn read_stable<T, S: PartialEq>(
    mut read: impl FnMut() -> Result<T, RecordError>,
    mut state: impl FnMut() -> S,
) -> Result<T, RecordError> {
    let (mut found, mut before) = (read(), None);
    for _ in 1..MOST_READS {
        if !found.as_ref().is_err_and(RecordError::is_damage) {
            break;
        }
        let now = Some(state());
        if before == now {
            break;
        }
        (before, found) = (now, read());
    }
    found
}

/// A run directory for reading; needs neither root nor the device.
#[derive(Debug, Clone)]
pub struct Record {
    /// Path of the directory.
    pub path: PathBuf,
    /// Content of `plan.toml`.
    pub plan: Plan,
    /// Content of `env.json`.
    pub environment: Environment,
    /// Content of `events.jsonl`, oldest first.
    pub events: Vec<Event>,
    /// Result, if the run is complete.
    pub summary: Option<Value>,
    pub(super) identity: Option<Identity>,
    pub(super) files: FileSums,
    pub(super) side_files: SideFiles,
    pub(super) valid_event_bytes: u64,
    pub(super) tail: Tail,
}

impl Record {
    /// Reads a run directory, complete or partial. Drops a torn last line.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] with the missing part; [`RecordError::OtherFormat`] for another version; [`RecordError::Damaged`]
    /// for a damaged line before the end, for a complete run without its end, and for events without an identity;
    /// [`RecordError::Altered`] for another file than the run's; [`RecordError::TooLong`] and
    /// [`RecordError::TooLarge`] for files beyond their limits; those of reading.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let folder = overview::open(path)?;
        let environment = || overview::read_file(&folder, path, ENVIRONMENT).ok()?.ok().map(|text| sum(&text));
        // The writer of a record replaces other files between two events.
        let events = || folder.file(Path::new(EVENTS)).and_then(|file| file.metadata()).map_or(0, |found| found.len());
        read_stable(|| Self::read_in(&folder, path), || (environment(), events()))
    }

    pub(super) fn read_in(folder: &InputFolder, path: &Path) -> Result<Self, RecordError> {
        let (Overview { path, plan, environment, summary }, files) = Overview::read_in(folder, path)?;
        let Lines { events, valid_bytes: valid_event_bytes, tail, identity, files: side_files, .. } =
            read_events(folder, &path)?;
        let damaged = |line: usize, problem: &str| RecordError::Damaged {
            path: path.join(EVENTS),
            line,
            problem: problem.into(),
        };
        match &identity {
            Some(identity) => identity.check(&files, &path)?,
            // A crash of the machine may have lost all events.
            None if events.is_empty() => {}
            None => return Err(damaged(1, "the event that identifies the run is missing")),
        }
        if let Some(text) = &summary {
            match &tail.summary {
                Some(known) if *known == sum(text) => {}
                Some(_) => return Err(RecordError::Altered { path: path.join(SUMMARY) }),
                None => {
                    let problem = "the end of the run is missing, and summary.json states that it is complete";
                    return Err(damaged(tail.held.lines() + 1, problem));
                }
            }
        }
        side_files.check(folder, &path)?;
        let no_summary =
            |error| RecordError::NotARun { path: path.clone(), missing: format!("summary.json ({error})") };
        let decode = |text: Vec<u8>| {
            data::check_values(&text)?;
            serde_json::from_slice(&text).map_err(|error| error.to_string())
        };
        let summary = summary.map(decode).transpose().map_err(no_summary)?;
        Ok(Self { path, plan, environment, events, summary, identity, files, side_files, valid_event_bytes, tail })
    }

    /// Returns the random identity of the run, which its copies share; none for a run that recorded nothing.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.run.as_str())
    }

    /// Returns whether the run is incomplete.
    pub fn is_partial(&self) -> bool {
        self.summary.is_none()
    }

    /// Reads a stored histogram.
    ///
    /// # Errors
    /// As [`super::read_histogram`].
    #[cfg(test)]
    pub(crate) fn histogram(&self, name: &str) -> Result<Histogram<u64>, RecordError> {
        super::read_histogram(&self.path, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a record that agrees with its environment from the read `agrees` on; returns whether it did, and the reads.
    fn read(agrees: usize, environments: &[&str]) -> (bool, usize) {
        let (mut reads, mut environments) = (0, environments.iter().cycle());
        let one = || {
            reads += 1;
            if reads < agrees { Err(RecordError::Altered { path: ENVIRONMENT.into() }) } else { Ok(()) }
        };
        let found = read_stable(one, || environments.next().map(|text| sum(text.as_bytes())));
        (found.is_ok(), reads)
    }

    #[test]
    fn environment_that_is_being_replaced_is_not_altered() {
        assert_eq!(read(1, &["one"]), (true, 1));
        assert_eq!(read(4, &["one", "two", "three"]), (true, 4));
        assert_eq!(read(4, &["one", "one"]), (false, 2), "it is stable");
        assert_eq!(read(4, &["one", "two", "two"]), (false, 3), "it became stable");
        assert_eq!(read(MOST_READS + 1, &["one", "two"]), (false, MOST_READS));
    }
}
