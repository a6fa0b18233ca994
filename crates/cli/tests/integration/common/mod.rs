//! Shared by the tests of the command line.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

pub fn senesce(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join(".cache"));
    command
}

/// A private folder for a test, in memory if possible, because a busy disk delays a test by minutes.
pub fn temporary_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("make a folder")
}

pub fn run(folder: &Path, words: &[&str]) -> Output {
    senesce(folder).args(words).output().expect("run senesce")
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    })
}

/// A running process with captured output that has printed `word` to standard error.
pub struct Started {
    child: Child,
    messages: BufReader<ChildStderr>,
}

pub fn start_until(folder: &Path, words: &[&str], word: &str) -> Started {
    let mut child =
        senesce(folder).args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start senesce");
    let mut messages = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(messages.read_line(&mut line).expect("read") > 0, "it ended without saying {word}");
    }
    Started { child, messages }
}

impl Started {
    pub fn interrupt(self) -> Output {
        interrupt(&self.child);
        self.wait()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is still running. Its output must fit the pipe.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("wait for senesce").is_none()
    }

    pub fn wait(mut self) -> Output {
        let mut stderr = Vec::new();
        self.messages.read_to_end(&mut stderr).expect("read");
        let output = self.child.wait_with_output().expect("reap");
        Output { stderr, ..output }
    }
}

/// Waits until something has happened; the limit of the whole test run applies.
pub fn wait_until(mut happened: impl FnMut() -> bool) {
    while !happened() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

pub fn wait_for_event(run: &Path, kind: &str) {
    let word = format!("\"kind\":\"{kind}\"");
    wait_until(|| std::fs::read_to_string(run.join("events.jsonl")).is_ok_and(|text| text.contains(&word)));
}

pub fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Loop devices and mounts that still use something below `folder`.
pub fn leftovers(folder: &Path) -> Vec<String> {
    let name = folder.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(&name) {
            found.push(format!("{}: {backing}", entry.file_name().to_string_lossy()));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    found.extend(mounts.lines().filter(|line| line.contains(&name)).map(str::to_string));
    found
}

/// The words of a command line without quotes.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub fn run_line(folder: &Path, line: &str) -> Output {
    run(folder, &words(line))
}

/// Runs a command line, which must end with this exit code.
pub fn ends(folder: &Path, line: &str, code: i32) -> Output {
    ended(run_line(folder, line), line, code)
}

/// Checks the exit code of a command line. Measurements are invalid, with exit code 1, while the host takes the processors.
pub fn ended(output: Output, line: &str, code: i32) -> Output {
    let is_stolen = String::from_utf8_lossy(&output.stdout).contains("\"cause\": \"stolen\"");
    let code = if code == 0 && output.status.code() == Some(1) && is_stolen { 1 } else { code };
    assert_eq!(
        output.status.code(),
        Some(code),
        "{line}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        stderr(&output)
    );
    output
}

pub fn succeeds(folder: &Path, line: &str) -> Output {
    ends(folder, line, 0)
}

/// What a command line prints to standard output; it must succeed.
pub fn printed(folder: &Path, line: &str) -> String {
    String::from_utf8_lossy(&succeeds(folder, line).stdout).into_owned()
}

pub fn json_of(folder: &Path, line: &str) -> Value {
    json(&run_line(folder, line))
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn assert_keys(value: &Value, keys: &str) {
    for key in words(keys) {
        assert!(!value[key].is_null(), "{key} is missing in {value}");
    }
}

/// Starts an aging in the given words, and waits until it has sampled the file system once.
pub fn start_aging(folder: &Path, line: &str, run: &str) -> Started {
    let started = start_until(folder, &words(line), "aging:");
    wait_for_event(&folder.join(run), "sample");
    started
}
