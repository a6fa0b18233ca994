//! Tells the program which commit it is made of, for records.

use std::process::Command;

fn main() {
    println!(
        "cargo::rustc-env=SENESCE_COMMIT={}",
        git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or("unknown".into())
    );
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git says in one line; none outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
