//! The identity of a run, and the checksums of its plan and environment.

use super::*;

fn facts(name: &str) -> Environment {
    let mut facts = Environment::default();
    facts.put("run.label", name);
    facts
}

/// Makes a complete run with one event.
fn complete(path: &Path) -> Record {
    let mut run = open(path, "1G").unwrap();
    run.append("sample", &json!(1)).unwrap();
    run.finish(&json!({"answer": 1})).unwrap();
    drop(run);
    Record::open(path).unwrap()
}

fn altered_file(path: &Path) -> PathBuf {
    match Record::open(path) {
        Err(error @ RecordError::Altered { .. }) if error.is_damage() => {
            let RecordError::Altered { path } = &error else { unreachable!() };
            let path = path.clone();
            assert_eq!(Failure::from(error).exit_code(), ExitCode::RunFailed);
            path
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn identity_survives_a_resume_and_differs_from_that_of_an_equal_run() {
    let directory = tempfile::tempdir().unwrap();
    let [path, other] = ["run", "other"].map(|name| directory.path().join(name));
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!(1)).unwrap();
    run.add_environment(&facts("one")).unwrap();
    drop(run);
    let begun = Record::open(&path).unwrap();
    let mut run = open(&path, "1G").unwrap();
    run.append("sample", &json!(2)).unwrap();
    run.add_environment(&facts("two")).unwrap();
    run.finish(&json!({"answer": 1})).unwrap();
    drop(run);
    let ended = Record::open(&path).unwrap();
    assert!(begun.identity().is_some_and(|identity| identity.len() == 32));
    assert_eq!(begun.identity(), ended.identity());
    assert_eq!(ended.events.iter().map(|event| event.line).collect::<Vec<_>>(), [2, 5]);
    assert_ne!(complete(&other).identity(), ended.identity());
}

#[test]
fn altered_plan_or_environment_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    complete(&path);
    for (name, from, to) in [("plan.toml", "1G", "2G"), ("env.json", "{", "{\"cpu.model\": \"other\"")] {
        let file = path.join(name);
        let whole = fs::read_to_string(&file).unwrap();
        fs::write(&file, whole.replacen(from, to, 1)).unwrap();
        assert_eq!(altered_file(&path), file);
        assert!(RunDirectory::resume(&path).is_err());
        fs::write(&file, whole).unwrap();
        Record::open(&path).unwrap();
    }
}

#[test]
fn run_itself_may_add_facts_but_does_not_accept_those_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    complete(&path);
    let modified = || fs::metadata(path.join("events.jsonl")).unwrap().modified().unwrap();
    let before = modified();
    for word in ["main", "other", "other"] {
        RunDirectory::resume(&path).unwrap().add_environment(&facts(word)).unwrap();
        assert_eq!(modified(), before, "a label does not make it the latest run");
        assert_eq!(Record::open(&path).unwrap().environment, facts(word));
    }
    let mut run = RunDirectory::resume(&path).unwrap();
    fs::write(path.join("env.json"), "{}").unwrap();
    assert!(matches!(run.add_environment(&facts("main")), Err(RecordError::Altered { .. })));
    assert_eq!(fs::read_to_string(path.join("env.json")).unwrap(), "{}");
}

#[test]
fn kill_while_facts_are_added_leaves_a_run_that_resumes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    complete(&path);
    let (environment, events) = (path.join("env.json"), path.join("events.jsonl"));
    let [old, begun] = [&environment, &events].map(|file| fs::read(file).unwrap());
    RunDirectory::resume(&path).unwrap().add_environment(&facts("new")).unwrap();
    let [new, whole] = [&environment, &events].map(|file| fs::read(file).unwrap());
    let lines: Vec<&[u8]> = whole[begun.len()..].split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 2);
    let announced = begun.len() + lines[0].len();
    // The file is replaced after the first event is complete and before the second one is.
    let left_by_kill = |cut: usize| if cut < announced { vec![&old] } else { vec![&old, &new] };
    for cut in (begun.len()..whole.len()).step_by(17) {
        for bytes in left_by_kill(cut) {
            fs::write(&environment, bytes).unwrap();
            fs::write(&events, &whole[..cut]).unwrap();
            Record::open(&path).unwrap();
            RunDirectory::resume(&path).unwrap().add_environment(&facts("again")).unwrap();
            assert_eq!(Record::open(&path).unwrap().environment, facts("again"), "cut {cut}");
        }
    }
    fs::write(&events, &whole).unwrap();
    fs::write(&environment, &old).unwrap();
    assert_eq!(altered_file(&path), environment, "it was replaced");
}

#[test]
fn events_without_identity_or_of_another_run_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let [path, other] = ["run", "other"].map(|name| directory.path().join(name));
    complete(&path);
    complete(&other);
    let own = fs::read_to_string(path.join("events.jsonl")).unwrap();
    fs::write(path.join("events.jsonl"), own.split_once('\n').unwrap().1).unwrap();
    assert_eq!(damaged_line(&path), 1);
    fs::write(path.join("events.jsonl"), &own).unwrap();
    let (own, theirs) = (bodies(&path), bodies(&other));
    for identity in [&theirs[0], "{\"t\":1.5,\"kind\":\"identity\",\"data\":1}"] {
        write_bodies(&path, &[&own[..], &[identity.to_string()]].concat());
        assert_eq!(damaged_line(&path), 4);
    }
}

#[test]
fn kill_while_events_are_taken_back_leaves_a_run_that_resumes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let record = complete(&path);
    let (events, summary) = (path.join("events.jsonl"), path.join("summary.json"));
    let mut run = RunDirectory::resume(&path).unwrap();
    run.reopen_finished().unwrap();
    run.append("sample", &json!(2)).unwrap();
    run.add_environment(&facts("new")).unwrap();
    let (before, opened) = (fs::read(&events).unwrap(), fs::File::open(&events).unwrap());
    // As a kill after the events are replaced: the summary cannot be written.
    fs::create_dir(&summary).unwrap();
    assert!(run.take_back(&record, None).is_err());
    fs::remove_dir(&summary).unwrap();
    assert_eq!(opened.metadata().unwrap().len(), before.len() as u64, "the old events are replaced, not shortened");
    assert_eq!(run.last_line(), 4);
    drop(run);
    let after = fs::read(&events).unwrap();
    for (state, samples) in [(&before, 2), (&after, 1)] {
        fs::write(&events, state).unwrap();
        let found = Record::open(&path).unwrap();
        assert_eq!((found.events.len(), found.is_partial(), &found.environment), (samples, true, &facts("new")));
        RunDirectory::resume(&path).unwrap();
    }
    let mut run = RunDirectory::resume(&path).unwrap();
    run.add_environment(&facts("newer")).unwrap();
    run.take_back(&record, None).unwrap();
    let found = Record::open(&path).unwrap();
    assert_eq!((found.summary, found.environment), (record.summary, facts("newer")));
    run.reopen_finished().unwrap();
    run.append("sample", &json!(3)).unwrap();
    assert_eq!(run.last_line(), 5);
    drop(run);
    let found = Record::open(&path).unwrap();
    assert_eq!(found.events.iter().map(|event| event.line).collect::<Vec<_>>(), [2, 5]);
}

#[test]
fn incomplete_copy_of_a_run_is_not_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    let begun = fs::read(path.join("events.jsonl")).unwrap();
    run.append_named(&[json!({"sample": 1}), json!({"done": 1})]).unwrap();
    drop(run);
    let whole = fs::read(path.join("events.jsonl")).unwrap();
    let first = begun.len() + whole[begun.len()..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for kept in [&whole[..], &whole[..first], &whole[begun.len()..]] {
        fs::write(path.join("events.jsonl"), kept).unwrap();
        let _ = fs::remove_file(path.join("plan.toml"));
        assert!(matches!(RunDirectory::check(&path), Err(RecordError::NotEmpty { .. })));
        assert!(matches!(open(&path, "1G"), Err(RecordError::NotEmpty { .. })));
        assert_eq!(fs::read(path.join("events.jsonl")).unwrap(), kept);
    }
    for kept in [&whole[..0], &begun[..9], &begun[..], &whole[..begun.len() + 9]] {
        fs::write(path.join("events.jsonl"), kept).unwrap();
        let _ = fs::remove_file(path.join("plan.toml"));
        drop(open(&path, "1G").unwrap());
        assert!(Record::open(&path).unwrap().events.is_empty());
    }
}

#[test]
fn last_line_counts_identities_and_not_what_was_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = open(&path, "1G").unwrap();
    assert_eq!(run.last_line(), 1);
    run.add_environment(&facts("one")).unwrap();
    run.append_named(&[json!({"sample": 1}), json!({"done": 1})]).unwrap();
    assert_eq!(run.last_line(), 5);
    drop(run);
    let whole = fs::read(path.join("events.jsonl")).unwrap();
    fs::write(path.join("events.jsonl"), &whole[..whole.len() - 1]).unwrap();
    let mut run = open(&path, "1G").unwrap();
    assert_eq!(run.last_line(), 3, "the step is incomplete");
    run.append("sample", &json!(2)).unwrap();
    assert_eq!((run.last_line(), Record::open(&path).unwrap().events[0].line), (4, 4));
}
