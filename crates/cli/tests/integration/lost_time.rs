//! Tests that time lost by a measurement does not become a result.

use crate::common::{
    Started, ends, json, json_of, printed, start_until, stderr, succeeds, temporary_directory, wait_for_event,
    wait_until, words,
};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
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

fn with_workload(text: &str) -> tempfile::TempDir {
    let directory = temporary_directory();
    std::fs::write(directory.path().join("own.f"), text).expect("workload");
    directory
}

/// A benchmark whose file set is written.
fn started(folder: &Path, times: &str) -> Started {
    let line = format!("bench target own.f {times} --keep-caches --create --json --out record");
    let started = start_until(folder, &words(&line), "");
    wait_for_event(&folder.join("record"), "prepared");
    started
}

/// Stops the process for `stop`, `times` times with a pause of the same length after each.
fn stop(started: &Started, times: u32, stop: Duration) {
    for _ in 0..times {
        signal(started.id(), "STOP");
        std::thread::sleep(stop);
        signal(started.id(), "CONT");
        std::thread::sleep(stop);
    }
}

fn is_invalid(started: Started) {
    let output = started.wait();
    let repetition = &json(&output)["repetitions"][0];
    assert_eq!((&repetition["valid"], &repetition["ops_per_second"]), (&false.into(), &Value::Null), "{repetition}");
    assert!(repetition["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn repetition_with_a_stopped_process_is_invalid() {
    let directory = with_workload(READS);
    let started = started(directory.path(), "--time 3s");
    stop(&started, 4, Duration::from_millis(400));
    is_invalid(started);
    let exported = printed(directory.path(), "report record --format csv");
    assert!(!exported.contains("throughput"), "an invalid repetition is not exported");
}

#[test]
fn stop_in_the_warm_up_makes_the_repetition_invalid() {
    let directory = with_workload(READS);
    // The first stop may come before the warm-up begins; the last one ends before the warm-up does.
    let started = started(directory.path(), "--warm-up 4s --time 1s");
    stop(&started, 3, Duration::from_millis(500));
    is_invalid(started);
}

/// SIGSTOP stops a whole process; a tracer stops one thread.
#[test]
fn stopped_thread_of_the_engine_makes_the_repetition_invalid() {
    let directory = with_workload(READS);
    let started = started(directory.path(), "--time 3s");
    let mut thread = None;
    wait_until(|| {
        thread = thread_of(started.id(), "t");
        thread.is_some()
    });
    stop_thread(thread.expect("a thread of the engine"), Duration::from_millis(1500));
    is_invalid(started);
}

fn thread_of(process: u32, name: &str) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let named = |path: &Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|found| found.trim() == name);
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
fn exhausted_directory_fileset_gives_a_valid_result() {
    let directory = with_workload(
        "define fileset name=dirs, path=$dir, size=0, leafdirs=200, dirwidth=100
define process name=p { thread name=t, instances=4 { flowop makedir name=mk, filesetname=dirs } }
run 60
",
    );
    let repetition = &json(&succeeds(directory.path(), "bench target own.f --create --json"))["repetitions"][0];
    assert_eq!((&repetition["valid"], &repetition["ops"]), (&true.into(), &200.into()), "{repetition}");
}

const TRUSTED: &str = "define file name=one, path=$dir, size=8k, reuse, trusttree, prealloc
define process name=p { thread name=t { flowop openfile name=o, filesetname=one, fd=1
    flowop read name=r, fd=1, iosize=4k, random
    flowop closefile name=c, fd=1 } }
run 2
";

#[test]
fn missing_trusted_file_set_is_an_error_before_the_run() {
    let directory = with_workload(TRUSTED);
    let folder = directory.path();
    succeeds(folder, "bench own.f --check");
    for line in ["bench target own.f --check", "bench target own.f --create"] {
        let message = stderr(&ends(folder, line, 4));
        assert!(message.contains("target/one") && message.contains("--populate-only"), "{message}");
    }
    std::fs::write(folder.join("first.f"), TRUSTED.replace("trusttree, ", "")).expect("workload");
    succeeds(folder, "bench target first.f --populate-only");
    succeeds(folder, "bench target own.f --check");
    succeeds(folder, "bench target own.f --operations 10");
}

#[test]
fn trusted_file_set_without_files_is_refused() {
    let directory = with_workload(&TRUSTED.replace(", prealloc", ""));
    std::fs::create_dir_all(directory.path().join("target/one")).expect("directory");
    for line in ["bench own.f --check", "bench target own.f --erase target"] {
        ends(directory.path(), line, 2);
    }
    let creates = TRUSTED.replace(", prealloc", "").replace("openfile", "createfile");
    std::fs::write(directory.path().join("own.f"), creates).expect("workload");
    succeeds(directory.path(), "bench own.f --check");
}

#[test]
fn directio_without_effect_is_a_caveat() {
    let directory = with_workload(&READS.replace("iosize=4k\n", "iosize=4k, directio=1\n"));
    let notes = json_of(directory.path(), "bench target own.f --operations 100 --create --json")["notes"].clone();
    assert!(notes.to_string().contains("directio=1"), "{notes}");
    let warnings = |line: &str| json_of(directory.path(), line)["warnings"].as_array().map(Vec::len);
    assert_eq!(warnings("bench own.f --check --json"), Some(1));
    assert_eq!(warnings("bench varmail --check --json"), Some(0));
}

#[test]
#[ignore = "needs loop devices"]
fn image_locked_in_memory_by_another_process_is_refused() {
    let directory = tempfile::tempdir().expect("a folder");
    let folder = directory.path();
    succeeds(folder, "age image:aged.img,size=64M --profile agrawal --data write --max-operations 500");
    succeeds(folder, "bench image:aged.img cold-read --json");
    let image = std::fs::File::open(folder.join("aged.img")).expect("the image");
    let length = image.metadata().expect("its length").len() as usize;
    let locked = LockedFile::new(&image, length);
    ends(folder, "bench image:aged.img cold-read --json", 3);
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
    let line = "age image:small.img,size=16M --fs xfs --profile agrawal --out record";
    let output = crate::common::run_line(directory.path(), line);
    assert!(matches!(output.status.code(), Some(2 | 4)), "{}", crate::common::stderr(&output));
    assert!(!directory.path().join("record").exists());
}

#[test]
fn plan_is_printed_as_json_only_on_request() {
    let directory = temporary_directory();
    let plan = "age --plan-only --size 64M --profile agrawal --max-operations 500";
    assert!(json_of(directory.path(), &format!("{plan} --json")).is_object());
    let text = printed(directory.path(), plan);
    assert!(!text.is_empty() && serde_json::from_str::<Value>(&text).is_err());
}
