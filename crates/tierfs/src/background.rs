//! Server in the background: senesce restarts itself with `--foreground` and exits once that process reports the mount.

use crate::error::{TierError, io_error};
use senesce_core::output;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable of the server: log file for messages after the mount.
const LOG_VARIABLE: &str = "SENESCE_TIER_LOG";
const READY: &str = "mounted";

/// Restarts this program with its own arguments and `--foreground` in a new session. Returns once the file system is mounted, or
/// with the exit status of a server that failed; its messages were forwarded.
pub fn start(log: Option<&Path>) -> Result<Option<i32>, TierError> {
    log.map_or(Ok(()), |log| output::append(log).map(drop))?;
    let program = std::env::current_exe().map_err(io_error("find", Path::new("the program")))?;
    let mut command = Command::new(&program);
    command
        .args(std::env::args_os().skip(1))
        .arg("--foreground")
        .env(LOG_VARIABLE, log.unwrap_or(Path::new("/dev/null")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // It stays mounted when the command that started it ends.
    senesce_volume::command_group::exempt(&mut command);
    // SAFETY: setsid is safe between fork and exec.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    let mut server = command.spawn().map_err(io_error("start", &program))?;
    let mut line = String::new();
    if let Some(output) = server.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(io_error("listen to", &program))?;
    }
    if line.trim_end() == READY {
        return Ok(None);
    }
    let mut message = Vec::new();
    if let Some(mut messages) = server.stderr.take() {
        let _ = messages.read_to_end(&mut message);
    }
    let _ = io::stderr().write_all(&message);
    let status = server.wait().map_err(io_error("wait for", &program))?;
    Ok(Some(status.code().unwrap_or(senesce_core::ExitCode::RunFailed as i32)))
}

/// Reports the mount and redirects messages to the log, in a background server only.
pub fn report_ready() -> Result<(), TierError> {
    let Some(log) = std::env::var_os(LOG_VARIABLE).map(PathBuf::from) else { return Ok(()) };
    let file = output::append(&log)?;
    // The parent may have exited.
    let mut waiting = io::stdout();
    let _ = writeln!(waiting, "{READY}").and_then(|()| waiting.flush());
    for result in [rustix::stdio::dup2_stdout(&file), rustix::stdio::dup2_stderr(&file)] {
        result.map_err(|error| io_error("write messages to", &log)(error.into()))?;
    }
    Ok(())
}
