//! How a guest ended: its command's exit status, or why it is missing, from its console.

use crate::error::{GuestEnd, GuestError};
use crate::kernel::cache_folder;
use crate::watch::{open_shared, started};
use senesce_core::record::write_atomically;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Reads the command's exit status.
///
/// # Errors
/// It is missing: the guest did not boot, ran out of memory, or ended by itself.
pub(crate) fn read_exit(control: &Path, console: &Path) -> Result<u8, GuestError> {
    let said = console_output(console);
    // The kernel's message; a memory limit of the command's own cgroup has the message "Memory cgroup out of memory".
    let out_of_memory = said.lines().any(|line| line.contains("Out of memory") && !line.contains("cgroup"));
    // Each page of a program may be a mapping of the host.
    let out_of_mappings = said.contains("UML ran out of memory on the host side");
    let started = started(control);
    let status = exit_status(control).filter(|_| started);
    let panic = said.lines().find_map(|line| line.find("Kernel panic").map(|at| &line[at..]));
    let (end, what, remedy) = match (status, panic) {
        (Some(status), _) if status == 0 || !(out_of_memory || out_of_mappings) => return Ok(status),
        _ if out_of_mappings => (
            GuestEnd::OutOfMemory,
            "had a program that needs more mappings than the host allows".into(),
            "raise the limit of the host: sysctl vm.max_map_count=1048576",
        ),
        _ if out_of_memory => (GuestEnd::OutOfMemory, "ran out of memory".into(), "give it more with --memory"),
        // Not restored: the first process dies of it.
        (_, Some(message)) if !started && said.contains("put_fp_registers") => (
            GuestEnd::Panic,
            format!("panicked ({message}): the kernel has no space for the registers of this processor (AMX)"),
            "`senesce vm build 6.12` builds a kernel that has it",
        ),
        (_, Some(message)) => (
            GuestEnd::Panic,
            format!("panicked ({message})"),
            "if the command did not cause the panic, try another kernel: senesce vm setup --kernel FILE --modules DIR",
        ),
        // From the check at the start of user-mode Linux.
        _ if !started && said.contains("check_ptrace") => {
            return Err(GuestError::Missing {
                what: "user-mode Linux needs ptrace(2), which is forbidden here".into(),
                remedy: "allow it in the container's seccomp filter, or emulate a machine: senesce vm setup --engine \
                         qemu"
                    .into(),
            });
        }
        _ => {
            let what = if started { "ended before the command did" } else { "could not start the command" };
            (GuestEnd::Other, what.into(), "`senesce vm list` shows the setup")
        }
    };
    Err(GuestError::Guest { end, what, console: last_lines(&said), remedy: remedy.into() })
}

/// Keeps the whole console of the last guest that failed, and names its file in the error.
pub(crate) fn keep_console(error: GuestError, console: &Path) -> GuestError {
    let GuestError::Guest { end, what, console: lines, remedy } = error else { return error };
    let keep = || -> Option<PathBuf> {
        let path = cache_folder().ok()?.join("guest-console.log");
        fs::create_dir_all(path.parent()?).ok()?;
        write_atomically(&path, console_output(console).as_bytes()).ok()?;
        Some(path)
    };
    let kept = keep().map_or(String::new(), |path| format!("\nthe whole console is in {}", path.display()));
    GuestError::Guest { end, what, console: lines, remedy: format!("{remedy}{kept}") }
}

pub(crate) fn exit_status(control: &Path) -> Option<u8> {
    const LONGEST: u64 = 8;
    let mut text = String::new();
    open_shared(control, "exit").ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

pub(crate) fn console_output(console: &Path) -> String {
    let mut said = fs::read(console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    said.push_str(&fs::read_to_string(console.with_extension("qemu")).unwrap_or_default());
    said
}

pub(crate) fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_ptrace_is_a_missing_requirement() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        fs::write(&console, "ptrace: Operation not permitted\ncheck_ptrace : expected SIGSTOP, got status = 0x9\n")
            .unwrap();
        let failed = read_exit(folder.path(), &console);
        assert!(matches!(failed, Err(GuestError::Missing { .. })), "{failed:?}");
    }

    #[test]
    fn programs_with_too_many_mappings_fail_the_guest_unless_the_command_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        fs::write(&console, "UML ran out of memory on the host side! This can happen due to a memory limitation\n")
            .unwrap();
        fs::write(folder.path().join("started"), "").unwrap();
        for (status, succeeds) in [("139", false), ("0", true)] {
            fs::write(folder.path().join("exit"), status).unwrap();
            let ended = read_exit(folder.path(), &console);
            match ended {
                Ok(0) => assert!(succeeds),
                Err(GuestError::Guest { end: GuestEnd::OutOfMemory, .. }) => assert!(!succeeds),
                other => panic!("{other:?}"),
            }
        }
    }
}
