//! An aging continues only on its own target, in the recorded state. A refusal leaves the record as it was.

use super::ranks::{make_target, spec};
use senesce_core::{ExitCode, Failure, Record, Seed, Silent};
use senesce_exp_aging::age::{Age, AgeSpec, Limits, resume, verify};
use senesce_runner::{Conduct, conduct};
use std::fs;
use std::path::{Path, PathBuf};

fn age(spec: &AgeSpec, out: &Path) {
    conduct::<Age>(spec, spec.seed, &Conduct::quietly(out)).unwrap();
}

fn further(out: &Path, limits: Limits) -> Result<(), Failure> {
    resume(out, &limits, &Conduct::quietly(out)).map(drop)
}

fn to_operation(operation: u64) -> Limits {
    Limits { max_operations: Some(operation), ..Limits::default() }
}

fn to_overwrites(overwrites: f64) -> Limits {
    Limits { overwrites: Some(overwrites), ..Limits::default() }
}

/// Checks that the run is not continued, and returns the exit code.
fn stays_complete(out: &Path, limits: Limits) -> ExitCode {
    let files = || ["events.jsonl", "summary.json"].map(|name| fs::read(out.join(name)).unwrap());
    let before = files();
    let failure = further(out, limits).unwrap_err();
    assert_eq!(files(), before, "{failure}");
    assert!(!Record::open(out).unwrap().is_partial());
    failure.exit_code()
}

#[test]
fn directory_of_another_aging_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let (aged, out) = (temporary.path().join("aged"), temporary.path().join("run"));
    let first = spec(&aged);
    make_target(&first);
    age(&first, &out);
    further(&out, to_operation(6500)).unwrap();
    fs::remove_dir_all(&aged).unwrap();
    make_target(&first);
    age(&AgeSpec { seed: Seed(8), ..first }, &temporary.path().join("other"));
    assert_eq!(stays_complete(&out, to_operation(7000)), ExitCode::Refused);
    let found = verify(&out, None, &Silent).unwrap();
    assert!(found.wrong_target.is_some() && !found.good);
}

#[test]
fn missing_directory_is_not_made_again() {
    let temporary = tempfile::tempdir().unwrap();
    let (aged, out) = (temporary.path().join("aged"), temporary.path().join("run"));
    let first = spec(&aged);
    make_target(&first);
    age(&first, &out);
    fs::remove_dir_all(&aged).unwrap();
    stays_complete(&out, to_operation(7000));
    assert!(!aged.exists());
}

#[test]
fn files_repaired_after_an_interruption_are_counted() {
    let temporary = tempfile::tempdir().unwrap();
    let (aged, out) = (temporary.path().join("aged"), temporary.path().join("run"));
    let first = spec(&aged);
    make_target(&first);
    age(&first, &out);
    let planner = first.planner(0).unwrap();
    let name = senesce_aging::plan::file_name(planner.plan().len() + 1000);
    fs::write(aged.join(name), "unknown to the record").unwrap();
    let outcome = resume(&out, &to_operation(7000), &Conduct::quietly(&out)).unwrap();
    assert_eq!(outcome.analysis.result["repaired_files"], 1);
}

fn image(path: &Path, flags: &[&str]) -> AgeSpec {
    let all = ["--overwrites", "1", "--fullness", "0.5", "--truncate-sizes", "--no-cost", "--data", "fallocate"];
    let target = format!("image:{},size=320M", path.display());
    AgeSpec::of_flags(&[&all[..], flags].concat()).unwrap().on(Some(target.parse().unwrap())).unwrap()
}

/// Ages `k.img` with the record `run`.
fn aged_image(room: &Path) -> (PathBuf, PathBuf) {
    let (path, out) = (room.join("k.img"), room.join("run"));
    age(&image(&path, &[]), &out);
    (path, out)
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn image_of_another_file_system_is_refused() {
    let room = tempfile::tempdir().unwrap();
    let (path, out) = aged_image(room.path());
    let other = room.path().join("x.img");
    age(&image(&other, &["--fs", "xfs", "--seed", "8"]), &room.path().join("other"));
    fs::rename(&other, &path).unwrap();
    assert_eq!(stays_complete(&out, to_overwrites(1.2)), ExitCode::Refused);
    assert!(!verify(&out, None, &Silent).unwrap().good);
}

#[test]
#[ignore = "needs loop devices"]
fn image_of_another_seed_is_refused() {
    let room = tempfile::tempdir().unwrap();
    let (path, out) = aged_image(room.path());
    let other = room.path().join("x.img");
    age(&image(&other, &["--seed", "8"]), &room.path().join("other"));
    fs::rename(&other, &path).unwrap();
    assert_eq!(stays_complete(&out, to_overwrites(1.2)), ExitCode::Refused);
}

#[test]
#[ignore = "needs loop devices"]
fn earlier_state_of_an_image_is_refused_and_the_recorded_one_continues() {
    let room = tempfile::tempdir().unwrap();
    let (path, out) = aged_image(room.path());
    let backup = |name: &str| fs::copy(&path, room.path().join(name)).unwrap();
    let restore = |name: &str| fs::copy(room.path().join(name), &path).unwrap();
    backup("first");
    further(&out, to_overwrites(1.2)).unwrap();
    backup("second");
    assert_eq!(verify(&out, None, &Silent).unwrap().layout_matches, Some(true));
    restore("first");
    assert_eq!(stays_complete(&out, to_overwrites(1.4)), ExitCode::Refused);
    assert_eq!(verify(&out, None, &Silent).unwrap().layout_matches, Some(false));
    restore("second");
    further(&out, to_overwrites(1.4)).unwrap();
    assert!(verify(&out, None, &Silent).unwrap().good);
}

#[test]
#[ignore = "needs loop devices"]
fn missing_image_leaves_a_complete_record() {
    let room = tempfile::tempdir().unwrap();
    let (path, out) = aged_image(room.path());
    fs::remove_file(&path).unwrap();
    stays_complete(&out, to_overwrites(1.2));
    assert!(!path.exists());
}
