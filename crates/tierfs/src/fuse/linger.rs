//! A server thread that has answered looks for the next request for a while before it sleeps: to wake a thread on another
//! processor takes longer than most requests. After the rule of the kernel's halt polling
//! (Documentation/virt/guest-halt-polling.rst): who waited in vain sleeps at once, until requests come close together again.
//!
//! The processor on which the client sleeps is the best place to answer it: nobody on another one must be woken. So a
//! thread that shares it with the client does not look, since asleep it is the next to run there, and one elsewhere leaves
//! the request for a moment to a thread that the kernel wakes.

use crate::fs::TierFs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::ops::{Deref, RangeInclusive};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than a program needs between two requests when it does little else.
const LONGEST: Duration = Duration::from_micros(100);
/// Whoever gives the processor away for longer than this shares it.
const SHARED: Duration = Duration::from_micros(3);
/// A request is left for this long to a thread that the kernel wakes; on another processor that takes longer.
const LEFT: Duration = Duration::from_micros(4);
/// Requests after which to try again on a shared processor: twice as many each time it is, half as many when looking pays.
const PATIENCE: RangeInclusive<u32> = 8..=1024;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

#[derive(Clone, Copy)]
struct Habit {
    ended: Option<Instant>,
    /// Nothing came the last time.
    in_vain: bool,
    shared: u32,
    patience: u32,
}

const UNKNOWN: Habit = Habit { ended: None, in_vain: false, shared: 0, patience: *PATIENCE.start() };

thread_local!(static HABIT: Cell<Habit> = const { Cell::new(UNKNOWN) });

#[derive(Debug, Default)]
pub struct Linger {
    device: OnceLock<OwnedFd>,
    /// Threads that the kernel can wake: more or fewer for a moment.
    reading: AtomicIsize,
}

impl Linger {
    /// Lets `threads` look at `device` from now on.
    pub fn at(&self, device: OwnedFd, threads: usize) {
        self.reading.store(threads as isize, Ordering::Relaxed);
        // Whoever came first is as good.
        let _ = self.device.set(device);
    }

    /// A request to `fs` begins; it ends when what is returned is dropped, after the answer.
    pub fn answering<'a>(&'a self, fs: &'a TierFs) -> Answering<'a> {
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
        if let Some(device) = self.linger.device.get() {
            let known = Habit { ended: Some(Instant::now()), ..HABIT.get() };
            HABIT.set(match known.shared {
                0 => self.linger.wait(device, known),
                shared => Habit { shared: shared - 1, ..known },
            });
        }
        self.linger.reading.fetch_add(1, Ordering::Relaxed);
    }
}

impl Linger {
    /// Looks for the next request.
    fn wait(&self, device: &OwnedFd, known: Habit) -> Habit {
        if known.in_vain || is_wanted(device) {
            return known;
        }
        let begun = Instant::now();
        let (mut now, mut wanted) = (begun, None);
        while now - begun < LONGEST {
            // The one who will ask may share this processor.
            rustix::thread::sched_yield();
            let before = std::mem::replace(&mut now, Instant::now());
            if now - before >= SHARED {
                let patience = (known.patience * 2).min(*PATIENCE.end());
                return Habit { shared: known.patience, patience, ..known };
            }
            if !is_wanted(device) {
                wanted = None;
            } else if !self.leaves(now - *wanted.get_or_insert(now)) {
                return Habit { patience: (known.patience / 2).max(*PATIENCE.start()), ..known };
            }
        }
        Habit { in_vain: true, ..known }
    }

    /// Whether a request that came `since` is still left to another thread.
    fn leaves(&self, since: Duration) -> bool {
        since < LEFT && self.reading.load(Ordering::Relaxed) > 0
    }
}

fn is_wanted(device: &OwnedFd) -> bool {
    // What fails here fails at the read that follows, which tells.
    poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&NO_WAIT)).map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_with_a_request_or_teach_to_sleep() {
        let (device, other) = rustix::pipe::pipe().unwrap();
        let linger = Linger::default();
        let learned = linger.wait(&device, UNKNOWN);
        assert!(learned.in_vain || learned.shared > 0, "nothing came");
        rustix::io::write(&other, b"request").unwrap();
        let learned = linger.wait(&device, UNKNOWN);
        assert!(!learned.in_vain && learned.shared == 0, "something was there");
        let sleeper = Habit { in_vain: true, ..UNKNOWN };
        assert!(linger.wait(&device, sleeper).in_vain, "who waited in vain does not look");
    }

    #[test]
    fn requests_close_together_make_it_look_again() {
        let linger = Linger::default();
        let later = Instant::now() + Duration::from_secs(3600);
        HABIT.set(Habit { ended: Some(later), in_vain: true, ..UNKNOWN });
        linger.begin();
        assert!(!HABIT.get().in_vain);
        HABIT.set(Habit { ended: Instant::now().checked_sub(LONGEST * 2), in_vain: true, ..UNKNOWN });
        linger.begin();
        assert!(HABIT.get().in_vain);
    }

    #[test]
    fn a_request_is_left_to_a_thread_that_the_kernel_can_wake() {
        let linger = Linger::default();
        linger.at(rustix::pipe::pipe().unwrap().0, 2);
        linger.begin();
        assert!(linger.leaves(Duration::ZERO) && !linger.leaves(LEFT), "for a moment");
        linger.begin();
        assert!(!linger.leaves(Duration::ZERO), "nobody else is there");
    }
}
