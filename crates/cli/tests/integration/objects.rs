//! Tests the object store and the experiments on it, as a script uses them.

use crate::common::{ends, json, json_of, succeeds, temporary_directory};
use std::fs;
use std::path::{Path, PathBuf};

fn tree(directory: &Path) {
    fs::create_dir(directory.join("tree")).expect("make");
    for number in 0..50usize {
        let text = format!("file {number} ").repeat(1 + number * 40);
        fs::write(directory.join(format!("tree/{number}")), text).expect("write");
    }
}

#[test]
fn directory_is_committed_verified_and_checked_out() {
    let directory = temporary_directory();
    let directory = directory.path();
    tree(directory);
    for (store, layout) in [("packed", ""), ("loose", "--loose")] {
        let line = format!("objects commit {store} tree --json --log-slower-than 1ns {layout}");
        let commit = json(&succeeds(directory, &line));
        assert_eq!(commit["objects"], 50);
        assert!(commit["bytes"].as_u64() > Some(50_000) && commit["elapsed_seconds"].as_f64() > Some(0.0));
        assert_eq!(commit["slow_objects"].as_array().expect("a list").len(), 50);
        succeeds(directory, &format!("objects verify {store}"));
        assert_eq!(json_of(directory, &format!("objects stats {store} --json"))["objects"], 50);
        succeeds(directory, &format!("objects checkout {store} from-{store}"));
        for number in 0..50 {
            let read = |root: &str| fs::read(directory.join(root).join(number.to_string())).expect("read");
            assert_eq!(read("tree"), read(&format!("from-{store}")));
        }
    }
}

#[test]
fn damage_is_reported_and_the_rest_is_checked_out() {
    let directory = temporary_directory();
    let directory = directory.path();
    tree(directory);
    succeeds(directory, "objects commit store tree --loose");
    let object = some_file(&directory.join("store/objects"));
    fs::remove_file(&object).expect("remove");
    fs::write(&object, "garbage").expect("write");
    let verify = ends(directory, "objects verify store", 1);
    let message = String::from_utf8_lossy(&verify.stdout).into_owned();
    let name = object.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(message.contains(&name) && message.contains("lost file"), "{message}");
    ends(directory, "objects checkout store back", 1);
    assert_eq!(fs::read_dir(directory.join("back")).expect("list").count(), 49);
}

fn some_file(folder: &Path) -> PathBuf {
    let entry = fs::read_dir(folder).expect("list").flatten().map(|entry| entry.path()).min().expect("an entry");
    if entry.is_dir() { some_file(&entry) } else { entry }
}

#[test]
fn bad_input_is_refused() {
    let directory = temporary_directory();
    tree(directory.path());
    for (line, code) in [
        ("objects commit store tree --loose --scheme 7x6", 2),
        ("objects commit store tree --chunker fastcdc", 2),
        ("objects commit store no-such-directory", 2),
        ("objects commit tree tree", 3),
        ("objects verify tree", 2),
        ("reproduce object-dirs --schemes 7x6", 2),
        ("reproduce object-dirs --object-size 1G", 2),
        ("reproduce io-scheduler --schedulers cfq", 2),
        ("reproduce chunk-size --window 0", 2),
        ("objects advise --count 1000 --fs ext2", 2),
        ("objects advise --count 1000000 --volume 1M", 1),
    ] {
        ends(directory.path(), line, code);
    }
}

#[test]
fn one_cell_of_the_published_chunk_sizes_is_one_object() {
    let directory = temporary_directory();
    let line = "reproduce chunk-size --algorithm rolling-sum --window 4096 --divisor 1024 --json";
    for (more, expected) in [("", [1069.0, 1177.0]), (" --reset", [5186.0, 1004.0])] {
        let cell = json_of(directory.path(), &format!("{line}{more}"));
        assert_eq!(["mean", "sd"].map(|name| cell[name].as_f64().unwrap().round()), expected, "{more}");
    }
}
