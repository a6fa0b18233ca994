//! Checks whether the values of a specification fit together, its target and this machine.

use super::AgeSpec;
use senesce_aging::{Data, Profile};
use senesce_core::environment::{USE_SUDO, is_root};
use senesce_core::machine::{VIRTUAL_TIME_ADVICE, time_is_virtual};
use senesce_core::{ExitCode, Failure};
use senesce_volume::TargetSpec;

impl AgeSpec {
    /// Checks the bursts and the time scale.
    ///
    /// # Errors
    /// It has bursts without a pace, or a time scale on a machine without virtual time.
    pub fn check_clock(&self) -> Result<(), Failure> {
        if self.burst() > 1 && self.pace().is_none() {
            return Err(Failure::usage("--burst needs --time-scale or --pace"));
        }
        if self.time_scale.is_none() || time_is_virtual() {
            return Ok(());
        }
        Err(Failure::new(
            ExitCode::Missing,
            format!(
                "a time scale needs a target image:FILE and a kernel with virtual time\nhint: {VIRTUAL_TIME_ADVICE}"
            ),
        ))
    }

    /// Refuses compression if the files fill only a part of their volume: layouts were measured on whole volumes.
    pub(super) fn check_whole_volume(&self) -> Result<(), Failure> {
        let (Some(declared), Ok(own)) = (self.size, self.own_size()) else { return Ok(()) };
        if declared == own {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "cannot compress a plan for {declared} on a target of {own}: compression was measured on whole volumes\n\
             hint: omit --size or --compress"
        )))
    }

    pub(super) fn check_together(&self, profile: &Profile) -> Result<(), Failure> {
        if self.limits.until.is_some() && (self.parts > 1 || self.shard.is_some()) {
            return Err(Failure::usage(
                "cannot age a part until its extents settle: --parts and --shard need another limit, such as --overwrites",
            ));
        }
        if self.data == Data::Sparse && profile.changes.iter().any(|row| row.overwrites + row.punches > 0.0) {
            return Err(Failure::usage(format!(
                "cannot age sparse files by profile {}: it overwrites or punches files\nhint: --data fallocate or write",
                profile.name
            )));
        }
        if self.writers == 1 {
            return Ok(());
        }
        let refused = |what: &str, why: &str| {
            Err(Failure::usage(format!("cannot use --writers {} with {what}: {why}", self.writers)))
        };
        if self.threads > 1 {
            refused("--threads", "a single thread writes all files in turn, so that the layout repeats")
        } else if self.parts > 1 || self.shard.is_some() {
            refused("--parts or --shard", "the files that grow together are in one plan, on one machine")
        } else if self.data == Data::Sparse {
            refused("--data sparse", "sparse files have no blocks\nhint: --data fallocate or write")
        } else {
            Ok(())
        }
    }

    /// Checks that copies can be made, and the order of writes recorded, if requested.
    ///
    /// # Errors
    /// A usage error for files without written blocks, and for a target that is not an image.
    pub(crate) fn check_recording(&self) -> Result<(), Failure> {
        if self.copies && !(self.data == Data::Write && matches!(self.target, Some(TargetSpec::Memory { .. }))) {
            return Err(Failure::usage(
                "cannot compare with copies: the target is not in memory, or has no written data\n\
                 hint: use the target memory:SIZE and --data write",
            ));
        }
        if self.measure {
            self.check_measure()?;
        }
        if !self.record_order {
            return Ok(());
        }
        if self.data != Data::Write {
            return Err(Failure::usage(
                "cannot record the order of writes: --data does not write blocks\nhint: use --data write",
            ));
        }
        match self.target {
            Some(TargetSpec::Image { .. }) => Ok(()),
            _ => Err(Failure::usage("cannot record the order of writes: the target is not an image")),
        }
    }

    fn check_measure(&self) -> Result<(), Failure> {
        if self.data != Data::Write || self.in_memory || matches!(self.target, Some(TargetSpec::Memory { .. })) {
            return Err(Failure::usage(
                "cannot measure a cold read: the target is in memory, or has no written data\n\
                 hint: use an image file or a device, and --data write",
            ));
        }
        if !is_root() {
            let words = format!("cannot measure a cold read: dropping caches needs root\nhint: {USE_SUDO}");
            return Err(Failure::new(ExitCode::Missing, words));
        }
        Ok(())
    }
}
