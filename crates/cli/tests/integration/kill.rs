//! Tests `kill -9`, also of the guardian: the next sweep removes all leftovers and spares live runs.

use crate::common::{
    json_of, leftovers, run_line, senesce, start_until, succeeds, temporary_directory, wait_until, words,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub fn kill(process: u32) {
    assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
}

pub fn guardian_of(process: u32) -> Option<u32> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let mut words = words.split('\0').skip(1);
        let ours = words.next()? == "__guardian" && words.next()?.starts_with(&format!("{process}-"));
        ours.then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

pub fn server_in(folder: &Path) -> Option<u32> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let serves = String::from_utf8_lossy(&line).contains("\0--foreground");
        let works_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place == folder);
        (serves && works_there).then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

/// Leftovers of a killed process: in the ledger, and by name in all shared locations.
pub fn traces_of(process: u32) -> Vec<PathBuf> {
    let groups = ["memory", "unified", "freezer", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let places = ["/run/senesce/owners", "/run/senesce", "/dev/shm", "/tmp"].map(PathBuf::from);
    let entries = places.iter().chain(&groups).filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let number = format!("{process}-");
    let is_its = |name: &str| {
        let rest =
            name.strip_prefix("senesce-").map_or(name, |rest| rest.split_once('-').map_or(rest, |(_, rest)| rest));
        name.starts_with(&number) || rest.starts_with(&number) || name.starts_with(&format!("senesce-{number}"))
    };
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_its)).map(|entry| entry.path()).collect()
}

pub fn started(folder: &Path, words: &[&str]) -> Child {
    senesce(folder).args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn age(folder: &Path, image: &str) -> crate::common::Started {
    let line = format!(
        "age image:{image},size=256M --profile agrawal --fullness 0.5 --truncate-sizes=drop --overwrites 4000 --out run-{image}"
    );
    start_until(folder, &words(&line), "aging:")
}

/// Kills a run after its guardian, so that nothing cleans up.
fn kill_with_guardian(run: crate::common::Started) -> u32 {
    let process = run.id();
    kill(guardian_of(process).expect("a guardian"));
    kill(process);
    let _ = run.wait();
    process
}

#[test]
#[ignore = "needs loop devices"]
fn guardian_cleans_up_after_a_killed_run() {
    let directory = temporary_directory();
    let killed = age(directory.path(), "a.img");
    let process = killed.id();
    assert!(!leftovers(directory.path()).is_empty() && guardian_of(process).is_some());
    kill(process);
    let _ = killed.wait();
    wait_until(|| traces_of(process).is_empty() && leftovers(directory.path()).is_empty());
}

#[test]
#[ignore = "needs loop devices"]
fn sweep_cleans_up_after_a_killed_guardian_and_spares_live_runs() {
    let directory = temporary_directory();
    let (killed, mut living) = (age(directory.path(), "a.img"), age(directory.path(), "b.img"));
    let process = kill_with_guardian(killed);
    let held = leftovers(directory.path());
    assert!(held.iter().any(|line| line.contains("b.img")), "{held:?}");
    let found = json_of(directory.path(), "doctor --sweep --json");
    let of = |process: u32| -> Vec<String> {
        let mine = found.as_array().unwrap().iter().filter(|one| one["process"] == process);
        mine.map(|one| one["outcome"].to_string()).collect()
    };
    // Another test may have started first.
    assert!(of(process).iter().all(|outcome| outcome == "\"undone\"" || outcome == "\"gone\""), "{found:#}");
    assert!(of(living.id()).iter().any(|outcome| outcome == "\"in-use\""), "{found:#}");
    assert!(traces_of(process).is_empty(), "{:?}", traces_of(process));
    let held = leftovers(directory.path());
    assert!(!held.iter().any(|line| line.contains("a.img")), "{held:?}");
    assert!(held.iter().any(|line| line.contains("b.img")) && living.is_running(), "live runs are spared: {held:?}");
    kill(living.id());
    let _ = living.wait();
    run_line(directory.path(), "doctor --sweep");
    assert_eq!((traces_of(process).len(), leftovers(directory.path())), (0, vec![]));
}

/// In a mount namespace with its own ledger, so that no other test cleans up.
#[test]
#[ignore = "needs root, loop devices"]
fn verbs_that_only_compute_keep_leftovers_of_a_killed_run() {
    const MARK: &str = "SENESCE_TEST_OWN_LEDGER";
    if std::env::var_os(MARK).is_none() {
        let script = "mount -t tmpfs none /run && exec \"$@\"";
        let test = "kill::verbs_that_only_compute_keep_leftovers_of_a_killed_run";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(std::env::current_exe().unwrap());
        let output = command.args(["--exact", test, "--include-ignored"]).env(MARK, "").output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let directory = temporary_directory();
    let folder = directory.path();
    kill_with_guardian(age(folder, "a.img"));
    let left = leftovers(folder);
    assert!(!left.is_empty());
    fs::create_dir(folder.join("tree")).unwrap();
    for line in ["tier mkfs --nvm n --nvm-size 4M --cold c", "objects advise tree", "layout tree", "runs list"] {
        run_line(folder, line);
        assert_eq!(leftovers(folder), left, "{line}");
    }
    run_line(folder, "doctor --sweep");
    assert_eq!(leftovers(folder), Vec::<String>::new());
}

#[test]
#[ignore = "needs FUSE"]
fn dead_server_is_unmounted() {
    let directory = temporary_directory();
    let folder = directory.path();
    fs::create_dir(folder.join("mnt")).unwrap();
    succeeds(folder, "tier mkfs --nvm n --nvm-size 4M --cold c");
    let mount = "tier mount --nvm n --cold c mnt";
    kill_with_guardian(start_until(folder, &words(&format!("{mount} --foreground")), "mounted on"));
    wait_until(|| fs::metadata(folder.join("mnt")).is_err());
    run_line(folder, "doctor --sweep");
    assert!(fs::read_dir(folder.join("mnt")).is_ok(), "unmounted by the next start");
    succeeds(folder, mount);
    assert!(Command::new("umount").arg(folder.join("mnt")).status().unwrap().success());
}

#[test]
#[ignore = "needs FUSE"]
fn process_waiting_for_its_own_dead_server_is_released() {
    let directory = temporary_directory();
    // It writes to a FUSE file system that its own threads serve.
    let words = words("reproduce tier-sweep --scale smoke --out run");
    for _ in 0..3 {
        let mut child = started(directory.path(), &words);
        let process = child.id();
        let begun = |point: &str| fs::read_dir(point).is_ok_and(|mut entries| entries.next().is_some());
        wait_until(|| {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            let own = mounts.lines().filter(|line| line.contains(&format!("-{process}-")));
            own.filter_map(|line| line.split(' ').nth(1)).any(begun)
        });
        child.kill().unwrap();
        wait_until(|| child.try_wait().unwrap().is_some());
        wait_until(|| traces_of(process).is_empty());
        let _ = fs::remove_dir_all(directory.path().join("run"));
    }
}

/// The same with another thread than the first writing to the process's own server: the process is a zombie then, with a
/// waiting thread.
#[test]
#[ignore = "needs loop devices, FUSE"]
fn thread_waiting_for_its_own_dead_server_is_released() {
    let directory = temporary_directory();
    let line = "age image:a.img,size=128M --fullness 0.5 --truncate-sizes=drop --overwrites 1 --out run";
    succeeds(directory.path(), line);
    for round in 0..5 {
        let mut child = started(directory.path(), &["diagnose", "a.img", "--try"]);
        let process = child.id();
        let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
        wait_until(|| mounts().lines().any(|line| line.contains(&format!("-{process}-")) && line.contains("fuse")));
        std::thread::sleep(Duration::from_millis(100 * round));
        child.kill().unwrap();
        wait_until(|| child.try_wait().unwrap().is_some());
        wait_until(|| traces_of(process).is_empty());
    }
    assert_eq!(leftovers(directory.path()), Vec::<String>::new());
}
