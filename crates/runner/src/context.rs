//! The context of a step: its record, progress and interrupt.

use crate::Run;
use crate::recorded::{Common, OwnImage, Recorded, RecordedEvent};
use hdrhistogram::Histogram;
use senesce_core::interrupt::Interrupt;
use senesce_core::output::Folder;
use senesce_core::record::Witness;
use senesce_core::{Environment, ExitCode, Failure, Measurement, Peers, Progress, RunDirectory, Seed, machine};
use serde::Serialize;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

pub struct Context<'a, R: Run> {
    pub progress: &'a dyn Progress,
    pub interrupt: &'a Interrupt,
    /// The other processes of the run.
    pub peers: Option<&'a dyn Peers>,
    pub seed: Seed,
    pub(crate) erase: Option<String>,
    pub(crate) directory: RunDirectory,
    pub(crate) recorded: Recorded<R>,
    /// Images that this process made, and not an earlier one: others may have written into those since then.
    pub(crate) made_images: Vec<OwnImage>,
    /// Events of the current step that are not written yet.
    pub(crate) pending: Vec<Pending<R::Event>>,
    /// Number of steps that run at a time.
    pub(crate) together: usize,
    /// Whether the message of an interruption that ends the process at once announces a start from the beginning.
    pub(crate) last_words: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Pending<E> {
    Own(E),
    Common(Common),
}

impl<'a, R: Run> Context<'a, R> {
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the random identity of the run, in 32 hexadecimal digits.
    pub fn identity(&self) -> &str {
        self.directory.identity()
    }

    /// Returns the records of all steps that are done, also in earlier parts of the run.
    pub fn recorded(&self) -> &Recorded<R> {
        &self.recorded
    }

    /// Notes that this many steps run at a time: one of them waits for the work of the others too.
    pub fn run_together(&mut self, steps: usize) {
        self.together = steps;
    }

    /// Records an event of the step; it counts if the step succeeds.
    pub fn record(&mut self, event: R::Event) {
        self.pending.push(Pending::Own(event));
    }

    /// Records an event at once, for long steps that continue where they stopped.
    pub fn record_now(&mut self, event: R::Event) -> Result<(), Failure> {
        self.directory.append_named(std::slice::from_ref(&event))?;
        self.recorded.add(self.directory.last_line(), self.directory.seconds(), RecordedEvent::Own(event));
        Ok(())
    }

    /// Records a measured value of the step; one that was taken under emulation is marked.
    pub fn measure(&mut self, one: Measurement) {
        let one = if machine::is_emulated() { one.under_emulation() } else { one };
        self.push_common(Common::Measurement(one));
    }

    /// Records a caveat for readers of the results.
    pub fn caveat(&mut self, words: impl Into<String>) {
        self.push_common(Common::Caveat(words.into()));
    }

    /// Takes over the events, measured values, caveats and finished steps of another record, as part of this step.
    ///
    /// `machine` describes where that was recorded.
    pub fn take_over<O: Run<Event = R::Event>>(&mut self, recorded: Recorded<O>, machine: Value) {
        self.push_common(Common::Elsewhere(machine));
        for (_, event) in recorded.entries {
            match event {
                RecordedEvent::Own(event) => self.record(event),
                RecordedEvent::Common(common @ (Common::Measurement(_) | Common::Caveat(_) | Common::Done(_))) => {
                    self.push_common(common)
                }
                RecordedEvent::Common(_) => {}
            }
        }
    }

    pub(crate) fn push_common(&mut self, common: Common) {
        self.pending.push(Pending::Common(common));
    }

    /// Adds facts about the measured system.
    pub fn add_environment(&mut self, facts: &Environment) -> Result<(), Failure> {
        self.recorded.environment.0.extend(facts.0.clone());
        Ok(self.directory.add_environment(facts)?)
    }

    /// Stores a latency histogram, in nanoseconds.
    pub fn write_histogram(&mut self, name: &str, histogram: &Histogram<u64>) -> Result<(), Failure> {
        Ok(self.directory.write_histogram(name, histogram)?)
    }

    /// Stores a file in the record, with its checksum.
    pub fn write_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.directory.write_file(name, bytes)?)
    }

    /// Opens a second writer that can append while the first is busy, for last messages.
    pub fn witness(&self) -> Result<Witness, Failure> {
        Ok(self.directory.witness()?)
    }

    /// Returns an error after the user's interrupt; call it between units of work.
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        match self.interrupt.requested() {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// Returns the path or serial number of the target that the user allowed to be erased.
    pub fn erase(&self) -> Option<&str> {
        self.erase.as_deref()
    }

    /// Returns the path or serial number of the data that may be lost. It is the one that the user confirmed, otherwise
    /// the path of the target's image if this run made it. `holds_only_ours` examines an image of an earlier part
    /// for the identity of the run.
    pub fn may_erase(
        &mut self,
        image: Option<&Path>,
        holds_only_ours: impl FnOnce(&Path, &str) -> bool,
    ) -> Result<Option<String>, Failure> {
        let Some(path) = image.filter(|_| self.erase.is_none()) else { return Ok(self.erase.clone()) };
        let is_new = Folder::of(path).and_then(|(folder, name)| folder.create_new(&name, 0o666)).is_ok();
        if is_new {
            self.remember_image(path)?;
        }
        let Some(image) = identity(path) else { return Ok(None) };
        let is_known = || image.made_ns.is_some() && self.recorded.own_images().any(|known| known.is_same(&image));
        let ours = is_new || is_known() && holds_only_ours(path, self.identity());
        Ok(ours.then(|| path.display().to_string()))
    }

    fn remember_image(&mut self, path: &Path) -> Result<(), Failure> {
        match identity(path) {
            Some(image) => {
                self.made_images.push(image.clone());
                self.note(Common::OwnImage(image))
            }
            None => Ok(()),
        }
    }

    /// Removes the images that this process made.
    pub(crate) fn remove_made_images(&self) {
        let ours = |image: &&OwnImage| {
            image.made_ns.is_some() && identity(&image.path).is_some_and(|found| found.is_same(image))
        };
        self.made_images.iter().filter(ours).for_each(|image| drop(std::fs::remove_file(&image.path)));
    }

    pub fn is_done_or_pending(&self, step: &R::Step) -> bool {
        let step_value = serde_json::to_value(step).ok();
        let is_it = |pending: &Pending<R::Event>| match pending {
            Pending::Common(Common::Done(done)) => Some(&done.step) == step_value.as_ref(),
            _ => false,
        };
        self.recorded.is_done(step) || self.pending.iter().any(is_it)
    }

    pub(crate) fn note(&mut self, common: Common) -> Result<(), Failure> {
        self.directory.append_named(std::slice::from_ref(&common))?;
        self.recorded.add(self.directory.last_line(), self.directory.seconds(), RecordedEvent::Common(common));
        Ok(())
    }

    /// Writes the events of the step so far, all or none, so that they count even if the step fails later.
    pub fn keep_pending(&mut self) -> Result<(), Failure> {
        let pending = std::mem::take(&mut self.pending);
        let first = self.directory.last_line() + 1;
        self.directory.append_named(&pending)?;
        for (line, pending) in (first..).zip(pending) {
            let entry = match pending {
                Pending::Own(event) => RecordedEvent::Own(event),
                Pending::Common(common) => RecordedEvent::Common(common),
            };
            self.recorded.add(line, self.directory.seconds(), entry);
        }
        Ok(())
    }
}

/// Returns the error of an interrupted run. Only the runner knows what the same command does next.
pub fn interrupted() -> Failure {
    Failure::new(ExitCode::Interrupted, "interrupted")
}

impl OwnImage {
    fn is_same(&self, other: &Self) -> bool {
        (self.device, self.inode, self.made_ns) == (other.device, other.inode, other.made_ns)
    }
}

pub(crate) fn identity(path: &Path) -> Option<OwnImage> {
    let found = path.metadata().ok()?;
    let made = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let made_ns = made.map(|time| time.as_nanos() as u64);
    Some(OwnImage { path: path.into(), device: found.dev(), inode: found.ino(), made_ns })
}
