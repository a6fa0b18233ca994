//! Messages on standard error. A terminal would break long lines inside words.

use crate::pace::Pace;
use crate::text_table::{length, wrap};
use indicatif::WeakProgressBar;
use senesce_core::resume::CONTINUE;
use senesce_core::text::visible;
use std::collections::VecDeque;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::time::Instant;

/// Indent of the second and further lines of a message.
const HANG: usize = 4;

/// Breaks long lines at spaces, with `hang` more spaces before the second and further parts of a line. `None`: any
/// length. A line with a command that continues a run stays whole, so that it can be copied.
pub(crate) fn wrapped(text: &str, width: Option<usize>, hang: usize) -> String {
    let Some(width) = width else { return text.into() };
    let lines: Vec<String> = text.split('\n').map(|line| wrapped_line(line, width, hang)).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str, width: usize, hang: usize) -> String {
    let words = line.trim_start_matches(' ');
    let indent = line.len() - words.len();
    if length(line) <= width || width <= indent + hang || words.contains(CONTINUE) {
        return line.into();
    }
    let parts = wrap(words, width - indent - hang).into_iter().enumerate();
    let parts = parts.map(|(number, part)| " ".repeat(if number == 0 { indent } else { indent + hang }) + &part);
    parts.collect::<Vec<_>>().join("\n")
}

/// Columns of the terminal on standard error; `None` if it is not a terminal.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Prints a line, as the `eprintln!` of this crate.
pub(crate) fn print(text: Arguments<'_>) {
    let text = wrapped(&visible(&format!("{text}\n")), width(), HANG);
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Standard error for the log, above the progress bar if there is one. Each write is a whole message.
#[derive(Clone)]
pub(crate) struct Log {
    pub bar: WeakProgressBar,
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = wrapped(&String::from_utf8_lossy(bytes), width(), HANG);
        let write = || io::stderr().write_all(text.as_bytes());
        match self.bar.upgrade() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Standard error for a program of senesce in a guest, which does not know the terminal, nor in virtual time its pace.
#[derive(Default)]
pub(crate) struct GuestMessages {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    phases: GuestPhases,
}

impl GuestMessages {
    fn write_begun(&mut self, end: usize) -> io::Result<()> {
        let lines: Vec<u8> = self.begun.drain(..end).collect();
        let Ok(text) = std::str::from_utf8(&lines) else { return io::stderr().write_all(&lines) };
        let lines: String = text.split_inclusive('\n').map(|line| self.phases.with_time_left(line)).collect();
        io::stderr().write_all(wrapped(&lines, width(), HANG).as_bytes())
    }
}

/// The latest phases that a guest announced as `NAME: TOTAL UNIT`, with the percentages that it has reported of them.
#[derive(Default)]
struct GuestPhases(VecDeque<(String, Pace)>);

/// Maximum number of phases: other messages may look like announcements.
const MOST_PHASES: usize = 8;

impl GuestPhases {
    /// Adds the remaining time, by the host's clock, to a line `NAME: 40 %` of an announced phase.
    fn with_time_left(&mut self, line: &str) -> String {
        if let Some((name, announced)) = line.trim_end().rsplit_once(": ")
            && let Some((total, _unit)) = announced.split_once(' ')
            && total.parse::<u64>().is_ok_and(|total| total > 0)
            && !announced.contains('%')
        {
            self.begin(name, Instant::now());
            return line.into();
        }
        let added = self.0.iter_mut().find_map(|(name, pace)| {
            let (share, rest) = line.strip_prefix(name.as_str())?.strip_prefix(": ")?.split_once(" %")?;
            pace.report(share.parse().ok()?);
            // The line of a guest in real time has the remaining time.
            let left = pace.left().filter(|_| !rest.contains("/s"))?;
            Some(format!("{name}: {share} %, {left}{rest}"))
        });
        added.unwrap_or_else(|| line.into())
    }

    fn begin(&mut self, name: &str, now: Instant) {
        self.0.retain(|(known, _)| known != name);
        self.0.truncate(MOST_PHASES - 1);
        self.0.push_front((name.into(), Pace::since(now, 100)));
    }
}

impl Write for GuestMessages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let end = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.write_begun(end)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_begun(self.begun.len())?;
        io::stderr().flush()
    }
}

impl Drop for GuestMessages {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn progress_of_a_guest_gets_the_time_left_on_the_host() {
        let mut phases = GuestPhases::default();
        let announced = "aging: 9000 operations\n";
        assert_eq!(phases.with_time_left(announced), announced);
        assert_eq!(phases.with_time_left("aging: 20 %\n"), "aging: 20 %\n", "not a second has passed");
        phases.begin("aging", Instant::now() - Duration::from_secs(20));
        let line = phases.with_time_left("aging: 20 %, fullness 79.9 %\n");
        assert_eq!(line, "aging: 20 %, 80 s left, fullness 79.9 %\n");
        for unchanged in [
            "aging: 100 %\n",
            "aging: 30 %, 90 operations/s, 40 s left\n",
            "reading: 30 %\n",
            "aging: about 30 % of it\n",
        ] {
            assert_eq!(phases.with_time_left(unchanged), unchanged);
        }
        for number in 0..2 * MOST_PHASES {
            phases.with_time_left(&format!("note {number}: 5 files\n"));
        }
        assert_eq!(phases.0.len(), MOST_PHASES);
    }

    const WARNING: &str = "\u{1b}[33m WARN\u{1b}[0m /srv/images is on the root file system: senesce will write to it\n";

    #[test]
    fn warning_is_wrapped_at_spaces() {
        let narrow = wrapped(WARNING, Some(30), HANG);
        let lines: Vec<&str> = narrow.lines().collect();
        assert!(lines.len() > 2 && lines.iter().all(|line| length(line) <= 30), "{narrow}");
        assert!(lines[1..].iter().all(|line| line.starts_with("    ") && !line.starts_with("     ")), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(WARNING));
        assert!(narrow.ends_with('\n'));
    }

    #[test]
    fn lines_that_fit_and_other_outputs_stay_unchanged() {
        assert_eq!(wrapped(WARNING, None, HANG), WARNING);
        assert_eq!(wrapped(WARNING, Some(200), HANG), WARNING);
        assert_eq!(wrapped("  a b", Some(3), HANG), "  a b", "the indent fills the line");
    }

    #[test]
    fn indent_of_a_line_is_kept() {
        assert_eq!(wrapped("  one two three", Some(10), 2), "  one\n    two\n    three");
    }

    #[test]
    fn command_that_continues_a_run_stays_on_one_line() {
        let hint = format!("hint: {CONTINUE}senesce age --resume senesce-runs/age-1234");
        assert_eq!(wrapped(&hint, Some(20), HANG), hint);
    }
}
