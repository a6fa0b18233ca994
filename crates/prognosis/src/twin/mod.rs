//! The twin: a sparse image with the metadata of a file system and none of its data. The real kernel creates files on it until none
//! fits, and the real tools cure it, while the original is only read.
//!
//! A twin holds names and sizes of files, so it is readable for its owner alone (mode 0600). It is mounted through a server that
//! keeps what is written in a scratch file of its own, and blocks of zeros nowhere: data of a twin are zeros, so they take no space,
//! and every trial begins with the same twin.

mod chain;
mod cure;
mod fewest;
mod fill;
mod make;
mod sink;
mod trial;

pub use fill::{Ended, Filled, Probe, ends_by};
pub use make::{Made, Source, make};
pub use trial::Trial;

use crate::error::PrognosisError;
use crate::estimate::{self, Cure, Options, Seen, Worst};
use crate::headroom::{Creatable, NewFiles, SIZES, User};
use crate::plan::Step;
use senesce_core::Progress;
use senesce_core::interrupt::Interrupt;
use senesce_devmodel::DeviceModel;
use senesce_layout::FileSystemSpace;
use senesce_volume::FileSystem;
use serde::Serialize;
use std::path::Path;

/// What was tried.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Create files until none fits.
    pub create: bool,
    /// Defragment by the tool of the file system, so many passes at most.
    pub passes: u32,
    /// A command of the user's; `{}` is the directory where the twin is mounted.
    pub command: Vec<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { create: true, passes: 3, command: Vec::new() }
    }
}

/// The plan, carried out on a twin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Executed {
    /// The share of the gain that was expected of its files before it was tried.
    pub aimed_share: f64,
    /// Files that were moved.
    pub files: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Seconds of a full read afterwards.
    pub seconds_after: f64,
    /// Its gain over that of the first pass of the tool over everything.
    pub share_of_gain: f64,
    /// Its bytes over those of that pass.
    pub share_of_bytes: f64,
}

/// What the twin showed.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// How it was made.
    pub made: Made,
    /// Seconds of one full read as the files lie on the twin.
    pub now_seconds: f64,
    /// After an ideal defragmentation.
    pub ideal_seconds: f64,
    /// After copying out and back.
    pub rewritten_seconds: f64,
    /// The files that cost most by lying in pieces, most first.
    pub worst: Vec<Worst>,
    /// Share of the directories and files on the twin that may not be opened.
    pub unseen_share: f64,
    /// The cures, pass by pass.
    pub cures: Vec<Cure>,
    /// The fewest files worth moving, by what the tool's first pass did to each.
    pub plan: Vec<Step>,
    /// The files that were moved when it was carried out, in the order of moving.
    pub plan_files: Vec<String>,
    /// The plan carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executed: Option<Executed>,
    /// How many files could be created.
    pub creatable: Vec<Creatable>,
    /// The same with what was left.
    pub fills: Vec<Filled>,
    /// Seconds that all of it took.
    pub elapsed_seconds: f64,
}

/// Makes trials on a twin.
pub struct Laboratory<'a> {
    /// The image.
    pub twin: &'a Path,
    /// What it holds.
    pub file_system: FileSystem,
    /// How layouts are read.
    pub options: &'a Options,
    /// The drive.
    pub model: &'a DeviceModel,
    /// Whom to tell.
    pub progress: &'a dyn Progress,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

impl Laboratory<'_> {
    /// Tries what is wanted. `target` names the original in commands.
    ///
    /// # Errors
    /// The twin cannot be mounted, or a tool is missing.
    pub fn run(&self, target: &str, made: Made, wanted: &Wanted) -> Result<Tried, PrognosisError> {
        let begun = std::time::Instant::now();
        let trial = Trial::begin(self.twin, self.file_system)?;
        let before = Seen::of(trial.directory(), self.model, self.options)?;
        trial.end()?;
        let mut tried = Tried {
            made,
            now_seconds: before.costs[0].seconds,
            ideal_seconds: before.costs[1].seconds,
            rewritten_seconds: before.costs[2].seconds,
            worst: estimate::worst(&before),
            unseen_share: estimate::denied_share(&before.summary),
            cures: Vec::new(),
            plan: Vec::new(),
            plan_files: Vec::new(),
            executed: None,
            creatable: Vec::new(),
            fills: Vec::new(),
            elapsed_seconds: 0.0,
        };
        if wanted.create {
            self.create(&mut tried)?;
        }
        if wanted.passes > 0 {
            cure::try_tool(self, target, &before, wanted.passes, &mut tried)?;
        }
        if !wanted.command.is_empty() {
            cure::try_command(self, &before, &wanted.command, &mut tried)?;
        }
        tried.elapsed_seconds = begun.elapsed().as_secs_f64();
        Ok(tried)
    }

    fn create(&self, tried: &mut Tried) -> Result<(), PrognosisError> {
        let users: &[User] = match self.file_system.entry().keeps_space_for_root {
            true => &[User::User, User::Root],
            false => &[User::Root],
        };
        let trials = SIZES.into_iter().flat_map(|size| users.iter().map(move |user| (size, *user)));
        let trials: Vec<(u64, User)> = trials.collect();
        self.progress.phase("create files on the twin until none fits", trials.len() as u64, "sizes");
        for (done, (size, user)) in trials.into_iter().enumerate() {
            self.check()?;
            let trial = Trial::begin(self.twin, self.file_system)?;
            let new = NewFiles { size, name_bytes: self.options.name_length };
            let filled = fill::fill(trial.directory(), new, user)?;
            trial.end()?;
            let one = |user| Creatable {
                size,
                files: filled.files,
                low: filled.files,
                high: filled.files,
                ends_by: filled.ends_by,
                ends_by_after_sync: (filled.ends_by_after_sync != filled.ends_by).then_some(filled.ends_by_after_sync),
                user,
            };
            if users.len() == 1 {
                tried.creatable.push(one(User::User));
            }
            tried.creatable.push(one(user));
            tried.fills.push(filled);
            self.progress.position(done as u64 + 1, "");
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), PrognosisError> {
        match self.interrupt.requested() {
            true => Err(PrognosisError::Interrupted),
            false => Ok(()),
        }
    }
}

/// Creates files on a mounted file system of one's own until none fits: what the rules are checked against.
///
/// # Errors
/// Something else than want of space.
pub fn fill(directory: &Path, new: NewFiles, user: User) -> Result<Filled, PrognosisError> {
    fill::fill(directory, new, user)
}

/// The space of a twin before anything is tried.
///
/// # Errors
/// It cannot be mounted.
pub fn space(twin: &Path, file_system: FileSystem) -> Result<FileSystemSpace, PrognosisError> {
    let trial = Trial::begin(twin, file_system)?;
    let space = FileSystemSpace::of(trial.directory())?;
    trial.end()?;
    Ok(space)
}
