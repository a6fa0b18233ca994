//! A server thread that has answered looks for the next request for a while before it sleeps: to wake a thread on another
//! processor takes longer than most requests. After the rule of the kernel's halt polling
//! (Documentation/virt/guest-halt-polling.rst): who waited in vain sleeps at once, until requests come close together again. Where
//! others want the processor it sleeps too.

use crate::fs::TierFs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::ops::{Deref, RangeInclusive};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longer than a program needs between two requests when it does little else.
const LONGEST: Duration = Duration::from_micros(50);
/// Whoever gives the processor away for longer than this was in somebody's way.
const CROWDED: Duration = Duration::from_micros(10);
/// Requests after which to try again on a crowded processor: twice as many each time it is, half as many when it pays.
const PATIENCE: RangeInclusive<u32> = 8..=256;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What this thread has learned.
#[derive(Clone, Copy)]
struct Habit {
    /// When it last finished.
    ended: Option<Instant>,
    /// Nothing came the last time.
    in_vain: bool,
    /// Requests for which it will not linger.
    crowded: u32,
    patience: u32,
}

const UNKNOWN: Habit = Habit { ended: None, in_vain: false, crowded: 0, patience: *PATIENCE.start() };

thread_local!(static HABIT: Cell<Habit> = const { Cell::new(UNKNOWN) });

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
        Self::begin();
        Answering { linger: self, fs }
    }

    fn begin() {
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
        let Some(device) = self.linger.device.get() else { return };
        let known = HABIT.get();
        HABIT.set(if known.crowded > 0 { Habit { crowded: known.crowded - 1, ..known } } else { wait(device, known) });
    }
}

/// Looks for the next request.
fn wait(device: &OwnedFd, known: Habit) -> Habit {
    let begun = Instant::now();
    let known = Habit { ended: Some(begun), ..known };
    if known.in_vain || is_wanted(device) {
        return known;
    }
    let mut now = begun;
    loop {
        if now - begun >= LONGEST {
            return Habit { in_vain: true, ..known };
        }
        // The one who will ask may share this processor.
        rustix::thread::sched_yield();
        let before = std::mem::replace(&mut now, Instant::now());
        if now - before >= CROWDED {
            let patience = (known.patience * 2).min(*PATIENCE.end());
            return Habit { crowded: known.patience, patience, ..known };
        }
        if is_wanted(device) {
            return Habit { patience: (known.patience / 2).max(*PATIENCE.start()), ..known };
        }
    }
}

/// Whether another request is there.
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
        let learned = wait(&device, UNKNOWN);
        assert!(learned.in_vain || learned.crowded > 0, "nothing came");
        rustix::io::write(&other, b"request").unwrap();
        let learned = wait(&device, UNKNOWN);
        assert!(!learned.in_vain && learned.crowded == 0, "something was there");
        let sleeper = Habit { in_vain: true, ..UNKNOWN };
        assert!(wait(&device, sleeper).in_vain, "who waited in vain does not look");
    }

    #[test]
    fn requests_close_together_make_it_look_again() {
        let later = Instant::now() + Duration::from_secs(3600);
        HABIT.set(Habit { ended: Some(later), in_vain: true, ..UNKNOWN });
        Linger::begin();
        assert!(!HABIT.get().in_vain);
        HABIT.set(Habit { ended: Instant::now().checked_sub(LONGEST * 2), in_vain: true, ..UNKNOWN });
        Linger::begin();
        assert!(HABIT.get().in_vain);
    }
}
