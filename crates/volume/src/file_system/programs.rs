//! Runs file-system programs in the C locale.

use super::CheckReport;
use crate::error::TargetError;
use crate::guardian;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) struct ProgramResult {
    pub command: String,
    pub success: bool,
    pub status: String,
    pub signal: Option<i32>,
    pub text: String,
}

impl ProgramResult {
    /// Returns a report whose output is not empty if the program failed.
    pub(crate) fn report(self) -> CheckReport {
        let ended = match self.signal {
            Some(signal) => format!("killed by signal {signal}"),
            None if self.text.is_empty() && !self.success => self.status,
            None => String::new(),
        };
        let output = [self.text, ended].join("\n").trim().to_string();
        CheckReport { command: self.command, clean: self.success, output }
    }

    pub(crate) fn failure(self) -> TargetError {
        // Some programs print their usage after the error.
        let reason = self.text.split("Usage:").next().filter(|reason| !reason.trim().is_empty()).unwrap_or(&self.text);
        let mut lines: Vec<&str> = reason.lines().filter(|line| !line.trim().is_empty()).rev().take(6).collect();
        lines.reverse();
        let output = lines.join(" / ");
        TargetError::Program { command: self.command, status: self.status, output }
    }
}

pub(crate) fn run(program: &[&str], arguments: &[&str], package: &str) -> Result<ProgramResult, TargetError> {
    let words: Vec<&str> = program.iter().chain(arguments).copied().collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("LC_ALL", "C").env("PATH", search_path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = guardian::output(&mut command).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => TargetError::missing(
            format!("the program {}", words[0]),
            format!("install the package {package} (apt-get install {package})"),
        ),
        _ => TargetError::io("run", Path::new(words[0]))(error),
    })?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(ProgramResult {
        command: words.join(" "),
        success: output.status.success(),
        status: output.status.to_string(),
        signal: output.status.signal(),
        text: text.trim().to_string(),
    })
}

/// Returns the search path with the directories of file-system programs, which users' search paths often lack.
fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into()))
}

pub(super) fn ext4_features(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("Filesystem features:"))?;
    one_line(line)
}

pub(super) fn one_line(text: &str) -> Option<String> {
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub(super) fn btrfs_features(text: &str) -> Option<String> {
    let wanted = ["csum_type", "sectorsize", "nodesize", "compat_ro_flags", "incompat_flags"];
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| wanted.contains(name)) else { continue };
        found.push(format!("{name}={}", words.collect::<Vec<_>>().join(" ")));
        while let Some(more) = lines.next_if(|line| line.starts_with("\t\t\t")) {
            found.push(more.trim().trim_matches(['(', ')', '|']).trim().to_string());
        }
    }
    found.retain(|word| !word.is_empty());
    Some(found.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = run(&["mkfs.no-such-thing"], &[], "no-such-package").err().unwrap();
        assert!(error.to_string().contains("no-such-package"), "{error}");
        assert!(matches!(error, TargetError::Missing { .. }));
    }
}
