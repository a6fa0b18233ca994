//! Identity of a process that survives the reuse of its number.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

/// A process: its number, start time, boot and PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub process: u32,
    /// In clock ticks since boot (proc_pid_stat(5), field 22).
    start_ticks: u64,
    /// The inode of its PID namespace (pid_namespaces(7)): a container numbers its own processes.
    namespace: u64,
    boot: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    /// It was killed or exits, but has not ended yet: it frees memory, writes to a slow disk, or waits for a FUSE
    /// server that was killed with it.
    Ending,
    Dead,
    /// It began in another boot: before this one, or under another kernel that shares the directory.
    OtherBoot,
    /// It is in another PID namespace, which this process cannot see.
    Unknown,
}

impl Owner {
    pub(crate) fn current() -> Self {
        Self::of(std::process::id())
    }

    pub(crate) fn of(process: u32) -> Self {
        let start_ticks = stat_of(process).map_or(0, |(_, start)| start);
        Self { process, start_ticks, namespace: namespace(), boot: boot() }
    }

    /// Returns the state of the process; a zombie counts as ended.
    pub(crate) fn life(&self) -> Life {
        if self.boot != boot() {
            return Life::OtherBoot;
        }
        if self.namespace != namespace() {
            return Life::Unknown;
        }
        match stat_of(self.process) {
            Some((_, start)) if start == self.start_ticks => life_of(&threads(self.process)),
            _ => Life::Dead,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    /// As in proc_pid_stat(5): 'Z' and 'X' have ended.
    state: char,
    is_killed: bool,
    /// The thread is past the point of no return (include/linux/sched.h, PF_EXITING).
    exits: bool,
}

impl Thread {
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Derives the life of a process from its threads. A single exiting thread does not end the process. SIGKILL does: it
/// stays pending for the process until its end (kernel/signal.c, complete_signal), while a thread takes its own pending
/// signals before it exits.
fn life_of(threads: &[Thread]) -> Life {
    if threads.iter().all(Thread::has_ended) {
        return Life::Dead;
    }
    let is_killed = threads.iter().any(|thread| thread.is_killed);
    match is_killed || threads.iter().all(|thread| thread.has_ended() || thread.exits) {
        true => Life::Ending,
        false => Life::Alive,
    }
}

const PF_EXITING: u64 = 0x4;

fn threads(process: u32) -> Vec<Thread> {
    let folder = format!("/proc/{process}/task");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let thread = |number: u32| {
        let fields = fields(&format!("{folder}/{number}/stat"))?;
        let state = fields.first()?.chars().next()?;
        // Field 9.
        let flags: u64 = fields.get(6)?.parse().ok()?;
        let status = fs::read_to_string(format!("{folder}/{number}/status")).unwrap_or_default();
        Some(Thread { state, is_killed: is_killed(&status), exits: flags & PF_EXITING != 0 })
    };
    numbers.filter_map(thread).collect()
}

/// `PID-START-NAMESPACE-BOOT`, the last three in hexadecimal digits: a part of a file name.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}-{:x}-{}", self.process, self.start_ticks, self.namespace, self.boot)
    }
}

impl Owner {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (rest, _random) = name.rsplit_once('-')?;
        let from = rest.rmatch_indices('-').nth(3)?.0;
        rest[from + 1..].parse().ok()
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split('-').collect();
        let [process, start, namespace, boot] = words.as_slice() else { return Err(()) };
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(drop);
        Ok(Self {
            process: process.parse().map_err(drop)?,
            start_ticks: number(start)?,
            namespace: number(namespace)?,
            boot: (*boot).to_string(),
        })
    }
}

/// Returns whether SIGKILL is pending (proc_pid_status(5): hexadecimal masks of the thread and of the process; bit 0 is
/// signal 1).
fn is_killed(status: &str) -> bool {
    let masks = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    let mut masks = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    masks.any(|mask| mask >> (libc::SIGKILL - 1) & 1 == 1)
}

fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.chars().filter(char::is_ascii_hexdigit).take(8).collect()
}

fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

pub(crate) fn stat_of(process: u32) -> Option<(char, u64)> {
    let fields = fields(&format!("/proc/{process}/stat"))?;
    Some((fields.first()?.chars().next()?, fields.get(19)?.parse().ok()?))
}

fn fields(path: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    Some(senesce_sys::processes::fields(&text)?.map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Owner {
        pub(in crate::guardian) fn of_another_boot(&self) -> Self {
            Self { boot: "0".into(), ..self.clone() }
        }
    }

    #[test]
    fn own_process_lives_and_round_trips() {
        let own = Owner::current();
        assert_eq!(own.life(), Life::Alive);
        assert_eq!(own.to_string().parse(), Ok(own.clone()));
        assert!(own.to_string().len() < 60, "{own}");
        assert_eq!(Owner::of_name(&format!("senesce-two-words-{own}-aB3")), Some(own));
        assert_eq!(Owner::of_name("senesce-0"), None);
        assert!("1-2-3".parse::<Owner>().is_err() && "".parse::<Owner>().is_err());
    }

    #[test]
    fn reused_number_is_another_process() {
        let own = Owner::current();
        assert_eq!(Owner { start_ticks: own.start_ticks + 1, ..own.clone() }.life(), Life::Dead);
        assert_eq!(own.of_another_boot().life(), Life::OtherBoot);
        assert_eq!(Owner { namespace: 1, ..own }.life(), Life::Unknown);
    }

    #[test]
    fn a_process_ends_when_it_was_killed_or_all_its_threads_exit() {
        let life = |threads: &[(char, &str)]| {
            let thread = |(state, does): &(char, &str)| Thread {
                state: *state,
                is_killed: *does == "killed",
                exits: *does == "exits",
            };
            life_of(&threads.iter().map(thread).collect::<Vec<_>>())
        };
        assert_eq!(life(&[('S', ""), ('D', "")]), Life::Alive);
        assert_eq!(life(&[('S', ""), ('D', "exits")]), Life::Alive, "one of its threads ends");
        assert_eq!(life(&[('S', "killed"), ('R', "")]), Life::Ending, "another has taken the signal");
        assert_eq!(life(&[('Z', "exits"), ('D', "killed")]), Life::Ending, "its first thread has ended");
        assert_eq!(life(&[('Z', "exits"), ('R', "exits")]), Life::Ending);
        assert_eq!(life(&[('Z', "killed"), ('X', "exits")]), Life::Dead);
        assert_eq!(life(&[]), Life::Dead);
    }

    #[test]
    fn pending_sigkill_is_found_for_thread_and_process() {
        let killed = |thread: u64, process: u64| {
            is_killed(&format!("Name:\tsh\nSigPnd:\t{thread:016x}\nShdPnd:\t{process:016x}\nSigBlk:\t{:016x}\n", 0x100))
        };
        assert!(killed(0x100, 0) && killed(0, 0x101));
        assert!(!killed(0, 0x200) && !is_killed(""));
    }

    #[test]
    fn killed_process_is_never_reported_alive() {
        for _ in 0..50 {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            let owner = Owner::of(child.id());
            assert_eq!(owner.life(), Life::Alive);
            child.kill().unwrap();
            while owner.life() != Life::Dead {
                assert_ne!(owner.life(), Life::Alive);
            }
            child.wait().unwrap();
            assert_eq!(owner.life(), Life::Dead);
        }
    }
}
