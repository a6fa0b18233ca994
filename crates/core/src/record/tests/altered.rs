//! Records whose files were altered after they were written.

use super::*;

/// Makes a run with three events and two histograms.
fn recorded(path: &Path) -> RunDirectory {
    let mut run = open(path, "1G").unwrap();
    for (name, value) in [("read", 1000), ("write", 2000)] {
        let mut histogram = Histogram::new(3).unwrap();
        histogram.record(value).unwrap();
        run.write_histogram(name, &histogram).unwrap();
        run.append("sample", &json!(value)).unwrap();
    }
    run.append("sample", &json!(3)).unwrap();
    run
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path.join("events.jsonl")).unwrap();
    text.split_inclusive('\n').map(str::to_string).collect()
}

/// Checks that the record with these lines is damaged, and that no verb continues or changes it.
fn assert_damaged(path: &Path, lines: &[String], how: &str) {
    fs::write(path.join("events.jsonl"), lines.concat()).unwrap();
    for found in [Record::open(path).map(drop), open(path, "1G").map(drop), RunDirectory::resume(path).map(drop)] {
        let error = found.expect_err(how);
        assert!(error.is_damage(), "{how}: {error}");
        assert_eq!(Failure::from(error).exit_code(), ExitCode::RunFailed, "{how}");
    }
    assert_eq!(fs::read_to_string(path.join("events.jsonl")).unwrap(), lines.concat(), "{how}");
}

#[test]
fn removed_moved_and_repeated_lines_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let [partial, complete] = ["partial", "complete"].map(|name| directory.path().join(name));
    drop(recorded(&partial));
    recorded(&complete).finish(&json!({"answer": 1})).unwrap();
    for path in [&partial, &complete] {
        let whole = lines(path);
        for at in 0..whole.len() {
            let (mut removed, mut repeated) = (whole.clone(), whole.clone());
            removed.remove(at);
            repeated.insert(at, whole[at].clone());
            // A run that was killed earlier has fewer lines at the end.
            if path == &complete || at + 1 < whole.len() {
                assert_damaged(path, &removed, &format!("{}: line {at} is removed", path.display()));
            }
            assert_damaged(path, &repeated, &format!("{}: line {at} is repeated", path.display()));
            for other in at + 1..whole.len() {
                let mut moved = whole.clone();
                moved.swap(at, other);
                assert_damaged(path, &moved, &format!("{}: {at} and {other} are exchanged", path.display()));
            }
        }
        fs::write(path.join("events.jsonl"), whole.concat()).unwrap();
        Record::open(path).unwrap();
    }
}

#[test]
fn cut_is_noticed_in_a_complete_run() {
    let directory = tempfile::tempdir().unwrap();
    let [partial, complete] = ["partial", "complete"].map(|name| directory.path().join(name));
    drop(recorded(&partial));
    recorded(&complete).finish(&json!({"answer": 1})).unwrap();
    for (path, is_damage) in [(&partial, false), (&complete, true)] {
        let whole = lines(path);
        for kept in 1..whole.len() {
            let part = whole[..kept].concat();
            for text in [&part[..], &part[..part.len() - 7]] {
                fs::write(path.join("events.jsonl"), text).unwrap();
                assert_eq!(Record::open(path).is_err_and(|error| error.is_damage()), is_damage, "{kept}");
            }
        }
    }
}

#[test]
fn event_after_the_end_of_a_complete_run_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = recorded(&path);
    run.finish(&json!({"answer": 1})).unwrap();
    run.reopen_finished().unwrap();
    run.append("sample", &json!(4)).unwrap();
    drop(run);
    fs::write(path.join("summary.json"), pretty(&json!({"answer": 1}))).unwrap();
    assert_damaged(&path, &lines(&path), "the summary is that of an earlier part");
}

#[test]
fn altered_byte_of_a_line_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(recorded(&path));
    let whole = lines(&path);
    for (at, line) in whole.iter().enumerate() {
        let mut altered = whole.clone();
        altered[at] = line.replacen("\"t\":", "\"t\":1", 1);
        assert_damaged(&path, &altered, &format!("line {at}"));
    }
}

fn is_altered(path: &Path, name: &str) -> bool {
    let found = [Record::open(path).map(drop), RunDirectory::resume(path).map(drop)];
    found.iter().all(|found| matches!(found, Err(RecordError::Altered { path: file }) if *file == path.join(name)))
}

#[test]
fn altered_histogram_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    recorded(&path).finish(&json!({"answer": 1})).unwrap();
    let name = "histograms/read.hdr";
    let file = path.join(name);
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        fs::write(&file, altered).unwrap();
        assert!(is_altered(&path, name), "byte {at}");
    }
    for altered in [&whole[..whole.len() - 1], &[&whole[..], &[0]].concat(), &[]] {
        fs::write(&file, altered).unwrap();
        assert!(is_altered(&path, name), "{} bytes", altered.len());
    }
    fs::copy(path.join("histograms/write.hdr"), &file).unwrap();
    assert!(is_altered(&path, name), "that of another step");
    fs::remove_file(&file).unwrap();
    assert!(is_altered(&path, name), "removed");
    fs::write(&file, whole).unwrap();
    Record::open(&path).unwrap();
}

#[test]
fn altered_summary_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    recorded(&path).finish(&json!({"answer": 1})).unwrap();
    fs::write(path.join("summary.json"), "{\"answer\": 2}\n").unwrap();
    assert!(is_altered(&path, "summary.json"));
}

#[test]
fn kill_while_a_histogram_is_replaced_leaves_a_run_that_resumes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(recorded(&path));
    let file = path.join("histograms/read.hdr");
    let (begun, old) = (lines(&path), fs::read(&file).unwrap());
    let mut run = RunDirectory::resume(&path).unwrap();
    run.write_histogram("read", &Histogram::new(3).unwrap()).unwrap();
    drop(run);
    let (whole, new) = (lines(&path), fs::read(&file).unwrap());
    assert!(whole.len() == begun.len() + 2 && old != new);
    for (kept, content) in [(0, &old), (1, &old), (1, &new), (2, &new)] {
        fs::write(path.join("events.jsonl"), whole[..begun.len() + kept].concat()).unwrap();
        fs::write(&file, content).unwrap();
        Record::open(&path).unwrap();
        drop(RunDirectory::resume(&path).unwrap());
    }
    fs::write(&file, &old).unwrap();
    assert!(is_altered(&path, "histograms/read.hdr"), "it was replaced");
}

#[test]
fn file_of_a_record_does_not_lead_out_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(recorded(&path));
    let secret = directory.path().join("secret");
    fs::write(&secret, "").unwrap();
    let whole = bodies(&path);
    for file in ["../secret", "histograms/../../secret", secret.to_str().unwrap(), "a/b/c"] {
        for crc in ["\"00000000\"", "null"] {
            let data = format!("{{\"file\":\"{file}\",\"bytes\":0,\"crc\":{crc}}}");
            let note = format!("{{\"t\":1.5,\"kind\":\"checksum\",\"data\":{data}}}");
            let all: Vec<String> = whole.iter().cloned().chain([note]).collect();
            write_bodies(&path, &all);
            assert!(Record::open(&path).is_err_and(|error| error.is_damage()), "{file} {crc}");
        }
    }
}

#[test]
fn lines_of_two_writers_follow_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    let witness = run.witness().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..100).for_each(|number| witness.append("second", &number).unwrap()));
        (0..100).for_each(|number| run.append("first", &number).unwrap());
    });
    assert_eq!(run.last_line(), 201);
    drop(run);
    assert_eq!(Record::open(&path).unwrap().events.len(), 200);
}

#[test]
fn a_torn_last_line_is_dropped_and_damage_before_it_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    for number in 0..3 {
        run.append("sample", &json!(number)).unwrap();
    }
    drop(run);
    let file = path.join("events.jsonl");
    let whole = fs::read(&file).unwrap();
    for cut in 1..20 {
        fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        assert_eq!(Record::open(&path).unwrap().events.len(), 2, "cut {cut}");
    }
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!("after")).unwrap();
    drop(run);
    assert_eq!(Record::open(&path).unwrap().events.len(), 3);

    let mut damaged = whole;
    damaged[30] ^= 1;
    fs::write(&file, damaged).unwrap();
    assert!(matches!(Record::open(&path), Err(RecordError::Damaged { line: 1, .. })));
}

#[test]
fn complete_run_without_events_is_damaged_and_unfinished_one_is_partial() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    assert!(Record::open(&path).unwrap().is_partial());
    run.append("sample", &json!(1)).unwrap();
    run.finish(&json!({"answer": 1})).unwrap();
    drop(run);
    fs::write(path.join("events.jsonl"), "").unwrap();
    assert_eq!(damaged_line(&path), 1);
    assert_eq!(Failure::from(Record::open(&path).unwrap_err()).exit_code(), ExitCode::RunFailed);
    fs::remove_file(path.join("events.jsonl")).unwrap();
    assert_eq!(damaged_line(&path), 1);
}

#[test]
fn events_of_a_batch_have_one_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!(1)).unwrap();
    run.append_named(&[json!({"sample": 2}), json!({"done": 2})]).unwrap();
    drop(run);
    let batches: Vec<usize> = Record::open(&path).unwrap().events.iter().map(|event| event.batch).collect();
    assert_eq!(batches, [0, 1, 1]);
    let mut bodies = bodies(&path);
    // The first line is the identity of the run.
    bodies.insert(3, "{\"t\":7.5,\"kind\":\"sample\",\"data\":2,\"more\":true}".into());
    write_bodies(&path, &bodies);
    assert_eq!(damaged_line(&path), 4);
}
