//! Tests `senesce study` from the command line.

use crate::common::{json, run, temporary_directory};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn advise(folder: &Path, more: &[&str]) -> Output {
    run(folder, &[&["study", "--candidates", "ext4,xfs", "--size", "512M"], more].concat())
}

#[test]
#[ignore = "needs XFS"]
fn study_changed_by_the_user_is_not_overwritten() {
    let directory = temporary_directory();
    let file = directory.path().join("study-mail.toml");
    let words = ["--for", "mail", "--max-time", "1m", "--dry-run"];
    assert!(advise(directory.path(), &words).status.success());
    let written = fs::read_to_string(&file).expect("the study");
    assert!(advise(directory.path(), &words).status.success(), "the same again changes nothing");
    let changed = format!("{written}# mine\n");
    fs::write(&file, &changed).expect("change it");
    let refused = advise(directory.path(), &words);
    assert!(refused.status.code() == Some(3) && said(&refused).contains("senesce study"), "{}", said(&refused));
    assert_eq!(fs::read_to_string(&file).expect("the study"), changed);
    let table = directory.path().join("fstab");
    fs::write(&table, "# static file system information\n").expect("write");
    let refused = advise(directory.path(), &[&words[..], &["--save", "fstab"]].concat());
    assert_eq!((refused.status.code(), fs::read_to_string(&table).expect("read").len()), (Some(3), 33));
    assert!(advise(directory.path(), &[&words[..], &["--force"]].concat()).status.success());
    assert_eq!(fs::read_to_string(&file).expect("the study"), written);
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
fn drive_is_measured_once_its_loss_is_allowed() {
    let directory = temporary_directory();
    let drive = Drive::on(directory.path(), 600 << 20);
    fs::write(directory.path().join("old"), "x").expect("write");
    let formatted = Command::new("mkfs.ext4").args(["-q", "-F", &drive.0]).status().expect("mkfs");
    assert!(formatted.success());
    let words = ["--for", "objects", "--on", &drive.0, "--max-time", "5s", "--json"];
    let refused = advise(directory.path(), &words);
    assert!(refused.status.code() == Some(3) && said(&refused).contains("--erase"), "{}", said(&refused));
    let stated = advise(directory.path(), &[&words[..], &["--erase", &drive.0]].concat());
    let found = json(&stated);
    assert_eq!(found["pairs"].as_array().map(Vec::len), Some(2), "{found}");
    assert!(found["pairs"][0]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{found}");
    assert_eq!(found["pairs"][0]["metric"], "object operations");
    let record = directory.path().join(found["run"].as_str().expect("a run"));
    let figures = run(directory.path(), &["report", &record.to_string_lossy(), "--out", "page.html"]);
    assert!(figures.status.success(), "{}", said(&figures));
    let page = fs::read_to_string(directory.path().join("page.html")).expect("the page");
    assert!(page.contains(&format!("copied onto {}", drive.0)), "figures say on what it was measured");
    assert_ne!(found["answer"][0], Value::Null);
}
