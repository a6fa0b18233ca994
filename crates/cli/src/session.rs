//! Shared state of verbs: the interrupt flag and the progress display.

use crate::display::significant;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use senesce_core::interrupt::Interrupt;
use senesce_core::machine::time_is_virtual;
use senesce_core::progress::left;
use senesce_core::text::visible_line;
use senesce_core::{ExitCode, Failure, Progress, Silent};
use senesce_runner::Conduct;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tracing_subscriber::filter::LevelFilter;

pub struct Session {
    display: Box<dyn Progress>,
    bar: Option<ProgressBar>,
}

impl Session {
    /// Sets up messages: `quiet` shows no progress; `verbose` counts `-v`.
    pub fn new(quiet: bool, verbose: u8) -> Self {
        let level = match verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            _ => LevelFilter::DEBUG,
        };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .with_ansi(
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|word| word.is_empty()),
            )
            .without_time()
            .with_target(false)
            .init();
        if quiet {
            return Self { display: Box::new(Silent), bar: None };
        }
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            return Self { display: Box::new(Bar(bar.clone(), Mutex::default())), bar: Some(bar) };
        }
        Self { display: Box::new(Lines::default()), bar: None }
    }

    pub(crate) fn progress(&self) -> &dyn Progress {
        &*self.display
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Returns the default conduct of a run: in a directory below [`runs_directory`], continued if it exists, without
    /// data loss.
    pub(crate) fn conduct<'a>(&'a self, interrupt: &'a Interrupt) -> Conduct<'a> {
        Conduct {
            out: None,
            runs: runs_directory(),
            again: false,
            erase: None,
            scale: None,
            only: None,
            progress: self.progress(),
            interrupt,
            peers: None,
        }
    }

    /// Returns a flag set by Ctrl-C and SIGTERM; another signal a second later ends the process.
    pub(crate) fn interrupt(&self) -> Result<Interrupt, Failure> {
        Interrupt::on_signals()
            .map_err(|error| Failure::new(ExitCode::RunFailed, format!("cannot install signal handlers: {error}")))
    }
}

pub(crate) fn runs_directory() -> PathBuf {
    PathBuf::from("senesce-runs")
}

/// The bar, and the position in the whole run, which precedes the phases of a step.
struct Bar(ProgressBar, Mutex<String>);

impl Progress for Bar {
    fn step(&self, number: usize, count: usize, text: &str, seconds_left: f64) {
        if let Ok(mut whole) = self.1.lock() {
            let left =
                if seconds_left > 0.0 { format!(", about {} left", duration(seconds_left)) } else { String::new() };
            *whole = format!("[{number}/{count}{left}] ");
        }
        self.phase(text, 0, "");
    }

    fn phase(&self, name: &str, total: u64, unit: &str) {
        let template = if total > 0 {
            "{prefix} [{bar:20}] {percent:>3}% {eta} left, {rate} {wide_msg}"
        } else {
            "{prefix} {spinner} {pos} {elapsed} {wide_msg}"
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let rate = |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}/s", significant(state.per_sec()));
        };
        self.0.set_style(style.progress_chars("=> ").with_key("rate", rate));
        let whole = self.1.lock().map_or_else(|_| String::new(), |whole| whole.clone());
        self.0.set_prefix(
            visible_line(&format!("{whole}{name}{}{unit}", if unit.is_empty() { "" } else { ", " })).into_owned(),
        );
        if total > 0 {
            self.0.set_length(total);
        } else {
            self.0.unset_length();
        }
        self.0.reset();
        self.0.enable_steady_tick(Duration::from_millis(200));
    }

    fn position(&self, done: u64, note: &str) {
        self.0.set_position(done);
        self.0.set_message(visible_line(note).into_owned());
    }

    fn say(&self, message: &str) {
        self.0.suspend(|| eprintln!("{message}"));
    }
}

/// For logs and pipes: a line per phase and one every ten seconds, or one a minute in continuous integration.
#[derive(Default)]
struct Lines(Mutex<LineState>);

#[derive(Default)]
struct LineState {
    name: String,
    unit: String,
    total: u64,
    begun: Option<Instant>,
    last: Option<Instant>,
    /// Units done at the last line.
    shown: u64,
}

impl LineState {
    /// Returns whether a line is due. In virtual time, an hour passes at once, so each tenth of a phase has a line.
    fn is_due(&self, done: u64, virtual_time: bool) -> bool {
        match virtual_time {
            true => self.total > 0 && done.saturating_sub(self.shown) >= self.total.div_ceil(10),
            false => self.last.is_none_or(|last| last.elapsed() >= line_interval(in_ci())),
        }
    }

    /// Formats share, rate and remaining time; without a total the number done.
    fn line(&self, done: u64, note: &str) -> String {
        let elapsed = self.begun.map(|begun| begun.elapsed()).unwrap_or_default();
        let share = match self.total {
            0 => format!("{done} {}", self.unit),
            total => format!("{:.0} %", done as f64 * 100.0 / total as f64),
        };
        // Work takes no virtual time; only a pace and timers do.
        let rate = match elapsed.as_secs_f64() {
            ..1.0 => String::new(),
            seconds => {
                let left = time_left(done, self.total, elapsed);
                format!(", {} {}/s{left}", significant(done as f64 / seconds), self.unit)
            }
        };
        let note = if note.is_empty() { String::new() } else { format!(", {note}") };
        format!("{}: {share}{rate}{note}", self.name)
    }
}

fn line_interval(in_ci: bool) -> Duration {
    Duration::from_secs(if in_ci { 60 } else { 10 })
}

/// Formats the remaining time of a phase at the current rate: `, 40 s left`.
fn time_left(done: u64, total: u64, elapsed: Duration) -> String {
    if done == 0 || total <= done {
        return String::new();
    }
    format!(", {} {}", duration(elapsed.as_secs_f64() * (total - done) as f64 / done as f64), left())
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        ..5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

impl Progress for Lines {
    fn phase(&self, name: &str, total: u64, unit: &str) {
        eprintln!("{name}{}", if total > 0 { format!(": {total} {unit}") } else { String::new() });
        if let Ok(mut state) = self.0.lock() {
            let now = Some(Instant::now());
            *state = LineState { name: name.into(), unit: unit.into(), total, begun: now, last: now, shown: 0 };
        }
    }

    fn position(&self, done: u64, note: &str) {
        let Ok(mut state) = self.0.lock() else { return };
        if !state.is_due(done, time_is_virtual()) {
            return;
        }
        (state.last, state.shown) = (Some(Instant::now()), done);
        eprintln!("{}", state.line(done, note));
    }

    fn say(&self, message: &str) {
        eprintln!("{message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_follows_from_the_rate() {
        let minute = Duration::from_secs(60);
        assert_eq!(time_left(60, 100, minute), ", 40 s left");
        assert_eq!(time_left(1, 61, minute), ", 60 min left");
        assert_eq!(time_left(1, 301, minute), ", 5.0 h left");
        assert_eq!((time_left(0, 100, minute), time_left(100, 100, minute)), (String::new(), String::new()));
        assert!(line_interval(true) > line_interval(false));
    }

    #[test]
    fn lines_of_virtual_time_are_tenths() {
        let state = LineState { total: 95, shown: 10, last: Some(Instant::now()), ..LineState::default() };
        assert_eq!([19, 20, 95].map(|done| state.is_due(done, true)), [false, true, true]);
        assert!(!state.is_due(95, false), "a line was just shown");
    }
}
