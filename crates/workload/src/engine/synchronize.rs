//! Waiting of threads: for each other (block and wakeup, semaphores), for events (rate limits), for time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All objects that threads wait on, and the flag that ends all waiting.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    stop: AtomicBool,
    gate: Mutex<bool>,
    opened: Condvar,
    sleepers: Mutex<()>,
    sleep: Condvar,
    blocks: Vec<Block>,
    semaphores: Vec<Semaphore>,
    by_name: BTreeMap<String, Vec<usize>>,
}

impl Waits {
    pub(crate) fn new(blocks: usize) -> Self {
        Self { blocks: (0..blocks).map(|_| Block::default()).collect(), ..Self::default() }
    }

    /// Adds the semaphore of one semblock flowop of one thread and returns its index.
    pub(crate) fn add_semaphore(&mut self, name: &str, highwater: u64) -> usize {
        self.semaphores.push(Semaphore::new(highwater));
        let index = self.semaphores.len() - 1;
        self.by_name.entry(name.into()).or_default().push(index);
        index
    }

    /// Waits for the gate, so that all threads start together.
    pub(crate) fn wait_for_gate(&self) {
        let mut open = lock(&self.gate);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn open_gate(&self) {
        *lock(&self.gate) = true;
        self.opened.notify_all();
    }

    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Ends the run and wakes all waiting threads.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(lock(&self.sleepers));
        self.sleep.notify_all();
        for block in &self.blocks {
            drop(lock(&block.generation));
            block.woken.notify_all();
        }
        for semaphore in &self.semaphores {
            drop(lock(&semaphore.counts));
            semaphore.changed.notify_all();
        }
    }

    pub(crate) fn sleep_until(&self, end: Instant) {
        let mut guard = lock(&self.sleepers);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stopped() {
                return;
            }
            guard = self.sleep.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn block(&self, index: usize) {
        let block = &self.blocks[index];
        let mut generation = lock(&block.generation);
        let seen = *generation;
        while *generation == seen && !self.stopped() {
            generation = block.woken.wait(generation).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all threads waiting at a block flowop.
    pub(crate) fn wake(&self, index: usize) {
        *lock(&self.blocks[index].generation) += 1;
        self.blocks[index].woken.notify_all();
    }

    /// Executes semblock: makes space for `value` posts, then waits for and takes `value` from the semaphore.
    pub(crate) fn take(&self, semaphore: usize, value: u64) {
        let semaphore = &self.semaphores[semaphore];
        let mut counts = lock(&semaphore.counts);
        counts.free += value;
        semaphore.changed.notify_all();
        while counts.posted < value && !self.stopped() {
            counts = semaphore.changed.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
        counts.posted = counts.posted.saturating_sub(value);
    }

    /// Executes sempost: adds `value` to every semaphore of that name; a blocking post waits for space first.
    pub(crate) fn post(&self, name: &str, value: u64, blocking: bool) {
        for index in self.by_name.get(name).into_iter().flatten() {
            let semaphore = &self.semaphores[*index];
            let mut counts = lock(&semaphore.counts);
            while blocking && counts.free < value && !self.stopped() {
                counts = semaphore.changed.wait(counts).unwrap_or_else(PoisonError::into_inner);
            }
            if blocking {
                counts.free = counts.free.saturating_sub(value);
            }
            counts.posted += value;
            semaphore.changed.notify_all();
        }
    }
}

#[derive(Debug, Default)]
struct Block {
    generation: Mutex<u64>,
    woken: Condvar,
}

/// Filebench's pair of System V semaphores: posts, and space for blocking posts.
#[derive(Debug)]
struct Semaphore {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Debug)]
struct Counts {
    posted: u64,
    free: u64,
}

impl Semaphore {
    fn new(highwater: u64) -> Self {
        Self { counts: Mutex::new(Counts { posted: 0, free: highwater }), changed: Condvar::new() }
    }
}

/// Issues `rate` events per second; at most five seconds' worth can accumulate.
#[derive(Debug)]
pub(crate) struct EventGenerator {
    start: Instant,
    nanoseconds_per_event: f64,
    /// When the last taken event became available, in ns after the start.
    taken_until: AtomicU64,
}

const SAVED_NANOSECONDS: u64 = 5_000_000_000;

impl EventGenerator {
    /// Starts now, without events. `rate` > 0.
    pub(crate) fn new(rate: u64) -> Self {
        Self { start: Instant::now(), nanoseconds_per_event: 1e9 / rate as f64, taken_until: AtomicU64::new(0) }
    }

    /// Takes `events` events and returns when they are available; the caller sleeps until then.
    pub(crate) fn take(&self, events: u64) -> Instant {
        let cost = (events as f64 * self.nanoseconds_per_event) as u64;
        let mut seen = self.taken_until.load(Ordering::Relaxed);
        loop {
            let now = self.start.elapsed().as_nanos() as u64;
            let available = seen.max(now.saturating_sub(SAVED_NANOSECONDS)) + cost;
            match self.taken_until.compare_exchange_weak(seen, available, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.start + Duration::from_nanos(available),
                Err(current) => seen = current,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    #[test]
    fn idle_event_generator_saves_at_most_five_seconds_of_events() {
        let generator = EventGenerator::new(1000);
        let first = generator.take(1);
        let thousandth = generator.take(999);
        assert_eq!(thousandth - first, Duration::from_millis(999));
        let mut idle = EventGenerator::new(1000);
        idle.start = Instant::now() - Duration::from_secs(60);
        assert!(idle.take(5000) <= Instant::now());
        assert!(idle.take(1000) > Instant::now() + Duration::from_millis(900));
    }

    #[test]
    fn a_blocking_post_waits_for_space() {
        let mut waits = Waits::new(0);
        let index = waits.add_semaphore("s", 2);
        waits.post("s", 2, true);
        let waits = Arc::new(waits);
        let begun = Arc::new(Barrier::new(2));
        let poster = {
            let (waits, begun) = (waits.clone(), begun.clone());
            std::thread::spawn(move || {
                begun.wait();
                waits.post("s", 3, true);
            })
        };
        begun.wait();
        for _ in 0..1000 {
            std::thread::yield_now();
            assert!(!poster.is_finished(), "the queue has no space for 3");
        }
        waits.take(index, 5);
        poster.join().unwrap();
    }

    #[test]
    fn stop_ends_every_wait() {
        let mut waits = Waits::new(1);
        let index = waits.add_semaphore("s", 0);
        let waits = Arc::new(waits);
        let far = Instant::now() + Duration::from_secs(3600);
        type Job = Box<dyn Fn(&Waits) + Send>;
        let jobs: Vec<Job> = vec![
            Box::new(|waits| waits.block(0)),
            Box::new(move |waits| waits.take(index, 1)),
            Box::new(|waits| waits.post("s", 1, true)),
            Box::new(move |waits| waits.sleep_until(far)),
        ];
        let begun = Arc::new(Barrier::new(jobs.len() + 1));
        let threads: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let (waits, begun) = (waits.clone(), begun.clone());
                std::thread::spawn(move || {
                    begun.wait();
                    job(&waits);
                })
            })
            .collect();
        begun.wait();
        waits.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
