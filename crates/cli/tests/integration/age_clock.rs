//! The clock: a plan ends in the same layout however slowly it is played.

use crate::common::{json, leftovers, run, start_until};
use serde_json::Value;
use std::process::Command;

fn signal(process: u32, name: &str) {
    // It may have ended meanwhile.
    let _ = Command::new("kill").args([name, &process.to_string()]).output().expect("kill");
}

/// Numbers of the layout: extents, fragmented files, free extents.
fn layout(aged: &Value) -> [f64; 3] {
    let found = &aged["layout"];
    [&found["extents"], &found["fragmented_files"], &found["free_space"]["extents"]]
        .map(|number| number.as_f64().unwrap_or_else(|| panic!("a count: {found}")))
}

#[test]
#[ignore = "needs loop devices, XFS, Btrfs"]
fn a_run_that_is_stopped_again_and_again_ages_like_one_that_is_not() {
    let room = crate::common::room();
    for (fs, apart) in [("ext4", 0.0), ("xfs", 0.03), ("btrfs", 0.03)] {
        let words =
            ["age", "memory:512M", "--fs", fs, "--profile", "agrawal", "--truncate-sizes=drop", "--fullness", "0.8"];
        let words = [&words[..], &["--max-overwrites", "3", "--json", "--out"]].concat();
        let whole = json(&run(room.path(), &[&words[..], &[&format!("whole-{fs}")]].concat()));
        let mut slowed = start_until(room.path(), &[&words[..], &[&format!("slowed-{fs}")]].concat(), "aging:");
        let mut stops = 0;
        while slowed.is_running() {
            signal(slowed.id(), "-STOP");
            // The time that another process takes, several times as long as it may run.
            (0..6).for_each(|_| drop(run(room.path(), &["profile", "list"])));
            signal(slowed.id(), "-CONT");
            run(room.path(), &["profile", "list"]);
            stops += 1;
        }
        let slowed = json(&slowed.wait());
        println!("{fs}: {:?}, stopped {stops} times {:?}", layout(&whole), layout(&slowed));
        assert!(stops > 10, "it was hardly stopped: the test shows nothing");
        assert_eq!(whole["namespace_sha256"], slowed["namespace_sha256"]);
        for (one, other) in layout(&whole).into_iter().zip(layout(&slowed)) {
            assert!((one - other).abs() <= apart * one.max(other), "{fs}: {one} and {other}");
        }
    }
    assert_eq!(leftovers(room.path()), Vec::<String>::new());
}
