//! An io_uring for all commands in flight: entries are batched until the next completion is fetched.

use crate::error::ZonedError;
use io_uring::{IoUring, cqueue, squeue, types};
use senesce_core::IoFailure;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// How commands reach an NVMe namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submission {
    /// io_uring, at any depth.
    #[default]
    IoUring,
    /// One passthrough ioctl per command: depth 1, for kernels before 5.19 and to compare.
    Ioctl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingOptions {
    pub submission: Submission,
    pub poll_submission: bool,
    /// Poll for completions instead of interrupts; the driver needs poll queues.
    pub poll_completion: bool,
}

pub(crate) struct Ring<S: squeue::EntryMarker, C: cqueue::EntryMarker> {
    ring: IoUring<S, C>,
    path: String,
    unsent: u32,
}

/// Milliseconds after which the kernel's submission thread sleeps.
const POLL_IDLE_MS: u32 = 1000;

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Ring<S, C> {
    pub(crate) fn new(commands: u32, path: &str, options: RingOptions) -> Result<Self, ZonedError> {
        let mut builder = IoUring::<S, C>::builder();
        builder.setup_cqsize(commands.max(1).next_power_of_two() * 2);
        if options.poll_submission {
            builder.setup_sqpoll(POLL_IDLE_MS);
        }
        if options.poll_completion {
            builder.setup_iopoll();
        }
        let ring = builder.build(commands.max(1).next_power_of_two()).map_err(|source| ZonedError::Io(IoFailure::new("set up io_uring for", path, source).with_remedy("it needs Linux 5.19 or newer and /proc/sys/kernel/io_uring_disabled = 0; on NVMe, submission = \"ioctl\" works without")))?;
        Ok(Self { ring, path: path.into(), unsent: 0 })
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> ZonedError {
        let remedy = "inspect the kernel log";
        ZonedError::Io(IoFailure::new(operation, &self.path, source).with_remedy(remedy))
    }

    /// Adds an entry; it is submitted by the next call of [`Self::next`].
    pub(crate) fn push(&mut self, entry: S) -> Result<(), ZonedError> {
        // SAFETY: the descriptors and buffers of every entry outlive it: the device owns them until all its commands
        // have completed.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| self.failed("queue a command on", io::Error::other("the submission queue is full")))?;
        self.unsent += 1;
        Ok(())
    }

    /// Submits entries and waits for a completion, at most `wait_ns`.
    pub(crate) fn next(&mut self, wait_ns: u64) -> Result<Option<C>, ZonedError> {
        let ready = !self.ring.completion().is_empty();
        if self.unsent > 0 || !ready {
            self.enter(usize::from(!ready), wait_ns)?;
        }
        Ok(self.ring.completion().next())
    }

    fn enter(&mut self, wanted: usize, wait_ns: u64) -> Result<(), ZonedError> {
        let timeout = types::Timespec::from(Duration::from_nanos(wait_ns.min(3_600_000_000_000)));
        let arguments = types::SubmitArgs::new().timespec(&timeout);
        let entered =
            if wanted == 0 { self.ring.submit() } else { self.ring.submitter().submit_with_args(wanted, &arguments) };
        match entered {
            Ok(_) => {
                self.unsent = 0;
                Ok(())
            }
            // The wait timed out or a signal came; the entries were submitted.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {
                self.unsent = 0;
                Ok(())
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(error) => Err(self.failed("submit commands to", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs io_uring"]
    fn ring_wait_is_bounded() {
        let mut ring = Ring::<squeue::Entry, cqueue::Entry>::new(4, "a test", RingOptions::default()).unwrap();
        let started = std::time::Instant::now();
        assert!(ring.next(5_000_000).unwrap().is_none());
        assert!(started.elapsed() < Duration::from_secs(5));
        ring.push(io_uring::opcode::Nop::new().build().user_data(7)).unwrap();
        assert_eq!(ring.next(1_000_000_000).unwrap().map(|entry| entry.user_data()), Some(7));
    }
}
