//! A server thread polls for the next request for a short time before it sleeps, because waking a thread on another processor
//! takes longer than most requests. The rule follows the kernel's halt polling (Documentation/virt/guest-halt-polling.rst): after
//! a failed poll it sleeps at once until requests come close together again.
//!
//! The processor of the sleeping client answers fastest, without a wake-up on another processor. A thread on the client's
//! processor therefore does not poll. A thread elsewhere leaves a request for a moment to a thread that the kernel wakes.

use crate::fs::TierFs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::ops::{Deref, RangeInclusive};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than the time between two requests of a busy program.
const LONGEST: Duration = Duration::from_micros(100);
/// A yield longer than this means that another thread shares the processor.
const SHARED: Duration = Duration::from_micros(3);
/// Time for which a request is left to a thread that the kernel wakes; a wake-up on another processor takes longer.
const LEFT: Duration = Duration::from_micros(4);
/// Requests until the next attempt on a shared processor: doubled if it is still shared, halved if polling succeeds.
const PATIENCE: RangeInclusive<u32> = 8..=1024;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

#[derive(Clone, Copy)]
struct PollState {
    ended: Option<Instant>,
    /// The last poll found nothing.
    in_vain: bool,
    shared: u32,
    patience: u32,
}

const UNKNOWN: PollState = PollState { ended: None, in_vain: false, shared: 0, patience: *PATIENCE.start() };

thread_local!(static HABIT: Cell<PollState> = const { Cell::new(UNKNOWN) });

#[derive(Debug, Default)]
pub(crate) struct Linger {
    device: OnceLock<OwnedFd>,
    /// Threads blocked in read(2), which the kernel can wake. Approximate.
    reading: AtomicIsize,
}

impl Linger {
    /// Enables polling of `device` for `threads` threads.
    pub(crate) fn at(&self, device: OwnedFd, threads: usize) {
        self.reading.store(threads as isize, Ordering::Relaxed);
        // All values are equivalent; the first one stays.
        let _ = self.device.set(device);
    }

    /// Marks a request to `fs` as in progress until the result is dropped, after the reply.
    pub(crate) fn answering<'a>(&'a self, fs: &'a TierFs) -> Answering<'a> {
        self.begin();
        Answering { linger: self, fs }
    }

    fn begin(&self) {
        self.reading.fetch_sub(1, Ordering::Relaxed);
        let mut known = HABIT.get();
        let close = known.ended.take().is_some_and(|ended| ended.elapsed() < LONGEST);
        known.in_vain &= !close;
        HABIT.set(known);
    }
}

pub(crate) struct Answering<'a> {
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
        if let Some(device) = self.linger.device.get() {
            let known = PollState { ended: Some(Instant::now()), ..HABIT.get() };
            HABIT.set(match known.shared {
                0 => self.linger.wait(device, known),
                shared => PollState { shared: shared - 1, ..known },
            });
        }
        self.linger.reading.fetch_add(1, Ordering::Relaxed);
    }
}

impl Linger {
    fn wait(&self, device: &OwnedFd, known: PollState) -> PollState {
        if known.in_vain || has_request(device) {
            return known;
        }
        let begun = Instant::now();
        let (mut now, mut wanted) = (begun, None);
        while now - begun < LONGEST {
            // The client may share this processor.
            rustix::thread::sched_yield();
            let before = std::mem::replace(&mut now, Instant::now());
            if now - before >= SHARED {
                let patience = (known.patience * 2).min(*PATIENCE.end());
                return PollState { shared: known.patience, patience, ..known };
            }
            if !has_request(device) {
                wanted = None;
            } else if !self.leaves(now - *wanted.get_or_insert(now)) {
                return PollState { patience: (known.patience / 2).max(*PATIENCE.start()), ..known };
            }
        }
        PollState { in_vain: true, ..known }
    }

    /// Returns whether a request that came `since` ago is still left to another thread.
    fn leaves(&self, since: Duration) -> bool {
        since < LEFT && self.reading.load(Ordering::Relaxed) > 0
    }
}

fn has_request(device: &OwnedFd) -> bool {
    // An error here also occurs in the following read, which reports it.
    poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&NO_WAIT)).map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_polls_make_threads_sleep() {
        let (device, other) = rustix::pipe::pipe().unwrap();
        let linger = Linger::default();
        let learned = linger.wait(&device, UNKNOWN);
        assert!(learned.in_vain || learned.shared > 0, "nothing came");
        rustix::io::write(&other, b"request").unwrap();
        let learned = linger.wait(&device, UNKNOWN);
        assert!(!learned.in_vain && learned.shared == 0, "something was there");
        let sleeper = PollState { in_vain: true, ..UNKNOWN };
        assert!(linger.wait(&device, sleeper).in_vain, "who waited in vain does not look");
    }

    #[test]
    fn close_requests_resume_polling() {
        let linger = Linger::default();
        let later = Instant::now() + Duration::from_secs(3600);
        HABIT.set(PollState { ended: Some(later), in_vain: true, ..UNKNOWN });
        linger.begin();
        assert!(!HABIT.get().in_vain);
        HABIT.set(PollState { ended: Instant::now().checked_sub(LONGEST * 2), in_vain: true, ..UNKNOWN });
        linger.begin();
        assert!(HABIT.get().in_vain);
    }

    #[test]
    fn request_is_left_to_a_sleeping_thread() {
        let linger = Linger::default();
        linger.at(rustix::pipe::pipe().unwrap().0, 2);
        linger.begin();
        assert!(linger.leaves(Duration::ZERO) && !linger.leaves(LEFT), "for a moment");
        linger.begin();
        assert!(!linger.leaves(Duration::ZERO), "no other thread is waiting");
    }
}
