//! Every option that names an output file goes through the function that destroys nothing.

use crate::common::{json, room, run};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A small finished run.
fn record(folder: &Path) {
    let words = ["zns", "sim:zn540", "--op", "write", "--time", "1ms", "--out", "run"];
    let ended = run(folder, &words);
    assert!(folder.join("run/summary.json").exists(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn no_verb_replaces_data_by_its_output() {
    let room = room();
    let folder = room.path();
    record(folder);
    fs::write(folder.join("disk.img"), "precious").unwrap();
    std::os::unix::fs::symlink("disk.img", folder.join("link")).unwrap();
    let before = fs::metadata(folder.join("disk.img")).unwrap().ino();
    let verbs: &[&[&str]] = &[
        &["report", "run", "--out", "FILE"],
        &["bundle", "run", "--out", "FILE"],
        &["export", "run", "--csv", "FILE"],
        &["export", "run", "--json", "FILE"],
        &["compare", "run", "run", "--markdown", "FILE"],
        &["compare", "run", "run", "--junit", "FILE"],
        &["zones", "sim:zn540", "list", "--svg", "FILE"],
        &["layout", ".", "--svg", "FILE"],
        &["profile", "capture", ".", "--out", "FILE"],
        &["lab", "run", "--json", "FILE", "--", "true"],
        &["trace", ".", "--json", "FILE", "--", "true"],
        &["trace", ".", "--save", "FILE", "--", "true"],
    ];
    for verb in verbs {
        for file in ["disk.img", "link"] {
            let words: Vec<&str> = verb.iter().map(|word| if *word == "FILE" { file } else { word }).collect();
            let ended = run(folder, &words);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(3), "{words:?}: {said}");
            assert!(said.contains(file), "{said}");
        }
    }
    let after = fs::metadata(folder.join("disk.img")).unwrap();
    assert_eq!((after.ino(), fs::read(folder.join("disk.img")).unwrap().as_slice()), (before, &b"precious"[..]));
    assert!(folder.join("link").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn standard_output_and_devices_are_written_into() {
    let room = room();
    let folder = room.path();
    record(folder);
    let before = fs::symlink_metadata("/dev/stdout").unwrap().ino();
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let ended = run(folder, &["export", "run", "--json", name]);
        assert_eq!(json(&ended)["schema"], "senesce-export/1", "{name}");
    }
    assert_eq!(fs::symlink_metadata("/dev/stdout").unwrap().ino(), before);
    let null = fs::metadata("/dev/null").unwrap();
    assert_eq!(run(folder, &["report", "run", "-o", "/dev/null"]).status.code(), Some(0));
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!((after.ino(), after.rdev()), (null.ino(), null.rdev()));
    assert_eq!(run(folder, &["report", "run", "-o", "/dev/full"]).status.code(), Some(5));
}

#[test]
fn the_same_format_is_replaced_and_force_replaces_the_rest() {
    let room = room();
    let folder = room.path();
    record(folder);
    for _ in 0..2 {
        assert_eq!(run(folder, &["report", "run"]).status.code(), Some(0), "also over the report of before");
        assert_eq!(run(folder, &["export", "run", "--files", "out"]).status.code(), Some(0));
        assert_eq!(run(folder, &["bundle", "run"]).status.code(), Some(0));
    }
    fs::write(folder.join("page.html"), "a letter").unwrap();
    assert_eq!(run(folder, &["report", "run", "--out", "page.html"]).status.code(), Some(3));
    assert_eq!(run(folder, &["report", "run", "--out", "page.html", "--force"]).status.code(), Some(0));
    assert!(fs::read_to_string(folder.join("page.html")).unwrap().starts_with("<!doctype html>"));
}

/// The end of a pipe's reader is told by the error of the write, for every verb that prints much.
#[test]
fn a_reader_that_has_gone_ends_the_program_quietly() {
    let room = tempfile::tempdir().expect("room");
    for words in [vec!["doc", "age"], vec!["experiments", "--json"], vec!["man", "age"], vec!["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let mut command = crate::common::senesce(room.path());
        let output =
            command.args(&words).stdout(writer).stderr(std::process::Stdio::piped()).output().expect("senesce");
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
}
