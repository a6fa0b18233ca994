//! Tests `--user NAME`, which drops the rights of root.

use crate::common::{ends, stderr, succeeds};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

/// A world-accessible folder with a subfolder owned by `nobody`.
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

#[test]
#[ignore = "needs root"]
fn workload_and_readers_of_its_record_run_without_root() {
    let (directory, nobody) = scene();
    let folder = directory.path();
    let owner = |name: &str| folder.join(name).metadata().unwrap().uid();
    succeeds(folder, "--user nobody bench theirs/work append --create --out theirs/run");
    succeeds(folder, "--user nobody report theirs/run");
    for name in ["work", "work/.senesce", "run", "run/plan.toml", "run/report.html"] {
        assert_eq!(owner(&format!("theirs/{name}")), nobody, "{name}");
    }
    // Outside of the directories that this user may write.
    ends(folder, "--user nobody report theirs/run --out root.html", 5);
    assert!(!folder.join("root.html").exists());
    succeeds(folder, "bench ours append --create --out root-run");
    let ended = ends(folder, "--user nobody report root-run", 5);
    assert!(stderr(&ended).contains("root-run belongs to root: repeat the command with sudo"), "{}", stderr(&ended));
    succeeds(&folder.join("theirs"), "--user nobody report ../root-run");
    assert_eq!(owner("theirs/root-run.html"), nobody);
    // A record with a file that only root may read.
    let summary = folder.join("theirs/run/summary.json");
    fs::remove_file(&summary).unwrap();
    fs::write(&summary, r#"{"secret":1}"#).unwrap();
    fs::set_permissions(&summary, fs::Permissions::from_mode(0o600)).unwrap();
    let ended = crate::common::run_line(folder, "--user nobody report theirs/run --format json");
    assert!(!ended.status.success() && stderr(&ended).contains("EACCES"), "{}", stderr(&ended));
}

#[test]
#[ignore = "needs root"]
fn missing_root_is_reported_and_root_is_refused_as_user() {
    let (directory, _) = scene();
    for words in ["age image:theirs/a.img,size=16M --out theirs/run", "trace theirs -- true"] {
        ends(directory.path(), &format!("--user nobody {words}"), 4);
    }
    for name in ["root", "no-such-user", "0"] {
        ends(directory.path(), &format!("--user {name} runs list"), 2);
    }
}

#[test]
#[ignore = "needs root"]
fn open_files_and_environment_of_root_are_dropped() {
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
    let stated = fs::read_to_string(folder.join("theirs/out"));
    let stated = stated.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ended.stderr)));
    assert!(stated.contains("LC_ALL=C") && !stated.contains("secret") && !stated.contains("ROOTS_TOKEN"), "{stated}");
}

/// Commands that a link in a folder of another user would lead to write elsewhere as root.
const LED: &[&str] = &[
    "report run --format csv --out theirs/results/out",
    "report run --format figures --out theirs/results/out",
    "report run --out theirs/results/out --force",
    "report run --site theirs/results",
    "report run --format zip --out theirs/results/out",
    "compare run run --markdown theirs/results/out",
    "layout . --svg theirs/results/out",
    "profile capture . --out theirs/results/out",
    "trace . --save theirs/results/out -- true",
    "help --man-pages theirs/results/out",
    "objects commit theirs/results/out run",
    "zoned measure sim:zn540 --op write --time 1ms --out theirs/results/out",
    "age image:theirs/results/a.img,size=64M --out new",
    "bench theirs/results/work append --create --out new",
];

#[test]
#[ignore = "needs root"]
fn root_does_not_follow_links_of_another_user() {
    let (directory, nobody) = scene();
    let folder = directory.path();
    succeeds(folder, "zoned measure sim:zn540 --op write --time 1ms --out run");
    let results = folder.join("theirs/results");
    fs::create_dir(folder.join("ours")).unwrap();
    std::os::unix::fs::symlink(folder.join("ours"), &results).unwrap();
    std::os::unix::fs::lchown(&results, Some(nobody), None).unwrap();
    for line in LED {
        let ended = ends(folder, line, 3);
        assert!(stderr(&ended).contains(&format!("link of user {nobody}")), "{line}: {}", stderr(&ended));
        assert_eq!(fs::read_dir(folder.join("ours")).unwrap().count(), 0, "{line}");
    }
    // A link is followed if its owner may write its target too.
    chown(folder.join("ours"), Some(nobody), None).unwrap();
    assert_eq!(stderr(&succeeds(folder, LED[0])), "");
    assert!(folder.join("ours/out").is_file());
}

#[test]
#[ignore = "needs root"]
fn folder_of_runs_belongs_to_the_caller_of_sudo() {
    let (directory, nobody) = scene();
    let theirs = directory.path().join("theirs");
    let line = "bench memory:64M varmail --create --scale 0.01 --time 100ms --reps 2";
    let by_sudo = |folder: &std::path::Path| {
        let number = nobody.to_string();
        let mut command = crate::common::senesce(folder);
        command.env("SUDO_UID", &number).env("SUDO_GID", &number).args(crate::common::words(line));
        crate::common::ended(command.output().unwrap(), line, 0);
        folder.join("senesce-runs")
    };
    let runs = by_sudo(&theirs);
    assert_eq!(runs.metadata().unwrap().uid(), nobody);
    let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    assert_eq!(run.metadata().unwrap().uid(), 0, "the record is of root");
    assert_eq!(by_sudo(directory.path()).metadata().unwrap().uid(), 0, "the folder above is of root");
    // Without sudo it stays with root, and the owner is named.
    fs::remove_dir_all(&runs).unwrap();
    fs::create_dir(&runs).unwrap();
    let denied = "--user nobody demo --on simulator";
    let ended = ends(&theirs, denied, 5);
    assert!(
        stderr(&ended).contains("senesce-runs belongs to root") && stderr(&ended).contains("--out"),
        "{}",
        stderr(&ended)
    );
}
