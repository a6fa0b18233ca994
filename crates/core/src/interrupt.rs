//! Ctrl-C, SIGTERM and a closed terminal as a flag that every loop looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Signals that come closer together are one.
const ONE_WISH_MILLISECONDS: u64 = 1000;

/// Since some moment, never 0.
fn milliseconds() -> u64 {
    senesce_sys::clock::monotonic().as_millis() as u64 + 1
}

/// A shared flag: set once by a signal (or by a test), read by every loop that can stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// SIGINT, SIGTERM and, unless nohup(1) or a shell has it ignored, SIGHUP.
fn ending_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // proc_pid_status(5): a mask in hexadecimal, bit 0 is signal 1.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let mut signals = vec![SIGINT, SIGTERM];
    signals.extend((mask >> (SIGHUP - 1) & 1 == 0).then_some(SIGHUP));
    signals
}

impl Interrupt {
    /// A flag that nothing sets.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that SIGINT, SIGTERM and SIGHUP set. Another signal a second or more after the first ends the process at once; one
    /// that comes earlier is the same wish told twice, as `timeout` does, which signals its child and its group.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn on_signals() -> std::io::Result<Self> {
        let flag = Self::new();
        let first = Arc::new(AtomicU64::new(0));
        for signal in ending_signals() {
            let (flag, first) = (flag.clone(), first.clone());
            let action = move || {
                let now = milliseconds();
                match first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => flag.request(),
                    Err(then) if now >= then + ONE_WISH_MILLISECONDS => signal_hook::low_level::exit(130),
                    Err(_) => {}
                }
            };
            // SAFETY: atomics, clock_gettime and _exit may be used in a signal handler (signal-safety(7)).
            unsafe { signal_hook::low_level::register(signal, action) }?;
        }
        Ok(flag)
    }

    /// A flag that SIGINT, SIGTERM and SIGHUP set however often they come: a launcher such as mpirun sends several at once.
    ///
    /// # Errors
    /// Those of sigaction(2).
    pub fn on_signals_of_a_launcher() -> std::io::Result<Self> {
        let flag = Self::new();
        for signal in ending_signals() {
            signal_hook::flag::register(signal, flag.0.clone())?;
        }
        Ok(flag)
    }

    /// Whether the run should stop.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks the run to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for code that only knows `AtomicBool`.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
