//! What the kernel tells of this machine's memory and of the processor time of its processes.

use crate::units::Bytes;
use std::fs;

/// Memory of this machine; none where it does not tell.
pub fn memory_total() -> Option<Bytes> {
    meminfo("MemTotal")
}

/// Memory that can be taken without swapping, by the kernel's estimate; none where it does not tell.
pub fn memory_available() -> Option<Bytes> {
    meminfo("MemAvailable")
}

fn meminfo(name: &str) -> Option<Bytes> {
    value_of(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Lines are `NAME:   NUMBER kB`, where kB means KiB (proc_meminfo(5)).
fn value_of(text: &str, name: &str) -> Option<Bytes> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(Bytes(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10))
}

/// User and system time of a process and its ended threads in seconds; none for one that is gone.
pub fn processor_seconds(pid: u32) -> Option<(f64, f64)> {
    let (user, system) = ticks_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let in_a_second = rustix::param::clock_ticks_per_second().max(1) as f64;
    Some((user as f64 / in_a_second, system as f64 / in_a_second))
}

/// The fields 14 and 15, in clock ticks; the name of the program, field 2, is in brackets and may hold any character
/// (proc_pid_stat(5)).
fn ticks_of(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_by_its_whole_name() {
        let text = "MemTotalX:  1 kB\nMemTotal:       24689180 kB\nHugePages_Total:       0\n";
        assert_eq!(value_of(text, "MemTotal"), Some(Bytes(24_689_180 << 10)));
        assert_eq!((value_of(text, "HugePages_Total"), value_of(text, "SwapTotal")), (None, None));
        assert!(memory_available().unwrap() <= memory_total().unwrap());
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 123 45 6 7 20 0 1 0 99 0 0";
        assert_eq!(ticks_of(stat), Some((123, 45)));
        assert_eq!(ticks_of("7 (a"), None);
        assert!(processor_seconds(std::process::id()).is_some());
        assert_eq!(processor_seconds(u32::MAX), None);
    }
}
