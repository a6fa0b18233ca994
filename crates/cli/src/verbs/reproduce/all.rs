//! `senesce reproduce --all`: every experiment that fits into a time, each in its own process.

use super::{scale_of, with_flags};
use crate::Exit;
use crate::display::print_table;
use crate::output::output_failed;
use crate::registry::REGISTRY;
use crate::session::{Session, runs_directory};
use clap::{ArgMatches, Command as Arguments};
use rustix::process::{Pid, Signal, kill_process};
use senesce_core::analysis::{Score, Table};
use senesce_core::interrupt::Interrupt;
use senesce_core::resume::{continue_with, same_command};
use senesce_core::{ExitCode, Failure, Level, Plan, Record, Span};
use senesce_runner::{Reproducible, default_path};
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Interval of checks for the end of the child, the end of the time and a signal.
const POLL: Duration = Duration::from_millis(50);

/// A child that is asked to stop has this time to complete its record.
const LAST_WORDS: Duration = Duration::from_secs(60);

struct Candidate {
    id: &'static str,
    plan: Result<Plan, Failure>,
    path: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    WasDone,
    Done,
    /// The estimate exceeds the remaining time.
    TooLong,
    /// The time ended or a signal came.
    Stopped,
    /// Requirement that this machine does not meet.
    Missing(String),
    Failed(String),
    /// `--dry-run`.
    Planned,
}

struct Line {
    id: &'static str,
    outcome: Outcome,
    estimated: Option<f64>,
    took: Option<f64>,
    run: PathBuf,
}

pub(super) fn run(chosen: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    let level = scale_of(chosen)?;
    let limit = chosen.get_one::<Span>("max-time").map(|span| span.0);
    let mut candidates: Vec<Candidate> =
        REGISTRY.experiments().map(|experiment| candidate(experiment, level)).collect();
    candidates.sort_by(|a, b| a.estimated().total_cmp(&b.estimated()));
    let interrupt = session.interrupt()?;
    let begun = Instant::now();
    let left = || limit.map(|limit| limit.saturating_sub(begun.elapsed()));
    let mut lines = Vec::new();
    for one in &candidates {
        lines.push(match chosen.get_flag("dry-run") {
            true => planned(one, &lines, limit),
            false => done(one, level, left(), &interrupt),
        });
        if interrupt.requested() {
            break;
        }
    }
    present(&lines, chosen.get_flag("json"))?;
    if lines.iter().any(|line| line.outcome == Outcome::Stopped) {
        eprintln!("hint: {}", continue_with(&same_command(None)));
    }
    Ok(exit_code(&lines, &interrupt).into())
}

fn candidate(experiment: &'static dyn Reproducible, level: Level) -> Candidate {
    let id = experiment.kind();
    let plan = with_flags(Arguments::new(id))
        .try_get_matches_from([id])
        .map_err(|error| Failure::usage(error.to_string()))
        .and_then(|chosen| experiment.plan(level, &chosen));
    let path = plan.as_ref().map_or_else(|_| PathBuf::new(), |plan| default_path(&runs_directory(), plan, false));
    Candidate { id, plan, path }
}

impl Candidate {
    fn estimated(&self) -> f64 {
        self.plan.as_ref().map_or(f64::INFINITY, |plan| plan.estimated_seconds)
    }

    fn was_done(&self) -> bool {
        Record::open(&self.path).is_ok_and(|record| !record.is_partial())
    }

    fn line(&self, outcome: Outcome) -> Line {
        let estimated = self.plan.as_ref().ok().map(|plan| plan.estimated_seconds);
        Line { id: self.id, outcome, estimated, took: None, run: self.path.clone() }
    }

    /// Returns the outcome without running it, if the time is too short, or if its plan or record decides.
    fn known(&self, left: Option<Duration>) -> Option<Outcome> {
        match &self.plan {
            Err(failure) => Some(Outcome::Missing(first_line(&failure.to_string()))),
            Ok(_) if self.was_done() => Some(Outcome::WasDone),
            Ok(plan) if left.is_some_and(|left| !fits(plan, left)) => Some(Outcome::TooLong),
            Ok(_) => None,
        }
    }
}

/// Simulations have an estimate of zero, but need some time.
fn fits(plan: &Plan, left: Duration) -> bool {
    !left.is_zero() && plan.estimated_seconds <= left.as_secs_f64()
}

fn planned(one: &Candidate, before: &[Line], limit: Option<Duration>) -> Line {
    let is_planned = |line: &&Line| line.outcome == Outcome::Planned;
    let used: f64 = before.iter().filter(is_planned).filter_map(|line| line.estimated).sum();
    let left = limit.map(|limit| limit.saturating_sub(Duration::try_from_secs_f64(used).unwrap_or(Duration::MAX)));
    one.line(one.known(left).unwrap_or(Outcome::Planned))
}

fn done(one: &Candidate, level: Level, left: Option<Duration>, interrupt: &Interrupt) -> Line {
    if let Some(outcome) = one.known(left) {
        return one.line(outcome);
    }
    eprintln!("{}: about {:.0} s", one.id, one.estimated());
    let begun = Instant::now();
    let outcome = child(one.id, level).map_or_else(
        |error| Outcome::Failed(format!("cannot start it: {error}")),
        |child| ended(child, left.map(|left| begun + left), interrupt),
    );
    Line { took: Some(begun.elapsed().as_secs_f64()), ..one.line(outcome) }
}

fn child(id: &str, level: Level) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["reproduce", id, "--scale", level.name(), "--quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits for the end; asks the child to stop when the time ends or after a signal.
fn ended(mut child: Child, until: Option<Instant>, interrupt: &Interrupt) -> Outcome {
    let messages = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    let mut asked: Option<Instant> = None;
    let status = loop {
        match child.try_wait() {
            Ok(None) => {}
            other => break other.ok().flatten(),
        }
        let is_over = interrupt.requested() || until.is_some_and(|until| Instant::now() >= until);
        match asked {
            None if is_over => {
                asked = Some(Instant::now());
                stop(&child);
            }
            Some(then) if then.elapsed() > LAST_WORDS => drop(child.kill()),
            _ => {}
        }
        std::thread::sleep(POLL);
    };
    let text = messages.and_then(|thread| thread.join().ok()).unwrap_or_default();
    match (status.and_then(|status| status.code()), asked) {
        // A negative verdict is a result.
        (Some(0 | 1), _) => Outcome::Done,
        (_, Some(_)) | (Some(130), _) => Outcome::Stopped,
        (Some(4), _) => Outcome::Missing(reason(&text)),
        _ => Outcome::Failed(reason(&text)),
    }
}

fn stop(child: &Child) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Returns the first message of the program.
fn reason(text: &str) -> String {
    let message = text.lines().find_map(|line| line.strip_prefix("senesce: "));
    first_line(message.unwrap_or(text))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

impl Outcome {
    fn words(&self) -> (&'static str, &str) {
        match self {
            Self::WasDone => ("done before", ""),
            Self::Done => ("done", ""),
            Self::TooLong => ("does not fit into the time", ""),
            Self::Stopped => ("stopped", "not complete"),
            Self::Missing(reason) => ("not possible here", reason),
            Self::Failed(reason) => ("failed", reason),
            Self::Planned => ("would run", ""),
        }
    }
}

fn score(run: &Path) -> Option<String> {
    let analysis = REGISTRY.analyse(&Record::open(run).ok()?).ok()?;
    let score = Score::of(analysis.findings.iter().map(|finding| finding.verdict));
    (score.claims() > 0).then(|| score.words())
}

fn present(lines: &[Line], as_json: bool) -> Result<(), Failure> {
    let columns = ["experiment", "result", "estimate (s)", "took (s)", "claims or reason"];
    let mut table = Table::new("all", "", &columns);
    let mut list = Vec::new();
    for line in lines {
        let (result, reason) = line.outcome.words();
        let score = score(&line.run);
        let estimated = line.estimated.map(f64::round);
        let words = if reason.is_empty() { score.clone() } else { Some(reason.to_string()) };
        table.row((line.id, result, estimated, line.took.map(f64::round), words));
        list.push(json!({
            "experiment": line.id, "result": result, "reason": reason, "estimated_seconds": line.estimated,
            "seconds": line.took, "run": line.run, "score": score,
        }));
    }
    if as_json {
        println!("{}", Value::Array(list));
        return Ok(());
    }
    print_table(&mut crate::output::stdout(), &table).map_err(output_failed)?;
    println!("\n`senesce report --scoreboard` shows every claim.");
    Ok(())
}

fn exit_code(lines: &[Line], interrupt: &Interrupt) -> ExitCode {
    let has_failed = |line: &Line| matches!(line.outcome, Outcome::Failed(_));
    match (interrupt.requested(), lines.iter().any(has_failed)) {
        (true, _) => ExitCode::Interrupted,
        (false, true) => ExitCode::RunFailed,
        (false, false) => ExitCode::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(seconds: f64) -> Candidate {
        let spec = std::collections::BTreeMap::from([("size", 1)]);
        let mut plan = Plan::of_spec("e", senesce_core::Seed(0), &spec).unwrap();
        plan.estimated_seconds = seconds;
        Candidate { id: "e", plan: Ok(plan), path: PathBuf::from("/nonexistent/run") }
    }

    #[test]
    fn plan_fills_the_time_and_lists_experiments_that_do_not_fit() {
        let limit = Some(Duration::from_secs(100));
        let mut lines = Vec::new();
        for seconds in [10.0, 60.0, 50.0] {
            lines.push(planned(&candidate(seconds), &lines, limit));
        }
        let outcomes: Vec<&Outcome> = lines.iter().map(|line| &line.outcome).collect();
        assert_eq!(outcomes, [&Outcome::Planned, &Outcome::Planned, &Outcome::TooLong]);
        assert_eq!(candidate(1e6).known(None), None, "without a limit everything fits");
        assert_eq!(candidate(0.0).known(Some(Duration::ZERO)), Some(Outcome::TooLong), "the time has ended");
    }

    #[test]
    fn reason_is_the_first_message_of_the_program() {
        assert_eq!(reason("note\nsenesce: mkfs.zfs is missing\nhint: install it\n"), "mkfs.zfs is missing");
        assert_eq!(reason(""), "");
    }
}
