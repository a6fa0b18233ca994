//! Memory of the machine and of this process, in bytes (proc_meminfo(5), proc_pid_status(5), proc_pid_statm(5)).

use std::fs;

/// Returns the total memory; `None` if unknown.
pub fn total_bytes() -> Option<u64> {
    value_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")
}

/// Returns the memory available without swapping, as estimated by the kernel; `None` if unknown.
pub fn available_bytes() -> Option<u64> {
    value_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// Returns the maximum resident set of this process since execve(2).
pub fn peak_resident_bytes() -> Option<u64> {
    value_of(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// Returns the resident memory of this process that is not a file mapping.
pub fn anonymous_bytes() -> Option<u64> {
    value_of(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon")
}

pub fn resident_bytes() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Parses a line `NAME:   NUMBER kB`, where kB means KiB.
fn value_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_fields_are_matched_by_full_name() {
        let text = "MemTotalX:  1 kB\nMemTotal:       24689180 kB\nHugePages_Total:       0\n";
        assert_eq!(value_of(text, "MemTotal"), Some(24_689_180 << 10));
        assert_eq!((value_of(text, "HugePages_Total"), value_of(text, "SwapTotal")), (None, None));
        assert!(available_bytes().unwrap() <= total_bytes().unwrap());
    }

    #[test]
    fn resident_parts_do_not_exceed_the_peak() {
        let (anonymous, resident) = (anonymous_bytes().unwrap(), resident_bytes().unwrap());
        let peak = peak_resident_bytes().unwrap();
        assert!(anonymous > 0 && anonymous <= peak && resident <= peak + (1 << 20), "{anonymous} {resident} {peak}");
    }
}
