//! No request is lost silently: traces next to another tracer, with a changed recording, and of every kind of request.

use crate::common::tracers::{OtherTracer, TraceFs};
use crate::common::*;
use senesce_volume::trace::Problem;
use senesce_volume::{BlockDevice, BlockTrace, FileSystem, LoopDevice, OpenOptions, Operation, TraceSession, open};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

struct Loop {
    device: BlockDevice,
    file: fs::File,
    direct: fs::File,
    _attached: LoopDevice,
}

impl Loop {
    fn new() -> Self {
        let (file, attached) = loop_device(16 << 20);
        file.write_all_at(&vec![7; 16 << 20], 0).unwrap();
        let direct = fs::File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(attached.path());
        let device = BlockDevice::open(attached.path()).unwrap();
        Self { device, file, direct: direct.unwrap(), _attached: attached }
    }

    fn read_at(&self, offset: u64) -> std::io::Result<()> {
        let mut memory = vec![0u8; 8192];
        let at = memory.as_ptr().align_offset(4096);
        self.direct.read_exact_at(&mut memory[at..at + 4096], offset)
    }

    /// Reads single blocks, from offsets whose second byte is not text.
    fn read_blocks(&self, count: u64) {
        (0..count).for_each(|block| self.read_at(block % 200 * 65536 + 0xF000).unwrap());
    }
}

fn reads(trace: &BlockTrace) -> usize {
    trace.iter().filter(|request| request.operation == Operation::Read).count()
}

#[test]
#[ignore = "needs loop devices"]
fn foreign_bytes_after_the_letters_lose_no_request() {
    let target = Loop::new();
    let _other = OtherTracer::start();
    for round in 0..10 {
        let session = TraceSession::start(&target.device).unwrap();
        target.read_blocks(100);
        let trace = session.stop().unwrap();
        assert_eq!(trace.problems(), [], "round {round}");
        assert!(reads(&trace) >= 100, "round {round}: {} of 100 reads", reads(&trace));
        assert_eq!(trace.device_stat().unwrap().reads, reads(&trace) as u64);
    }
}

#[test]
#[ignore = "needs loop devices"]
fn self_test_passes_next_to_another_tracer() {
    let _other = OtherTracer::start();
    let found = senesce_volume::trace::self_test().unwrap();
    assert!(found.agrees() && found.asked == 256, "{found:?}");
}

/// Reads blocks and applies `disturb` to the recording in the middle; the trace must report the problem.
fn trace_with(disturb: impl FnOnce(&Path)) -> BlockTrace {
    let (target, tracefs) = (Loop::new(), TraceFs::mount());
    let session = TraceSession::start(&target.device).unwrap();
    target.read_blocks(50);
    disturb(&tracefs.recording(&target.device));
    target.read_blocks(50);
    let trace = session.stop().unwrap();
    assert!(trace.valid().is_err(), "{:?}", trace.device_stat());
    trace
}

fn disagrees(trace: &BlockTrace, name: &str) -> bool {
    let found = |problem: &Problem| matches!(problem, Problem::Disagrees { quantity, .. } if quantity == name);
    trace.problems().iter().any(found)
}

fn changed(trace: &BlockTrace, name: &str) -> bool {
    let found = |problem: &Problem| matches!(problem, Problem::Changed { setting, .. } if setting.ends_with(name));
    trace.problems().iter().any(found)
}

#[test]
#[ignore = "needs loop devices"]
fn recording_changed_by_others_is_invalid() {
    let trace = trace_with(|instance| fs::write(instance.join("tracing_on"), "0").unwrap());
    assert!(changed(&trace, "tracing_on") && disagrees(&trace, "reads"), "{:?}", trace.problems());
    let trace = trace_with(|instance| fs::write(instance.join("events/block/block_rq_issue/enable"), "0").unwrap());
    assert!(changed(&trace, "enable"), "{:?}", trace.problems());
    assert!(trace.problems().iter().any(|one| matches!(one, Problem::Unmatched { .. })), "{:?}", trace.problems());
    let filter = "events/block/block_rq_complete/filter";
    let trace = trace_with(|instance| fs::write(instance.join(filter), "nr_sector > 9").unwrap());
    assert!(changed(&trace, "filter") && disagrees(&trace, "reads"), "{:?}", trace.problems());
}

#[test]
#[ignore = "needs loop devices"]
fn reverted_change_is_found_by_device_counters() {
    let (target, tracefs) = (Loop::new(), TraceFs::mount());
    let session = TraceSession::start(&target.device).unwrap();
    target.read_blocks(50);
    let switch = tracefs.recording(&target.device).join("tracing_on");
    fs::write(&switch, "0").unwrap();
    target.read_blocks(1);
    fs::write(&switch, "1").unwrap();
    target.read_blocks(50);
    let trace = session.stop().unwrap();
    assert!(disagrees(&trace, "reads") && disagrees(&trace, "read_bytes"), "{:?}", trace.problems());
    assert!(!changed(&trace, "tracing_on"));
    // Another reader of the buffer also removes events.
    let trace = trace_with(|instance| fs::write(instance.join("trace"), "").unwrap());
    assert!(!trace.is_valid());
}

#[test]
#[ignore = "needs loop devices"]
fn accounting_is_turned_on_for_the_trace() {
    let target = Loop::new();
    let before = target.device.set_queue("iostats", "0").unwrap();
    let session = TraceSession::start(&target.device).unwrap();
    target.read_blocks(20);
    let trace = session.stop().unwrap();
    assert_eq!(trace.problems(), []);
    assert_eq!(trace.device_stat().unwrap().reads, 20);
    assert_eq!(target.device.queue("iostats").as_deref(), Some("0"), "it is as it was");
    target.device.set_queue("iostats", &before).unwrap();
}

fn all_kinds_of_requests(mount_point: &Path) {
    for number in 0..30 {
        let mut file = fs::File::create(mount_point.join(format!("file{number}"))).unwrap();
        file.write_all(&vec![number; 50_000]).unwrap();
        file.sync_all().unwrap();
        file.sync_all().unwrap();
        file.write_all(&[1; 10]).unwrap();
        file.sync_data().unwrap();
    }
    for number in 0..20 {
        fs::remove_file(mount_point.join(format!("file{number}"))).unwrap();
    }
    let trimmed = Command::new("fstrim").arg(mount_point).status();
    assert!(trimmed.is_ok_and(|status| status.success()), "fstrim");
    Command::new("sync").arg("-f").arg(mount_point).status().unwrap();
    assert!(Command::new("sh").arg("-c").arg(format!("cat {}/* | wc -c", mount_point.display())).output().is_ok());
}

fn agrees_with_the_counters_of_its_device(file_system: FileSystem) {
    let (_directory, path) = image_path();
    let mut target = open(&image(&path, "300M"), &OpenOptions::fresh(file_system)).unwrap();
    for round in 0..3 {
        let session = TraceSession::start(&target.block_device_info().unwrap()).unwrap();
        all_kinds_of_requests(target.mount_point());
        target.sync().unwrap();
        let trace = session.stop().unwrap();
        let device = trace.device_stat().unwrap();
        assert_eq!(trace.problems(), [], "{file_system}, round {round}: {device:?}");
        assert!(device.writes > 60 && device.flushes > 30 && device.discards > 0, "{device:?}");
        target.remount().unwrap();
    }
    target.close().unwrap();
}

on_each_file_system!(agrees_with_the_counters_of_its_device:
    ext4 Ext4 "needs loop devices",
    xfs Xfs "needs loop devices, XFS",
    btrfs Btrfs "needs loop devices, btrfs"
);

#[test]
#[ignore = "needs loop devices"]
fn zeroing_discards_and_flushes_of_a_device_agree() {
    let target = Loop::new();
    let path = target.device.path();
    let session = TraceSession::start(&target.device).unwrap();
    for (program, arguments) in [
        ("blkdiscard", &["-o", "1M", "-l", "1M"][..]),
        ("blkdiscard", &["-z", "-o", "4M", "-l", "2M"]),
        ("blkdiscard", &["-z", "-o", "0", "-l", "4096"]),
    ] {
        assert!(Command::new(program).args(arguments).arg(path).status().unwrap().success(), "{program}");
    }
    for _ in 0..5 {
        target.direct.sync_all().unwrap();
    }
    let trace = session.stop().unwrap();
    assert_eq!(trace.problems(), [], "{:?}", trace.device_stat());
    let device = trace.device_stat().unwrap();
    // If the image's file system cannot zero a range, the kernel writes zeros after the attempt.
    assert!(device.discard_bytes == 1 << 20 && device.write_bytes >= (2 << 20) + 4096, "{device:?}");
    assert_eq!(device.flushes, trace.iter().filter(|request| request.operation == Operation::Flush).count() as u64);
    assert!(device.flushes >= 5);
}

#[test]
#[ignore = "needs loop devices"]
fn a_request_that_failed_makes_a_recording_invalid() {
    let target = Loop::new();
    // A loop device fails beyond the end of its file.
    target.file.set_len(8 << 20).unwrap();
    let session = TraceSession::start(&target.device).unwrap();
    target.read_at(4096).unwrap();
    target.read_at(12 << 20).unwrap_err();
    let trace = session.stop().unwrap();
    assert!(trace.problems().contains(&Problem::Failed { requests: 1 }), "{:?}", trace.problems());
}

#[test]
#[ignore = "needs loop devices"]
fn many_requests_at_the_same_places_agree() {
    let target = Loop::new();
    let session = TraceSession::start(&target.device).unwrap();
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| target.read_blocks(400)))));
    let trace = session.stop().unwrap();
    assert_eq!(trace.problems(), []);
    assert_eq!(reads(&trace), 1600);
    assert!(trace.iter().all(|request| request.latency_ns.is_some()));
}

#[test]
#[ignore = "needs loop devices, partitions"]
fn a_partition_agrees_with_its_own_counters() {
    let directory = temporary_directory();
    let (_file, attached) = loop_device(64 << 20);
    let whole = attached.path().to_str().unwrap();
    partition(attached.path(), "2048,32768\n34816,\n");
    run(&["partx", "-u", whole]);
    let part = |number: usize| format!("{whole}p{number}");
    let mounts = [directory.path().join("1"), directory.path().join("2")];
    for (number, mount) in mounts.iter().enumerate() {
        fs::create_dir(mount).unwrap();
        run(&["mkfs.ext4", "-q", &part(number + 1)]);
        run(&["mount", &part(number + 1), mount.to_str().unwrap()]);
    }
    let device = BlockDevice::open(Path::new(&part(2))).unwrap();
    let session = TraceSession::start(&device).unwrap();
    std::thread::scope(|scope| mounts.iter().for_each(|mount| drop(scope.spawn(|| all_kinds_of_requests(mount)))));
    let trace = session.stop().unwrap();
    mounts.iter().for_each(|mount| run(&["umount", mount.to_str().unwrap()]));
    run(&["partx", "-d", whole]);
    assert_eq!(trace.problems(), [], "{:?}", trace.device_stat());
    assert!(trace.device_stat().unwrap().writes > 60);
    assert!(trace.iter().all(|request| request.end_sector() * 512 <= device.size().0.max(47 << 20)));
}
