//! Reads the ledger of cleanups from outside, and checks whether each entry still exists.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A cleanup that a process owes.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanupEntry(Value);

/// The entries of a process of root.
pub fn of(process: u32) -> Vec<CleanupEntry> {
    let folders = fs::read_dir("/run/senesce/owners").into_iter().flatten().flatten();
    let own = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(&format!("{process}-")));
    let entries = own.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    // An entry may be removed or half written while it is read.
    let texts = entries.filter_map(|entry| fs::read(entry.path()).ok());
    texts.filter_map(|text| serde_json::from_slice(&text).ok()).map(CleanupEntry).collect()
}

impl CleanupEntry {
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub fn is_there(&self) -> bool {
        let path = Path::new(self.text("path"));
        match self.kind() {
            "mount" | "custom-mount" => {
                is_mounted(self.text("point")) || Path::new(self.text("point")).symlink_metadata().is_ok()
            }
            "fuse-mount" => is_mounted(self.text("point")),
            "tree" | "directory" | "control-group" => path.symlink_metadata().is_ok(),
            "process" => self.is_running(),
            "commands" => self.has_members(),
            "loop" => self.is_attached(path),
            // `ours` is the value set by the process; without it, or if it was set before, the owner is unknown.
            "value" => self.0["ours"].as_str().is_some_and(|ours| ours != self.text("value") && chosen(path) == ours),
            "mapping" => Path::new("/dev/mapper").join(self.text("name")).exists(),
            "frozen" => false,
            other => panic!("an entry of the kind {other:?}"),
        }
    }

    fn is_running(&self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0["process"])).unwrap_or_default();
        let Some((_, rest)) = text.rsplit_once(')') else { return false };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        !matches!(fields[0], "Z" | "X") && fields[19].parse().ok() == self.0["start_ticks"].as_u64()
    }

    /// A control group, or a process with the mark in its environment.
    fn has_members(&self) -> bool {
        let mark = format!("SENESCE_COMMAND_GROUP={}", self.text("mark"));
        let has_mark = |entry: &fs::DirEntry| {
            let text = fs::read(entry.path().join("environ")).unwrap_or_default();
            text.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        self.0["control_group"].as_str().is_some_and(|path| Path::new(path).exists())
            || fs::read_dir("/proc").unwrap().flatten().any(|entry| has_mark(&entry))
    }

    fn is_attached(&self, device: &Path) -> bool {
        let words = ["--noheadings", "--output", "BACK-INO"];
        let output = Command::new("losetup").args(words).arg(device).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().ok() == self.0["inode"].as_u64()
    }
}

fn is_mounted(point: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(point))
}

/// The word in brackets of a choice, or the whole text.
fn chosen(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_string());
    word.unwrap_or_else(|| text.trim().to_string())
}
