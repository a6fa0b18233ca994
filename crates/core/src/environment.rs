//! What a number depends on: machine, kernel, limits, program. Targets add what they know (mkfs, queue, device).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Named facts, stored as `env.json`. Names are dotted paths ("kernel.release", "queue.scheduler").
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(pub BTreeMap<String, Value>);

impl Environment {
    /// The facts about this machine and process.
    pub fn capture() -> Self {
        let mut facts = Self::default();
        facts.put("program.version", env!("CARGO_PKG_VERSION"));
        let uname = rustix::system::uname();
        facts.put("kernel.release", uname.release().to_string_lossy());
        facts.put("kernel.version", uname.version().to_string_lossy());
        facts.put("machine.architecture", uname.machine().to_string_lossy());
        facts.put_file("kernel.command_line", "/proc/cmdline");
        facts.put("kernel.mitigations", mitigations());
        facts.put("cpu.model", cpu_model());
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
        // The lab sets it in its guest: numbers taken under emulation must say so.
        if let Ok(accelerator) = std::env::var("SENESCE_LAB") {
            facts.put("lab.accelerator", accelerator);
        }
        facts
    }

    /// What a report must say about this environment before any number.
    pub fn caveats(&self) -> Vec<String> {
        match self.0.get("lab.accelerator").and_then(Value::as_str) {
            Some("tcg") => vec![
                "taken in the lab guest under emulation (TCG): order, limits and layout hold, times are the emulator's"
                    .into(),
            ],
            Some(other) => vec![format!("taken in the lab guest ({other})")],
            None => Vec::new(),
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

    /// The facts that differ: name, ours, theirs (`null` where absent).
    pub fn differences(&self, other: &Environment) -> Vec<(String, Value, Value)> {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let get = |facts: &Environment, name: &str| facts.0.get(name).cloned().unwrap_or(Value::Null);
        names
            .into_iter()
            .map(|name| (name.clone(), get(self, name), get(other, name)))
            .filter(|(_, ours, theirs)| ours != theirs)
            .collect()
    }
}

/// Whether the process has root's effective user id.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
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

/// Processor time of this process so far, user and system, in seconds.
pub fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_knows_the_kernel_and_diffs_by_name() {
        let ours = Environment::capture();
        assert!(ours.0.contains_key("kernel.release"));
        let mut theirs = ours.clone();
        theirs.put("kernel.release", "0.0");
        let differences = ours.differences(&theirs);
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].0, "kernel.release");
    }
}
