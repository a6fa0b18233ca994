//! Changes of what a run recorded: a kill at any point leaves a record that can be read and resumed.

use super::error::{RecordError, io_error};
use super::events_file::{EventsFile, Tail};
use super::files::ENVIRONMENT;
use super::identity::{self, FileSums, sum};
use super::lines::{body, signed};
use super::{Record, RunDirectory, overview, pretty};
use crate::environment::Environment;
use std::time::SystemTime;

impl RunDirectory {
    /// Adds facts to `env.json`, such as those of the target.
    ///
    /// # Errors
    /// [`RecordError::Altered`] if senesce did not write the existing facts; those of reading them; as [`Self::append`] and [`super::write_atomically`].
    pub fn add_environment(&mut self, environment: &Environment) -> Result<(), RecordError> {
        let text = overview::read_file(&self.place.within()?, &self.path, ENVIRONMENT)?;
        let text = text.map_err(io_error("read", &self.path.join(ENVIRONMENT)))?;
        let (plan, before) = (self.identity.plan.clone(), sum(&text));
        self.identity.check(&FileSums { plan, environment: before.clone() }, &self.path)?;
        let altered = |_| RecordError::Altered { path: self.path.join(ENVIRONMENT) };
        let mut all: Environment = serde_json::from_slice(&text).map_err(altered)?;
        all.0.extend(environment.0.clone());
        let new = pretty(&all);
        if sum(&new) == before {
            return Ok(());
        }
        // Facts such as a label do not make a run newer.
        let modified = self.events.modified();
        // First both are valid: a kill leaves one of them.
        self.identity.environment = vec![before, sum(&new)];
        self.identify()?;
        self.sync()?;
        self.place.write(ENVIRONMENT, &new)?;
        // A crash of the machine must not leave the old facts with an identity that names only the new ones.
        self.place.sync()?;
        self.identity.environment.remove(0);
        self.identify()?;
        if let Ok(modified) = modified {
            self.events.set_modified(modified);
        }
        Ok(())
    }

    /// Drops the events that were recorded since `record` was read, after a continued run failed to start. Facts that were
    /// added since then stay.
    ///
    /// `modified`: when the run recorded its last event.
    ///
    /// # Errors
    /// As ftruncate(2), rename(2), [`Self::append`] and [`Self::finish`].
    pub fn take_back(&mut self, record: &Record, modified: Option<SystemTime>) -> Result<(), RecordError> {
        if record.identity.as_ref() == Some(&self.identity) {
            // One call, which also succeeds on a full disk.
            self.events.shorten(record.valid_event_bytes, record.tail.clone())?;
        } else {
            // The facts changed: events without an identity that covers them would be those of an altered run.
            let (text, sum) = signed(record.tail.sum, &[body(self.started, identity::KIND, &self.identity)]);
            let held = record.tail.held.and(text.as_bytes(), self.events.path())?;
            let file = self.place.replace_events(record.valid_event_bytes, &text)?;
            self.events = EventsFile::new(file, &self.path, Tail { sum, held, ..record.tail.clone() });
        }
        if let Some(summary) = &record.summary {
            self.finish(summary)?;
        }
        if let Some(modified) = modified {
            self.events.set_modified(modified);
        }
        Ok(())
    }
}
