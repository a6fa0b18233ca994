//! Runs a user's program and ends everything that it started.
//!
//! This process adopts orphans while the program runs (PR_SET_CHILD_SUBREAPER, prctl(2)), so all leftovers are our
//! children, even in another session. The kernel does not reuse a child's number before we wait for it, so we never end
//! an unrelated process.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpgid, getpid, kill_process, kill_process_group, pidfd_open,
    set_child_subreaper, waitpid,
};
use senesce_core::interrupt::Interrupt;
use senesce_volume::{CommandGroup, ScratchDirectory};
use std::collections::HashSet;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const NO_END: &str = "did not end within";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    Exited(ExitStatus),
    TimedOut,
    Interrupted,
}

#[derive(Debug)]
pub(crate) struct EndedCommand {
    pub how: CommandEnd,
    pub seconds: f64,
    pub out: String,
    /// Its messages, with the same limit.
    pub errors: String,
    /// Processes that it left running, by name and number; they were ended.
    pub left: Vec<String>,
}

/// Bytes of output that are kept; the rest is read and dropped, so that the program does not block.
pub(crate) const MOST_OUTPUT: u64 = 16 << 20;

const GRACE: Duration = Duration::from_millis(500);

const END_LIMIT: Duration = Duration::from_secs(5);

const LINGER: Duration = Duration::from_millis(200);

/// Polling interval for an interrupt; the end of the program is noticed at once.
const LOOK: Duration = Duration::from_millis(200);

/// One at a time: its processes are recognised by comparison with the children that existed before.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `command` in a process group of its own for at most `limit`; `tick` is called while it runs.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    interrupt: &Interrupt,
    tick: &mut dyn FnMut(Duration),
) -> io::Result<EndedCommand> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The guardian must exist before our children are counted.
    let _directory = ScratchDirectory::small("command").map_err(io::Error::other)?;
    let before: HashSet<Pid> = children()?.into_iter().collect();
    set_child_subreaper(Some(getpid()))?;
    let ended = watched(command, limit, interrupt, tick, &before);
    set_child_subreaper(None)?;
    ended
}

fn watched(
    command: &mut Command,
    limit: Duration,
    interrupt: &Interrupt,
    tick: &mut dyn FnMut(Duration),
    before: &HashSet<Pid>,
) -> io::Result<EndedCommand> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let begun = Instant::now();
    let place = command.get_current_dir().unwrap_or(Path::new("/")).to_path_buf();
    let group = CommandGroup::of(&place).map_err(io::Error::other)?;
    let mut child = group.start(command)?;
    let pid = Pid::from_child(&child);
    let out = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let waited = wait(pid, begun, limit, interrupt, tick);
    if waited.as_ref().is_ok_and(Option::is_some) || waited.is_err() {
        end_group(pid)?;
    }
    let status = child.wait()?;
    let (seconds, asked) = (begun.elapsed().as_secs_f64(), waited?);
    let left = end_children(before, if asked.is_some() { Duration::ZERO } else { LINGER })?;
    group.end()?;
    let how = asked.unwrap_or(CommandEnd::Exited(status));
    Ok(EndedCommand { how, seconds, out: text(out), errors: text(errors), left })
}

fn wait(
    pid: Pid,
    begun: Instant,
    limit: Duration,
    interrupt: &Interrupt,
    tick: &mut dyn FnMut(Duration),
) -> io::Result<Option<CommandEnd>> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        if ends_within(&handle, LOOK.min(left))? {
            return Ok(None);
        }
        if interrupt.requested() {
            return Ok(Some(CommandEnd::Interrupted));
        }
        if left.is_zero() {
            return Ok(Some(CommandEnd::TimedOut));
        }
        tick(begun.elapsed());
    }
}

fn end_group(pid: Pid) -> io::Result<()> {
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // The group may have ended already.
    let _ = kill_process_group(pid, Signal::TERM);
    if !ends_within(&handle, GRACE)? {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    Ok(())
}

fn ends_within(handle: &impl AsFd, time: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Ends all new children and their descendants, which become ours. Returns the names of those that did not end by
/// themselves within `linger`.
fn end_children(before: &HashSet<Pid>, linger: Duration) -> io::Result<Vec<String>> {
    let deadline = Instant::now() + linger;
    let mut left = Vec::new();
    loop {
        let ours: Vec<Pid> =
            children()?.into_iter().filter(|pid| !before.contains(pid) && is_of_the_command(*pid)).collect();
        if ours.is_empty() {
            return Ok(left);
        }
        for pid in ours {
            let handle = pidfd_open(pid, PidfdFlags::empty())?;
            if !ends_within(&handle, deadline.saturating_duration_since(Instant::now()))? {
                left.push(format!("{} (process {})", name_of(pid), pid.as_raw_nonzero()));
                let _ = kill_process(pid, Signal::KILL);
                ends_within(&handle, END_LIMIT)?;
            }
            if waitpid(Some(pid), WaitOptions::NOHANG)?.is_none() {
                return Err(io::Error::other(format!("process {} does not end", pid.as_raw_nonzero())));
            }
        }
    }
}

/// Returns whether a new child belongs to the command: children of our other threads are in our process group.
fn is_of_the_command(pid: Pid) -> bool {
    getpgid(Some(pid)).is_ok_and(|group| Ok(group) != getpgid(None))
}

fn children() -> io::Result<Vec<Pid>> {
    let own = getpid();
    let numbers = std::fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.filter_map(Pid::from_raw).filter(|pid| parent_of(*pid) == Some(own)).collect())
}

/// Reads the parent of a process. The name in the second field of /proc/PID/stat may contain any byte; the parent is
/// the second field after its last bracket (proc_pid_stat(5)).
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Pid::from_raw(parent)
}

fn name_of(pid: Pid) -> String {
    let read = |file: &str| std::fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
    let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
    let name = if line.trim().is_empty() { String::from_utf8_lossy(&read("comm")).into_owned() } else { line };
    name.trim().chars().take(60).collect()
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MOST_OUTPUT).read_to_end(&mut kept);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        kept
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

impl EndedCommand {
    pub(crate) fn last_lines(&self) -> String {
        let said = if self.errors.trim().is_empty() { &self.out } else { &self.errors };
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        let CommandEnd::Exited(status) = self.how else { return None };
        match (status.code(), status.signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("it failed with exit code {code}")),
            (None, signal) => Some(format!("signal {} ended it", signal.unwrap_or(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> EndedCommand {
        let mut command = Command::new("sh");
        run(command.args(["-c", script]), limit, &Interrupt::new(), &mut |_| ()).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_and_exit_status_are_kept() {
        let ended = shell("echo one; echo two >&2; exit 3", LONG);
        assert_eq!((ended.out.as_str(), ended.errors.as_str()), ("one\n", "two\n"));
        assert_eq!(ended.trouble().unwrap(), "it failed with exit code 3");
        assert_eq!(ended.last_lines(), "two");
        assert!(ended.left.is_empty(), "{:?}", ended.left);
        assert_eq!(shell("kill -9 $$", LONG).trouble().unwrap(), "signal 9 ended it");
        assert!(shell("exit 0", LONG).trouble().is_none());
    }

    #[test]
    fn leftover_processes_are_named_and_ended() {
        let ended = shell("setsid sh -c 'sleep 1000 & sleep 2000' >/dev/null 2>&1 & echo done", LONG);
        assert_eq!(ended.out, "done\n");
        let named = |what: &str| ended.left.iter().any(|one| one.contains(what));
        assert!(named("sleep 1000") && named("sleep 2000"), "{:?}", ended.left);
        let number = |one: &str| one.rsplit_once("process ").unwrap().1.trim_end_matches(')').to_string();
        for one in &ended.left {
            assert!(!std::path::Path::new(&format!("/proc/{}", number(one))).exists(), "{one}");
        }
    }

    #[test]
    fn child_of_another_thread_is_spared() {
        let directory = tempfile::tempdir().unwrap();
        let end = directory.path().join("end");
        let mut other = None;
        let mut command = Command::new("sh");
        let script = format!("while [ ! -e {} ]; do :; done", end.display());
        let ended = run(command.args(["-c", &script]), LONG, &Interrupt::new(), &mut |_| {
            other.get_or_insert_with(|| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
            std::fs::write(&end, "").unwrap();
        });
        assert!(ended.unwrap().left.is_empty());
        let mut other = other.unwrap();
        assert!(other.try_wait().unwrap().is_none(), "it still exists");
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
    }

    #[test]
    fn hanging_program_is_ended_with_its_group() {
        let ended = shell("trap '' TERM; sleep 1000 & echo $!; wait", Duration::from_millis(300));
        assert_eq!(ended.how, CommandEnd::TimedOut);
        assert!(ended.seconds < 60.0, "{}", ended.seconds);
        let child = ended.out.trim();
        assert!(!std::path::Path::new(&format!("/proc/{child}")).exists(), "{child}");
    }

    #[test]
    fn missing_program_is_an_error() {
        let error = run(&mut Command::new("/no/such/program"), LONG, &Interrupt::new(), &mut |_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
