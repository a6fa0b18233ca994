//! Processor time and stops of processes (proc_pid_stat(5)).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::SplitWhitespace;

/// PF_KTHREAD of include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Parent, whether it is a kernel thread, and clock ticks including waited-for children.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Process {
    parent: u32,
    is_kernels: bool,
    own_ticks: u64,
    children_ticks: u64,
}

/// Returns the clock ticks of this process, its descendants and kernel threads; `None` without /proc. Terminated kernel
/// threads drop out of the sum, so differences may be slightly too small.
pub fn ticks_of_ours_and_the_kernel() -> Option<u64> {
    let names = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process that has ended in the meantime has no file.
    let read = |pid: u32| Some((pid, of_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    let all: BTreeMap<u32, Process> = names.filter_map(read).collect();
    Some(ticks_in(&all, std::process::id()))
}

/// Examines the threads of this process and its descendants, one at a time, for stopped ones.
#[derive(Debug, Default)]
pub struct Scan {
    tasks: Vec<PathBuf>,
    next: usize,
    calls: u32,
}

/// Calls of [`Scan::next_stopped`] per examined task.
pub const BEATS_PER_SCAN: u32 = 2;

/// Further descendants are not examined.
const MOST_DESCENDANTS: usize = 64;

impl Scan {
    /// Examines the next task. If it is stopped, returns the number of tasks in the rotation.
    pub fn next_stopped(&mut self) -> Option<usize> {
        self.calls += 1;
        if !self.calls.is_multiple_of(BEATS_PER_SCAN) {
            return None;
        }
        if self.next >= self.tasks.len() {
            (self.tasks, self.next) = (tasks(), 0);
        }
        let stopped = self.tasks.get(self.next).is_some_and(|task| is_stopped(task));
        self.next += 1;
        stopped.then_some(self.tasks.len())
    }
}

/// Directories in /proc of all threads of this process, and of the first thread of each descendant.
fn tasks() -> Vec<PathBuf> {
    let threads = |process: &Path| -> Vec<PathBuf> {
        let found = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        found.map(|thread| thread.path()).collect()
    };
    let children = |thread: &PathBuf| fs::read_to_string(thread.join("children")).unwrap_or_default();
    let own = threads(Path::new("/proc/self"));
    let mut found = own.clone();
    let mut parents = own;
    while let Some(thread) = parents.pop() {
        for child in children(&thread).split_whitespace().map(|pid| Path::new("/proc").join(pid)) {
            if found.len() >= MOST_DESCENDANTS {
                return found;
            }
            parents.extend(threads(&child));
            found.push(child);
        }
    }
    found
}

/// Returns whether a thread is stopped by a signal or a tracer, or frozen. A frozen thread sleeps in a function of the
/// freezer (kernel/cgroup/freezer.c, kernel/freezer.c).
fn is_stopped(task: &Path) -> bool {
    let state = fs::read_to_string(task.join("stat")).ok();
    match state.as_deref().and_then(fields).and_then(|mut fields| fields.next()) {
        Some("T" | "t") => true,
        Some("S" | "D") => {
            let place = fs::read_to_string(task.join("wchan")).unwrap_or_default();
            ["freezer_trap", "refrigerator"].iter().any(|name| place.contains(name))
        }
        _ => false,
    }
}

fn ticks_in(all: &BTreeMap<u32, Process>, root: u32) -> u64 {
    let below_root = |pid: u32| {
        let parents = std::iter::successors(Some(pid), |pid| all.get(pid).map(|process| process.parent));
        // The table is not a snapshot, so a cycle cannot be excluded.
        parents.take(all.len() + 1).any(|pid| pid == root)
    };
    let taken = all.iter().map(|(pid, process)| match process.is_kernels {
        true => process.own_ticks,
        false if below_root(*pid) => process.own_ticks + process.children_ticks,
        false => 0,
    });
    taken.sum()
}

/// Fields of a stat file, starting with the third, the state. The second, the program's name, is in parentheses and may
/// contain any character.
pub fn fields(stat: &str) -> Option<SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Fields 4, 9 and 14 to 17.
fn of_stat(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = fields(stat)?.take(15).collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        parent: number(4)? as u32,
        is_kernels: number(9)? & KERNEL_THREAD != 0,
        own_ticks: number(14)? + number(15)?,
        children_ticks: number(16)? + number(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_after_any_program_name() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 69238880 100 0 0 0 123 45 6 7 20 0 1 0 99 0 0";
        let process = Process { parent: 3, is_kernels: true, own_ticks: 168, children_ticks: 13 };
        assert_eq!(of_stat(stat), Some(process));
        assert_eq!((of_stat("7 (a"), of_stat("7 (a) S 1 2")), (None, None));
    }

    #[test]
    fn scan_finds_a_stopped_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let signal = |signal| rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let rounds = |scan: &mut Scan| (0..1000).find_map(|_| scan.next_stopped());
        assert_eq!(rounds(&mut Scan::default()), None);
        signal(rustix::process::Signal::STOP);
        while !is_stopped(&Path::new("/proc").join(child.id().to_string())) {
            std::thread::yield_now();
        }
        assert!(rounds(&mut Scan::default()).is_some_and(|tasks| tasks >= 2));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn descendants_and_kernel_threads_count() {
        let user = |parent, own_ticks, children_ticks| Process { parent, is_kernels: false, own_ticks, children_ticks };
        let all = BTreeMap::from([
            (1, user(0, 1000, 5000)),
            (2, Process { is_kernels: true, ..user(0, 7, 0) }),
            (10, user(1, 100, 20)),
            (11, user(10, 3, 0)),
            (12, user(11, 2, 1)),
            (20, user(1, 500, 0)),
            (30, user(31, 900, 0)),
            (31, user(30, 900, 0)),
        ]);
        assert_eq!(ticks_in(&all, 10), 7 + 120 + 3 + 3);
        assert!(ticks_of_ours_and_the_kernel().is_some());
    }
}
