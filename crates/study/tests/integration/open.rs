//! Studies run for real: user's programs, good and bad; drives; the example.

use senesce_core::{ExitCode, Failure, Seed};
use senesce_runner::{Conduct, Outcome, State, conduct};
use senesce_study::{EXAMPLE, Study, StudySpec};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn study(text: &str, directory: &Path, erase: Option<&str>) -> Result<Outcome, Failure> {
    let spec = StudySpec::parse("study.toml", text).expect("a study");
    let how = Conduct { erase: erase.map(str::to_string), ..Conduct::quietly(&directory.join("run")) };
    conduct::<Study>(&spec, Seed(spec.seed), &how)
}

/// The same, again while runs failed only because other guests of the host took the processors, as the message recommends.
pub fn study_without_steal(text: &str, directory: &Path) -> Result<Outcome, Failure> {
    let mut outcome = study(text, directory, None)?;
    for _ in 0..5 {
        let is_steal = |(reason, _): &(String, usize)| reason.contains("(steal)");
        if !matches!(outcome.state, State::Failed(_)) || !outcome.reasons.iter().all(is_steal) {
            break;
        }
        outcome = study(text, directory, None)?;
    }
    Ok(outcome)
}

/// A folder of the test, and exclusive use of the process: a study ends all leftover children, which could belong to
/// another test.
pub struct TemporaryDirectory {
    directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl TemporaryDirectory {
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

pub fn temporary_directory() -> TemporaryDirectory {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    TemporaryDirectory { directory: tempfile::tempdir().expect("a temporary directory"), _alone }
}

/// Returns a part of the name of each failed cell (0: file system, 1: state, 2: workload) with the reason.
fn reasons(outcome: &Outcome, part: usize) -> Vec<(String, String)> {
    let failed = outcome.analysis.tables.iter().find(|table| table.id == "failed").expect("failed runs");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let named = |row: &Vec<Value>| -> Vec<(String, String)> {
        let cells = text(&row[2]);
        let name = |cell: &str| cell.split(" (").next()?.split(" / ").nth(part).map(str::to_string);
        cells.split(", ").filter_map(name).map(|name| (name, text(&row[1]))).collect()
    };
    failed.rows.iter().flat_map(named).collect()
}

#[test]
#[ignore = "needs loop devices"]
fn documented_example_runs() {
    let directory = temporary_directory();
    let outcome = study_without_steal(EXAMPLE, directory.path()).expect("it runs");
    assert_eq!((outcome.state, outcome.exit_code()), (State::Done, ExitCode::Done), "{:?}", outcome.reasons);
    let result = &outcome.analysis.result;
    assert_eq!((&result["runs_done"], &result["runs_failed"]), (&48.into(), &0.into()), "{result}");
    assert_eq!(result["pairs"].as_array().expect("pairs").len(), 4);
    assert!(result["answer"].as_str().is_some_and(|answer| answer.ends_with('.')));
    let (estimated, took) = (result["estimated_seconds"].as_f64().unwrap(), result["took_seconds"].as_f64().unwrap());
    println!("estimated {estimated:.1} s, took {took:.1} s");
    assert!(estimated > 0.0 && took > 0.0);
    let ours = result["cells"].as_array().expect("cells").iter().find(|cell| cell["workload"] == "copy and sync");
    assert_eq!(ours.expect("the program")["metric"], "printed");
}

const PROGRAMS: &str = r#"
name = "programs"
size = "64M"
repetitions = 1
[[file_system]]
kind = "ext4"
[[state]]
kind = "fresh"
[[workload]]
name = "good"
command = ["sh", "-c", "[ \"$PWD\" = \"$SENESCE_MNT\" ] && dd if=/dev/urandom of=f bs=1M count=8 2>/dev/null && echo ops 42"]
metric = { regex = "^ops ([0-9]+)$", unit = "ops/s", better = "higher" }
[[workload]]
name = "fails"
command = ["sh", "-c", "echo no such luck >&2; exit 7"]
[[workload]]
name = "hangs"
command = ["sleep", "1000"]
timeout = "500ms"
[[workload]]
name = "silent"
command = ["true"]
metric = { regex = "ops ([0-9]+)", unit = "ops/s", better = "higher" }
[[workload]]
name = "twice"
command = ["printf", "ops 1\nops 2\n"]
metric = { regex = "ops ([0-9]+)", unit = "ops/s", better = "higher" }
[[workload]]
name = "leaves"
command = ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & true"]
[[workload]]
name = "fills"
command = ["dd", "if=/dev/zero", "of=f", "bs=1M"]
[[workload]]
name = "tells"
command = ["sh", "-c", "[ $LC_ALL = C ] && echo '/other/disk: No space left on device' >&2"]
[[workload]]
name = "says"
command = ["sh", "-c", "echo '/other/disk: No space left on device' >&2; exit 1"]
[[workload]]
name = "missing"
command = ["no-such-program-anywhere"]
"#;

#[test]
#[ignore = "needs loop devices"]
fn bad_programs_fail_only_their_own_cells() {
    let directory = temporary_directory();
    let outcome = study(PROGRAMS, directory.path(), None).expect("it continues");
    assert_eq!((outcome.state, outcome.exit_code()), (State::Failed(8), ExitCode::RunFailed));
    let reasons = reasons(&outcome, 2);
    let reason = |name: &str| reasons.iter().find(|(found, _)| found == name).expect(name).1.clone();
    for (name, message) in [
        ("fails", "it failed with exit code 7; it said: no such luck"),
        ("hangs", "did not end within 0.5 s and was ended"),
        ("silent", "prints no metric"),
        ("twice", "matches 2 times"),
        ("leaves", "left processes behind, which were ended: sleep 1000"),
        ("fills", "it filled the volume (ENOSPC)"),
        ("says", "it failed with exit code 1 and reported a full device, but the volume was not"),
        ("missing", "is it installed?"),
    ] {
        assert!(reason(name).contains(message), "{name}: {}", reason(name));
    }
    let cells = outcome.analysis.result["cells"].as_array().expect("cells");
    let good: Vec<&Value> = cells.iter().filter(|cell| cell["workload"] == "good").collect();
    assert_eq!((cells.len(), &good[0]["values"]), (2, &serde_json::json!([[42.0]])), "{cells:?}");
    let others = outcome.analysis.tables.iter().find(|table| table.id == "others").expect("further metrics");
    let value = |name: &str| others.rows.iter().find(|row| row[3] == name).expect(name)[5].as_f64().unwrap();
    // Three counts of the same 8 MiB: growth in the file system, writes to the device.
    let (grown, written) = (value("growth of the files"), value("written to the device"));
    assert!((8.0 * 1048576.0..8.5 * 1048576.0).contains(&grown), "{grown}");
    assert!((8.0 * 1048576.0..12.0 * 1048576.0).contains(&written), "{written}");
    assert!(value("time with sync") >= value("wall time"));
}

#[test]
#[ignore = "needs loop devices, cc, sqlite3"]
fn ready_workloads_verify_their_result() {
    let directory = temporary_directory();
    let mut text = String::from(
        "name = 'ready'\nsize = '256M'\nrepetitions = 1\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n",
    );
    for name in ["build", "database", "container-layers", "fsync-log"] {
        text += &format!("[[workload]]\nready = '{name}'\nscale = 0.1\n");
    }
    let outcome = study(&text, directory.path(), None).expect("it runs");
    assert_eq!(outcome.state, State::Done, "{}", outcome.analysis.result);
    assert_eq!(outcome.analysis.result["cells"].as_array().expect("cells").len(), 4);
}

#[test]
#[ignore = "needs loop devices"]
fn options_refused_by_mkfs_or_mount_stop_the_study_early() {
    for (key, value) in [("mkfs", "-O no_such_feature"), ("mount", "no_such_option")] {
        let directory = temporary_directory();
        let text = PROGRAMS.replacen("kind = \"ext4\"", &format!("kind = \"ext4\"\n{key} = \"{value}\""), 1);
        let failure = study(&text, directory.path(), None).expect_err("refused");
        assert_eq!(failure.exit_code(), ExitCode::Usage, "{failure}");
        assert!(!directory.path().join("run/events.jsonl").exists(), "nothing was done");
    }
}

const CUSTOM: &str = r#"
name = "custom"
size = "64M"
repetitions = 2
numbers_only = true
[[file_system]]
kind = "custom"
name = "by commands"
mkfs = "mkfs.ext4 -q -F $DEVICE"
mount = "mount -t ext4 $DEVICE $MNT"
fsck = "e2fsck -fn $DEVICE"
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "wang_os"
fullness = 0.3
overwrites = 0.5
truncate = "drop"
[[workload]]
ready = "fsync-log"
scale = 0.02
"#;

#[test]
#[ignore = "needs loop devices"]
fn custom_file_system_runs_by_its_commands() {
    let directory = temporary_directory();
    let outcome = study(CUSTOM, directory.path(), None).expect("it runs");
    assert_eq!(outcome.state, State::Done, "{}", outcome.analysis.result);
    assert_eq!(outcome.analysis.result["cells"].as_array().expect("cells").len(), 2);
    std::fs::remove_dir_all(directory.path().join("run")).expect("remove");
    let count = directory.path().join("count");
    let checker = format!("echo >>{}; echo it is broken; false # $DEVICE", count.display());
    let damaged = CUSTOM.replacen("e2fsck -fn $DEVICE", &checker, 1);
    let failed = study(&damaged, directory.path(), None).expect("it continues");
    let looks = std::fs::read_to_string(&count).expect("the checker ran").lines().count();
    assert_eq!(looks, 2, "an image that failed is not made again for the next run");
    assert_eq!(failed.state, State::Failed(4));

    std::fs::remove_dir_all(directory.path().join("run")).expect("remove");
    let nothing = CUSTOM.replacen("mount -t ext4 $DEVICE $MNT", "true $MNT", 1);
    study(&nothing, directory.path(), None).expect_err("it is not mounted");
}

#[test]
#[ignore = "needs loop devices"]
fn images_made_again_under_one_key_are_reported() {
    let directory = temporary_directory();
    let flag = directory.path().join("flag");
    let text = format!("{CUSTOM}[[workload]]\ncommand = ['test', '-e', '{}']\n", flag.display());
    let stated = |outcome: &Outcome| outcome.analysis.caveats.iter().any(|message| message.contains("made again"));
    let first = study(&text, directory.path(), None).expect("it continues");
    assert!(first.state == State::Failed(4) && !stated(&first), "{:?}", first.analysis.caveats);
    std::fs::write(&flag, "").expect("a file");
    let second = study(&text, directory.path(), None).expect("the rest");
    assert!(second.state == State::Done && stated(&second), "{:?}", second.analysis.caveats);
}

#[test]
#[ignore = "needs loop devices"]
fn a_script_of_the_study_finds_its_folder() {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("data"), "42\n").expect("data");
    std::fs::write(directory.path().join("run.sh"), "echo ops $(cat \"$SENESCE_STUDY\"/data)\n").expect("a script");
    let text = "name = 'folder'\nsize = '64M'\nrepetitions = 1\n[[file_system]]\nkind = 'ext4'\n[[state]]\nkind = 'fresh'\n\
                [[workload]]\ncommand = ['sh', '${SENESCE_STUDY}/run.sh']\n\
                metric = { regex = '^ops ([0-9]+)$', unit = 'ops', better = 'higher' }\n";
    let spec = StudySpec::parse(&directory.path().join("study.toml").to_string_lossy(), text).expect("a study");
    let how = Conduct::quietly(&directory.path().join("run"));
    let outcome = conduct::<Study>(&spec, Seed(spec.seed), &how).expect("it runs");
    let result = outcome.analysis.result;
    assert_eq!(result["cells"][0]["values"], serde_json::json!([[42.0]]), "{result}");
}

#[test]
#[ignore = "needs loop devices"]
fn program_ages_an_image_or_its_failure_is_the_reason() {
    let directory = temporary_directory();
    let text = "name = 'aged by a program'\nsize = '64M'\nrepetitions = 1\nnumbers_only = true\n[[file_system]]\n\
                kind = 'ext4'\n[[state]]\nname = 'good'\nkind = 'command'\n\
                command = ['sh', '-c', 'cd \"$SENESCE_MNT\" && echo ops ${#SENESCE_SEED} >left']\n[[state]]\n\
                name = 'bad'\nkind = 'command'\ncommand = ['sh', '-c', 'echo no luck >&2; exit 7']\n[[state]]\n\
                name = 'slow'\nkind = 'command'\ncommand = ['sleep', '1000']\ntimeout = '500ms'\n[[workload]]\n\
                command = ['cat', 'left']\nmetric = { regex = '^ops ([0-9]+)$', unit = 'ops', better = 'higher' }\n";
    let outcome = study(text, directory.path(), None).expect("it continues");
    assert_eq!(outcome.state, State::Failed(2), "{:?}", outcome.reasons);
    assert!(outcome.analysis.result["cells"][0]["values"][0][0].as_f64().is_some_and(|digits| digits > 0.0));
    let reasons = reasons(&outcome, 1);
    let reason = |name: &str| reasons.iter().find(|(found, _)| found == name).expect(name).1.clone();
    assert!(reason("bad").contains("failed with exit code 7; it said: no luck"), "{reasons:?}");
    assert!(reason("slow").contains("did not end within 0.5 s"), "{reasons:?}");
}

/// The second file system fails until the flag exists.
fn until_decided(flag: &Path) -> String {
    format!(
        "name = 'open'\nsize = '64M'\nuntil_decided = true\nmax_time = '10m'\nrepetitions = 20\n[[file_system]]\n\
         kind = 'ext4'\n[[file_system]]\nkind = 'ext4'\nname = 'without times'\nmount = 'noatime'\n[[state]]\n\
         kind = 'fresh'\n[[workload]]\nseconds = 0.1\n\
         metric = {{ regex = '^ops ([0-9]+)$', unit = 'ops', better = 'higher' }}\n\
         command = ['sh', '-c', '''n=$((100 + $(date +%N | tail -c 2)));\n\
         if grep -q \"$SENESCE_MNT .*noatime\" /proc/mounts; then test -e {} || exit 1; n=$((2 * n)); fi; echo ops $n''']\n",
        flag.display()
    )
}

#[test]
#[ignore = "needs loop devices"]
fn analyses_are_recorded_and_fixed_cells_analysed_again() {
    let directory = temporary_directory();
    let flag = directory.path().join("flag");
    let text = until_decided(&flag);
    let verdict = |outcome: &Outcome| outcome.analysis.result["pairs"][0]["verdict"].clone();
    let looks = || {
        let events = std::fs::read_to_string(directory.path().join("run/events.jsonl")).expect("events");
        events.lines().filter(|line| line.contains("\"look\"")).count()
    };
    for tries in 1..3 {
        let failed = study(&text, directory.path(), None).expect("it continues");
        let found = (failed.state, verdict(&failed), looks());
        assert_eq!(found, (State::Failed(5), "not-testable".into(), 1), "try {tries}");
    }
    std::fs::write(&flag, "").expect("a file");
    let mended = study(&text, directory.path(), None).expect("it is decided");
    assert_eq!((mended.state, verdict(&mended), looks()), (State::Done, "worse".into(), 2));
    assert_eq!(mended.analysis.result["runs_done"], 10);
}

struct Drive(String);

impl Drive {
    fn new(directory: &Path) -> Self {
        let file = directory.join("drive");
        std::fs::File::create(&file).and_then(|file| file.set_len(128 << 20)).expect("a file");
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().expect("losetup");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8_lossy(&output.stdout).trim().into())
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
#[ignore = "needs loop devices"]
fn guarded_drive_is_measured_and_refused_drive_fails_only_its_cells() {
    let directory = temporary_directory();
    let drive = Drive::new(directory.path());
    let text = |device: &str| {
        format!(
            "name = 'drive'\nsize = '64M'\nrepetitions = 5\n[[file_system]]\nkind = 'ext4'\n[[file_system]]\nkind = 'ext4'\n\
             name = 'on the drive'\ndevice = '{device}'\n[[state]]\nkind = 'fresh'\n[[workload]]\nready = 'fsync-log'\nscale = 0.02\n"
        )
    };
    let found = study(&text(&drive.0), directory.path(), Some(&drive.0)).expect("it is measured");
    assert_eq!(found.state, State::Done, "{}", found.analysis.result);
    assert_eq!(found.analysis.result["cells"].as_array().expect("cells").len(), 2);
    // It holds a file system now: without the permission it is refused, and the other is measured.
    std::fs::remove_dir_all(directory.path().join("run")).expect("remove");
    let found = study(&text(&drive.0), directory.path(), None).expect("the rest continues");
    assert_eq!((found.state, found.exit_code()), (State::Failed(5), ExitCode::RunFailed));
    let reasons = reasons(&found, 0);
    assert_eq!((reasons.len(), reasons[0].0.as_str()), (1, "on the drive"));
    // Nothing else to measure: the refusal is the answer.
    let alone = text(&drive.0).replacen("[[file_system]]\nkind = 'ext4'\n", "", 1);
    std::fs::remove_dir_all(directory.path().join("run")).expect("remove");
    let refused = study(&alone, directory.path(), None).expect_err("refused");
    assert_eq!(refused.exit_code(), ExitCode::Refused, "{refused}");
}
