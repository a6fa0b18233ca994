//! `--user NAME`: what needs no root is done without its rights.

use crate::common::run;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// A folder that anybody may enter, with one that belongs to nobody.
fn scene() -> (tempfile::TempDir, u32) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let line = accounts.lines().find(|line| line.starts_with("nobody:")).expect("a user nobody");
    let number = line.split(':').nth(2).unwrap().parse().unwrap();
    let theirs = directory.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(number), None).unwrap();
    (directory, number)
}

fn said(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let ended = run(folder, words);
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
#[ignore = "needs root"]
fn a_workload_and_the_readers_of_its_record_run_without_the_rights_of_root() {
    let (directory, nobody) = scene();
    let folder = directory.path();
    let bench = ["--user", "nobody", "bench", "theirs/work", "append", "--create", "--out", "theirs/run"];
    let (code, message) = said(folder, &bench);
    assert_eq!(code, Some(0), "{message}");
    for name in ["theirs/work", "theirs/work/.senesce", "theirs/run", "theirs/run/plan.toml"] {
        assert_eq!(folder.join(name).metadata().unwrap().uid(), nobody, "{name}");
    }
    let (code, message) = said(folder, &["--user", "nobody", "report", "theirs/run"]);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(folder.join("theirs/run/report.html").metadata().unwrap().uid(), nobody);
    // Outside of what that user may write.
    let (code, message) = said(folder, &["--user", "nobody", "report", "theirs/run", "--out", "root.html"]);
    assert_eq!(code, Some(5), "{message}");
    assert!(message.contains("EACCES") && !folder.join("root.html").exists(), "{message}");
    // A record with a file that only root may read.
    let summary = folder.join("theirs/run/summary.json");
    fs::remove_file(&summary).unwrap();
    fs::write(&summary, r#"{"secret":1}"#).unwrap();
    fs::set_permissions(&summary, fs::Permissions::from_mode(0o600)).unwrap();
    let (code, message) = said(folder, &["--user", "nobody", "export", "theirs/run", "--json"]);
    assert!(code != Some(0) && message.contains("EACCES"), "{code:?} {message}");
}

#[test]
#[ignore = "needs root"]
fn what_needs_root_says_so_and_root_is_no_such_user() {
    let (directory, _) = scene();
    let aged = ["--user", "nobody", "age", "image:theirs/a.img,size=16M", "--out", "theirs/run"];
    let (code, message) = said(directory.path(), &aged);
    assert_eq!(code, Some(4), "{message}");
    assert!(message.contains("root"), "{message}");
    for (name, found) in [("root", "is root"), ("no-such-user", "there is no user"), ("0", "is root")] {
        let (code, message) = said(directory.path(), &["--user", name, "runs"]);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(found), "{message}");
    }
}

#[test]
#[ignore = "needs root"]
fn neither_open_files_nor_the_environment_of_root_are_left_to_a_user() {
    let (directory, _) = scene();
    let folder = directory.path();
    fs::write(folder.join("secret"), "secret").unwrap();
    fs::set_permissions(folder.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let workload = "set $dir=theirs/work\ndefine fileset name=f,path=$dir,entries=1,prealloc\nsystem \"(cat <&7; env) >theirs/out 2>&1\"\n\
                    define process name=p { thread name=t { flowop statfile name=s,filesetname=f } }\nrun 1\n";
    fs::write(folder.join("own.f"), workload).unwrap();
    let shell = format!(
        "exec 7<secret; ROOTS_TOKEN=1 LC_ALL=C {} --user nobody bench theirs/work own.f --create --out theirs/run",
        env!("CARGO_BIN_EXE_senesce")
    );
    let ended = std::process::Command::new("bash").args(["-c", &shell]).current_dir(folder).output().unwrap();
    let told = fs::read_to_string(folder.join("theirs/out"));
    let told = told.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ended.stderr)));
    assert!(told.contains("LC_ALL=C") && !told.contains("secret") && !told.contains("ROOTS_TOKEN"), "{told}");
}
