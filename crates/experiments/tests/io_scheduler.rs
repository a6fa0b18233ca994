//! io-scheduler on a device in memory.

use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Experiment, Failure, Level, Settings, Silent};
use senesce_experiments::conduct::{Conduct, Outcome, conduct};
use senesce_experiments::io_scheduler::IoScheduler;
use std::path::Path;

fn run(room: &Path, pairs: &[(&str, &str)]) -> Result<Outcome, Failure> {
    let overrides = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let settings = Settings::resolve(IoScheduler.parameters(), Level::Smoke, &overrides)?;
    let (out, interrupt) = (Some(room.join("run")), Interrupt::new());
    let request = Conduct { out, runs: room.into(), again: false, progress: &Silent, interrupt: &interrupt };
    conduct(&IoScheduler, &settings, IoScheduler.plan(&settings)?, &request)
}

#[test]
fn numbers_of_files_that_do_not_fit_are_left_out_and_said() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root for loop devices");
    }
    let room = tempfile::tempdir().unwrap();
    let settings = [("files", "10,30000,40000"), ("target", "memory:32M"), ("schedulers", "none"), ("repeats", "1")];
    let analysis = run(room.path(), &settings).unwrap().analysis;
    let cells = analysis.result["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["files"] == 10) && !cells.is_empty());
    assert_eq!(analysis.result["no_room_for_files"], 30_000);
    assert!(analysis.caveats.iter().any(|words| words.contains("30000 files and more did not fit")));
}

#[test]
fn what_is_no_scheduler_is_refused() {
    let room = tempfile::tempdir().unwrap();
    let failure = run(room.path(), &[("schedulers", "cfq")]).map(|_| ()).unwrap_err();
    assert_eq!(failure.exit_code(), ExitCode::Usage, "{failure}");
}
