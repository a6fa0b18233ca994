//! Every experiment at the smoke scale, from plan to report, and the verbs that only print.

use crate::common::{json, run};

/// Those that boot the lab's guest; the tests of the lab run them there.
const IN_THE_LAB: [&str; 3] = ["f2fs-bandwidth", "lab-selftest", "zns-rocksdb"];

#[test]
#[ignore = "needs loop devices, FUSE, git"]
fn every_experiment_runs_at_the_smoke_scale_and_reports() {
    let room = tempfile::tempdir().expect("room");
    let list = json(&run(room.path(), &["experiments", "--json"]));
    let ids = list.as_array().expect("a list").iter().map(|one| one["id"].as_str().expect("id").to_string());
    let ids: Vec<String> = ids.filter(|id| !IN_THE_LAB.contains(&&**id)).collect();
    assert!(!ids.is_empty());
    let mut failed = Vec::new();
    for id in &ids {
        let plan = run(room.path(), &["reproduce", id, "--scale", "smoke", "--dry-run"]);
        let output = run(room.path(), &["reproduce", id, "--scale", "smoke", "--json", "--out", id]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(0) || plan.status.code() != Some(0) {
            failed.push(format!("{id}: {:?} {said}", output.status.code()));
            continue;
        }
        json(&output);
        let report = run(room.path(), &["report", id]);
        assert_eq!(report.status.code(), Some(0), "{id}: {}", String::from_utf8_lossy(&report.stderr));
        assert_eq!(run(room.path(), &["doc", id]).status.code(), Some(0), "{id}");
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(crate::common::leftovers(room.path()), Vec::<String>::new());
}

#[test]
fn what_only_prints_works_anywhere() {
    let room = tempfile::tempdir().expect("room");
    for words in [
        vec!["--help"],
        vec!["--version"],
        vec!["doctor"],
        vec!["doctor", "--json"],
        vec!["experiments"],
        vec!["runs"],
        vec!["doc"],
        vec!["doc", "age"],
        vec!["man"],
        vec!["man", "age"],
        vec!["completions", "bash"],
        vec!["age", "image:x.img,size=1G", "--dry-run"],
    ] {
        let output = run(room.path(), &words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for words in [vec!["doc", "agee"], vec!["no-such-verb"], vec!["report", "nowhere"], vec!["reproduce", "no-such"]] {
        assert_eq!(run(room.path(), &words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(std::fs::read_dir(room.path()).expect("list").count(), 0, "nothing was left behind");
}
