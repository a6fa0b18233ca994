//! Ctrl-C, SIGTERM and a closed terminal.
//!
//! A verb that can stop early requests the flag ([`Interrupt::on_signals`]) and reads it in its loops. Every other verb ends at
//! once, and so does one that has not read the flag within a second: the guardian cleans up, as after `kill -9`.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Signals within this time count as one.
const ONE_WISH_MILLISECONDS: u64 = 1000;

/// How long the flag may stay unread before the process ends.
const UNREAD_LIMIT: Duration = Duration::from_millis(800);

/// Exit code of [`crate::ExitCode::Interrupted`].
const INTERRUPTED: i32 = 130;

/// Returns monotonic time, never 0.
fn milliseconds() -> u64 {
    senesce_sys::clock::monotonic().as_millis() as u64 + 1
}

/// A shared flag: set once by a signal (or by a test), read by every loop that can stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// State of the handlers, which take no locks.
#[derive(Default)]
struct Signals {
    flag: Interrupt,
    /// Time of the first signal; 0: none.
    first: AtomicU64,
    /// A verb reads the flag.
    is_heeded: AtomicBool,
    /// A launcher such as mpirun signals several times.
    has_launcher: AtomicBool,
    /// The flag was read after it was set.
    was_read: AtomicBool,
    holds: AtomicU32,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

impl Signals {
    fn arrived(&self) {
        if !self.is_heeded.load(Ordering::Relaxed) {
            end();
        }
        let now = milliseconds();
        match self.first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                self.flag.request();
                if !self.has_launcher.load(Ordering::Relaxed) {
                    senesce_sys::alarm::send_after(UNREAD_LIMIT);
                }
            }
            Err(_) if self.has_launcher.load(Ordering::Relaxed) => {}
            Err(then) if now >= then + ONE_WISH_MILLISECONDS => end(),
            Err(_) => {}
        }
    }

    fn alarm_rang(&self) {
        if self.first.load(Ordering::Relaxed) > 0
            && !self.was_read.load(Ordering::Relaxed)
            && self.holds.load(Ordering::Relaxed) == 0
        {
            end();
        }
    }
}

/// The message that [`end`] prints.
static LAST_WORDS: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());

/// Sets the message of an interruption that ends the process at once, for example how to continue. The text stays allocated, because
/// a signal handler may be reading it.
pub fn set_last_words(message: &str) {
    LAST_WORDS.store(Box::into_raw(Box::new(format!("senesce: {message}\n"))), Ordering::Release);
}

/// Ends the process with a message; async-signal-safe.
fn end() -> ! {
    // SAFETY: null, or a string that is never freed.
    let words = unsafe { LAST_WORDS.load(Ordering::Acquire).as_ref() };
    let _ = rustix::io::write(
        rustix::stdio::stderr(),
        words.map_or(b"senesce: interrupted\n".as_slice(), String::as_bytes),
    );
    signal_hook::low_level::exit(INTERRUPTED)
}

/// Returns SIGINT, SIGTERM and, unless nohup(1) or a shell ignores it, SIGHUP.
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

/// Makes SIGINT, SIGTERM and SIGHUP end the process with exit code 130 until the flag is requested.
///
/// # Errors
/// As sigaction(2).
pub fn end_on_signals() -> std::io::Result<()> {
    let signals = SIGNALS.get_or_init(Signals::default);
    static INSTALLED: OnceLock<()> = OnceLock::new();
    if INSTALLED.set(()).is_err() {
        return Ok(());
    }
    for signal in ending_signals() {
        // SAFETY: atomics, clock_gettime, setitimer, write and _exit may be used in a signal handler (signal-safety(7)).
        unsafe { signal_hook::low_level::register(signal, || signals.arrived()) }?;
    }
    // SAFETY: as above.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGALRM, || signals.alarm_rang()) }?;
    Ok(())
}

/// Returns whether a signal requested a stop.
pub fn requested() -> bool {
    SIGNALS.get().is_some_and(|signals| signals.flag.requested())
}

/// While this lives, a signal only sets the flag, even if it is not read, so that an operation is not left incomplete.
#[derive(Debug)]
pub struct InterruptGuard(());

impl InterruptGuard {
    /// Starts the hold.
    #[must_use]
    pub fn new() -> Self {
        SIGNALS.get_or_init(Signals::default).holds.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Default for InterruptGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        SIGNALS.get_or_init(Signals::default).holds.fetch_sub(1, Ordering::Relaxed);
        if requested() {
            senesce_sys::alarm::send_after(UNREAD_LIMIT);
        }
    }
}

impl Interrupt {
    /// Creates a flag without a source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the flag set by SIGINT, SIGTERM and SIGHUP. A second signal after a second or more ends the process at
    /// once. An earlier one is a repetition, as from `timeout`, which signals its child and its group.
    ///
    /// # Errors
    /// As sigaction(2).
    pub fn on_signals() -> std::io::Result<Self> {
        end_on_signals()?;
        let signals = SIGNALS.get_or_init(Signals::default);
        signals.is_heeded.store(true, Ordering::Relaxed);
        Ok(signals.flag.clone())
    }

    /// Returns the flag without a limit on repeated signals: a launcher such as mpirun sends several at once.
    ///
    /// # Errors
    /// As sigaction(2).
    pub fn on_signals_of_a_launcher() -> std::io::Result<Self> {
        SIGNALS.get_or_init(Signals::default).has_launcher.store(true, Ordering::Relaxed);
        Self::on_signals()
    }

    /// Returns whether the run should stop.
    pub fn requested(&self) -> bool {
        let requested = self.0.load(Ordering::Relaxed);
        if requested {
            self.was_read();
        }
        requested
    }

    #[cold]
    fn was_read(&self) {
        if let Some(signals) = SIGNALS.get().filter(|signals| Arc::ptr_eq(&signals.flag.0, &self.0)) {
            signals.was_read.store(true, Ordering::Relaxed);
        }
    }

    /// Requests a stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
