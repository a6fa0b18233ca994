//! Runs several jobs on one drive. A real drive is claimed once, so the jobs accept each other's data and no other
//! program takes the drive in between.

use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::hardware::{self, ClaimedDrive, Leftover, RingOptions};
use crate::job::{Job, JobResult};
use crate::run::{DeviceName, RunOptions, open, run_job};
use crate::sim::HostPath;
use senesce_core::Seed;
use std::path::Path;

/// A drive between the first and the last job of a run.
#[derive(Debug)]
pub struct Session {
    name: DeviceName,
    claimed: Option<ClaimedDrive>,
    /// Path or serial number of the drive whose data may be lost.
    erase: Option<String>,
    left: Option<Leftover>,
    /// Whether another program may have written to it.
    is_disturbed: bool,
}

impl Session {
    /// Claims nothing before the first job. `left`: fingerprint of an earlier part of the same run.
    pub fn new(name: DeviceName, erase: Option<&str>, left: Option<Leftover>) -> Self {
        Self { name, claimed: None, erase: erase.map(str::to_string), left, is_disturbed: false }
    }

    /// Claims a real drive for a job (`None`: for single commands). Record the result before writing: an interrupted
    /// run then recognises its own noise. The result has no content hash, because the loss of existing data may be
    /// allowed only once. `None`: already claimed, unchanged since this run, or a drive without persistent data.
    pub fn claim(&mut self, job: Option<&Job>) -> Result<Option<Leftover>, ZonedError> {
        let DeviceName::Path(path) = &self.name else { return Ok(None) };
        if self.claimed.is_some() {
            return Ok(None);
        }
        let way = match job {
            Some(job) => {
                hardware::check_real(path, job)?;
                job.path
            }
            None => command_path(path),
        };
        let drive = ClaimedDrive::claim_again(path, way, self.erase.as_deref(), self.left.as_ref())?;
        let is_ours = drive.is_ours();
        self.claimed = Some(drive);
        Ok(self.leftover()?.filter(|_| !is_ours).map(Leftover::vouching_for_nothing))
    }

    pub fn run(&mut self, job: &Job, options: &RunOptions<'_>) -> Result<JobResult, ZonedError> {
        if let (DeviceName::Path(path), true) = (&self.name, self.claimed.is_some()) {
            hardware::check_real(path, job)?;
        }
        self.claim(Some(job))?;
        let result = match &mut self.claimed {
            Some(drive) => hardware::run_on(drive, job, options),
            _ => run_job(&self.name, job, None, options),
        };
        let is_refused = |result: &JobResult| result.actors.iter().any(|actor| actor.tally.error_count() > 0);
        if result.as_ref().map_or(true, is_refused) {
            self.distrust();
        }
        result
    }

    /// Marks the content as changed after a refused command or failed job: it can no longer be attributed to this run.
    pub fn distrust(&mut self) {
        self.is_disturbed = true;
        if let Some(drive) = &mut self.claimed {
            drive.remember(None);
        }
    }

    /// Opens the drive for single commands, in blocks of `block_bytes` if the format is selectable.
    pub fn open(&mut self, block_bytes: u32, seed: Seed) -> Result<Box<dyn ZonedDevice>, ZonedError> {
        self.claim(None)?;
        let (DeviceName::Path(path), Some(drive)) = (&self.name, &mut self.claimed) else {
            return open(&self.name, Some(block_bytes), None, seed);
        };
        let way = command_path(path);
        drive.set_path(way)?;
        drive.check_before_first_write()?;
        let unchanged = drive.check_unchanged();
        drive.remember(None);
        self.is_disturbed |= unchanged.is_err();
        unchanged?;
        drive.open(RingOptions::default())
    }

    /// Returns the fingerprint of this run's data on a real drive; `None` before the claim and for drives without
    /// persistent data.
    pub fn leftover(&self) -> Result<Option<Leftover>, ZonedError> {
        let left = self.claimed.as_ref().map(ClaimedDrive::leftover).transpose()?;
        Ok(left.map(|left| if self.is_disturbed { left.vouching_for_nothing() } else { left }))
    }
}

fn command_path(path: &Path) -> HostPath {
    if hardware::has_passthrough(path) { HostPath::Direct } else { HostPath::None }
}
