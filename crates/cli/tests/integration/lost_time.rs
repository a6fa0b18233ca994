//! Tests that time lost by a measurement does not become a result.

use crate::common::{json, run, start_until, temporary_directory, wait_for_event};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const READS: &str = "define fileset name=set, path=$dir, dirwidth=20, entries=40, size=4k, prealloc
define process name=p { thread name=t, instances=2 {
    flowop openfile name=open, filesetname=set, fd=1
    flowop readwholefile name=read, fd=1, iosize=4k
    flowop closefile name=close, fd=1 } }
run 60
";

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Benches in `record`. Once the file set is written, stops the process for `stop`, `times` times with a pause of the same
/// length after each.
fn bench_with_stops(folder: &Path, words: &[&str], times: u32, stop: Duration) -> Output {
    let words = [&["bench", "target"], words, &["--keep-caches", "--create", "--json", "--out", "record"]].concat();
    let started = start_until(folder, &words, "");
    wait_for_event(&folder.join("record"), "prepared");
    for _ in 0..times {
        signal(started.id(), "STOP");
        std::thread::sleep(stop);
        signal(started.id(), "CONT");
        std::thread::sleep(stop);
    }
    started.wait()
}

#[test]
fn repetition_with_a_stopped_process_is_invalid() {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("reads.f"), READS).expect("workload");
    let output = bench_with_stops(directory.path(), &["reads.f", "--time", "3s"], 4, Duration::from_millis(400));
    let result = json(&output);
    let repetition = &result["repetitions"][0];
    assert_eq!((&repetition["valid"], &repetition["ops_per_second"]), (&false.into(), &Value::Null), "{repetition}");
    assert!(repetition["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    assert_eq!(output.status.code(), Some(1));
    let exported = run(directory.path(), &["report", "record", "--format", "csv"]);
    assert!(!String::from_utf8_lossy(&exported.stdout).contains("throughput"), "an invalid repetition is not exported");
}

#[test]
fn stop_in_the_warm_up_makes_the_repetition_invalid() {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("reads.f"), READS).expect("workload");
    // The first stop may come before the warm-up begins; the last one ends before the warm-up does.
    let words = ["reads.f", "--warm-up", "4s", "--time", "1s"];
    let result = json(&bench_with_stops(directory.path(), &words, 3, Duration::from_millis(500)));
    let repetition = &result["repetitions"][0];
    assert_eq!((&repetition["valid"], &repetition["ops_per_second"]), (&false.into(), &Value::Null), "{repetition}");
}

/// SIGSTOP stops a whole process; a tracer stops one thread.
#[test]
fn stopped_thread_of_the_engine_makes_the_repetition_invalid() {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("reads.f"), READS).expect("workload");
    let words =
        ["bench", "target", "reads.f", "--time", "3s", "--keep-caches", "--create", "--json", "--out", "record"];
    let started = start_until(directory.path(), &words, "");
    wait_for_event(&directory.path().join("record"), "prepared");
    let engine = |name: &str| name == "t";
    let mut thread = None;
    crate::common::wait_until(|| {
        thread = thread_of(started.id(), engine);
        thread.is_some()
    });
    stop_thread(thread.expect("a thread of the engine"), Duration::from_millis(1500));
    let result = json(&started.wait());
    let repetition = &result["repetitions"][0];
    assert_eq!((&repetition["valid"], &repetition["ops_per_second"]), (&false.into(), &Value::Null), "{repetition}");
}

/// A thread with such a name.
fn thread_of(process: u32, is_wanted: impl Fn(&str) -> bool) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let named = |path: &Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| is_wanted(name.trim()));
    threads.filter(|thread| named(&thread.path())).find_map(|thread| thread.file_name().to_str()?.parse().ok())
}

/// Stops a thread as a debugger does.
fn stop_thread(thread: i32, time: Duration) {
    let trace = |request: libc::c_uint| {
        // SAFETY: these requests take no addresses.
        let done = unsafe {
            libc::ptrace(request, thread, std::ptr::null_mut::<libc::c_void>(), std::ptr::null_mut::<libc::c_void>())
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    trace(libc::PTRACE_SEIZE);
    trace(libc::PTRACE_INTERRUPT);
    // SAFETY: no status is asked for.
    assert_eq!(unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) }, thread);
    std::thread::sleep(time);
    trace(libc::PTRACE_DETACH);
}

#[test]
fn making_directories_until_none_is_left_is_a_result() {
    let directory = temporary_directory();
    let text = "define fileset name=dirs, path=$dir, size=0, leafdirs=200, dirwidth=100
define process name=p { thread name=t, instances=4 { flowop makedir name=mk, filesetname=dirs } }
run 60
";
    std::fs::write(directory.path().join("dirs.f"), text).expect("workload");
    let output = run(directory.path(), &["bench", "target", "dirs.f", "--create", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let repetition = &json(&output)["repetitions"][0];
    assert_eq!((&repetition["valid"], &repetition["ops"]), (&true.into(), &200.into()), "{repetition}");
}

#[test]
fn missing_trusted_file_set_is_an_error_before_the_run() {
    let directory = temporary_directory();
    let text = "define file name=one, path=\"$dir/nowhere\", reuse, readonly, trusttree
define process name=p { thread name=t { flowop read name=r, filename=one, iosize=4k, random } }
run 2
";
    std::fs::write(directory.path().join("trusted.f"), text).expect("workload");
    let output = run(directory.path(), &["bench", "target", "trusted.f", "--create"]);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn directio_without_effect_is_a_caveat() {
    let directory = temporary_directory();
    let text = READS.replace("iosize=4k\n", "iosize=4k, directio=1\n");
    std::fs::write(directory.path().join("direct.f"), text).expect("workload");
    let result =
        json(&run(directory.path(), &["bench", "target", "direct.f", "--operations", "100", "--create", "--json"]));
    let notes = result["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains("directio=1"))), "{notes:?}");
}

#[test]
#[ignore = "needs loop devices"]
fn image_locked_in_memory_by_another_process_is_refused() {
    let directory = tempfile::tempdir().expect("a folder");
    let folder = directory.path();
    let words =
        ["age", "image:aged.img,size=64M", "--profile", "agrawal", "--data", "write", "--max-operations", "500"];
    assert_eq!(run(folder, &words).status.code(), Some(0));
    let cold = || run(folder, &["bench", "image:aged.img", "cold-read", "--json"]).status.code();
    assert_eq!(cold(), Some(0));
    let image = std::fs::File::open(folder.join("aged.img")).expect("the image");
    let length = image.metadata().expect("its length").len() as usize;
    let locked = LockedFile::new(&image, length);
    assert_eq!(cold(), Some(3));
    drop(locked);
}

struct LockedFile(*mut std::ffi::c_void, usize);

impl LockedFile {
    fn new(file: &std::fs::File, length: usize) -> Self {
        use rustix::mm::{MapFlags, MlockFlags, ProtFlags};
        // SAFETY: a new mapping without other references.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let start = start.expect("map");
        // SAFETY: the mapping has this length.
        unsafe { rustix::mm::mlock_with(start, length, MlockFlags::empty()) }.expect("lock");
        Self(start, length)
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is used only here.
        let _ = unsafe { rustix::mm::munmap(self.0, self.1) };
    }
}

#[test]
#[ignore = "needs loop devices"]
fn too_small_xfs_leaves_no_record() {
    let directory = temporary_directory();
    let output = run(
        directory.path(),
        &["age", "image:small.img,size=16M", "--fs", "xfs", "--profile", "agrawal", "--out", "record"],
    );
    assert!(matches!(output.status.code(), Some(2 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!directory.path().join("record").exists());
}

#[test]
fn plan_is_printed_as_json_only_on_request() {
    let directory = temporary_directory();
    let plan = |words: &[&str]| {
        let base = ["age", "--plan-only", "--size", "64M", "--profile", "agrawal", "--max-operations", "500"];
        run(directory.path(), &[&base, words].concat())
    };
    assert!(serde_json::from_slice::<Value>(&plan(&["--json"]).stdout).is_ok());
    let text = plan(&[]);
    assert_eq!(text.status.code(), Some(0));
    assert!(!text.stdout.is_empty() && serde_json::from_slice::<Value>(&text.stdout).is_err());
}
