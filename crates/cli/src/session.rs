//! What every verb is given: the interrupt flag and a progress display.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use senesce_core::interrupt::Interrupt;
use senesce_core::text::visible_line;
use senesce_core::{ExitCode, Failure, Progress, Silent};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tracing_subscriber::filter::LevelFilter;

/// The process as a verb sees it.
pub struct Session {
    display: Box<dyn Progress>,
    bar: Option<ProgressBar>,
}

impl Session {
    /// `quiet` shows no progress; `verbose` counts `-v`.
    pub fn new(quiet: bool, verbose: u8) -> Self {
        let level = match verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            _ => LevelFilter::DEBUG,
        };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .without_time()
            .with_target(false)
            .init();
        if quiet {
            return Self { display: Box::new(Silent), bar: None };
        }
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            return Self { display: Box::new(Bar(bar.clone())), bar: Some(bar) };
        }
        Self { display: Box::new(Lines::default()), bar: None }
    }

    /// Whom a run tells how far it is.
    pub fn progress(&self) -> &dyn Progress {
        &*self.display
    }

    /// Takes the progress bar away before something else is printed.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// A flag set by Ctrl-C and SIGTERM; another one a second later ends the process.
    pub fn interrupt(&self) -> Result<Interrupt, Failure> {
        Interrupt::on_signals()
            .map_err(|error| Failure::new(ExitCode::RunFailed, format!("install signal handlers: {error}")))
    }
}

/// Where runs are kept unless `--out` says otherwise.
pub fn runs_directory() -> PathBuf {
    PathBuf::from("senesce-runs")
}

struct Bar(ProgressBar);

impl Progress for Bar {
    fn phase(&self, name: &str, total: u64, unit: &str) {
        let template = if total > 0 {
            "{prefix} [{bar:30}] {percent:>3}% {msg} ({per_sec}, {eta} left)"
        } else {
            "{prefix} {spinner} {pos} {msg} ({elapsed})"
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.set_style(style.progress_chars("=> "));
        self.0.set_prefix(visible_line(&format!("{name}, {unit}")).into_owned());
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

/// For logs and pipes: a line per phase and one every ten seconds.
#[derive(Default)]
struct Lines(Mutex<LineState>);

#[derive(Default)]
struct LineState {
    name: String,
    unit: String,
    total: u64,
    last: Option<Instant>,
}

impl Progress for Lines {
    fn phase(&self, name: &str, total: u64, unit: &str) {
        eprintln!("{name}{}", if total > 0 { format!(": {total} {unit}") } else { String::new() });
        if let Ok(mut state) = self.0.lock() {
            *state = LineState { name: name.into(), unit: unit.into(), total, last: Some(Instant::now()) };
        }
    }

    fn position(&self, done: u64, note: &str) {
        let Ok(mut state) = self.0.lock() else { return };
        if state.last.is_some_and(|last| last.elapsed() < Duration::from_secs(10)) {
            return;
        }
        state.last = Some(Instant::now());
        let of = if state.total > 0 { format!(" of {}", state.total) } else { String::new() };
        eprintln!("{}: {done}{of} {} {note}", state.name, state.unit);
    }

    fn say(&self, message: &str) {
        eprintln!("{message}");
    }
}
