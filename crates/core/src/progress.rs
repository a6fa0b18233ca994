//! What a long run tells whoever watches it. The command line draws it; tests keep [`Silent`].

/// Receives progress. Every method may be called from any thread and must be cheap.
pub trait Progress: Send + Sync {
    /// A new phase begins: its name, how many units it has (0: not known), the unit's name ("operations", "bytes").
    fn phase(&self, name: &str, total: u64, unit: &str);

    /// `done` units of the phase are done; `note` is a short status line ("fullness 79.8 %, 12.1 overwrites").
    fn position(&self, done: u64, note: &str);

    /// Step `number` of `count` begins; all that are left take about `seconds_left` (0: not known).
    fn step(&self, number: usize, count: usize, text: &str, seconds_left: f64) {
        let left = if seconds_left > 0.0 { format!(", about {seconds_left:.0} s left") } else { String::new() };
        self.phase(&format!("{number} of {count}: {text}{left}"), 0, "");
    }

    /// A message worth keeping on the screen: a warning, a choice that was made.
    fn say(&self, message: &str);
}

/// Drops everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &str, _total: u64, _unit: &str) {}
    fn position(&self, _done: u64, _note: &str) {}
    fn say(&self, _message: &str) {}
}
