//! Determines the commit of the build: from the release tarball, else git, else the note of `cargo package`, else unknown. The
//! same commit gives the same bytes: the date is the commit's.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit.txt");
    let commit = archived().or_else(checked_out).or_else(packaged);
    let hash = commit.as_deref().and_then(|commit| commit.split(',').next()).unwrap_or("unknown");
    println!("cargo::rustc-env=SENESCE_COMMIT={hash}");
    let built = commit.as_deref().unwrap_or("commit unknown");
    println!("cargo::rustc-env=SENESCE_BUILT={built};");
}

/// Returns the commit from `commit.txt` as filled in by `git archive`.
fn archived() -> Option<String> {
    let text = std::fs::read_to_string("commit.txt").ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.starts_with("$Format")).then(|| text.to_string())
}

/// Returns the commit if this source is in git; a repository around it does not count.
fn checked_out() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&head).exists() {
        println!("cargo::rerun-if-changed={head}");
    }
    git(&["log", "-1", "--abbrev=12", "--format=%h, %cs"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// Returns the commit that `cargo package` noted, which has no date.
fn packaged() -> Option<String> {
    let noted = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, hash) = noted.split_once("\"sha1\": \"")?;
    hash.get(..12).map(String::from)
}
