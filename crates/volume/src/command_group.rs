//! Commands on our mounts, with all processes they start. They end before the unmount, even after `kill -9`.
//!
//! Root runs them in a control group (cgroups(7)): version 2, else the freezer of version 1. A program can leave the
//! group through a root service (systemd-run, pam_systemd), and ordinary users and some containers have no group. So
//! every process also inherits a mark in its environment. Without a control group, later processes that use the mount
//! are ended too.

use crate::error::TargetError;
use crate::guardian::{Guardian, Owner, stat_of};
use crate::{guard, runtime};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use senesce_core::interrupt;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MARK: &str = "SENESCE_COMMAND_GROUP";

const PREFIX: &str = "senesce-commands-";

const HIERARCHIES: [(&str, &str); 3] =
    [("/sys/fs/cgroup", ""), ("/sys/fs/cgroup/unified", ""), ("/sys/fs/cgroup/freezer", "freezer")];

const END_LIMIT: Duration = Duration::from_secs(10);

const GRACE: Duration = Duration::from_millis(500);

/// Polling interval for the user's interrupt; the end of a command is noticed at once.
const BETWEEN_READS: Duration = Duration::from_millis(100);

/// USER_HZ: 100 on all Linux architectures except alpha and ia64.
const TICKS_PER_SECOND: u128 = 100;

/// The criteria by which the processes of a group are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Members {
    control_group: Option<PathBuf>,
    mark: String,
    /// The directory they work on. Without a control group its users count too. `None`: only marked processes count.
    place: Option<PathBuf>,
    /// Processes that started at or after this time, in clock ticks since boot.
    since_ticks: u64,
}

#[derive(Debug)]
pub struct CommandGroup {
    members: Members,
    /// Lets remaining processes run, such as the server of a mount.
    spares: bool,
    guardian: Guardian,
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        if self.spares {
            self.guardian.dismiss();
        }
    }
}

impl CommandGroup {
    pub fn of(place: &Path) -> Result<Self, TargetError> {
        if rustix::process::geteuid().is_root() {
            for hierarchy in HIERARCHIES.iter().filter_map(|(root, controller)| own_group(root, controller)) {
                let group = Self::new(Some(hierarchy.join(unique_name())), Some(place.into()))?;
                if group.members.control_group.as_ref().is_some_and(|path| fs::create_dir(path).is_ok()) {
                    return Ok(group);
                }
            }
        }
        Self::new(None, Some(place.into()))
    }

    /// Creates a group for commands whose start is measured, or that may leave servers running. They are only marked,
    /// which takes no time.
    pub fn marked() -> Result<Self, TargetError> {
        let mut group = Self::new(None, None)?;
        group.spares = true;
        Ok(group)
    }

    fn new(control_group: Option<PathBuf>, place: Option<PathBuf>) -> Result<Self, TargetError> {
        // Unrelated programs use a directory of the user's too.
        let is_ours = |place: &PathBuf| runtime::folder().is_ok_and(|folder| place.starts_with(folder));
        let place = place.filter(is_ours);
        let since_ticks = (senesce_sys::clock::since_boot().as_millis() * TICKS_PER_SECOND / 1000) as u64;
        let members = Members { control_group, mark: unique_name(), place, since_ticks };
        Ok(Self { guardian: Guardian::of_commands(members.clone())?, members, spares: false })
    }

    pub fn start(&self, command: &mut Command) -> io::Result<Child> {
        command.env(MARK, &self.members.mark);
        if let Some(group) = &self.members.control_group {
            enter(command, File::options().write(true).open(group.join("cgroup.procs"))?);
        }
        command.spawn()
    }

    pub fn run(&self, command: &mut Command) -> io::Result<ExitStatus> {
        let mut child = self.start(command)?;
        self.wait(&child)?;
        child.wait()
    }

    pub fn output(&self, command: &mut Command) -> io::Result<Output> {
        let child = self.start(command)?;
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        std::thread::scope(|scope| {
            scope.spawn(|| self.wait_for(&handle));
            child.wait_with_output()
        })
    }

    fn wait(&self, child: &Child) -> io::Result<()> {
        self.wait_for(&pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
    }

    fn wait_for(&self, handle: &impl std::os::fd::AsFd) -> io::Result<()> {
        while !ends_within(handle, BETWEEN_READS)? {
            if interrupt::requested() {
                self.members.signal(Signal::TERM);
                if !ends_within(handle, GRACE)? {
                    self.members.end()?;
                }
                break;
            }
        }
        Ok(())
    }

    pub fn end(mut self) -> io::Result<()> {
        for process in self.members.list() {
            tracing::warn!("ended {}, which a command left running", name_of(process));
        }
        self.guardian.undo()
    }

    pub fn release(mut self) -> io::Result<()> {
        if let Some(group) = &self.members.control_group
            && let Some(parent) = group.parent()
        {
            crate::guardian::remove_group(group, parent)?;
        }
        self.guardian.dismiss();
        Ok(())
    }
}

/// Adds the program to the group before exec. Entering fails if the group was removed meanwhile, because the guardian
/// would miss the process.
fn enter(command: &mut Command, members: File) {
    // SAFETY: write may be called between fork and exec (signal-safety(7)).
    unsafe {
        command.pre_exec(move || match (&members).write(b"0") {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Err(error),
            _ => Ok(()),
        });
    }
}

pub fn exempt(command: &mut Command) {
    command.env_remove(MARK);
    for outer in HIERARCHIES.iter().filter_map(|(root, controller)| own_group(root, controller)) {
        let is_ours = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        let Some(outermost) = outer.ancestors().filter(|path| is_ours(path)).last().and_then(Path::parent) else {
            continue;
        };
        if let Ok(members) = File::options().write(true).open(outermost.join("cgroup.procs")) {
            enter(command, members);
        }
    }
}

fn unique_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", Owner::current(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn own_group(root: &str, controller: &str) -> Option<PathBuf> {
    let root = Path::new(root);
    let marker = if controller.is_empty() { "cgroup.controllers" } else { "cgroup.procs" };
    let path = root.join(crate::limits::current_group(controller).trim_start_matches('/'));
    (root.join(marker).exists() && path.is_dir()).then_some(path)
}

impl std::fmt::Display for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.control_group {
            Some(group) => write!(f, "commands in {}", group.display()),
            None => write!(f, "commands marked {}", self.mark),
        }
    }
}

impl Members {
    /// Ends all members and removes their control group. Returns `false` if the group was empty.
    pub(crate) fn end(&self) -> io::Result<bool> {
        let deadline = Instant::now() + END_LIMIT;
        let mut found = match &self.control_group {
            Some(group) => end_control_group(group, deadline)?,
            None => false,
        };
        loop {
            let left = self.outside_the_control_group();
            let Some(first) = left.first() else { return Ok(found) };
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{} does not end", name_of(*first))));
            }
            left.iter().for_each(|process| send(*process, Signal::KILL));
            found = true;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        self.list().into_iter().for_each(|process| send(process, signal));
    }

    fn list(&self) -> Vec<u32> {
        let mut all = self.control_group.as_deref().map(members_of).unwrap_or_default();
        all.extend(self.outside_the_control_group());
        all.sort_unstable();
        all.dedup();
        all
    }

    fn outside_the_control_group(&self) -> Vec<u32> {
        let device = self.place.as_ref().filter(|_| self.control_group.is_none());
        let device = device.and_then(|place| mounted_device(place));
        let mark = format!("{MARK}={}", self.mark);
        let is_member = |process: &u32| {
            *process != std::process::id()
                && (has_mark(*process, &mark)
                    || device.is_some_and(|device| self.is_later(*process) && uses(*process, device)))
        };
        numbers(Path::new("/proc")).into_iter().filter(is_member).filter(|process| is_running(*process)).collect()
    }

    fn is_later(&self, process: u32) -> bool {
        stat_of(process).is_some_and(|(_, start)| start >= self.since_ticks)
    }
}

fn is_running(process: u32) -> bool {
    stat_of(process).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn send(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(handle) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
        let _ = pidfd_send_signal(handle, signal);
    }
}

fn has_mark(process: u32, mark: &str) -> bool {
    let text = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    text.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

/// Returns the device number of the file system whose root is `place`; `None` for other directories, which unrelated
/// programs use too.
fn mounted_device(place: &Path) -> Option<u64> {
    let line = guard::mounts().ok()?.into_iter().rfind(|line| line.mount_point == place)?;
    Some(rustix::fs::makedev(line.device.0, line.device.1))
}

fn uses(process: u32, device: u64) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let open = numbers(&folder.join("fd")).into_iter().map(|number| folder.join("fd").join(number.to_string()));
    let named = ["cwd", "root", "exe"].map(|name| folder.join(name));
    named.into_iter().chain(open).any(|path| path.metadata().is_ok_and(|found| found.dev() == device))
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Names a process, for example `sleep 600 (process 4711)`.
fn name_of(process: u32) -> String {
    let read = |file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
    let name = if line.trim().is_empty() { String::from_utf8_lossy(&read("comm")).into_owned() } else { line };
    let shown: String = name.trim().chars().filter(|sign| !sign.is_control()).take(60).collect();
    format!("{shown} (process {process})")
}

fn below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn members_of(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.parse().ok()).filter(|process| *process > 0);
    own.chain(below(group).iter().flat_map(|group| members_of(group))).collect()
}

/// Removes the group: rmdir succeeds only on an empty group, and a removed group accepts no process.
fn end_control_group(group: &Path, deadline: Instant) -> io::Result<bool> {
    let mut found = false;
    loop {
        let members = !members_of(group).is_empty();
        match remove(group) {
            Ok(removed) => return Ok(found || removed && members),
            Err(Errno::BUSY) if Instant::now() < deadline => kill_all(group),
            Err(errno) => return Err(errno.into()),
        }
        found = true;
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn remove(group: &Path) -> Result<bool, Errno> {
    for group in below(group) {
        remove(&group)?;
    }
    match rustix::fs::rmdir(group) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Uses cgroup.kill (Linux 5.14, Documentation/admin-guide/cgroup-v2.rst). Without it, freezes the members, so that
/// none can fork, and kills them one by one.
fn kill_all(group: &Path) {
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let freeze = |on: bool| {
        let (version_2, version_1) = if on { ("1", "FROZEN") } else { ("0", "THAWED") };
        let _ = fs::write(group.join("cgroup.freeze"), version_2)
            .or_else(|_| fs::write(group.join("freezer.state"), version_1));
    };
    freeze(true);
    members_of(group).into_iter().for_each(|process| send(process, Signal::KILL));
    freeze(false);
}

fn ends_within(handle: &impl std::os::fd::AsFd, time: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
