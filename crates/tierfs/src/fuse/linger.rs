//! A server thread that has answered looks for the next request for a while before it sleeps: to wake a thread on another
//! processor takes longer than most requests. After the rule of the kernel's halt polling
//! (Documentation/virt/guest-halt-polling.rst): who waited in vain sleeps at once, until requests come close together again.

use crate::fs::TierFs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longer than a program needs between two requests when it does little else.
const LONGEST: Duration = Duration::from_micros(50);
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// When this thread last finished, and whether that paid.
#[derive(Clone, Copy)]
struct Habit {
    ended: Option<Instant>,
    in_vain: bool,
}

thread_local!(static HABIT: Cell<Habit> = const { Cell::new(Habit { ended: None, in_vain: false }) });

/// Where requests arrive.
#[derive(Debug, Default)]
pub struct Linger {
    device: OnceLock<OwnedFd>,
}

impl Linger {
    /// Lets threads look at `device` from now on.
    pub fn at(&self, device: OwnedFd) {
        // Whoever came first is as good.
        let _ = self.device.set(device);
    }

    /// A request to `fs` begins; it ends when what is returned is dropped, after the answer.
    pub fn answering<'a>(&'a self, fs: &'a TierFs) -> Answering<'a> {
        HABIT.with(|habit| {
            let Habit { ended, in_vain } = habit.get();
            let close = ended.is_some_and(|ended| ended.elapsed() < LONGEST);
            habit.set(Habit { ended: None, in_vain: in_vain && !close });
        });
        Answering { linger: self, fs }
    }

    /// Whether another request is there.
    fn is_wanted(&self, device: &OwnedFd) -> bool {
        // What fails here fails at the read that follows, which tells.
        poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&NO_WAIT)).map_or(true, |ready| ready > 0)
    }
}

/// The file system while a request is answered.
pub struct Answering<'a> {
    linger: &'a Linger,
    fs: &'a TierFs,
}

impl Deref for Answering<'_> {
    type Target = TierFs;

    fn deref(&self) -> &TierFs {
        self.fs
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let Some(device) = self.linger.device.get() else { return };
        HABIT.with(|habit| {
            let begun = Instant::now();
            let mut in_vain = habit.get().in_vain;
            if !in_vain {
                while !self.linger.is_wanted(device) {
                    if begun.elapsed() >= LONGEST {
                        in_vain = true;
                        break;
                    }
                    // The one who will ask may share this processor.
                    rustix::thread::sched_yield();
                }
            }
            habit.set(Habit { ended: Some(begun), in_vain });
        });
    }
}
