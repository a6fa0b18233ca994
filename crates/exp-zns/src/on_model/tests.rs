use super::commands::commands;
use super::drives::simulated;
use super::*;
use senesce_core::Seed;
use senesce_volume::BlockTrace;
use senesce_volume::trace::{Operation as RequestedEnd, Request, ZoneAction};
use senesce_zoned::replay::Work;
use senesce_zoned::{Geometry, LbaFormat, Operation, ZonedDevice};
use std::path::Path;

/// 16 MiB, in blocks of 4 KiB.
const ZONE: u64 = 4096;

fn geometry() -> Geometry {
    Geometry {
        name: "emulated".into(),
        zoned: true,
        zones: 64,
        block_bytes: 4096,
        zone_blocks: ZONE,
        capacity_blocks: ZONE,
        max_open: 28,
        max_active: 28,
        transfer_limit: 1 << 20,
        append_limit: 1 << 20,
        formats: vec![LbaFormat { index: 0, block_bytes: 4096, metadata_bytes: 0 }],
    }
}

fn write(number: u64, block: u64) -> Request {
    request(number, RequestedEnd::Write, block, 32)
}

fn request(number: u64, operation: RequestedEnd, block: u64, blocks: u32) -> Request {
    let (issue_ns, latency_ns) = (number * 1_000_000, Some(100_000));
    Request { issue_ns, latency_ns, ..Request::new(operation, block * 8, blocks * 8) }
}

fn drive(role: Role, zones: Option<Zones>) -> TracedDrive {
    TracedDrive { role, file: format!("{role:?}.blocks"), start_ns: 500, bytes: 1 << 30, zones }
}

fn zoned(after: &[(usize, u64)]) -> TracedDrive {
    let mut pointers = vec![0; 64];
    after.iter().for_each(|(zone, blocks)| pointers[*zone] = *blocks);
    let (before, shortly_before) = (vec![0; 64], Vec::new());
    drive(Role::Zoned, Some(Zones { geometry: geometry(), before, after: pointers, shortly_before }))
}

/// Models a file system that resets a zone after the last recorded request.
#[test]
fn zone_changed_between_reports_may_have_any_intermediate_pointer() {
    let requests = || vec![write(0, 0), write(1, 32)];
    let problems = |shortly_before: &[(usize, u64)]| {
        let mut drive = zoned(&[]);
        let earlier = zoned(shortly_before).zones.unwrap().after;
        drive.zones.as_mut().unwrap().shortly_before = earlier;
        timed(vec![drive], &[trace(requests())], &[(Host::None, 0.0)])[0].problems.join("; ")
    };
    assert_eq!(problems(&[(0, 64)]), "");
    assert!(problems(&[(0, 63)]).contains("first in zone 0"), "one block was never seen");
    assert!(problems(&[(1, 64)]).contains("the write pointers of 1 zone "));
}

fn recording(drives: Vec<TracedDrive>) -> TracedDrives {
    TracedDrives { begin_ns: 500, end_ns: 500 + 60_000_000_000, drives }
}

fn trace(requests: Vec<Request>) -> BlockTrace {
    BlockTrace::from_requests("sdx", 1 << 30, requests)
}

fn timed(drives: Vec<TracedDrive>, traces: &[BlockTrace], hosts: &[(Host, f64)]) -> Vec<TimedReplay> {
    let folder = tempfile::tempdir().unwrap();
    for (drive, trace) in drives.iter().zip(traces) {
        trace.save(&folder.path().join(&drive.file)).unwrap();
    }
    time(&recording(drives), folder.path(), hosts, &[1_000_500], Seed(1)).unwrap()
}

#[test]
fn every_request_becomes_its_command() {
    let append = Request { append: true, ..request(1, RequestedEnd::Write, 2 * ZONE + 96, 32) };
    let requests = vec![
        write(0, 0),
        append,
        request(2, RequestedEnd::Read, 8, 1),
        request(3, RequestedEnd::Zone(ZoneAction::Reset), ZONE, 0),
        request(4, RequestedEnd::Zone(ZoneAction::Finish), 2 * ZONE, 0),
        request(5, RequestedEnd::Flush, 0, 0),
        request(6, RequestedEnd::Zone(ZoneAction::ResetAll), 0, 0),
    ];
    let metadata = trace(vec![write(0, 7), request(9, RequestedEnd::Discard, 0, 8)]);
    let traced = recording(vec![drive(Role::Metadata, None), zoned(&[])]);
    let all = commands(&traced, &[metadata, trace(requests)], &geometry()).unwrap();
    let asked: Vec<_> = all.asked.iter().map(|(name, of)| (*name, of.0, of.1)).collect();
    assert_eq!(
        asked,
        [("append", 1, 131_072), ("finish", 1, 0), ("read", 1, 4096), ("reset", 65, 0), ("write", 1, 131_072)]
    );
    let work: Vec<Work> = all.list.iter().map(|one| one.work).collect();
    assert!(work.contains(&Work::Drive(Operation::Append, 2, 2 * ZONE, 32)), "an append names its zone");
    assert_eq!(all.elsewhere_bytes, 131_072);
    assert_eq!(all.unmodelled.get("flush"), Some(&1));
    // Both first requests, the beginning, the others (all zones are reset one by one), the end.
    assert_eq!((all.measured, all.list.len()), ((2, 73), 74));
    assert!(all.list.is_sorted_by_key(|one| one.issue_ns));
}

#[test]
fn large_requests_are_split_at_zones_and_transfer_limit() {
    let traced = recording(vec![drive(Role::Conventional, None)]);
    let (device, _) = simulated(&traced, Seed(1)).unwrap();
    let geometry = device.geometry();
    let border = geometry.zone_blocks * u64::from(geometry.block_bytes) / 4096;
    let requests = vec![request(0, RequestedEnd::Write, border - 64, 64 + 512)];
    let all = commands(&traced, &[trace(requests)], geometry).unwrap();
    let commands: Vec<(u32, u32)> = all
        .list
        .iter()
        .filter_map(|one| match one.work {
            Work::Drive(Operation::Write, zone, _, blocks) => Some((zone, (blocks * geometry.block_bytes) >> 10)),
            _ => None,
        })
        .collect();
    assert_eq!(commands, [(0, 256), (1, 1024), (1, 1024)]);
    assert_eq!(all.asked["write"], (3, 576 * 4096));
}

#[test]
fn data_transfers_of_unknown_kind_are_refused() {
    let of = |blocks| {
        commands(&recording(vec![zoned(&[])]), &[trace(vec![request(0, RequestedEnd::Other, 0, blocks)])], &geometry())
    };
    let failure = of(1).unwrap_err();
    assert!(failure.to_string().contains("nvme_setup_cmd"), "{failure}");
    assert_eq!(of(0).unwrap().unmodelled.get("command"), Some(&1), "the driver asked for something by itself");
}

#[test]
fn zone_pointers_of_model_and_guest_are_compared() {
    let requests: Vec<Request> = (0..20).map(|number| write(number, number * 32)).collect();
    let hosts = hosts(Some(0.1));
    let found = timed(vec![zoned(&[(0, 640)])], &[trace(requests.clone())], &hosts);
    assert_eq!(found.iter().map(|one| one.host).collect::<Vec<_>>(), [Host::None, Host::Scaled, Host::Guest]);
    assert!(found.iter().all(|one| one.problems.is_empty()), "{found:?}");
    assert_eq!((found[0].bytes("write"), found[0].commands("write")), (20 * 131_072, 20));
    // Nineteen pauses of 900 us, and the pause from the last one to the end of the measurement.
    let host = 60.0 - 20.0 * 100e-6;
    assert!((found[2].host_seconds - host).abs() < 1e-6, "{}", found[2].host_seconds);
    assert!((found[1].host_seconds - host / 10.0).abs() < 1e-6 && found[0].host_seconds == 0.0);
    assert!((found[2].seconds - host - found[2].busy_seconds).abs() < 1e-6);
    assert!(
        (found[2].recording_seconds - found[2].seconds).abs() < 1e-9,
        "both are measured from the first request to the end"
    );
    assert!(found[0].seconds < found[1].seconds && found[1].seconds < found[2].seconds);
    assert!(found[0].moments[0] > 0.0 && found[0].moments[0] < found[0].seconds);
    // One write more than the guest recorded, and one that the drive refuses.
    let stated =
        |after, requests| timed(vec![zoned(after)], &[trace(requests)], &[(Host::None, 0.0)])[0].problems.join("; ");
    assert!(stated(&[(0, 608)], requests.clone()).contains("the write pointers of 1 zone "));
    let mut gap = requests;
    gap[10].sector += 8;
    let problems = stated(&[(0, 640)], gap);
    assert!(problems.contains("refused 10 commands") && problems.contains("20 commands"), "{problems}");
}

/// Checks that a drive without requests has no rate, however long the host takes, and its record stays readable.
#[test]
fn drive_without_requests_has_no_rate() {
    let found = &timed(vec![zoned(&[])], &[trace(Vec::new())], &[(Host::None, 0.0), (Host::Guest, 1.0)]);
    assert_eq!((found[0].seconds, found[0].rate(7.0)), (0.0, None));
    assert!((found[1].seconds - 60.0).abs() < 1e-9 && found[1].rate(7.0).is_none());
    let text = serde_json::to_string(&found[0]).unwrap();
    assert_eq!(&serde_json::from_str::<TimedReplay>(&text).unwrap(), &found[0]);
}

#[test]
fn metadata_takes_no_time() {
    let requests: Vec<Request> = (0..20).map(|number| write(number, number * 32)).collect();
    let alone = timed(vec![zoned(&[(0, 640)])], &[trace(requests.clone())], &[(Host::None, 0.0)]);
    let metadata = trace((0..500).map(|number| write(number, number)).collect());
    let drives = vec![drive(Role::Metadata, None), zoned(&[(0, 640)])];
    let both = timed(drives, &[metadata, trace(requests)], &[(Host::None, 0.0)]);
    assert_eq!((both[0].seconds, both[0].busy_seconds), (alone[0].seconds, alone[0].busy_seconds));
    assert_eq!(both[0].write_amplification(20 * 131_072), 26.0);
}

#[test]
fn incomplete_recordings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let traced = recording(vec![zoned(&[])]);
    let failure = |folder: &Path| time(&traced, folder, &[(Host::None, 0.0)], &[], Seed(1)).unwrap_err().to_string();
    assert!(failure(folder.path()).contains("Zoned.blocks"));
    let mut holes = trace(vec![write(0, 0)]);
    holes.set_account(None, vec![senesce_volume::trace::Problem::Lost { events: 3 }]);
    holes.save(&folder.path().join("Zoned.blocks")).unwrap();
    assert!(failure(folder.path()).contains("lost 3 events"));
    // A program in the guest may have created a link there or named another file.
    trace(vec![write(0, 0)]).save(&folder.path().join("elsewhere")).unwrap();
    std::fs::remove_file(folder.path().join("Zoned.blocks")).unwrap();
    std::os::unix::fs::symlink("elsewhere", folder.path().join("Zoned.blocks")).unwrap();
    assert!(failure(folder.path()).contains("Zoned.blocks"));
    let mut other = traced.clone();
    other.drives[0].file = "../elsewhere".into();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    time(&other, &inner, &[(Host::None, 0.0)], &[], Seed(1)).unwrap_err();
}

/// Checks that a small drive is as fast as the full one over both phases of collection. A recording of a small drive
/// must contain both.
#[test]
fn small_conventional_drive_collects_like_the_full_one() {
    let rate = |bytes: u64, written: u64| {
        let traced = recording(vec![TracedDrive { bytes, ..drive(Role::Conventional, None) }]);
        let count = written / 131_072;
        let wrap = bytes / 131_072;
        let requests = (0..count).map(|number| write(number, number % wrap * 32)).collect();
        let mut traced_long = traced.clone();
        traced_long.end_ns = 500 + (count + 1) * 1_000_000;
        let (mut device, _) = simulated(&traced, Seed(1)).unwrap();
        let all = commands(&traced_long, &[trace(requests)], device.geometry()).unwrap();
        let found = senesce_zoned::replay::replay(&mut device, &all.list, 0.0).unwrap();
        written as f64 / found.seconds() / 1_048_576.0
    };
    let (small, whole) = (rate(1 << 30, 2 << 30), rate((904 * 1077) << 20, 40 << 30));
    assert!((small / whole - 1.0).abs() < 0.05, "{small} {whole}");
}
