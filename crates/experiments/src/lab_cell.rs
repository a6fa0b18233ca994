//! Runs one of our own commands in the lab guest and takes its record over.

use senesce_core::{Bytes, ExitCode, Failure, Record, RunContext};
use senesce_lab::{Drive, LabRun, kernel};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What the guest gets.
pub struct LabCell {
    /// Drives, as `senesce lab run --drive` takes them.
    pub drives: Vec<String>,
    /// Guest memory.
    pub memory: Bytes,
    /// Ends the guest.
    pub time_limit: Duration,
    /// Our own arguments (`reproduce ID --scale quick ...`); `--out` is added.
    pub arguments: Vec<String>,
}

/// Runs the cell in a guest. Its run directory is made in a folder shared with the guest, checked, and its events are
/// appended to this run's record; its environment is added under `guest.`.
pub fn run_in_lab(cell: &LabCell, context: &mut RunContext<'_>) -> Result<(), Failure> {
    let share = context.directory.path().join("guest");
    // A guest run that was cut off left zones and files that are gone with its drives: it starts anew.
    let _ = fs::remove_dir_all(&share);
    fs::create_dir_all(&share).map_err(|error| io_failure("make folder", &share, &error))?;
    let share = share.canonicalize().map_err(|error| io_failure("find", &share, &error))?;
    let inside = share.join("run");
    let mut command = vec![own_program()?, "-q".into()];
    command.extend(cell.arguments.iter().cloned());
    command.extend(["--out".to_string(), inside.display().to_string()]);
    let lab = LabRun {
        kernel: kernel::choose(None)?,
        drives: cell.drives.iter().map(|text| Drive::parse(text)).collect::<Result<_, _>>()?,
        memory: cell.memory,
        cpus: 2,
        accelerator: None,
        command,
        shares: vec![share],
        time_limit: Some(cell.time_limit),
    };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let outcome = lab.run(context.interrupt, &mut out, &mut errors)?;
    context.directory.append("lab", &outcome)?;
    if outcome.exit_status != 0 {
        let said = String::from_utf8_lossy(&errors);
        let tail: Vec<&str> = said.lines().rev().take(3).collect();
        let message = format!(
            "in the guest, exit status {}: {}",
            outcome.exit_status,
            tail.into_iter().rev().collect::<Vec<_>>().join("; ")
        );
        return Err(Failure::new(ExitCode::RunFailed, message));
    }
    let record = Record::open(&inside)?;
    if record.is_partial() {
        return Err(Failure::new(ExitCode::RunFailed, format!("{} is not complete", inside.display())));
    }
    for event in &record.events {
        context.directory.append(&event.kind, &event.data)?;
    }
    let mut environment = senesce_core::Environment::default();
    environment.extend("guest", &record.environment);
    environment.put("lab.accelerator", outcome.accelerator.word());
    Ok(context.directory.add_environment(&environment)?)
}

/// This program as the guest finds it, whatever it is called: it sees the host's files at their paths.
pub fn own_program() -> Result<String, Failure> {
    let path = std::env::current_exe().map_err(|error| io_failure("find", Path::new("/proc/self/exe"), &error))?;
    Ok(path.to_string_lossy().into_owned())
}

fn io_failure(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    let words = senesce_core::failure::errno_words(error);
    Failure::new(ExitCode::RunFailed, format!("{operation} {}: {words}", path.display()))
}
