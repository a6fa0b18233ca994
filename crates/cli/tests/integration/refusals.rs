//! Tests that refusals come before any work and change nothing: no second output, folder or record.

use crate::common::{ends, run_line, succeeds, temporary_directory};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// Two small finished runs, and entries that refuse an output: a letter, and a link.
fn fixture() -> tempfile::TempDir {
    let directory = temporary_directory();
    let folder = directory.path();
    for name in ["run", "other"] {
        let ended = run_line(folder, &format!("zoned measure sim:zn540 --op write --time 1ms --out {name}"));
        assert!(folder.join(name).join("summary.json").exists(), "{ended:?}");
    }
    fs::write(folder.join("letter"), "Dear diary, ").unwrap();
    symlink("letter", folder.join("link")).unwrap();
    fs::create_dir_all(folder.join("site")).unwrap();
    fs::write(folder.join("site/index.html"), "Dear diary, ").unwrap();
    fs::create_dir_all(folder.join("files/other")).unwrap();
    symlink("../../letter", folder.join("files/other/measurements.csv")).unwrap();
    fs::create_dir(folder.join("pages")).unwrap();
    symlink("../letter", folder.join("pages/senesce-zoned.1")).unwrap();
    symlink("../letter", folder.join("other/report.html")).unwrap();
    symlink("letter", folder.join("other.zip")).unwrap();
    fs::create_dir(folder.join("full")).unwrap();
    fs::write(folder.join("full/letter"), "Dear diary, ").unwrap();
    fs::write(folder.join("old.img.order"), "Dear diary, ").unwrap();
    directory
}

/// Path, inode, mode, size, and times of everything below, except the cache.
fn state(folder: &Path) -> Vec<(String, [u64; 3], [i64; 4])> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.file_name() != ".cache") {
        let found = entry.metadata().unwrap();
        if found.is_dir() {
            all.extend(state(&entry.path()));
        }
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        all.push((entry.path().display().to_string(), [found.ino(), found.mode().into(), found.size()], times));
    }
    all.sort();
    all
}

const REFUSED: &[&str] = &[
    "report run other",
    "report run --site site",
    "report run other --format zip",
    "report run --format json --out letter",
    "report run --format csv --out letter",
    "report run other --format figures --out files",
    "report run --format json --out link",
    "compare run other --markdown new.md --junit letter",
    "compare run other --until-decided --max-time 1h --out rounds --markdown letter",
    "compare run other --until-decided --max-time 1h --out rounds --junit link",
    "runs history . --csv new.csv --html letter",
    "runs history . --csv new.csv --prometheus letter",
    "runs history . --csv new.csv --html link",
    "layout . --svg new.svg --die-map letter",
    "help --man-pages pages",
    "profile capture . --out letter",
    "diagnose . --html new.html --prometheus link",
    "diagnose . --html link --record kept",
    "trace . --json new.json --text link -- touch ran",
    "trace . --json new.json --save letter -- touch ran",
    "trace . --json new.json --out full -- touch ran",
    "age new --create --size 1G --out full",
    "bench new file-ops --create --out full",
    "age image:old.img,size=64M --data write --record-order --out deep/er/run",
    "zoned measure sim:zn540 --op write --out full",
];

/// Each of these command lines ends with this code and changes nothing.
fn nothing_changes(folder: &Path, lines: &[&str], code: i32) {
    let before = state(folder);
    for line in lines {
        ends(folder, line, code);
        assert_eq!(state(folder), before, "{line}");
    }
}

#[test]
fn refusal_changes_nothing() {
    nothing_changes(fixture().path(), REFUSED, 3);
}

#[test]
fn dry_run_writes_nothing() {
    let directory = fixture();
    let folder = directory.path();
    let lines = [
        "age image:new.img,size=1G --dry-run --out made",
        "bench new file-ops --create --dry-run --out made",
        "reproduce ssd-die-collision --scale smoke --dry-run",
        "zoned measure sim:zn540 --op append --dry-run --out made",
    ];
    nothing_changes(folder, &lines, 0);
    let gate = crate::common::printed(folder, "study --example gate");
    fs::write(folder.join("gate.toml"), gate).unwrap();
    let before = state(folder);
    // Its kernel may be missing.
    crate::common::run(folder, &["study", "gate.toml", "--build", "touch made", "--dry-run"]);
    assert_eq!(state(folder), before);
}

#[test]
fn missing_path_has_the_same_exit_code_everywhere() {
    let lines = [
        "trace none -- touch ran",
        "layout none",
        "diagnose none",
        "profile capture none",
        "profile capture --from-list none",
        "profile import none none none",
        "device simulate ssd:fast24 none",
        "runs import blkparse none --out made",
        "image copy none made",
        "image pack none made",
        "image unpack none made",
        "snapshot create none first",
        "report none",
        "verify none",
        "compare none none",
        "study none.toml",
        "zoned measure sim:zn540 none.toml",
    ];
    nothing_changes(fixture().path(), &lines, 2);
}

#[test]
fn one_file_for_two_outputs_is_refused() {
    let directory = fixture();
    let folder = directory.path();
    fs::create_dir_all(folder.join("more")).unwrap();
    succeeds(folder, "zoned measure sim:zn540 --op append --time 1ms --out more/run");
    let lines = [
        "runs history . --csv new --html new",
        "report run more/run --format zip",
        "report run more/run --format figures --out new",
        "trace . --json new --text new -- touch ran",
    ];
    nothing_changes(folder, &lines, 2);
    // Standard output takes several.
    succeeds(folder, "runs history . --csv - --prometheus /dev/stdout");
}

#[test]
fn refused_target_leaves_no_record_and_no_folder() {
    let directory = fixture();
    let folder = directory.path();
    fs::create_dir_all(folder.join("thesis/empty")).unwrap();
    fs::write(folder.join("thesis/chapter"), "precious").unwrap();
    let lines = [
        "bench thesis file-ops --out deep/er/run",
        "bench thesis file-ops --out senesce-runs/run",
        "bench thesis file-ops",
        "age thesis --create --profile wang_os --truncate-sizes=drop --size 256M",
    ];
    nothing_changes(folder, &lines, 3);
    ends(folder, "bench thesis file-ops --out thesis/empty", 3);
    assert!(folder.join("thesis/empty").is_dir(), "an existing folder stays");
    assert_eq!(fs::read_dir(folder.join("thesis/empty")).unwrap().count(), 0);
}

/// TOML parsers take seconds for such a key, and repeat it in their message.
#[test]
fn overlong_line_of_an_input_is_refused_before_it_is_parsed() {
    let directory = temporary_directory();
    fs::write(directory.path().join("long.toml"), format!("{}=1\n", "a".repeat(5_000_000))).unwrap();
    for line in [
        "study long.toml",
        "zoned measure sim:zn540 long.toml",
        "profile import long.toml long.toml long.toml",
        "profile show ./long.toml",
        "device show ./long.toml",
        "age --plan-only --size 64M --profile ./long.toml",
    ] {
        let ended = run_line(directory.path(), line);
        assert!(matches!(ended.status.code(), Some(2 | 5)), "{line}: {:?}", ended.status);
        assert!(ended.stderr.len() < 1000, "{line} repeats the line");
    }
}
