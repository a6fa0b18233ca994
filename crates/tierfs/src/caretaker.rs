//! The background thread that releases space of the cold store and scrubs.

use crate::fs::TierFs;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Caretaker {
    wanted: Mutex<CaretakerRequests>,
    wake: Condvar,
    ends: AtomicBool,
}

#[derive(Default)]
struct CaretakerRequests {
    scrub: bool,
    look: bool,
}

impl Caretaker {
    pub(crate) fn wake(&self) {
        self.wanted.lock().look = true;
        self.wake.notify_all();
    }

    /// Requests a scrub. Requests before it starts are merged.
    pub(crate) fn want_scrub(&self) {
        self.wanted.lock().scrub = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_scrub_due(&self) -> bool {
        self.wanted.lock().scrub
    }

    /// Ends [`TierFs::run_caretaker`].
    pub(crate) fn shut_down(&self) {
        self.ends.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Sleeps until there is work; returns whether that is a scrub.
    fn sleep(&self) -> bool {
        let mut wanted = self.wanted.lock();
        while !wanted.scrub && !wanted.look {
            self.wake.wait(&mut wanted);
        }
        wanted.look = false;
        wanted.scrub
    }
}

impl TierFs {
    /// Runs until [`Caretaker::shut_down`].
    pub(crate) fn run_caretaker(&self) {
        loop {
            let scrub = self.caretaker.sleep();
            while !self.caretaker.ends() && self.punch_released() {}
            if self.caretaker.ends() {
                return;
            }
            if scrub {
                self.scrubbed.begin();
                self.caretaker.wanted.lock().scrub = false;
                self.scrub();
            }
        }
    }

    pub(crate) fn caretaker(&self) -> &Caretaker {
        &self.caretaker
    }
}
