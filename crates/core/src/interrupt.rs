//! Ctrl-C and SIGTERM as a flag that every loop looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shared flag: set once by a signal (or by a test), read by every loop that can stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that nothing sets.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that SIGINT and SIGTERM set. A second signal ends the process at once.
    pub fn on_signals() -> std::io::Result<Self> {
        let flag = Self::new();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag.0.clone())?;
            signal_hook::flag::register(signal, flag.0.clone())?;
        }
        Ok(flag)
    }

    /// A flag that SIGINT and SIGTERM set however often they come: a launcher such as mpirun sends several at once.
    pub fn on_signals_of_a_launcher() -> std::io::Result<Self> {
        let flag = Self::new();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
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
