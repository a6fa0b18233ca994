//! Conditions that numbers depend on: machine, kernel, limits, program. Targets add their own (mkfs, queue, device).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Value of `vm.clock` in virtual time.
const VIRTUAL: &str = "virtual";
const RANDOM: &str = "random";

/// Fact with the options of a mount.
const MOUNT_OPTIONS: &str = "fs.mount_options";
/// Mount options that senesce adds by itself, such as to a file system that it resumes.
const OWN_OPTIONS: [&str; 1] = ["nosymfollow"];

/// Named facts, stored as `env.json`. Names are dotted paths ("kernel.release", "queue.scheduler").
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(pub BTreeMap<String, Value>);

impl Environment {
    /// Collects facts about this machine and process.
    pub fn capture() -> Self {
        let mut facts = Self::default();
        facts.put("program.version", env!("CARGO_PKG_VERSION"));
        let uname = rustix::system::uname();
        facts.put("kernel.release", uname.release().to_string_lossy());
        facts.put("kernel.version", uname.version().to_string_lossy());
        facts.put("machine.architecture", uname.machine().to_string_lossy());
        crate::circumstances::at_start(&mut facts);
        let said = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        facts.put("kernel.command_line", known_parameters(&said));
        facts.put("kernel.mitigations", mitigations());
        facts.put("cpu.model", cpu_model());
        facts.0.insert("machine.virtual".into(), crate::machine::is_virtual().into());
        facts.0.insert("cpu.count".into(), std::thread::available_parallelism().map_or(0, usize::from).into());
        facts.put_file("cpu.governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        facts.put_file("memory.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled");
        let memory_kib = crate::machine::memory_total().map_or(0, |memory| memory.0 >> 10);
        facts.0.insert("memory.total_kib".into(), memory_kib.into());
        facts.put_file("vm.dirty_ratio", "/proc/sys/vm/dirty_ratio");
        facts.put_file("vm.dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio");
        facts.put_file("cgroup.memory_limit_v1", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
        facts.put_file("cgroup.memory_max", "/sys/fs/cgroup/memory.max");
        facts.put_file("cgroup.cpu_max", "/sys/fs/cgroup/cpu.max");
        facts.0.insert("process.root".into(), is_root().into());
        // Set by the host in its guest: numbers under emulation must be marked.
        if let Some(accelerator) = crate::machine::guest_accelerator() {
            facts.put("vm.accelerator", accelerator);
            facts.put("vm.clock", if crate::machine::time_is_virtual() { VIRTUAL } else { "real" });
            facts.put("vm.kernel", std::env::var(crate::machine::GUEST_KERNEL).unwrap_or_default());
            for (name, variable) in [
                ("vm.confinement", crate::machine::GUEST_CONFINEMENT),
                ("vm.addresses", crate::machine::GUEST_ADDRESSES),
            ] {
                std::env::var(variable).into_iter().for_each(|value| facts.put(name, value));
            }
            let userland = std::env::var(crate::machine::GUEST_USERLAND);
            facts.put("vm.userland", userland.unwrap_or_else(|_| "the host's".into()));
        }
        facts
    }

    /// Returns the accelerator of the guest, `kvm`, `tcg` or `uml`; `None` outside of a guest.
    pub fn accelerator(&self) -> Option<&str> {
        self.0.get("vm.accelerator").and_then(Value::as_str)
    }

    /// Returns whether the processor is emulated, so that times are those of the emulator.
    pub fn is_emulated(&self) -> bool {
        self.accelerator().is_some_and(crate::machine::has_no_real_times)
    }

    /// Returns whether the host forbade fixed addresses, so that layouts of a guest in virtual time can differ.
    pub fn has_random_addresses(&self) -> bool {
        self.0.get("vm.addresses").and_then(Value::as_str) == Some(RANDOM)
    }

    /// Returns whether the clock is that of a guest in virtual time.
    pub fn has_virtual_clock(&self) -> bool {
        self.0.get("vm.clock").and_then(Value::as_str) == Some(VIRTUAL)
    }

    /// Caveats that a report must show before any number.
    pub fn caveats(&self) -> Vec<String> {
        self.of_guest().into_iter().chain(crate::circumstances::caveats(self)).collect()
    }

    /// Returns the caveat for results without times, where load does not matter.
    pub fn of_guest(&self) -> Option<String> {
        match self.accelerator() {
            Some("tcg") => Some(
                "taken in the guest under emulation (TCG): order, limits and layout are valid, times are the emulator's"
                    .into(),
            ),
            Some("uml") => Some(
                "taken in the guest under user-mode Linux (UML): order, limits and layout are valid, times are not".into(),
            ),
            Some(other) => Some(format!("taken in the guest ({other})")),
            None => None,
        }
    }

    /// Adds a fact.
    pub fn put(&mut self, name: &str, value: impl AsRef<str>) {
        self.0.insert(name.into(), Value::String(value.as_ref().trim().to_string()));
    }

    /// Adds the content of a small file, if it can be read.
    pub fn put_file(&mut self, name: &str, path: impl AsRef<Path>) {
        if let Ok(text) = fs::read_to_string(path) {
            self.put(name, text);
        }
    }

    /// Adds every fact of `other`, prefixed by `prefix.`.
    pub fn extend(&mut self, prefix: &str, other: &Environment) {
        for (name, value) in &other.0 {
            self.0.insert(format!("{prefix}.{name}"), value.clone());
        }
    }

    /// Returns the facts whose names are in `other`.
    pub fn only(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| other.0.contains_key(*name))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    }

    /// Facts that differ: name, own value, other value (`null` if absent). Omits date, label and load, which always differ, and
    /// mount options that senesce adds.
    pub fn differences(&self, other: &Environment) -> Vec<(String, Value, Value)> {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let get = |facts: &Environment, name: &str| facts.0.get(name).cloned().unwrap_or(Value::Null);
        names
            .into_iter()
            .filter(|name| !crate::circumstances::is_circumstance(name))
            .map(|name| (name.clone(), without_own(name, get(self, name)), without_own(name, get(other, name))))
            .filter(|(_, ours, theirs)| match (below_mount(ours), below_mount(theirs)) {
                (Some(ours), Some(theirs)) => ours != theirs,
                _ => ours != theirs,
            })
            .collect()
    }
}

/// Removes the mount options that senesce adds from the fact that lists them.
fn without_own(name: &str, fact: Value) -> Value {
    match fact {
        Value::String(options) if name.strip_prefix("guest.").unwrap_or(name) == MOUNT_OPTIONS => {
            let kept: Vec<&str> = options.split(',').filter(|option| !OWN_OPTIONS.contains(option)).collect();
            Value::String(kept.join(","))
        }
        other => other,
    }
}

/// Returns the part of a path below a mount of senesce, which has a random name.
fn below_mount(fact: &Value) -> Option<&str> {
    let (folder, rest) = fact.as_str()?.split_once("/mnt/")?;
    let name = folder.rsplit('/').next()?;
    let is_own = name == "senesce" || name.starts_with("senesce-");
    is_own.then(|| rest.split_once('/').map_or("", |(_, below)| below))
}

/// Kernel parameters that affect measurements, by name or by the part before a dot. All others stay out of records, because they
/// name disks, consoles and secrets.
const KNOWN_PARAMETERS: &[&str] = &[
    "amd_iommu",
    "amd_pstate",
    "audit",
    "cgroup_disable",
    "clocksource",
    "cpufreq",
    "cpuidle",
    "default_hugepagesz",
    "dm_mod",
    "elevator",
    "ext4",
    "f2fs",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "isolcpus",
    "kpti",
    "l1tf",
    "maxcpus",
    "mds",
    "mem",
    "memmap",
    "mitigations",
    "nmi_watchdog",
    "no_hz",
    "nohz",
    "nohz_full",
    "nopti",
    "nosmt",
    "nospectre_v2",
    "nr_cpus",
    "numa",
    "numa_balancing",
    "nvme",
    "nvme_core",
    "pcie_aspm",
    "preempt",
    "processor",
    "psi",
    "pti",
    "rcu_nocbs",
    "retbleed",
    "scsi_mod",
    "skew_tick",
    "slab_nomerge",
    "spec_store_bypass_disable",
    "spectre_v2",
    "systemd.unified_cgroup_hierarchy",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "tsx",
    "virtio_blk",
    "zswap",
];

/// Returns the known parameters of a kernel command line, and the number of others.
fn known_parameters(line: &str) -> String {
    let is_known = |word: &&str| {
        let name = word.split('=').next().unwrap_or(word);
        KNOWN_PARAMETERS.contains(&name)
            || name.split_once('.').is_some_and(|(head, _)| KNOWN_PARAMETERS.contains(&head))
    };
    let (known, others): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(is_known);
    match others.len() {
        0 => known.join(" "),
        count => format!("{} ({count} more, not recorded)", known.join(" ")).trim_start().into(),
    }
}

/// Returns whether the effective user id is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Remedy for a right that only root has. If root lacks it too, [`remedy_of_right`] returns another one.
pub const USE_SUDO: &str = "use sudo";

/// Returns the remedy for a missing right: [`USE_SUDO`], or `of_root` if root misses it.
pub fn remedy_of_right(of_root: &'static str) -> &'static str {
    if is_root() { of_root } else { USE_SUDO }
}

/// Returns the remedy for a denied access to a file, a device or a call of the kernel.
pub fn remedy_of_denied_access() -> &'static str {
    match is_root() {
        true => "check the permissions, or run outside of this container",
        false => "use sudo, or check the permissions",
    }
}

fn mitigations() -> String {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return "unknown".into() };
    let mut active: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let state = fs::read_to_string(entry.path()).ok()?;
            (!state.starts_with("Not affected"))
                .then(|| format!("{}={}", entry.file_name().to_string_lossy(), state.trim()))
        })
        .collect();
    active.sort();
    active.join("; ")
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
        .map_or_else(|| "unknown".to_string(), |(_, name)| name.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_kernel_parameters_are_recorded() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1234 mitigations=off nvme_core.io_timeout=30 token=s3cret quiet";
        assert_eq!(known_parameters(line), "mitigations=off nvme_core.io_timeout=30 (4 more, not recorded)");
        assert_eq!(known_parameters("isolcpus=1"), "isolcpus=1");
        assert_eq!(known_parameters("quiet"), "(1 more, not recorded)");
    }

    #[test]
    fn circumstances_are_recorded_but_not_compared() {
        let mut ours = Environment::capture();
        for name in ["run.date", "machine.host", "run.load_average"] {
            assert!(ours.0.contains_key(name), "{name}");
        }
        let mut theirs = ours.clone();
        theirs.put("run.date", "2001-01-01T00:00:00Z");
        theirs.put("guest.run.date", "2001-01-01T00:00:00Z");
        ours.put("target.name", "/run/senesce/mnt/loop1-uw2u/fs/mail");
        theirs.put("target.name", "/run/senesce/mnt/loop0-a8Zd/fs/mail");
        assert!(ours.differences(&theirs).is_empty());
        theirs.put("target.name", "/run/senesce/mnt/loop0-a8Zd/fs/news");
        assert_eq!(ours.differences(&theirs).len(), 1);
    }

    #[test]
    fn mount_options_of_senesce_do_not_differ() {
        let with = |options: &str| {
            let mut facts = Environment::default();
            facts.put("fs.mount_options", options);
            facts
        };
        assert!(with("rw,nosymfollow,relatime").differences(&with("rw,relatime")).is_empty());
        let found = with("rw,nosymfollow,noatime").differences(&with("rw,relatime"));
        assert_eq!(found, [("fs.mount_options".into(), "rw,noatime".into(), "rw,relatime".into())]);
    }

    #[test]
    fn addresses_are_random_only_if_recorded_as_random() {
        let mut facts = Environment::default();
        assert!(!facts.has_random_addresses());
        facts.put("vm.addresses", "fixed");
        assert!(!facts.has_random_addresses());
        facts.put("vm.addresses", RANDOM);
        assert!(facts.has_random_addresses());
    }

    #[test]
    fn capture_includes_the_kernel_and_differences_have_names() {
        let ours = Environment::capture();
        assert!(ours.0.contains_key("kernel.release"));
        let mut theirs = ours.clone();
        theirs.put("kernel.release", "0.0");
        let differences = ours.differences(&theirs);
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].0, "kernel.release");
    }
}
