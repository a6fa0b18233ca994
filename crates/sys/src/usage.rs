//! Resource usage of processes (getrusage(2), wait4(2), proc_pid_stat(5)).

use rustix::io::Errno;
use rustix::process::Pid;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    pub peak_resident_bytes: u64,
}

impl Usage {
    pub fn processor_time(&self) -> Duration {
        self.user + self.system
    }

    fn of(usage: &libc::rusage) -> Self {
        let time = |time: libc::timeval| Duration::new(time.tv_sec.max(0) as u64, time.tv_usec as u32 * 1000);
        Self {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            // getrusage(2): in KiB on Linux.
            peak_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10,
        }
    }
}

/// Returns the usage of this process, including terminated threads (`RUSAGE_SELF`).
pub fn this_process() -> Usage {
    ask(libc::RUSAGE_SELF)
}

/// Returns the usage of terminated, waited-for children and their descendants (`RUSAGE_CHILDREN`).
pub fn ended_children() -> Usage {
    ask(libc::RUSAGE_CHILDREN)
}

fn ask(who: libc::c_int) -> Usage {
    Usage::of(&rusage(who))
}

fn switches_of_this_thread() -> u64 {
    u64::try_from(rusage(libc::RUSAGE_THREAD).ru_nvcsw).unwrap_or(0)
}

fn rusage(who: libc::c_int) -> libc::rusage {
    // SAFETY: all-zero bytes are a valid rusage, and the call writes one structure of that type.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(who, &raw mut usage);
        usage
    }
}

/// Waits for a child; returns its status, and its usage including its own children.
pub fn wait(child: Pid) -> crate::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the call writes only to the two given variables, which live until it returns.
        let found = unsafe { libc::wait4(child.as_raw_nonzero().get(), &raw mut status, 0, &raw mut usage) };
        if found >= 0 {
            return Ok((ExitStatus::from_raw(status), Usage::of(&usage)));
        }
        match crate::errno::last() {
            Errno::INTR => {}
            errno => return Err(errno),
        }
    }
}

/// Returns the user and system time of a process including terminated threads, rounded to clock ticks; `None` if it
/// does not exist.
pub fn of_process(pid: u32) -> Option<(Duration, Duration)> {
    let (user, system) = ticks_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let in_a_second = rustix::param::clock_ticks_per_second().max(1);
    let time = |ticks: u64| Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / in_a_second));
    Some((time(user), time(system)))
}

/// Returns the time that a thread of a process waited for a processor, of the thread that waited longest. The source is
/// `run_delay` (Documentation/scheduler/sched-stats.rst). `None`: the process does not exist, or the kernel does not
/// count it.
pub fn longest_wait_of(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let waits = threads.filter_map(|thread| wait_of(&fs::read_to_string(thread.path().join("schedstat")).ok()?));
    waits.max()
}

pub fn wait_of_this_thread() -> Option<Duration> {
    wait_of(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTimes {
    pub ran: Duration,
    /// Waiting for a processor; `None` if the kernel does not count it.
    pub waited: Option<Duration>,
    /// Voluntary context switches: one per sleep, and one more per stop (`ru_nvcsw` of getrusage(2)).
    pub switches: u64,
}

impl ThreadTimes {
    /// Parses `ran waited slices` in nanoseconds. Without `CONFIG_SCHED_INFO` all three are 0.
    fn of(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_whitespace().map(|field| field.parse().ok());
        let [ran, waited, slices] = [fields.next()??, fields.next()??, fields.next()??];
        let waited = (slices > 0).then_some(Duration::from_nanos(waited));
        Some(Self { ran: Duration::from_nanos(ran), waited, switches: 0 })
    }
}

#[derive(Debug)]
pub struct ThreadTimesFile(fs::File);

impl ThreadTimesFile {
    /// Opens the statistics of this thread; `None` if the kernel does not count them.
    pub fn of_this_thread() -> Option<Self> {
        fs::File::open("/proc/thread-self/schedstat").ok().map(Self)
    }

    pub fn read(&self) -> Option<ThreadTimes> {
        let mut text = [0u8; 128];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let times = ThreadTimes::of(std::str::from_utf8(&text[..length]).ok()?)?;
        Some(ThreadTimes { switches: switches_of_this_thread(), ..times })
    }
}

fn wait_of(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().nth(1)?.parse().ok()?))
}

/// Fields 14 and 15, in clock ticks (proc_pid_stat(5)).
fn ticks_of(stat: &str) -> Option<(u64, u64)> {
    let mut fields = crate::processes::fields(stat)?.skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_parsed_after_any_program_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 123 45 6 7 20 0 1 0 99 0 0";
        assert_eq!(ticks_of(stat), Some((123, 45)));
        assert_eq!(ticks_of("7 (a"), None);
        assert!(of_process(std::process::id()).is_some());
        assert_eq!(of_process(u32::MAX), None);
    }

    #[test]
    fn waiting_time_is_the_second_field() {
        assert_eq!(wait_of("123 4567 89\n"), Some(Duration::from_nanos(4567)));
        assert_eq!(wait_of("123"), None);
        let times = |waited| ThreadTimes { ran: Duration::from_nanos(123), waited, switches: 0 };
        assert_eq!(ThreadTimes::of("123 4567 89\n"), Some(times(Some(Duration::from_nanos(4567)))));
        assert_eq!(ThreadTimes::of("123 0 0\n"), Some(times(None)));
        assert_eq!(ThreadTimes::of("123 4567"), None);
        let stated = |word: Option<Duration>| word.is_some();
        assert_eq!(stated(wait_of_this_thread()), stated(longest_wait_of(std::process::id())));
        assert_eq!(longest_wait_of(u32::MAX), None);
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "the tested function waits for it")]
    fn waiting_for_a_child_returns_its_usage() {
        let child = std::process::Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let (status, usage) = wait(Pid::from_child(&child)).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(usage.peak_resident_bytes > 100 << 10, "{usage:?}");
        assert_eq!(wait(Pid::from_child(&child)), Err(Errno::CHILD));
        assert!(this_process().peak_resident_bytes > 0);
    }
}
