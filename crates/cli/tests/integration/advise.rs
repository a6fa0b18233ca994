//! Tests `senesce study` from the command line.

use crate::common::{ends, json, succeeds, temporary_directory};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const STUDY: &str = "study --candidates ext4,xfs --size 512M";

#[test]
#[ignore = "needs XFS"]
fn study_changed_by_the_user_is_not_overwritten() {
    let directory = temporary_directory();
    let file = directory.path().join("study-mail.toml");
    let read = || fs::read_to_string(&file).expect("the study");
    let line = format!("{STUDY} --for mail --max-time 1m --dry-run");
    succeeds(directory.path(), &line);
    assert!(!file.exists(), "a dry run writes nothing");
    let other = "name = \"mine\"\n";
    fs::write(&file, other).expect("write");
    ends(directory.path(), &line, 3);
    assert_eq!(read(), other);
    let table = directory.path().join("fstab");
    fs::write(&table, "# static file system information\n").expect("write");
    ends(directory.path(), &format!("{line} --save fstab"), 3);
    assert_eq!(fs::read_to_string(&table).expect("read").len(), 33);
    succeeds(directory.path(), &format!("{line} --force"));
    assert_eq!(read(), other);
}

struct Drive(String);

impl Drive {
    fn on(folder: &Path, bytes: u64) -> Self {
        let file = folder.join("drive.img");
        fs::File::create(&file).and_then(|file| file.set_len(bytes)).expect("make a drive");
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().expect("losetup");
        Self(String::from_utf8(output.stdout).expect("text").trim().to_string())
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
#[ignore = "needs loop devices, XFS"]
fn drive_is_measured_after_data_loss_is_confirmed() {
    let directory = temporary_directory();
    let drive = Drive::on(directory.path(), 600 << 20);
    let formatted = Command::new("mkfs.ext4").args(["-q", "-F", &drive.0]).status().expect("mkfs");
    assert!(formatted.success());
    let line = format!("{STUDY} --for objects --on {} --max-time 5s --json", drive.0);
    ends(directory.path(), &line, 3);
    let found = json(&crate::common::run_line(directory.path(), &format!("{line} --erase {}", drive.0)));
    assert_eq!(found["pairs"].as_array().map(Vec::len), Some(2), "{found}");
    assert!(found["pairs"][0]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{found}");
    assert_eq!(found["pairs"][0]["metric"], "object operations");
    let record = directory.path().join(found["run"].as_str().expect("a run"));
    succeeds(directory.path(), &format!("report {} --out page.html", record.display()));
    let page = fs::read_to_string(directory.path().join("page.html")).expect("the page");
    assert!(page.contains(&format!("copied onto {}", drive.0)), "figures say on what it was measured");
    assert_ne!(found["answer"][0], Value::Null);
}
