//! Examines this machine. Changes nothing except an image in memory.

use crate::cold_self_test::cold_self_test;
use senesce_core::environment::{USE_SUDO, is_root, remedy_of_right};
use senesce_volume::file_system::remedy_of_mount_table;
use senesce_volume::trace::self_test;
use senesce_volume::{BlockDevice, FileSystem, guardian};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Works,
    Missing,
}

#[derive(Debug, Clone)]
pub struct Check {
    pub what: String,
    pub needed_for: String,
    pub state: State,
    pub found: String,
    pub remedy: String,
}

impl Check {
    /// Returns whether root may have what this user lacks.
    pub fn lacks_root(&self) -> bool {
        self.state == State::Missing && self.remedy == USE_SUDO
    }
}

/// The check for the rights of root.
pub const ROOT: &str = "root";

const PROGRAMS: [(&str, &str, &str); 8] = [
    ("qemu-system-x86_64", "the guest", "qemu-system-x86"),
    ("db_bench", "zns-rocksdb", "rocksdb-tools"),
    ("dmsetup", "image stitch", "dmsetup"),
    ("fusermount3", "the tiered file system as an ordinary user", "fuse3"),
    ("git", "vcs-scaling, git-aging", "git"),
    ("hg", "vcs-scaling", "mercurial"),
    ("bup", "vcs-scaling", "bup"),
    ("mpirun", "many nodes", "openmpi-bin"),
];

/// Checks the machine. `for_builds` are programs that compile a kernel, with their packages.
pub fn examine(for_builds: &[(&str, &str)]) -> Vec<Check> {
    // Without root, these can be missing or only invisible.
    let tracefs_remedy = remedy_of_right("mount -t tracefs tracefs /sys/kernel/tracing");
    let cgroups_remedy = remedy_of_right("mount a cgroup hierarchy with the memory controller");
    let caches_remedy = remedy_of_right("run outside of a container that has /proc read-only");
    let mut checks = vec![
        fact(ROOT, "images, devices, cold caches", is_root(), "sudo senesce doctor; directories work without root"),
        fact("/dev/loop-control", "images", exists("/dev/loop-control"), "modprobe loop"),
        fact("tracefs", "block traces", tracefs(), tracefs_remedy),
        fact("/dev/fuse", "the tiered file system", exists("/dev/fuse"), "modprobe fuse"),
        fact("memory limits", "runs with --memory", cgroups(), cgroups_remedy),
        fact("drop caches", "cold reads", is_root() && exists("/proc/sys/vm/drop_caches"), caches_remedy),
    ];
    checks.push(left_by_other_boots());
    checks.push(cold_reads());
    for file_system in FileSystem::ALL {
        let known = kernel_knows(file_system.name());
        let remedy = format!("modprobe {file_system}, or run it in the guest: senesce vm run");
        checks.push(fact(&format!("kernel: {file_system}"), "mounting it", known, &remedy));
    }
    checks.extend(FileSystem::ALL.into_iter().filter_map(mount_table));
    checks.push(block_traces());
    checks.extend(BlockDevice::drives().iter().map(drive));
    for file_system in FileSystem::ALL {
        let package = file_system.package();
        checks.extend(file_system.programs().map(|(program, purpose)| program_check(program, &purpose, package)));
    }
    checks.extend(PROGRAMS.iter().map(|(program, needed_for, package)| program_check(program, needed_for, package)));
    checks.extend(for_builds.iter().map(|(program, package)| program_check(program, "vm build", package)));
    checks
}

/// Checks for the table of mounts that a file system's defragmenter reads.
fn mount_table(file_system: FileSystem) -> Option<Check> {
    let table = file_system.entry().defragmenter?.mount_table?;
    let remedy = remedy_of_mount_table(Path::new(table));
    Some(fact(table, &format!("diagnose --try on {file_system}"), exists(table), &remedy))
}

fn left_by_other_boots() -> Check {
    let count = guardian::left_by_other_boots().len();
    let check =
        fact("scratch directories", "space", count == 0, "senesce doctor --sweep removes those of earlier boots");
    Check { found: if count == 0 { String::new() } else { format!("{count} of other boots") }, ..check }
}

fn fact(what: &str, needed_for: &str, works: bool, remedy: &str) -> Check {
    Check {
        what: what.into(),
        needed_for: needed_for.into(),
        state: if works { State::Works } else { State::Missing },
        found: String::new(),
        remedy: remedy.into(),
    }
}

fn cold_reads() -> Check {
    let (state, found) = match cold_self_test() {
        Ok(counted) => (State::Works, counted),
        Err(failure) => (State::Missing, failure.to_string()),
    };
    let remedy = remedy_of_right(
        "load loop devices and ext4; end the processes that keep mounts of senesce in other mount namespaces",
    );
    Check { what: "self-test: cold read".into(), needed_for: "cold reads".into(), state, found, remedy: remedy.into() }
}

fn drive(device: &BlockDevice) -> Check {
    let found = [Some(device.size().to_string()), device.serial().map(|serial| format!("serial {serial}"))];
    Check {
        what: device.path().display().to_string(),
        needed_for: if device.is_zoned() { "a zoned drive" } else { "a drive" }.into(),
        state: State::Works,
        found: found.into_iter().flatten().collect::<Vec<_>>().join(", "),
        remedy: "none needed".into(),
    }
}

fn program_check(program: &str, needed_for: &str, package: &str) -> Check {
    let found = find_program(program);
    Check {
        what: program.into(),
        needed_for: needed_for.into(),
        state: if found.is_some() { State::Works } else { State::Missing },
        found: found.unwrap_or_default(),
        remedy: format!("apt-get install {package}"),
    }
}

/// Searches also the directories that are only in root's PATH.
fn find_program(program: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(program))
        .find(|candidate| candidate.is_file())
        .map(|candidate| candidate.display().to_string())
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

fn tracefs() -> bool {
    ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"].iter().any(|path| exists(path))
        || (is_root() && kernel_knows("tracefs"))
}

fn cgroups() -> bool {
    let v1 = exists("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    let v2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok_and(|text| text.contains("memory"));
    is_root() && (v1 || v2)
}

fn block_traces() -> Check {
    let (state, found) = match self_test() {
        Ok(test) if test.agrees() => (State::Works, format!("{} reads, all of them traced and counted", test.asked)),
        Ok(test) => {
            let accounts = format!("of {} reads {} are in the trace", test.asked, test.traced);
            let counted = format!("{} were counted by the device", test.device_stat.reads);
            (State::Missing, [accounts, counted].into_iter().chain(test.problems).collect::<Vec<_>>().join("; "))
        }
        Err(error) => (State::Missing, error.to_string()),
    };
    let remedy = remedy_of_right("load loop devices and tracefs; end other tracers (ls /sys/kernel/tracing/instances)");
    Check {
        what: "self-test: block trace".into(),
        needed_for: "block traces".into(),
        state,
        found,
        remedy: remedy.into(),
    }
}

fn kernel_knows(file_system: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().last() == Some(file_system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failed_check_has_a_remedy() {
        let checks = examine(&[("nonexistent-compiler", "gcc")]);
        for check in &checks {
            assert!(!check.remedy.is_empty(), "{}", check.what);
        }
        let table = checks.iter().find(|check| check.what == "/etc/mtab").unwrap();
        assert_eq!(table.state == State::Works, Path::new("/etc/mtab").exists());
        assert!(table.remedy.ends_with("/etc/mtab"), "{}", table.remedy);
        let compiler = checks.last().unwrap();
        assert_eq!((compiler.state, compiler.remedy.as_str()), (State::Missing, "apt-get install gcc"));
    }
}
