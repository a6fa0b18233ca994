//! Shared state of verbs: the interrupt flag and the progress display.

use crate::messages::{self, Log};
use crate::pace::{Pace, duration};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use senesce_core::interrupt::Interrupt;
use senesce_core::machine::time_is_virtual;
use senesce_core::text::visible_line;
use senesce_core::{ExitCode, Failure, Progress, Silent};
use senesce_runner::Conduct;
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
        let is_terminal = std::io::stderr().is_terminal();
        let bar = (is_terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            // Nothing is shown before the first phase.
            bar.with_style(style_of("{wide_msg}"))
        });
        let log = Log { bar: bar.as_ref().map(ProgressBar::downgrade).unwrap_or_default() };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || log.clone())
            .with_ansi(is_terminal && std::env::var_os("NO_COLOR").is_none_or(|word| word.is_empty()))
            .without_time()
            .with_target(false)
            .init();
        let display: Box<dyn Progress> = match &bar {
            Some(bar) => Box::new(Bar::new(bar.clone())),
            None if quiet => Box::new(Silent),
            None => Box::new(Lines::default()),
        };
        Self { display, bar }
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

struct Bar {
    bar: ProgressBar,
    /// The position in the whole run, which precedes the phases of a step.
    whole: Mutex<String>,
    phase: Mutex<BarPhase>,
}

/// What a message of a phase is made of.
#[derive(Default)]
struct BarPhase {
    pace: Pace,
    unit: String,
    /// Columns for the message.
    columns: usize,
}

impl BarPhase {
    /// Formats rate, remaining time and note. Without a total, the line shows the number of units done instead.
    fn message(&mut self, done: u64, note: &str) -> String {
        self.pace.report(done);
        let (rate, shown) = match self.pace.has_total() {
            true => (self.pace.words(&self.unit), 0),
            false => (String::new(), done.to_string().len()),
        };
        let fields: Vec<&str> = [&*rate, note].into_iter().filter(|part| !part.is_empty()).collect();
        let message = visible_line(&fields.join(", ")).into_owned();
        whole_fields(&message, self.columns.saturating_sub(shown)).into()
    }
}

/// Returns the fields of a message, separated by commas, that fit into `columns`: a field that is cut reads as another
/// number.
fn whole_fields(message: &str, columns: usize) -> &str {
    if message.chars().count() <= columns {
        return message;
    }
    let ends = message.match_indices(", ").map(|(end, _)| &message[..end]);
    ends.filter(|fields| fields.chars().count() <= columns).last().unwrap_or_default()
}

impl Bar {
    fn new(bar: ProgressBar) -> Self {
        Self { bar, whole: Mutex::default(), phase: Mutex::default() }
    }
}

/// Columns for the parts of a line that do not shrink, and for the rate and time left.
const OTHER_COLUMNS: usize = 46;
/// Columns of the time that has passed, such as `59s` or `120m`.
const ELAPSED_COLUMNS: usize = 5;
/// Narrower terminals show no bar.
const COLUMNS_FOR_A_BAR: usize = 50;

/// Returns the template of a progress line, and the columns that it takes without prefix, position and message.
/// `{wide_msg}` takes the columns that are left.
fn template(total: u64, columns: usize) -> (&'static str, usize) {
    match (total > 0, columns < COLUMNS_FOR_A_BAR) {
        (true, false) => ("{prefix} [{bar:20}] {percent:>3}% {wide_msg}", " [] 100% ".len() + 20),
        (true, true) => ("{prefix} {percent:>3}% {wide_msg}", " 100% ".len()),
        (false, false) => ("{prefix} {spinner} {pos} {elapsed} {wide_msg}", " -   ".len() + ELAPSED_COLUMNS),
        (false, true) => ("{prefix} {elapsed} {wide_msg}", "  ".len() + ELAPSED_COLUMNS),
    }
}

fn style_of(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

/// Shortens the beginning of a progress line. A line that wraps would stay on the screen.
fn prefix(text: &str, columns: usize) -> String {
    let most = columns.saturating_sub(OTHER_COLUMNS).max((columns / 2).clamp(1, 20));
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

impl Progress for Bar {
    fn step(&self, number: usize, count: usize, text: &str, seconds_left: f64) {
        if let Ok(mut whole) = self.whole.lock() {
            let left =
                if seconds_left > 0.0 { format!(", about {} left", duration(seconds_left)) } else { String::new() };
            *whole = format!("[{number}/{count}{left}] ");
        }
        self.phase(text, 0, "");
    }

    fn phase(&self, name: &str, total: u64, unit: &str) {
        let whole = self.whole.lock().map_or_else(|_| String::new(), |whole| whole.clone());
        let text = format!("{whole}{name}");
        self.bar.reset();
        self.bar.set_message("");
        let columns = messages::width().unwrap_or(80);
        let prefix = prefix(&visible_line(&text), columns);
        let (template, others) = template(total, columns);
        if let Ok(mut phase) = self.phase.lock() {
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            let taken = prefix.chars().count() + others;
            *phase = BarPhase { pace: Pace::of(total), unit, columns: columns.saturating_sub(taken) };
        }
        self.bar.set_style(style_of(template));
        self.bar.set_prefix(prefix);
        if total > 0 {
            self.bar.set_length(total);
        } else {
            self.bar.unset_length();
        }
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    fn position(&self, done: u64, note: &str) {
        let message = self.phase.lock().map_or_else(|_| String::new(), |mut phase| phase.message(done, note));
        self.bar.set_position(done);
        self.bar.set_message(message);
    }

    fn say(&self, message: &str) {
        self.bar.suspend(|| eprintln!("{message}"));
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
    pace: Pace,
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

    /// Formats share, rate and remaining time; without a total the number done and the time that has passed.
    fn line(&self, done: u64, note: &str) -> String {
        let share = match (self.total, self.begun.map(|begun| begun.elapsed().as_secs_f64())) {
            (0, Some(seconds @ 1.0..)) => format!("{done} {} in {}", self.unit, duration(seconds)),
            (0, _) => format!("{done} {}", self.unit),
            (total, _) => format!("{:.0} %", done as f64 * 100.0 / total as f64),
        };
        let parts = [share, self.pace.words(&format!(" {}", self.unit)), note.into()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{}: {}", self.name, parts.join(", "))
    }
}

fn line_interval(in_ci: bool) -> Duration {
    Duration::from_secs(if in_ci { 60 } else { 10 })
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

impl Progress for Lines {
    fn phase(&self, name: &str, total: u64, unit: &str) {
        eprintln!("{name}{}", if total > 0 { format!(": {total} {unit}") } else { String::new() });
        if let Ok(mut state) = self.0.lock() {
            let now = Some(Instant::now());
            let (name, unit, pace) = (name.into(), unit.into(), Pace::of(total));
            *state = LineState { name, unit, total, pace, begun: now, last: now, shown: 0 };
        }
    }

    fn position(&self, done: u64, note: &str) {
        let Ok(mut state) = self.0.lock() else { return };
        state.pace.report(done);
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
    fn beginning_of_a_progress_line_leaves_space_for_the_rest() {
        assert_eq!(prefix("aging", 80), "aging");
        let long = prefix("[12/12, about 4 s left] age ext4, seed 7, undecided after 4 pairs: 4 more", 80);
        assert!(long.ends_with('…') && long.chars().count() + OTHER_COLUMNS == 80, "{long}");
        assert_eq!(prefix(&"x".repeat(50), 60).chars().count(), 20);
    }

    #[test]
    fn progress_line_fits_narrow_terminals() {
        for columns in 20..=120 {
            let prefix = prefix(&"x".repeat(150), columns).chars().count();
            assert!(prefix + template(1, columns).1 <= columns, "{columns}");
        }
    }

    #[test]
    fn narrow_progress_line_drops_whole_fields() {
        let message = "85 MiB/s, 40 s left, fullness 79.9 %, 12.1 overwrites";
        for columns in 0..=message.len() {
            let (shown, dropped) = message.split_at(whole_fields(message, columns).len());
            assert!(shown.len() <= columns, "{columns}");
            assert!(shown.is_empty() || dropped.is_empty() || dropped.starts_with(", "), "{shown}");
        }
        assert_eq!(whole_fields(message, 40), "85 MiB/s, 40 s left, fullness 79.9 %");
        let mut phase = BarPhase { columns: 20, ..BarPhase::default() };
        assert_eq!(phase.message(5, "fullness 79.9 %, 12.1 overwrites"), "fullness 79.9 %");
    }

    #[test]
    fn lines_of_a_phase_without_a_total_have_the_time_that_passed() {
        let begun = Some(Instant::now() - Duration::from_secs(80));
        let state = LineState { name: "compile".into(), unit: "files".into(), begun, ..LineState::default() };
        assert_eq!(state.line(413, ""), "compile: 413 files in 80 s");
        assert!(line_interval(true) > line_interval(false));
    }

    #[test]
    fn lines_of_virtual_time_are_tenths() {
        let state = LineState { total: 95, shown: 10, last: Some(Instant::now()), ..LineState::default() };
        assert_eq!([19, 20, 95].map(|done| state.is_due(done, true)), [false, true, true]);
        assert!(!state.is_due(95, false), "a line was just shown");
    }
}
