//! Tests io-scheduler on a device in memory.

use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Bytes, Failure, Level};
use senesce_exp_objects::io_scheduler::{IoScheduler, Spec};
use senesce_runner::{Conduct, Experiment, Outcome, conduct};
use senesce_volume::TargetSpec;
use std::path::Path;

fn run(temporary: &Path, change: impl Fn(&mut Spec)) -> Result<Outcome, Failure> {
    let mut spec = IoScheduler::defaults(Level::Smoke);
    change(&mut spec);
    conduct::<IoScheduler>(&spec, DEFAULT_SEED, &Conduct::quietly(&temporary.join("run")))
}

#[test]
#[ignore = "needs loop devices"]
fn file_counts_that_do_not_fit_are_omitted_and_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let small = |spec: &mut Spec| {
        spec.files = vec![10, 30_000, 40_000];
        spec.target = TargetSpec::Memory { size: Bytes::mib(32) };
        (spec.schedulers, spec.repeats) = (vec!["none".into()], 1);
    };
    let analysis = run(temporary.path(), small).unwrap().analysis;
    let cells = analysis.result["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["files"] == 10) && !cells.is_empty());
    assert_eq!(analysis.result["no_room_for_files"], 30_000);
    assert!(analysis.caveats.iter().any(|message| message.contains("30000 files and more did not fit")));
}
