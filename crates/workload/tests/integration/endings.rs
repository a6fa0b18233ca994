//! Ends of runs: interrupted, without files, on a full, deleted or read-only file system, with thousands of threads.

use crate::common::{OnceAtWork, TemporaryTarget, operations, run, time, try_run, valid, workload};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_volume::{OpenOptions, TargetSpec};
use senesce_workload::{Bench, Execution, Length, Options, WorkloadError, builtin};
use std::collections::BTreeMap;
use std::time::Duration;

const READER: &str = "define fileset name=set, path=$dir, dirwidth=100, entries=50, size=4k, prealloc
    define process name=p { thread name=t, instances=4 {
        flowop openfile name=o, filesetname=set, fd=1
        flowop readwholefile name=r, fd=1, iosize=4k
        flowop closefile name=c, fd=1 } }";

const WRITER: &str = "define fileset name=set, path=$dir, dirwidth=100, entries=50, size=4k, prealloc
    define process name=p { thread name=t, instances=4 {
        flowop openfile name=o, filesetname=set, fd=1
        flowop appendfile name=a, fd=1, iosize=64k
        flowop closefile name=c, fd=1 } }";

#[test]
fn interrupted_run_keeps_its_numbers_and_is_marked() {
    let temporary = TemporaryTarget::new();
    let (interrupt, workload) = (Interrupt::new(), workload(READER));
    let bench = Bench::prepare(&workload, temporary.claimed(), time(60_000), &Silent, &interrupt).unwrap();
    let later = interrupt.clone();
    let at_work = OnceAtWork::new(move || later.request());
    let result = bench.run(temporary.claimed(), &at_work, &interrupt).unwrap().repetition;
    assert!(
        result.interrupted && result.seconds < 60.0 && !result.valid && result.ops > 0 && result.ops_per_second > 0.0
    );
    assert!(result.reason.unwrap().contains("interrupted after "));
}

#[test]
fn interrupted_population_returns_interrupted() {
    let temporary = TemporaryTarget::new();
    let interrupt = Interrupt::new();
    interrupt.request();
    let error = Bench::prepare(&workload(READER), temporary.claimed(), time(100), &Silent, &interrupt).unwrap_err();
    assert!(matches!(error, WorkloadError::Interrupted(_)), "{error}");
}

#[test]
fn run_without_files_is_invalid_and_has_no_rate() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=10, entries=5, size=1k, prealloc
        define process name=p { thread name=t { flowop deletefile name=d, filesetname=set } }";
    let result = run(&temporary, text, time(5000));
    assert!(!result.valid && !result.io_failed);
    assert_eq!((result.ops, result.ops_per_second), (5, 0.0));
    let reason = result.reason.unwrap();
    assert!(
        reason.contains("flowop d of thread t-1 could not obtain a file: file set 'set' has no existing entry left"),
        "{reason}"
    );
}

#[test]
fn alldone_ends_with_the_last_thread() {
    let temporary = TemporaryTarget::new();
    let text = "set mode quit alldone
        define fileset name=set, path=$dir, dirwidth=10, entries=5, size=1k, prealloc
        define process name=p { thread name=t, instances=3 { flowop deletefile name=d, filesetname=set } }";
    let result = valid(run(&temporary, text, time(20_000)));
    assert!(result.ops == 5 && result.seconds < 20.0, "it ends before its time: {}", result.seconds);
}

#[test]
fn a_deleted_directory_ends_the_run_with_its_path() {
    let temporary = TemporaryTarget::new();
    let (interrupt, workload) = (Interrupt::new(), workload(READER));
    let bench = Bench::prepare(&workload, temporary.claimed(), time(10_000), &Silent, &interrupt).unwrap();
    let victim = temporary.entry("set");
    let at_work = OnceAtWork::new(move || {
        while victim.exists() {
            let _ = std::fs::remove_dir_all(&victim);
        }
    });
    let result = bench.run(temporary.claimed(), &at_work, &interrupt).unwrap().repetition;
    let reason = result.reason.unwrap();
    assert!(!result.valid && result.io_failed && reason.contains("openat") && reason.contains("ENOENT"), "{reason}");
    assert!(result.ops > 0, "what was done before is kept");
}

#[test]
#[ignore = "needs loop devices"]
fn a_full_file_system_ends_the_run() {
    let target = senesce_volume::open(&"memory:32M".parse::<TargetSpec>().unwrap(), &OpenOptions::default()).unwrap();
    let interrupt = Interrupt::new();
    let bench = Bench::prepare(&workload(WRITER), target.directory(), time(20_000), &Silent, &interrupt).unwrap();
    let result = bench.run(target.directory(), &Silent, &interrupt).unwrap().repetition;
    let reason = result.reason.unwrap();
    assert!(!result.valid && result.io_failed && result.ops > 0, "{reason}");
    assert!(reason.contains("ENOSPC") || reason.contains("bytes were written"), "{reason}");
    let bigger = builtin("fileserver", 1.0, &BTreeMap::new()).unwrap();
    let error = Bench::prepare(&bigger, target.directory(), Options::default(), &Silent, &interrupt).unwrap_err();
    assert!(
        matches!(error, WorkloadError::Missing { .. }) && error.to_string().contains("space for the file sets"),
        "{error}"
    );
    target.close().unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn a_file_system_that_turns_read_only_ends_the_run() {
    let target = senesce_volume::open(&"memory:64M".parse::<TargetSpec>().unwrap(), &OpenOptions::default()).unwrap();
    let interrupt = Interrupt::new();
    let text = WRITER.replace("appendfile name=a, fd=1, iosize=64k", "write name=a, fd=1, iosize=4k, random");
    let bench = Bench::prepare(&workload(&text), target.directory(), time(20_000), &Silent, &interrupt).unwrap();
    let point = target.mount_point().to_path_buf();
    let (announce, said) = std::sync::mpsc::channel();
    let at_work = OnceAtWork::new(move || {
        // ext4 becomes read-only under open files in this way; a plain `remount,ro` is refused while files are open.
        announce.send(std::process::Command::new("mount").args(["-o", "remount,abort"]).arg(&point).output()).unwrap();
    });
    let result = bench.run(target.directory(), &at_work, &interrupt).unwrap().repetition;
    let reason = result.reason.unwrap_or_default();
    let said = said.recv().unwrap().unwrap();
    assert!(
        !result.valid && result.io_failed && (reason.contains("EROFS") || reason.contains("EIO")),
        "{reason} {said:?}"
    );
    target.close().unwrap();
}

#[test]
fn the_watchdog_names_the_stuck_flowop_file_and_call() {
    let temporary = TemporaryTarget::new();
    let text = READER.replace("size=4k, prealloc", "size=4k, prealloc, readonly").replace("instances=4", "instances=1");
    let (interrupt, workload) = (Interrupt::new(), workload(&text));
    let options = Options { stuck_after: Duration::from_millis(300), ..time(1000) };
    let bench = Bench::prepare(&workload, temporary.claimed(), options, &Silent, &interrupt).unwrap();
    // Opening a pipe for reading waits for a writer.
    let pipe = temporary.entry("set/00000001/00000003");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let result = bench.run(temporary.claimed(), &Silent, &interrupt).unwrap().repetition;
    let call = format!("flowop o of thread t-1 is in openat on {}", pipe.display());
    assert!(result.messages.iter().any(|text| text.starts_with("stuck for") && text.contains(&call)), "{result:?}");
    assert!(!result.valid && result.reason.as_ref().is_some_and(|reason| reason.contains(&call)), "{result:?}");
    assert_eq!(result.ops, 6, "two files were read before");
    // Releases the thread, which still holds its open directory.
    drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
}

#[test]
fn operations_are_exact_and_warm_up_is_not_counted() {
    let temporary = TemporaryTarget::new();
    assert_eq!(valid(run(&temporary, READER, operations(1234))).ops, 1234);
    let warm = Options { warm_up: Duration::from_millis(300), ..time(300) };
    let result = valid(run(&temporary, READER, warm));
    assert!((result.seconds - 0.3).abs() < 0.01, "{}", result.seconds);
}

#[test]
fn run_with_unexpected_files_is_invalid() {
    let with = |temporary: &TemporaryTarget, program: &str| {
        let text = format!(
            "define fileset name=set, path=$dir, dirwidth=100, entries=500, size=4k, prealloc=50
            define process name=p {{ thread name=t, instances=2 {{
                flowop createfile name=c, filesetname=set, fd=1
                flowop closefile name=f, fd=1
                flowop deletefile name=d, filesetname=set }} }}
            create files
            system \"{program} {}/set/foreign\"
            psrun -1 1",
            temporary.path().display()
        );
        run(temporary, &text, time(50))
    };
    let (temporary, other) = (TemporaryTarget::new(), TemporaryTarget::new());
    let found = with(&temporary, "touch");
    assert!(!found.valid && found.ops > 0 && found.ops_per_second == 0.0, "{found:?}");
    let reason = found.reason.unwrap();
    assert!(reason.contains("file set set has") && reason.contains("operations left"), "{reason}");
    valid(with(&other, "true"));
}

#[test]
fn a_steady_rate_ends_the_run_and_is_the_result() {
    let temporary = TemporaryTarget::new();
    let text = "eventgen rate=500
        define fileset name=set, path=$dir, dirwidth=100, entries=50, size=4k, prealloc
        define process name=p { thread name=t { flowop statfile name=s, filesetname=set flowop eventlimit name=e } }";
    let options = Options {
        length: Some(Length::Steady(Duration::from_secs(20))),
        interval: Some(Duration::from_millis(200)),
        ..time(0)
    };
    let result = valid(run(&temporary, text, options));
    assert!(result.seconds < 2.0 && result.messages.iter().any(|text| text.contains("steady after")), "{result:?}");
    assert!((420.0..580.0).contains(&result.ops_per_second), "{}", result.ops_per_second);
}

#[test]
fn file_sets_outside_of_the_target_are_refused() {
    let temporary = TemporaryTarget::new();
    for path in ["/tmp", "$dir/../other"] {
        let text = READER.replace("path=$dir", &format!("path=\"{path}\""));
        let error = match Bench::prepare(&workload(&text), temporary.claimed(), time(10), &Silent, &Interrupt::new()) {
            Err(error) => error,
            Ok(_) => panic!("{path} was accepted"),
        };
        assert!(matches!(error, WorkloadError::Outside { .. }), "{error}");
    }
}

#[test]
fn link_in_the_target_does_not_lead_outside() {
    let (temporary, elsewhere) = (TemporaryTarget::new(), tempfile::tempdir().unwrap());
    let precious = elsewhere.path().join("y/set/thesis");
    std::fs::create_dir_all(precious.parent().unwrap()).unwrap();
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), temporary.claimed().path().join("x")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), temporary.claimed().path().join("set")).unwrap();
    for to in ["path=\"$dir/x/y\"", "reuse, path=$dir", "trusttree, path=$dir"] {
        let text = READER.replace("path=$dir", to);
        let error = Bench::prepare(&workload(&text), temporary.claimed(), time(10), &Silent, &Interrupt::new()).err();
        assert!(matches!(error, Some(WorkloadError::Target(_))), "{to}: {error:?}");
    }
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn too_much_thread_memory_is_refused_before_anything_starts() {
    let temporary = TemporaryTarget::new();
    let text = READER.replace("instances=4", "instances=1000, memsize=100g");
    let options = Options { execution: Execution::Null, ..time(10) };
    let error = try_run(&temporary, &workload(&text), options).err().unwrap();
    assert!(error.to_string().contains("thread memory"), "{error}");
}

#[test]
fn run_time_errors_name_flowop_and_thread() {
    let temporary = TemporaryTarget::new();
    let base = "define fileset name=set, path=$dir, dirwidth=10, entries=2, size=1k, prealloc define process name=p { thread name=t, memsize=2k { ";
    for (flow, message) in [
        (
            "flowop openfile name=o, filesetname=set, fd=1",
            "flowop o of thread t-1: opens descriptor slot fd=1 without closing",
        ),
        ("flowop closefile name=c, fd=3", "closes descriptor slot fd=3, which is not open"),
        ("flowop fsync name=f, fd=1", "syncs descriptor slot fd=1, which is not open"),
        ("flowop read name=r, filesetname=set, fd=1, iosize=4k", "memsize=2048 of its thread is smaller"),
        ("flowop read name=r, filesetname=set, fd=1, iosize=2k, random", "do not fit the 1024 bytes"),
        ("flowop read name=r, fd=1, iosize=1k", "is not open and no filesetname is given"),
    ] {
        let result = run(&temporary, &format!("{base} {flow} }} }}"), time(3000));
        let reason = result.reason.unwrap();
        assert!(!result.valid && reason.contains(message), "{reason}");
    }
}
