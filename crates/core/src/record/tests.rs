use super::*;
use crate::failure::{ExitCode, Failure};
use crate::seed::Seed;
use lines::signed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

fn plan(size: &str) -> Plan {
    Plan::of_spec("age", Seed(42), &BTreeMap::from([("size", size)])).unwrap()
}

fn open(path: &Path, size: &str) -> Result<RunDirectory, RecordError> {
    RunDirectory::open(path, &plan(size), &Environment::default())
}

#[test]
fn record_of_another_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    fs::write(path.join("format"), "1").unwrap();
    let refused = Record::open(&path).unwrap_err();
    assert_eq!(Failure::from(refused).exit_code(), ExitCode::Usage);
    let message = |path: &Path| open(path, "1G").unwrap_err().to_string();
    assert_eq!(message(&path), format!("{}: created by senesce 0.1, cannot be read; run again", path.display()));
    fs::write(path.join("format"), (FORMAT + 1).to_string()).unwrap();
    assert!(matches!(open(&path, "1G"), Err(RecordError::OtherFormat { .. })));
}

#[test]
fn run_is_continued_finished_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!({"operations": 1})).unwrap();
    drop(run);
    assert!(Record::open(&path).unwrap().is_partial());

    let mut run = open(&path, "1G").unwrap();
    assert_eq!(run.earlier_events().len(), 1);
    run.append("sample", &json!({"operations": 2})).unwrap();
    let mut histogram = Histogram::new(3).unwrap();
    histogram.record(1000).unwrap();
    run.write_histogram("write", &histogram).unwrap();
    run.finish(&json!({"operations": 2})).unwrap();
    drop(run);

    let record = Record::open(&path).unwrap();
    assert_eq!(record.summary, Some(json!({"operations": 2})));
    assert_eq!(record.events.len(), 2);
    assert_eq!(record.histogram("write").unwrap().len(), 1);
    assert!(open(&path, "1G").unwrap().is_finished());
}

#[test]
fn failed_start_leaves_a_complete_run_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!({"operations": 1})).unwrap();
    run.finish(&json!({"operations": 1})).unwrap();
    drop(run);
    let files = || ["events.jsonl", "summary.json"].map(|name| fs::read(path.join(name)).unwrap());
    let modified = || fs::metadata(path.join("events.jsonl")).unwrap().modified().unwrap();
    let (before, record) = (files(), Record::open(&path).unwrap());
    let mut run = RunDirectory::resume(&path).unwrap();
    run.reopen_finished().unwrap();
    run.append("sample", &json!({"operations": 2})).unwrap();
    drop(run);
    assert!(Record::open(&path).unwrap().is_partial());
    RunDirectory::resume(&path).unwrap().take_back(&record, Some(modified())).unwrap();
    assert_eq!(files(), before);
    let mut run = RunDirectory::resume(&path).unwrap();
    run.reopen_finished().unwrap();
    run.add_environment(&Environment([("target.size".to_string(), json!(7))].into())).unwrap();
    run.take_back(&record, Some(std::time::SystemTime::UNIX_EPOCH)).unwrap();
    drop(run);
    assert!(!Record::open(&path).unwrap().is_partial(), "its identity covers the added facts");
    assert_eq!(modified(), std::time::SystemTime::UNIX_EPOCH, "it is not the latest run");
}

#[test]
fn another_plan_and_a_second_writer_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let run = open(&path, "1G").unwrap();
    assert!(matches!(open(&path, "1G"), Err(RecordError::InUse { .. })));
    drop(run);
    let error = open(&path, "2G").unwrap_err();
    assert!(error.to_string().contains("size: \"1G\" against \"2G\""), "{error}");
}

#[test]
fn batched_events_are_recorded_all_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let event = |kind: &str, data: u32| json!({kind: data});
    let mut run = open(&path, "1G").unwrap();
    run.append_named(&[event("sample", 1), event("done", 1)]).unwrap();
    let first = fs::metadata(path.join("events.jsonl")).unwrap().len() as usize;
    run.append_named(&[event("sample", 2), event("sample", 3), event("done", 2)]).unwrap();
    drop(run);
    let file = path.join("events.jsonl");
    let whole = fs::read(&file).unwrap();
    for cut in first..whole.len() {
        fs::write(&file, &whole[..cut]).unwrap();
        assert_eq!(Record::open(&path).unwrap().events.len(), 2, "cut at {cut}");
    }
    open(&path, "1G").unwrap().append_named(&[event("sample", 4)]).unwrap();
    let data: Vec<Value> = Record::open(&path).unwrap().events.into_iter().map(|event| event.data.value()).collect();
    assert_eq!(data, [json!(1), json!(1), json!(4)]);
}

/// Ensures that a resumed run continues from exactly the same numbers.
#[test]
fn numbers_are_read_back_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let values: Vec<f64> = (2..2000).map(|number| f64::from(number).ln() * 1e3 / 7.0).collect();
    open(&path, "1G").unwrap().append("values", &values).unwrap();
    let record = Record::open(&path).unwrap();
    let read: Vec<f64> = serde_json::from_value(record.events[0].data.value()).unwrap();
    assert_eq!(values.iter().zip(&read).filter(|(a, b)| a != b).count(), 0);
}

#[test]
fn a_record_without_its_environment_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    for damage in [Some("{"), None] {
        match damage {
            Some(text) => fs::write(path.join("env.json"), text).unwrap(),
            None => fs::remove_file(path.join("env.json")).unwrap(),
        }
        let refused = Record::open(&path).unwrap_err().to_string();
        assert!(refused.contains("env.json"), "{refused}");
        assert!(open(&path, "1G").is_err());
    }
}

#[test]
fn links_in_a_run_directory_are_not_written_through() {
    let directory = tempfile::tempdir().unwrap();
    let precious = directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    for name in ["events.jsonl", "lock", "summary.json"] {
        let file = path.join(name);
        let whole = fs::read(&file).ok();
        let _ = fs::remove_file(&file);
        std::os::unix::fs::symlink(&precious, &file).unwrap();
        let run = open(&path, "1G").and_then(|mut run| run.append("sample", &json!(1)));
        assert!(run.is_err(), "{name}");
        fs::remove_file(&file).unwrap();
        if let Some(bytes) = whole {
            fs::write(&file, bytes).unwrap();
        }
    }
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn link_to_run_directory_is_followed_but_not_links_inside() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let (path, named, outside) =
        (directory.path().join("run"), directory.path().join("named"), directory.path().join("x"));
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!(1)).unwrap();
    run.write_histogram("write", &Histogram::new(3).unwrap()).unwrap();
    run.finish(&json!({"answer": 1})).unwrap();
    drop(run);
    symlink(&path, &named).unwrap();
    assert_eq!(Record::open(&named).unwrap().histogram("write").unwrap().len(), 0);
    for name in
        ["format", "plan.toml", "env.json", "events.jsonl", "summary.json", "histograms/write.hdr", "histograms"]
    {
        let file = path.join(name);
        fs::rename(&file, &outside).unwrap();
        symlink(&outside, &file).unwrap();
        let refused = Record::open(&named).and_then(|record| record.histogram("write")).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{name}: {refused}");
        fs::remove_file(&file).unwrap();
        fs::rename(&outside, &file).unwrap();
    }
    let record = Record::open(&path).unwrap();
    fs::copy(path.join("histograms/write.hdr"), directory.path().join("x.hdr")).unwrap();
    assert!(record.histogram("../../x").unwrap_err().to_string().contains("leads out"));
}

#[test]
fn link_to_an_environment_is_not_read_into_a_record() {
    let directory = tempfile::tempdir().unwrap();
    let (path, secret) = (directory.path().join("run"), directory.path().join("secret.json"));
    fs::write(&secret, "{\"secret\": \"word\"}").unwrap();
    let mut run = open(&path, "1G").unwrap();
    fs::remove_file(path.join("env.json")).unwrap();
    std::os::unix::fs::symlink(&secret, path.join("env.json")).unwrap();
    assert!(run.add_environment(&Environment::default()).is_err());
    assert!(path.join("env.json").is_symlink());
}

#[test]
fn pipe_in_place_of_a_lock_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    fs::remove_file(path.join("lock")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let made = rustix::fs::mknodat(rustix::fs::CWD, path.join("lock"), rustix::fs::FileType::Fifo, mode, 0);
    if made.is_ok() {
        assert!(RunDirectory::hold(&path).is_err());
    }
}

#[test]
fn refused_run_removes_only_what_it_created() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own");
    fs::create_dir(&own).unwrap();
    for path in [own.join("a/b/run"), own.join("run"), own.clone()] {
        open(&path, "1G").unwrap().discard_if_empty();
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "{}", path.display());
    }
    let mut run = open(&own.join("a/run"), "1G").unwrap();
    run.append("sample", &json!(1)).unwrap();
    drop(run);
    open(&own.join("a/run"), "1G").unwrap().discard_if_empty();
    assert_eq!(Record::open(&own.join("a/run")).unwrap().events.len(), 1, "what was recorded stays");
}

#[test]
fn run_killed_before_its_plan_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    // Missing files, from the last that a new run creates to the first.
    let order = ["plan.toml", "events.jsonl", "env.json", "format"];
    for missing in 1..=order.len() {
        drop(open(&path, "1G").unwrap());
        order[..missing].iter().for_each(|name| fs::remove_file(path.join(name)).unwrap());
        drop(open(&path, "1G").unwrap());
        assert!(Record::open(&path).unwrap().is_partial(), "{missing}");
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir(&path).unwrap();
    for (format, environment) in [((FORMAT + 1).to_string(), "mine"), (format!("{FORMAT}\n"), "mine")] {
        fs::write(path.join("format"), &format).unwrap();
        fs::write(path.join("env.json"), environment).unwrap();
        assert!(matches!(open(&path, "1G"), Err(RecordError::NotEmpty { .. })), "{format}");
        assert_eq!(fs::read_to_string(path.join("env.json")).unwrap(), environment);
    }
}

#[test]
fn a_foreign_directory_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
    assert!(matches!(open(directory.path(), "1G"), Err(RecordError::NotEmpty { .. })));
    assert!(matches!(Record::open(directory.path()), Err(RecordError::NotARun { .. })));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made in it");
}

#[test]
fn histograms_are_not_written_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let (path, outside) = (directory.path().join("run"), directory.path().join("outside"));
    fs::create_dir_all(&path).unwrap();
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("histograms")).unwrap();
    assert!(matches!(open(&path, "1G"), Err(RecordError::NotEmpty { .. })));
    fs::remove_file(path.join("histograms")).unwrap();
    drop(open(&path, "1G").unwrap());
    fs::remove_dir(path.join("histograms")).unwrap();
    std::os::unix::fs::symlink(&outside, path.join("histograms")).unwrap();
    assert!(matches!(open(&path, "1G"), Err(RecordError::NotEmpty { .. })));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn devices_in_a_record_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(open(&path, "1G").unwrap());
    for name in ["events.jsonl", "summary.json", "plan.toml", "format"] {
        let file = path.join(name);
        let whole = fs::read(&file).ok();
        let _ = fs::remove_file(&file);
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(Record::open(&path).is_err(), "{name}");
        fs::remove_file(&file).unwrap();
        whole.iter().for_each(|bytes| fs::write(&file, bytes).unwrap());
    }
}

#[test]
fn file_in_place_of_the_directory_is_refused_before_changes() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "precious").unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    symlink("/dev/null", at("device")).unwrap();
    for (name, found) in [
        ("file", "is a file"),
        ("file/run", "file is a file"),
        ("link", "a symbolic link to a file that is not a directory"),
        ("dangling", "a dangling symbolic link"),
        ("dangling/run", "dangling is a dangling symbolic link"),
        ("device", "a symbolic link to a file that is not a directory"),
    ] {
        let error = open(&at(name), "1G").unwrap_err();
        assert!(error.to_string().contains(found) && error.to_string().contains("--out"), "{name}: {error}");
        assert_eq!(Failure::from(error).exit_code(), ExitCode::Usage, "{name}");
    }
    let message = open(Path::new("/dev/null"), "1G").unwrap_err().to_string();
    assert!(message.starts_with("/dev/null is a device"), "{message}");
    assert_eq!((fs::read(at("file")).unwrap(), at("nowhere").exists()), (b"precious".to_vec(), false));
    fs::create_dir(at("real")).unwrap();
    symlink(at("real"), at("to-directory")).unwrap();
    drop(open(&at("to-directory"), "1G").unwrap());
    assert!(at("real/plan.toml").is_file());
}

#[test]
fn run_of_another_user_is_not_continued() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let refused = |said: &str| {
        for error in [open(&path, "1G").unwrap_err(), RunDirectory::resume(&path).unwrap_err()] {
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(Failure::from(error).exit_code(), ExitCode::Refused);
        }
    };
    drop(open(&path, "1G").unwrap());
    let events = path.join("events.jsonl");
    for written in [&path, &events] {
        let mode = written.metadata().unwrap().permissions();
        fs::set_permissions(written, fs::Permissions::from_mode(0o777)).unwrap();
        refused("every user may write there");
        fs::set_permissions(written, mode).unwrap();
        drop(open(&path, "1G").unwrap());
    }
    let give = |written: &Path, user| std::os::unix::fs::lchown(written, Some(user), None);
    if !rustix::process::geteuid().is_root() || give(&events, 65534).is_err() {
        return eprintln!("files cannot be given away here");
    }
    refused("belongs to user 65534");
    give(&events, 0).unwrap();
    give(&path, 65534).unwrap();
    refused("belongs to user 65534");
    give(&path, 0).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    drop(open(&link, "1G").unwrap());
    give(&link, 65534).unwrap();
    let error = open(&link, "1G").unwrap_err();
    assert!(error.to_string().contains("link of user 65534"), "{error}");
    assert_eq!(Failure::from(error).exit_code(), ExitCode::Refused);
}

#[test]
fn root_does_not_store_a_run_behind_a_planted_link() {
    use std::os::unix::fs::{lchown, symlink};
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    [at("theirs"), at("ours")].iter().for_each(|path| fs::create_dir(path).unwrap());
    drop(open(&at("ours/old"), "1G").unwrap());
    symlink(at("ours"), at("theirs/results")).unwrap();
    if !rustix::process::geteuid().is_root() || lchown(at("theirs/results"), Some(65534), None).is_err() {
        return eprintln!("files cannot be given away here");
    }
    let (new, old) = (at("theirs/results/new/run"), at("theirs/results/old"));
    for refused in [
        RunDirectory::check(&new),
        open(&new, "1G").map(drop),
        open(&old, "1G").map(drop),
        RunDirectory::resume(&old).map(drop),
        RunDirectory::hold(&old).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("link of user 65534 to a directory of user 0"), "{error}");
        assert_eq!(Failure::from(error).exit_code(), ExitCode::Refused);
    }
    assert_eq!(fs::read_dir(at("ours")).unwrap().count(), 1);
}

#[test]
fn run_is_written_to_the_opened_folder() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    let mut run = open(&at("run"), "1G").unwrap();
    fs::create_dir_all(at("elsewhere/histograms")).unwrap();
    fs::write(at("elsewhere/summary.json"), "precious").unwrap();
    fs::rename(at("run"), at("moved")).unwrap();
    std::os::unix::fs::symlink(at("elsewhere"), at("run")).unwrap();
    run.append("sample", &json!(1)).unwrap();
    run.write_histogram("write", &Histogram::new(3).unwrap()).unwrap();
    run.add_environment(&Environment::default()).unwrap();
    run.finish(&json!({"answer": 1})).unwrap();
    run.reopen_finished().unwrap();
    run.finish(&json!({"answer": 2})).unwrap();
    assert_eq!(fs::read(at("elsewhere/summary.json")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(at("elsewhere/histograms")).unwrap().count(), 0);
    let record = Record::open(&at("moved")).unwrap();
    assert_eq!((record.summary.clone(), record.events.len()), (Some(json!({"answer": 2})), 1));
    assert_eq!(record.histogram("write").unwrap().len(), 0);
}

#[test]
fn lock_of_a_run_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let (path, lock) = (directory.path().join("run"), directory.path().join("run/lock"));
    let mode = || fs::metadata(&lock).unwrap().permissions().mode() & 0o777;
    drop(open(&path, "1G").unwrap());
    assert_eq!(mode(), 0o600);
    for earlier in [0o644, 0o666, 0o640] {
        for again in [|path: &Path| open(path, "1G").map(drop), |path: &Path| RunDirectory::hold(path).map(drop)] {
            fs::set_permissions(&lock, fs::Permissions::from_mode(earlier)).unwrap();
            again(&path).unwrap();
            assert_eq!(mode(), 0o600, "{earlier:o}");
        }
    }
    let held = RunDirectory::hold(&path).unwrap();
    let said = open(&path, "1G").unwrap_err().to_string();
    assert!(said.contains("has locked its file") && said.contains("run/lock`"), "{said}");
    drop(held);
}

/// Returns the bodies of the lines of `events.jsonl`.
fn bodies(path: &Path) -> Vec<String> {
    const HEAD: usize = "{\"crc\":\"00000000\",\"event\":".len();
    let text = fs::read_to_string(path.join("events.jsonl")).unwrap();
    text.lines().map(|line| line[HEAD..line.len() - 1].to_string()).collect()
}

fn write_bodies(path: &Path, bodies: &[String]) {
    fs::write(path.join("events.jsonl"), signed(0, bodies).0).unwrap();
}

fn damaged_line(path: &Path) -> usize {
    match Record::open(path) {
        Err(RecordError::Damaged { line, .. }) => line,
        other => panic!("{other:?}"),
    }
}

mod altered;
mod hostile;
mod identity;
