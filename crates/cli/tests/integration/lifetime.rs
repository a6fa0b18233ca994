//! Tests that commands on a mount end with it, whatever ends senesce.

use crate::common::{
    Started, json, json_of, leftovers, run, run_line, senesce, start_until, succeeds, temporary_directory, wait_until,
};
use crate::kill::{guardian_of, kill, traces_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Writes into the mount point forever, as long as it can. Its word identifies it in the list of processes.
const WRITER: &str = r#"n=0; while :; do n=$((n+1)); head -c 100000 /dev/zero >"$0/$1.$((n % 50))" 2>/dev/null; done"#;

/// What a command does before it writes: `$W` is the writer.
const WAYS: [&str; 6] = [
    r#"echo begun >&2; eval "$W""#,
    r#"(setsid sh -c "$W" "$0" "$1" >/dev/null 2>&1 &); echo begun >&2; sleep 600"#,
    r#"(setsid env -i PATH="$PATH" sh -c "$W" "$0" "$1" >/dev/null 2>&1 &); echo begun >&2; sleep 600"#,
    r#"trap '' TERM INT HUP; sh -c "$W" "$0" "$1" & echo begun >&2; while :; do wait; done"#,
    r#"sh -c "$W" "$0" "$1" & sleep 600 & kill -STOP $!; echo begun >&2; wait"#,
    r#"mkdir "$0/below"; mount -t tmpfs none "$0/below"; echo begun >&2; sh -c "$W" "$0/below" "$1""#,
];

fn image(folder: &Path) {
    succeeds(folder, "age image:k.img,size=64M --fullness 0.3 --truncate-sizes=drop --overwrites 1 --out r");
    succeeds(folder, "snapshot create k.img s");
}

/// Starts a verb with a command that writes in this manner, and waits until it has begun.
fn writing(folder: &Path, verb: &[&str], way: &str, word: &str) -> Started {
    let script = format!("W='{WRITER}'; {way}");
    let command = ["--", "sh", "-c", &script, "{}", word];
    start_until(folder, &[verb, &command[..]].concat(), "begun")
}

fn mount_points(process: u32) -> Vec<PathBuf> {
    let entries = crate::ledger::of(process).into_iter().filter(|owed| owed.kind() == "mount");
    entries.map(|owed| PathBuf::from(owed.text("point"))).collect()
}

fn processes_with(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

/// Kills a run after `moment`, optionally with its guardian first, and checks that the next start finds nothing.
fn kill_one(folder: &Path, verb: &[&str], way: &str, moment: Duration, both: bool) {
    let word = format!("writer-{}-{}", std::process::id(), fs::read_dir(folder).unwrap().count());
    let started = writing(folder, verb, way, &word);
    let (process, points) = (started.id(), mount_points(started.id()));
    assert!(!points.is_empty());
    std::thread::sleep(moment);
    if both {
        kill(guardian_of(process).expect("a guardian"));
    }
    kill(process);
    run_line(folder, "doctor --sweep");
    // The command shares the pipes: they close when all of it has ended.
    let _ = started.wait();
    run_line(folder, "doctor --sweep");
    let left = (processes_with(&word), traces_of(process), leftovers(folder));
    assert_eq!(left, (vec![], vec![], vec![]), "{verb:?}, {way}, {moment:?}, {both}");
    points.iter().for_each(|point| assert!(point.symlink_metadata().is_err(), "{}", point.display()));
    run_line(folder, "snapshot restore k.img s");
}

#[test]
#[ignore = "needs loop devices, control groups"]
fn command_ends_with_a_killed_run_and_writes_nothing_below_its_mount_point() {
    let directory = temporary_directory();
    image(directory.path());
    let rounds = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(WAYS.len());
    for round in 0..rounds {
        let verb: &[&str] = if round % 2 == 0 { &["snapshot", "run", "k.img", "s"] } else { &["trace", "k.img"] };
        let moment = Duration::from_millis(round as u64 * 7919 % 700);
        kill_one(directory.path(), verb, WAYS[round % WAYS.len()], moment, round / WAYS.len() % 2 == 1);
    }
}

#[test]
#[ignore = "needs loop devices, control groups"]
fn background_processes_end_before_the_rollback() {
    let directory = temporary_directory();
    image(directory.path());
    let script = format!("W='{WRITER}'; (setsid sh -c \"$W\" \"$0\" left-writer >/dev/null 2>&1 &); sleep 0.2");
    let verbs: [&[&str]; 2] = [&["snapshot", "run", "k.img", "s"], &["trace", "k.img"]];
    for verb in verbs {
        let ran = run(directory.path(), &[verb, &["--", "sh", "-c", &script, "{}"]].concat());
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(processes_with("left-writer"), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs loop devices, control groups"]
fn command_that_ignores_signals_ends_on_interrupt() {
    let directory = temporary_directory();
    image(directory.path());
    for verb in [&["snapshot", "run", "k.img", "s"][..], &["trace", "k.img"]] {
        let output = writing(directory.path(), verb, WAYS[3], "deaf-writer").interrupt();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(processes_with("deaf-writer"), Vec::<String>::new());
        succeeds(directory.path(), "snapshot restore k.img s");
    }
}

#[test]
#[ignore = "needs FUSE"]
fn mount_of_another_namespace_is_undone_from_outside() {
    let directory = temporary_directory();
    let folder = directory.path();
    fs::create_dir(folder.join("mnt")).unwrap();
    succeeds(folder, "tier mkfs --nvm n --nvm-size 4M --cold c");
    let script = r#""$0" tier mount --nvm n --cold c mnt; echo $?; cat"#;
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh", "-c", script]).current_dir(folder);
    shell.arg(assert_cmd::cargo::cargo_bin!("senesce")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut answer).unwrap();
    assert_eq!(answer, "0\n");
    let mounts = || fs::read_to_string(format!("/proc/{}/mounts", shell.id())).unwrap();
    let point = folder.join("mnt").to_string_lossy().into_owned();
    assert!(mounts().contains(&point));
    let server = crate::kill::server_in(folder).expect("a server");
    kill(guardian_of(server).expect("a guardian"));
    kill(server);
    wait_until(|| !Path::new(&format!("/proc/{server}")).exists());
    let swept = json_of(folder, "doctor --sweep --json");
    assert!(!mounts().contains(&point), "{swept}");
    assert_eq!(traces_of(server), Vec::<PathBuf>::new());
    drop(shell.stdin.take());
    shell.wait().unwrap();
}

/// A scratch directory with the name that a guest with a shared folder would use: its boot id differs.
#[test]
#[ignore = "needs root"]
fn leftovers_of_another_kernel_are_listed_and_kept() {
    let directory = temporary_directory();
    let foreign = directory.path().join("senesce-guest-4711-1f-effffffc-0123abcd-aB3dE6gH9jK2");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("image"), "live").unwrap();
    let mut command = senesce(directory.path());
    let found = json(&command.env("TMPDIR", directory.path()).args(["doctor", "--sweep", "--json"]).output().unwrap());
    let is_it = |one: &&serde_json::Value| one["what"].as_str().unwrap().contains("0123abcd");
    assert_eq!(found.as_array().unwrap().iter().find(is_it).unwrap()["outcome"], "other-kernel", "{found:#}");
    assert!(foreign.join("image").exists());
}
