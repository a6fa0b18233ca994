//! Progress of long runs. The command line draws it; tests use [`Silent`].

/// Share of the work that must be done before a remaining time is shown: early estimates jump.
pub const KNOWN_SHARE: f64 = 0.03;

/// Receives progress; what a type does not implement is discarded. Every method must be cheap and callable from any thread.
pub trait Progress: Send + Sync {
    /// Starts a phase: name, number of units (0: unknown), name of the unit ("operations", "bytes").
    fn phase(&self, _name: &str, _total: u64, _unit: &str) {}

    /// Reports that `done` units of the phase are done; `note` is a short status line ("fullness 79.8 %, 12.1
    /// overwrites").
    fn position(&self, _done: u64, _note: &str) {}

    /// Starts step `number` of `count`; all remaining steps take about `seconds_left` (0: unknown).
    fn step(&self, number: usize, count: usize, text: &str, seconds_left: f64) {
        let left = if seconds_left > 0.0 { format!(", about {seconds_left:.0} s left") } else { String::new() };
        self.phase(&format!("{number} of {count}: {text}{left}"), 0, "");
    }

    /// Shows a message that stays on the screen: a warning, or an automatic choice.
    fn say(&self, _message: &str) {}

    /// Returns whether messages are shown.
    fn shows(&self) -> bool {
        true
    }
}

/// Discards everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn shows(&self) -> bool {
        false
    }
}
