//! Tests profiles: their file format, foreign files, and captures of real trees.

use proptest::prelude::*;
use senesce_aging::capture::list;
use senesce_aging::profile::{BUILTIN, import_geriatrix};
use senesce_aging::{CaptureOptions, Profile, capture, capture_list};
use std::path::{Path, PathBuf};
use std::time::Duration;

const GOOD: &str = r#"name = "small"
source = "a test"
sizes = [{ bytes = 4096, weight = 1.0 }]
depths = [{ depth = 0, weight = 1.0, subdirectories = 0 }]
ages = [{ edge = 10.0, weight = 1.0 }]
"#;

fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let found: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!found.is_empty(), "{}", folder.display());
    found
}

fn import_parts(text: &str) -> [&str; 3] {
    let mut parts = text.splitn(3, '\x1f');
    [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default)
}

#[test]
fn builtin_profiles_round_trip() {
    for (name, _) in BUILTIN {
        let profile = Profile::builtin(name).unwrap();
        assert_eq!(Profile::parse("again", &profile.to_toml()).unwrap(), profile, "{name}");
    }
    assert!(Profile::parse("good", GOOD).is_ok());
}

#[test]
fn wrong_profile_is_reported_with_line_and_nearest_name() {
    for (wrong, words) in [
        (GOOD.replace("weight = 1.0 }]\ndepths", "wieght = 1.0 }]\ndepths"), vec!["line 3", "wieght", "weight", "^"]),
        (GOOD.replace("4096, weight = 1.0", "4096, weight = -1.0"), vec!["weight"]),
        (GOOD.replace("4096, weight = 1.0", "4096, weight = nan"), vec!["weight"]),
        (GOOD.replace("4096, weight = 1.0", "4096, weight = 0.0"), vec!["weight"]),
        (GOOD.replace("4096", "\"1g5\""), vec!["1g5"]),
        (format!("fullness = 1.5\n{GOOD}"), vec!["fullness"]),
        (format!("{GOOD}agess = 1\n"), vec!["agess", "ages"]),
        (format!("name_bytes = 0\n{GOOD}"), vec!["name_bytes"]),
        (format!("name_bytes = 256\n{GOOD}"), vec!["line 1", "256"]),
        ("".into(), vec!["missing"]),
    ] {
        let said = Profile::parse("mine.toml", &wrong).unwrap_err().to_string();
        assert!(said.contains("mine.toml"), "{said}");
        for word in words {
            assert!(said.contains(word), "{word} is missing in: {said}");
        }
    }
}

#[test]
fn fuzz_corpora_do_not_panic() {
    for path in corpus("profile") {
        let text = std::fs::read_to_string(&path).unwrap();
        if let Ok(profile) = Profile::parse("corpus", &text) {
            assert!(profile.mean_size().is_finite(), "{}", path.display());
        }
    }
    for path in corpus("profile_import") {
        let text = std::fs::read_to_string(&path).unwrap();
        let [age, size, directory] = import_parts(&text);
        let _ = import_geriatrix("corpus", age, size, directory);
    }
    for path in corpus("file_list") {
        let bytes = std::fs::read(&path).unwrap();
        if let Ok(newest) = list::newest(&bytes[..]) {
            list::tally(&bytes[..], newest).unwrap();
        }
    }
}

#[test]
fn import_reports_the_wrong_file_and_line() {
    let (age, size, directory) = ("1\n10 1.0\nprose\n", "2\n4096 0.5\n8192 0.5\n", "1\n0 1.0 0\n");
    let profile = import_geriatrix("x", age, size, directory).unwrap();
    assert_eq!((profile.sizes.len(), profile.ages.len()), (2, 1));
    for (age, size, directory, words) in [
        ("", size, directory, "age file is empty"),
        ("x\n", size, directory, "age file, line 1"),
        (age, "2\n4096 0.5\n", directory, "2 rows expected, 1 found"),
        (age, "1\n4096 a\n", directory, "size file, line 2"),
        (age, size, "1\n0 1.0\n", "3 numbers expected"),
        (age, size, "9999999999\n0 1.0 0\n", "rows expected"),
    ] {
        let said = import_geriatrix("x", age, size, directory).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn tree_and_its_list_give_the_same_profile() {
    let room = tempfile::tempdir().unwrap();
    let tree = room.path().join("tree");
    let mut lines = String::new();
    for (path, size) in [
        ("a name of 18 bytes", 0u64),
        ("b/c", 100),
        ("b/d", 5000),
        (&*format!("b/e/{}", "f".repeat(50)), 70_000),
        ("b/e/g", 1 << 20),
    ] {
        let full = tree.join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::File::create(&full).unwrap().set_len(size).unwrap();
        lines.push_str(&format!("{size} 1000 {path}\n"));
    }
    std::os::unix::fs::symlink("a name of 18 bytes", tree.join("link")).unwrap();
    let listed = room.path().join("list");
    std::fs::write(&listed, lines).unwrap();
    let options = CaptureOptions { threads: 2, ..CaptureOptions::default() };
    let walked = capture(&tree, &options).unwrap();
    let read = capture_list(&listed, &options).unwrap();
    assert_eq!((walked.files, walked.bytes), (5, 1_123_676));
    assert_eq!((read.files, read.bytes), (walked.files, walked.bytes));
    assert_eq!(walked.by_birth + walked.by_modification, 5);
    assert_eq!(walked.profile.sizes, read.profile.sizes);
    assert_eq!(walked.profile.depths, read.profile.depths);
    // The mean of 18, 1, 1, 50 and 1 bytes.
    assert_eq!((walked.profile.name_bytes, read.profile.name_bytes), (Some(14), Some(14)));
    assert_eq!(Profile::parse("again", &walked.profile.to_toml()).unwrap(), walked.profile);
    assert!(walked.profile.fullness.is_some() && read.profile.fullness.is_none());
    assert!(!walked.profile.to_toml().contains("link"), "no names are kept");
}

#[test]
fn missing_or_empty_tree_is_reported() {
    let room = tempfile::tempdir().unwrap();
    let missing = capture(&room.path().join("nowhere"), &CaptureOptions::default()).unwrap_err().to_string();
    assert!(missing.contains("nowhere") && missing.contains("No such file"), "{missing}");
    let empty = capture(room.path(), &CaptureOptions::default()).unwrap_err().to_string();
    assert!(empty.contains("no regular file"), "{empty}");
}

proptest! {
    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Profile::parse("any", &text);
        let _ = import_geriatrix("any", &text, &text, &text);
        if let Ok(newest) = list::newest(&bytes[..]) {
            list::tally(&bytes[..], newest).unwrap();
        }
    }

    #[test]
    fn every_list_line_counts(files in proptest::collection::vec((0u64..1 << 40, 0u32..2_000_000, "[a-c/.]{1,12}x"), 1..50)) {
        let text: String = files.iter().map(|(size, time, path)| format!("{size} {time} {path}\n")).collect();
        let newest = list::newest(text.as_bytes()).unwrap();
        let tally = list::tally(text.as_bytes(), newest).unwrap();
        prop_assert_eq!(tally.files, files.len() as u64);
    }
}

#[test]
fn walk_that_takes_too_long_fails() {
    let room = tempfile::tempdir().unwrap();
    std::fs::write(room.path().join("file"), "x").unwrap();
    let options = CaptureOptions { most_time: Some(Duration::ZERO), ..CaptureOptions::default() };
    assert!(matches!(capture(room.path(), &options), Err(senesce_aging::AgingError::Target(_))));
}
