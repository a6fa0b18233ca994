//! Tests the guest from the command line.

mod endings;

use crate::common::{ended, json, stderr, words};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The program with the cache of this machine, which holds the guest's kernel.
fn senesce(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    command.current_dir(folder);
    command
}

fn run(folder: &Path, words: &[&str]) -> Output {
    senesce(folder).args(words).output().expect("run senesce")
}

fn ends(folder: &Path, line: &str, code: i32) -> Output {
    ended(run(folder, &words(line)), line, code)
}

fn succeeds(folder: &Path, line: &str) -> Output {
    ends(folder, line, 0)
}

#[test]
#[ignore = "needs the guest"]
fn exit_status_output_and_record_are_returned() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let script = "cat /sys/block/nvme0n1/queue/zoned; echo to-stderr >&2; touch /etc/changed; exit 7";
    let drive = "zns,size=1G,zone=64M,cap=62M,open=14,active=14";
    let words = ["vm", "run", "--drive", drive, "--json=vm.json", "--", "sh", "-c", script];
    let output = run(directory.path(), &words);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "host-managed\n");
    assert!(stderr(&output).contains("to-stderr"));
    assert!(!Path::new("/etc/changed").exists(), "the host's files are not changed");
    let record = std::fs::read(directory.path().join("vm.json")).expect("record");
    let value: Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!((&value["exit_status"], &value["drives"][0]["lba"]), (&7.into(), &4096.into()));
    assert!(value["boot_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
#[ignore = "needs the guest"]
fn program_is_found_in_the_guest_under_any_file_name() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let renamed = directory.path().join("senesce-static");
    std::fs::hard_link(env!("CARGO_BIN_EXE_senesce"), &renamed)
        .or_else(|_| std::fs::copy(env!("CARGO_BIN_EXE_senesce"), &renamed).map(drop))
        .expect("the program by another name");
    let mut command = Command::new(&renamed);
    let command = command.current_dir(directory.path()).args(["vm", "run", "--", "senesce", "--version"]);
    let output = command.output().expect("run it");
    assert!(output.status.success() && output.stdout.starts_with(b"senesce "), "{}", stderr(&output));
}

#[test]
#[ignore = "needs the guest"]
fn share_carries_results_to_the_host() {
    let directory = tempfile::tempdir().expect("temporary folder");
    std::fs::create_dir(directory.path().join("results")).expect("shared folder");
    let script = "echo measured > results/value";
    let output = run(directory.path(), &["vm", "run", "--share", "results", "--", "sh", "-c", script]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read(directory.path().join("results/value")).expect("result"), b"measured\n");
}

#[test]
#[ignore = "needs the guest"]
fn record_of_a_verb_in_the_guest_is_at_the_requested_path_only() {
    let directory = tempfile::tempdir().expect("temporary folder");
    // In virtual time, independent of the speed of the guest.
    let simulate = "--vm -q zoned measure sim:zn540 --op append --time 1s --out";
    let names = || -> Vec<_> {
        std::fs::read_dir(directory.path()).expect("list").map(|entry| entry.expect("entry").file_name()).collect()
    };
    succeeds(directory.path(), &format!("{simulate} run"));
    assert_eq!(names(), ["run"]);
    let events = std::fs::read_to_string(directory.path().join("run/events.jsonl")).expect("the record");
    assert!(events.contains("\"kind\":\"done\""), "{events}");
    ends(directory.path(), &format!("{simulate} missing/run"), 2);
    assert_eq!(names(), ["run"]);
}

/// The mounts are in a separate namespace and disappear with it.
#[test]
#[ignore = "needs root, the guest"]
fn full_directory_is_named_and_left_empty() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let run = |drive: &str| {
        let script = format!(
            "mkdir -p place && mount -t tmpfs -o size=8M none place && export TMPDIR=$PWD/place && ls -A place && \
             $0 vm run --accelerator tcg --drive nvme,size={drive} --time-limit 2min -- true; status=$?; \
             ls -A place; exit $status"
        );
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .arg(env!("CARGO_BIN_EXE_senesce"))
            .current_dir(directory.path())
            .output()
            .expect("run it");
        texts(&output)
    };
    for (drive, expected) in [("64M", 4), ("4M", 125)] {
        let (code, left, said) = run(drive);
        assert_eq!((code, left.as_str()), (Some(expected), ""), "{said}");
        assert!(said.contains("TMPDIR"), "{said}");
    }
}

/// Mounts the same file system twice, the second time as the first run left it: mounted, and not synced.
#[test]
#[ignore = "needs the guest"]
fn conventional_drive_is_kept_for_the_next_run() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let run = |drive: &str, script: &str| {
        let words = ["vm", "run", "--keep-drive", "disk", "--drive", drive, "--", "sh", "-c", script];
        texts(&run(directory.path(), &words))
    };
    let script = "mkfs.ext4 -q /dev/nvme0n1 && mount /dev/nvme0n1 /mnt && seq 100000 >/mnt/file && md5sum </mnt/file";
    let (code, first, said) = run("nvme,size=256M", script);
    assert_eq!(code, Some(0), "{said}");
    let again = "mount /dev/nvme0n1 /mnt && md5sum </mnt/file";
    let (code, second, said) = run("nvme,size=256M", again);
    assert_eq!((code, &second), (Some(0), &first), "{said}");
    // The same content through slow drives: forty reads, one after the other.
    let timed = "a=$(date +%s%N); dd if=/dev/nvme0n1 of=/dev/null bs=4k count=40 iflag=direct status=none; \
                 echo $((($(date +%s%N) - a) / 1000000))";
    let (code, slow, said) = run("nvme,size=256M,latency=5ms", &format!("{again} && {timed}"));
    let milliseconds = slow.strip_prefix(&first).and_then(|rest| rest.trim().parse::<u64>().ok());
    assert_eq!((code, milliseconds.is_some_and(|took| took >= 200)), (Some(0), true), "{slow} {said}");
    for other in ["nvme,size=512M", "zns,size=512M"] {
        let (code, _, said) = run(other, "true");
        assert_eq!(code, Some(2), "{said}");
    }
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), stderr(output))
}

/// `senesce vm run WORDS` in an emulated machine: its exit status, standard output and standard error.
fn vm_run(words: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("temporary folder");
    texts(&run(directory.path(), &[&["vm", "run", "--engine", "qemu"], words].concat()))
}

/// Ends of guests other than by their command, on both engines.
pub(crate) fn other_ends_have_their_own_status(engine: &str) {
    let directory = tempfile::tempdir().expect("temporary folder");
    let ends = |options: &[&str], command: &[&str], code: i32, distinguishing: &[&str]| {
        let words = [&["vm", "run", "--engine", engine][..], options, &["--"], command].concat();
        let (found, _, said) = texts(&run(directory.path(), &words));
        assert_eq!(found, Some(code), "{command:?} {said}");
        distinguishing.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
    };
    ends(&[], &["no-such-command"], 127, &["no-such-command"]);
    ends(&["--time-limit", "20s"], &["sleep", "1000"], 125, &["--time-limit"]);
    ends(&[], &["sh", "-c", "echo c >/proc/sysrq-trigger"], 125, &["panicked", "sysrq", "guest-console.log"]);
    let hog = ["sh", "-c", "mount -t tmpfs -o size=2G none /mnt && head -c 2000000000 /dev/zero >/mnt/file"];
    ends(&["--memory", "512M"], &hog, 125, &["ran out of memory", "--memory"]);
}

#[test]
#[ignore = "needs the guest"]
fn other_ends_of_an_emulated_machine_have_their_own_status() {
    other_ends_have_their_own_status("qemu");
}

/// A guest that does not boot within the limit does not get the same time again.
#[test]
#[ignore = "needs the guest"]
fn time_limit_applies_while_booting() {
    let (code, _, said) = vm_run(&["--accelerator", "tcg", "--time-limit", "1s", "--", "sleep", "1000"]);
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("--time-limit") && !said.contains("booted again"), "{said}");
}

#[test]
#[ignore = "needs the guest"]
fn output_streams_and_a_hanging_guest_shows_its_console() {
    let script = "echo before; echo trouble >/dev/ttyS0; sleep 1000";
    let (code, out, said) = vm_run(&["--time-limit", "60s", "--", "sh", "-c", script]);
    assert_eq!(code, Some(125), "{said}");
    assert_eq!(out, "before\n");
    assert!(said.contains("trouble"), "the console's last lines are shown: {said}");
}

const STUDY: &str = r#"
name = "what the host lacks"
size = "512M"
repetitions = 1
numbers_only = true
file_system = [{ kind = "f2fs" }, { kind = "nilfs2" }, { kind = "zoned-btrfs" }, { kind = "zoned-f2fs" }]
workload = [{ personality = "webserver", scale = 0.02, seconds = 0.5 }]
cell = [{ vm = true }]
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "agrawal"
fullness = 0.2
overwrites = 0.3
data = "write"
truncate = "drop"
"#;

#[test]
#[ignore = "long: a study in an emulated machine takes minutes; needs the guest"]
fn study_has_cells_on_the_file_systems_and_zoned_drives_of_the_guest() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect(name);
    std::fs::write(directory.path().join("study.toml"), STUDY).expect("study");
    let output = succeeds(directory.path(), "-q study study.toml --out run --json");
    let events = read("run/events.jsonl");
    assert!(!events.contains("failed-run"), "{}\n{events}", stderr(&output));
    let of_guest = read("run/guest/run/events.jsonl");
    assert_eq!(of_guest.matches("\"kind\":\"done\"").count(), 8, "{of_guest}");
    succeeds(directory.path(), "report run");
    assert!(read("run/report.html").contains("8 runs done in the guest on kernel"), "the numbers are marked");
}

/// One small job per subject: every file system is made and read back; RocksDB runs on F2FS over a zoned drive.
#[test]
#[ignore = "needs the guest, db_bench"]
fn experiments_run_in_the_guest_and_are_marked_as_emulated() {
    let directory = tempfile::tempdir().expect("temporary folder");
    let reproduce = |asked: &str| -> Value {
        let line = format!("-q reproduce {asked} --scale smoke --json");
        let output = run(directory.path(), &words(&line));
        // The kernel of an overloaded guest rarely counts events as read that were in no page: the trace is refused, and a
        // second run needed.
        if stderr(&output).contains("is not valid: the kernel counted") {
            return json(&succeeds(directory.path(), &line));
        }
        assert!(output.status.success(), "{asked}: {}", stderr(&output));
        json(&output)
    };
    let every = "file-systems=ext4,xfs,btrfs,f2fs,nilfs2,zoned-btrfs,zoned-f2fs";
    let tested = reproduce(&format!("vm-selftest --set {every} --set time-limit=3min")).to_string();
    assert!(tested.contains("\"working\":7"), "{tested}");
    let both = "setups=f2fs-zns,btrfs-zns --set benchmarks=fillrandom,readwhilewriting-limited";
    let database = reproduce(&format!("zns-rocksdb --set time-limit=10min --set {both}"));
    // Two benchmarks on two file systems, each with three hosts; btrfs writes by appends.
    let models = agreeing(&database);
    assert_eq!(models.len(), 12);
    assert!(models.iter().any(|one| one["timed"]["kinds"]["append"]["commands"].as_u64() > Some(0)), "{models:?}");
    let database = database.to_string();
    for word in ["fillrandom", "readwhilewriting-limited", "\"file_system\":"] {
        assert!(database.contains(word), "{word}: {database}");
    }
    let overwriting = "f2fs-bandwidth --set fullness=0.5 --set overwrites=1.2 --set time-limit=10min";
    let models = agreeing(&reproduce(overwriting));
    assert_eq!(models.len(), 6, "two drives");
    let zoned = models.iter().find(|one| one["drive"] == "zoned").expect("the zoned drive");
    assert!(zoned["timed"]["kinds"]["reset"]["commands"].as_u64() > Some(0), "its cleaner resets zones: {zoned}");
}

/// Results of the simulated drives: traces and zones of the guest and of the model must agree.
fn agreeing(result: &serde_json::Value) -> Vec<serde_json::Value> {
    fn find<'a>(value: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
        let object = value.as_object()?;
        object.get(key).or_else(|| object.values().find_map(|value| find(value, key)))
    }
    let models = find(result, "on_models").and_then(|list| list.as_array()).expect("modelled results").clone();
    for one in &models {
        assert_eq!(one["timed"]["problems"], serde_json::json!([]), "{one}");
    }
    models
}

#[test]
#[ignore = "needs the guest"]
fn stitched_device_covers_the_whole_drive_and_ends_with_its_command() {
    let script = r#"
        set -e
        d=/dev/nvme0n1
        senesce image stitch $d --slices 4 --size 64M --json=/tmp/stitch -- sh -c '
            echo {}; mkfs.ext4 -q {}; mkdir -p /mnt/x; mount {} /mnt/x; head -c 40000000 /dev/urandom >/mnt/x/f; umount /mnt/x'
        cat /tmp/stitch
        test ! -e /dev/dm-0
        dd if=$d bs=1M skip=1008 count=16 2>/dev/null | tr -d '\0' | wc -c
        senesce image stitch $d --slices 4 --size 64M -- true && exit 90
        senesce image stitch $d --slices 4 --size 64M --erase $d -- mount -r {} /mnt/x
        test -e /mnt/x/f; umount /mnt/x
        senesce image stitch $d --slices 4 --size 64M --erase $d &
        until test -e /dev/dm-0; do kill -0 $!; sleep 0.1; done
        kill -9 $!; wait $! || true
        while test -e /dev/dm-0; do sleep 0.1; done
        senesce image stitch $d --slices 3 --size 64M --erase $d -- true || echo status $?
    "#;
    let words = ["--drive", "nvme,size=1G", "--time-limit", "8min", "--", "sh", "-c", script];
    let (code, out, errors) = vm_run(&words);
    assert_eq!(code, Some(0), "{out}{errors}");
    for word in ["/dev/dm-0", "\"offset\": 352321536", "status 2"] {
        assert!(out.contains(word), "{word}: {out}{errors}");
    }
}

/// Data in a zone in the middle of a drive is protected like any other.
#[test]
#[ignore = "needs the guest"]
fn zoned_drive_with_data_is_refused_until_it_is_named() {
    let script = r#"
        set -e
        cd /tmp
        dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=1 seek=192 oflag=direct status=none
        senesce -q bench auto webserver --scale 0.01 --time 1s --fs btrfs --out run || echo status $?
        dd if=/dev/nvme0n1 bs=1M count=1 skip=192 iflag=direct status=none | tr -d '\0' | wc -c | sed 's/....$/0000/'
    "#;
    let words = ["--drive", "zns,size=1G,zone=64M", "--time-limit", "8min", "--", "sh", "-c", script];
    let (code, out, said) = vm_run(&words);
    assert_eq!((code, out.as_str()), (Some(0), "status 3\n1040000\n"), "{said}");
}

/// Hosts often have control groups of version 1 only; the guest has version 2.
#[test]
#[ignore = "long: a workload and four commits in an emulated machine take a minute; needs the guest"]
fn limits_by_control_groups_of_version_2_are_applied_and_removed() {
    let script = r#"
        set -e
        cd /tmp
        senesce -q bench memory:64M webserver --scale 0.01 --time 1s --memory 600M --cpus 1.5 --out limited >/dev/null
        grep -o '"cgroup.[a-z]*.max": "[^"]*"' limited/env.json
        (while sleep 0.05; do cat /sys/fs/cgroup/senesce-*/io.max 2>/dev/null || true; done) >seen &
        senesce -q reproduce io-scheduler --scale smoke --set rate-limit=256K --set request-limit=500 --out slowed >/dev/null
        kill $!
        sort -u seen | cut -d' ' -f2- | sed 's/^/io.max /'
        test -z "$(ls -d /sys/fs/cgroup/senesce-* 2>/dev/null)" && echo left
    "#;
    let (code, out, said) = vm_run(&["--time-limit", "5min", "--", "sh", "-c", script]);
    assert_eq!(code, Some(0), "{out}{said}");
    for line_of_text in [
        r#""cgroup.memory.max": "629145600""#,
        r#""cgroup.cpu.max": "150000 100000""#,
        "io.max rbps=262144 wbps=262144 riops=500 wiops=500",
        "left",
    ] {
        assert!(out.lines().any(|line| line == line_of_text), "{line_of_text}: {out}{said}");
    }
}

#[test]
fn usage_errors_are_reported_before_anything_starts() {
    let directory = tempfile::tempdir().expect("temporary folder");
    for words in [" --drive zns,zone=64M,cap=65M -- true", " --memory 1g5 -- true", ""] {
        ends(directory.path(), &format!("vm run{words}"), 2);
    }
}
