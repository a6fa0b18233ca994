//! Runs a command and measures it: monotonic clock, `wait4` for CPU and memory, a time limit without polling.

use crate::error::{StoreError, io};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use senesce_core::interrupt::Interrupt;
use senesce_sys::usage::{self, Usage};
use senesce_volume::CommandGroup;
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Exit status 0.
    Done,
    /// Another exit status; the last lines of its output.
    Failed(i32, String),
    Killed(i32),
    /// senesce ended it after its time limit.
    TimedOut,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessResult {
    /// Wall-clock time from start to end.
    pub seconds: f64,
    /// User CPU time, including waited-for children.
    pub user_seconds: f64,
    pub system_seconds: f64,
    /// Maximum resident set of the command or one of its children.
    pub peak_bytes: u64,
    pub outcome: Outcome,
}

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a command in its own process group. After `limit`, or on an interrupt, the group gets SIGTERM, then SIGKILL.
pub fn run(command: &mut Command, limit: Duration, interrupt: &Interrupt) -> Result<ProcessResult, StoreError> {
    let program = Path::new(command.get_program()).to_path_buf();
    let mut output = tempfile().map_err(io("make a temporary file for the output of", &program))?;
    let copy = |file: &std::fs::File| file.try_clone().map_err(io("duplicate the output of", &program));
    command.stdin(Stdio::null()).stdout(copy(&output)?).stderr(copy(&output)?).process_group(0);
    // Otherwise it would continue to write to the target when this process is killed.
    let group = CommandGroup::marked()?;
    let started = Instant::now();
    let child = group.start(command).map_err(io("run", &program))?;
    let pid = Pid::from_child(&child);
    let waited = wait(pid, started + limit, interrupt);
    let (status, usage, timed_out) = waited.map_err(io("wait for", &program))?;
    let seconds = started.elapsed().as_secs_f64();
    let outcome = if timed_out {
        Outcome::TimedOut
    } else {
        match (status.code(), status.signal()) {
            (Some(0), _) => Outcome::Done,
            (Some(code), _) => Outcome::Failed(code, last_lines(&mut output)),
            (None, signal) => Outcome::Killed(signal.unwrap_or(0)),
        }
    };
    Ok(ProcessResult {
        seconds,
        user_seconds: usage.user.as_secs_f64(),
        system_seconds: usage.system.as_secs_f64(),
        peak_bytes: usage.peak_resident_bytes,
        outcome,
    })
}

/// Waits for a child and ends it at the deadline or on an interrupt; the last value shows whether that was necessary.
fn wait(pid: Pid, deadline: Instant, interrupt: &Interrupt) -> std::io::Result<(ExitStatus, Usage, bool)> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let mut ended = false;
    while Instant::now() < deadline && !interrupt.requested() && !ended {
        // A short timeout to notice an interrupt; the end of the child wakes the poll at once.
        ended = ends_within(&handle, Duration::from_millis(250).min(deadline - Instant::now()))?;
    }
    if !ended {
        // The group may have ended in the meantime.
        let _ = kill_process_group(pid, Signal::TERM);
        if !ends_within(&handle, GRACE)? {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    let (status, usage) = usage::wait(pid)?;
    Ok((status, usage, !ended))
}

fn ends_within(handle: &OwnedFd, time: Duration) -> std::io::Result<bool> {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn tempfile() -> std::io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

fn last_lines(output: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    if output.rewind().and_then(|()| output.read_to_end(&mut bytes)).is_err() {
        return "(its output cannot be read)".into();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> ProcessResult {
        run(Command::new("sh").args(["-c", script]), limit, &Interrupt::new()).unwrap()
    }

    #[test]
    fn time_cpu_memory_and_status_are_measured() {
        let ran = shell("sleep 0.15", Duration::from_secs(20));
        assert_eq!(ran.outcome, Outcome::Done);
        assert!(ran.seconds >= 0.15 && ran.peak_bytes > 100_000);
        let ran =
            shell("i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo last words; exit 3", Duration::from_secs(20));
        assert_eq!(ran.outcome, Outcome::Failed(3, "last words".into()));
        assert!(ran.user_seconds > 0.0);
        assert_eq!(shell("kill -9 $$", Duration::from_secs(20)).outcome, Outcome::Killed(9));
    }

    #[test]
    fn a_command_is_in_the_ledger_while_it_runs() {
        let ledger = senesce_volume::runtime::subfolder("owners").unwrap();
        let script = format!("until grep -rqsF \"${{SENESCE_COMMAND_GROUP:?}}\" '{}'; do :; done", ledger.display());
        assert_eq!(shell(&script, Duration::from_secs(60)).outcome, Outcome::Done);
    }

    #[test]
    fn a_command_and_its_children_end_at_the_limit() {
        let ran = shell("sleep 30 & sleep 30", Duration::from_millis(200));
        assert!(ran.outcome == Outcome::TimedOut && ran.seconds < 30.0, "{ran:?}");
        let missing = run(&mut Command::new("/no/such/program"), GRACE, &Interrupt::new());
        assert!(matches!(missing, Err(StoreError::Io(ref failure)) if failure.operation == "run"));
    }
}
