//! Tests the object store and the experiments on it, as a script uses them.

use crate::common::{json, run, temporary_directory};
use std::fs;
use std::path::{Path, PathBuf};

fn tree(directory: &Path) {
    fs::create_dir(directory.join("tree")).expect("make");
    for number in 0..50usize {
        let text = format!("file {number} ").repeat(1 + number * 40);
        fs::write(directory.join(format!("tree/{number}")), text).expect("write");
    }
}

fn code(directory: &Path, words: &[&str]) -> Option<i32> {
    run(directory, words).status.code()
}

#[test]
fn directory_is_committed_verified_and_checked_out() {
    let directory = temporary_directory();
    let directory = directory.path();
    tree(directory);
    for (store, layout) in [("packed", None), ("loose", Some("--loose"))] {
        let mut words = vec!["objects", "commit", store, "tree", "--json", "--log-slower-than", "1ns"];
        words.extend(layout);
        let commit = json(&run(directory, &words));
        assert_eq!(commit["objects"], 50);
        assert!(commit["bytes"].as_u64() > Some(50_000) && commit["elapsed_seconds"].as_f64() > Some(0.0));
        assert_eq!(commit["slow_objects"].as_array().expect("a list").len(), 50);
        assert_eq!(code(directory, &["objects", "verify", store]), Some(0));
        assert_eq!(json(&run(directory, &["objects", "stats", store, "--json"]))["objects"], 50);
        let back = format!("back from {store}");
        assert_eq!(code(directory, &["objects", "checkout", store, &back]), Some(0));
        for number in 0..50 {
            let read = |root: &str| fs::read(directory.join(root).join(number.to_string())).expect("read");
            assert_eq!(read("tree"), read(&back));
        }
    }
}

#[test]
fn damage_is_reported_and_the_rest_is_checked_out() {
    let directory = temporary_directory();
    let directory = directory.path();
    tree(directory);
    assert_eq!(code(directory, &["objects", "commit", "store", "tree", "--loose"]), Some(0));
    let object = some_file(&directory.join("store/objects"));
    fs::remove_file(&object).expect("remove");
    fs::write(&object, "garbage").expect("write");
    let verify = run(directory, &["objects", "verify", "store"]);
    let message = String::from_utf8_lossy(&verify.stdout).into_owned();
    let name = object.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(verify.status.code() == Some(1) && message.contains(&name) && message.contains("lost file"), "{message}");
    assert_eq!(code(directory, &["objects", "checkout", "store", "back"]), Some(1));
    assert_eq!(fs::read_dir(directory.join("back")).expect("list").count(), 49);
}

fn some_file(folder: &Path) -> PathBuf {
    let entry = fs::read_dir(folder).expect("list").flatten().map(|entry| entry.path()).min().expect("an entry");
    if entry.is_dir() { some_file(&entry) } else { entry }
}

#[test]
fn bad_input_is_refused() {
    let directory = temporary_directory();
    let directory = directory.path();
    tree(directory);
    for (words, expected) in [
        (vec!["objects", "commit", "store", "tree", "--loose", "--scheme", "7x6"], 2),
        (vec!["objects", "commit", "store", "tree", "--chunker", "fastcdc"], 2),
        (vec!["objects", "commit", "store", "no-such-directory"], 2),
        (vec!["objects", "commit", "tree", "tree"], 3),
        (vec!["objects", "verify", "tree"], 2),
        (vec!["reproduce", "object-dirs", "--schemes", "7x6"], 2),
        (vec!["reproduce", "object-dirs", "--object-size", "1G"], 2),
        (vec!["reproduce", "io-scheduler", "--schedulers", "cfq"], 2),
        (vec!["reproduce", "chunk-size", "--window", "0"], 2),
        (vec!["objects", "advise", "--count", "1000", "--fs", "ext2"], 2),
        (vec!["objects", "advise", "--count", "1000000", "--volume", "1M"], 1),
    ] {
        assert_eq!(code(directory, &words), Some(expected), "{words:?}");
    }
}

#[test]
fn one_cell_of_the_published_chunk_sizes_is_one_object() {
    let directory = temporary_directory();
    let words = "reproduce chunk-size --algorithm rolling-sum --window 4096 --divisor 1024 --json";
    let words: Vec<&str> = words.split(' ').collect();
    let cell = json(&run(directory.path(), &words));
    assert_eq!(format!("{:.0} {:.0}", cell["mean"].as_f64().unwrap(), cell["sd"].as_f64().unwrap()), "1069 1177");
    let cell = json(&run(directory.path(), &[&words[..], &["--reset"]].concat()));
    assert_eq!(format!("{:.0} {:.0}", cell["mean"].as_f64().unwrap(), cell["sd"].as_f64().unwrap()), "5186 1004");
}
