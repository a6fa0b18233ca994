//! Memory and CPU limits of a run, by control groups (version 2 if it has the controllers, else version 1).

use crate::error::TargetError;
use crate::guardian::{Guardian, Owner};
use senesce_core::environment::remedy_of_right;
use senesce_core::{Bytes, Environment};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const ROOT: &str = "/sys/fs/cgroup";

/// CPU period in microseconds (the kernel's default).
const PERIOD_US: u64 = 100_000;

/// `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    pub memory: Option<Bytes>,
    /// Number of CPUs, for example 1.5.
    pub cpus: Option<f64>,
}

#[derive(Debug, Default)]
pub struct AppliedLimits {
    groups: Vec<Group>,
    facts: Environment,
}

#[derive(Debug)]
struct Group {
    folder: PathBuf,
    before: PathBuf,
    guardian: Guardian,
}

impl Limits {
    /// Moves this process into control groups with these limits. [`TargetError::Usage`] for CPUs outside 0.01 to
    /// 4096, [`TargetError::Missing`] if the control group cannot be made or lacks such a limit.
    pub fn apply(self) -> Result<AppliedLimits, TargetError> {
        if self.cpus.is_some_and(|cpus| !(0.01..=4096.0).contains(&cpus)) {
            return Err(TargetError::Usage("the number of CPUs must be between 0.01 and 4096".into()));
        }
        let mut applied = AppliedLimits::default();
        if let Some(memory) = self.memory {
            let bytes = memory.0.to_string();
            match version_2_has("memory") {
                true => applied.enter("", &[("memory.max", &bytes), ("memory.swap.max", "0")])?,
                false => applied.enter("memory", &[("memory.limit_in_bytes", &bytes)])?,
            }
            applied.facts.put("limits.memory_bytes", &bytes);
        }
        if let Some(cpus) = self.cpus {
            let quota = ((cpus * PERIOD_US as f64) as u64).to_string();
            match version_2_has("cpu") {
                true => applied.enter("", &[("cpu.max", &format!("{quota} {PERIOD_US}"))])?,
                false => applied
                    .enter("cpu", &[("cpu.cfs_period_us", &PERIOD_US.to_string()), ("cpu.cfs_quota_us", &quota)])?,
            }
            applied.facts.put("limits.cpus", cpus.to_string());
        }
        Ok(applied)
    }
}

impl AppliedLimits {
    pub fn environment(&self) -> &Environment {
        &self.facts
    }

    pub(crate) fn enter(&mut self, controller: &str, values: &[(&str, &str)]) -> Result<(), TargetError> {
        let hierarchy = Path::new(ROOT).join(controller);
        let before = hierarchy.join(current_group(controller).trim_start_matches('/'));
        let existing = self.groups.iter().find(|group| group.folder.starts_with(&hierarchy) && controller.is_empty());
        let folder = existing.map_or_else(|| name_of_group(&hierarchy), |group| group.folder.clone());
        if existing.is_none() {
            // The guardian starts outside the group, so that it survives when the group runs out of memory.
            let guardian = Guardian::of_control_group(&folder, &before)?;
            make_group(&folder, &hierarchy)?;
            self.groups.push(Group { folder: folder.clone(), before, guardian });
        }
        for (name, value) in values {
            if controller.is_empty() {
                enable(&hierarchy, name)?;
            }
            write_value(&folder, name, value)?;
            self.facts.put_file(&format!("cgroup.{name}"), folder.join(name));
        }
        write_value(&folder, "cgroup.procs", &std::process::id().to_string())
    }
}

impl Drop for AppliedLimits {
    fn drop(&mut self) {
        for group in self.groups.iter_mut().rev() {
            // Long-lived children such as guardians leave the group too, because only an empty group can be removed.
            let members = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap_or_default();
            for process in members.lines() {
                let _ = fs::write(group.before.join("cgroup.procs"), process);
            }
            // If this fails, the guardian tries again when it ends.
            if fs::remove_dir(&group.folder).is_ok() {
                group.guardian.dismiss();
            }
        }
    }
}

pub(crate) fn version_2_has(controller: &str) -> bool {
    let controllers = fs::read_to_string(format!("{ROOT}/cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|name| name == controller)
}

/// Enables the controller of a file such as `memory.max` for the children of a version-2 hierarchy
/// (Documentation/admin-guide/cgroup-v2.rst, "Enabling and Disabling"). It stays enabled, which limits nothing.
fn enable(hierarchy: &Path, file: &str) -> Result<(), TargetError> {
    let controller = file.split('.').next().unwrap_or(file);
    let enabled = fs::read_to_string(hierarchy.join("cgroup.subtree_control")).unwrap_or_default();
    match enabled.split_whitespace().any(|name| name == controller) {
        true => Ok(()),
        false => write_value(hierarchy, "cgroup.subtree_control", &format!("+{controller}")),
    }
}

fn name_of_group(hierarchy: &Path) -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    hierarchy.join(format!("senesce-{}-{number}", Owner::current()))
}

fn make_group(folder: &Path, hierarchy: &Path) -> Result<(), TargetError> {
    fs::create_dir(folder).map_err(|_| {
        TargetError::missing(
            format!("a writable control group in {}", hierarchy.display()),
            remedy_of_right("use a machine with the memory and cpu controllers, or leave out the limit"),
        )
    })
}

/// Writes a control group file. These are interfaces: a failed write names the limit, not the space on a disk.
fn write_value(folder: &Path, name: &str, value: &str) -> Result<(), TargetError> {
    let path = folder.join(name);
    match fs::write(&path, value) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(TargetError::missing(
            format!("the control-group file {}", path.display()),
            "the controller is not enabled in this hierarchy; leave out the limit",
        )),
        Err(error) => Err(TargetError::io(&format!("write {value} to"), &path)(error)),
    }
}

/// Returns the group of this process in one hierarchy (`NUMBER:CONTROLLERS:PATH`, cgroups(7)); the controllers are
/// empty for version 2.
pub(crate) fn current_group(controller: &str) -> String {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == controller).then(|| path.to_string())
    });
    found.unwrap_or_else(|| "/".into())
}

/// Returns the memory left by the control groups of this process and their parents; droppable page cache counts as
/// free. `None`: unlimited.
pub fn memory_left() -> Option<Bytes> {
    memory_left_below(Path::new(ROOT), &current_group("memory"), &current_group(""))
}

/// The group's files for limit and usage, and the key of droppable cache in `memory.stat`.
type MemoryFiles = [&'static str; 3];

/// In version 1 the number without `total_` excludes nested groups.
const VERSION_1: MemoryFiles = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
const VERSION_2: MemoryFiles = ["memory.max", "memory.current", "inactive_file"];

fn memory_left_below(root: &Path, version_1: &str, version_2: &str) -> Option<Bytes> {
    let hierarchies = [(root.join("memory"), version_1, VERSION_1), (root.to_path_buf(), version_2, VERSION_2)];
    let left = |(hierarchy, group, files): &(PathBuf, &str, MemoryFiles)| {
        let own = hierarchy.join(group.trim_start_matches('/'));
        let groups = own.ancestors().take_while(|group| group.starts_with(hierarchy));
        groups.filter_map(|group| memory_left_of(group, *files)).min()
    };
    hierarchies.iter().filter_map(left).min().map(Bytes)
}

fn memory_left_of(group: &Path, [limit, usage, droppable]: MemoryFiles) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // Version 1 writes "no limit" as a number near 2^63.
    let limit = number(limit).filter(|limit| *limit < 1 << 60)?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let dropped = statistics.lines().find_map(|line| line.strip_prefix(droppable)?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(number(usage)?.saturating_sub(dropped.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs control groups"]
    fn limits_apply_read_back_and_end() {
        let before = current_group("memory");
        let limits = Limits { memory: Some(Bytes::gib(3)), cpus: Some(1.5) };
        let applied = limits.apply().unwrap();
        assert_eq!(applied.environment().0["cgroup.memory.limit_in_bytes"], (3u64 << 30).to_string());
        assert_eq!(applied.environment().0["cgroup.cpu.cfs_quota_us"], "150000");
        assert!(memory_left().unwrap() <= Bytes::gib(3));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let folders: Vec<PathBuf> = applied.groups.iter().map(|group| group.folder.clone()).collect();
        drop(applied);
        assert_eq!(current_group("memory"), before);
        assert!(folders.iter().all(|folder| !folder.exists()), "although a child is still running");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn group(folder: &Path, files: MemoryFiles, [limit, usage, droppable]: [&str; 3]) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(files[0]), limit).unwrap();
        fs::write(folder.join(files[1]), usage).unwrap();
        fs::write(folder.join("memory.stat"), format!("anon 1\n{} {droppable}\nactive_file 7\n", files[2])).unwrap();
    }

    #[test]
    fn memory_left_is_minimum_over_parent_groups() {
        let root = tempfile::tempdir().unwrap();
        let left = || memory_left_below(root.path(), "/", "/outer/inner").map(|bytes| bytes.0);
        assert_eq!(left(), None);
        group(&root.path().join("outer/inner"), VERSION_2, ["max\n", "500\n", "0"]);
        assert_eq!(left(), None, "no limit");
        group(&root.path().join("outer"), VERSION_2, ["1000\n", "700\n", "0"]);
        assert_eq!(left(), Some(300), "that of the group above");
        group(&root.path().join("outer/inner"), VERSION_2, ["900\n", "800\n", "0"]);
        assert_eq!(left(), Some(100));
        group(&root.path().join("outer/inner"), VERSION_2, ["900\n", "800\n", "600"]);
        assert_eq!(left(), Some(300), "page cache that can be dropped is left");
    }

    #[test]
    fn limits_of_both_cgroup_versions_count() {
        let root = tempfile::tempdir().unwrap();
        let left = || memory_left_below(root.path(), "/jobs/mine", "/").map(|bytes| bytes.0);
        group(&root.path().join("memory/jobs/mine"), VERSION_1, ["9223372036854771712", "500", "0"]);
        assert_eq!(left(), None, "no limit");
        group(&root.path().join("memory/jobs"), VERSION_1, ["4000", "3000", "200"]);
        assert_eq!(left(), Some(1200));
        group(root.path(), VERSION_2, ["1000", "100", "0"]);
        assert_eq!(left(), Some(900));
    }

    #[test]
    fn impossible_limits_are_usage_errors() {
        let limits = Limits { memory: None, cpus: Some(0.0) };
        assert!(matches!(limits.apply(), Err(TargetError::Usage(_))));
    }
}
