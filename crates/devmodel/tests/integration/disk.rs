//! Compares the disk model with its sources.

use rand_pcg::rand_core::Rng;
use senesce_core::Seed;
use senesce_devmodel::disk::Disk;
use senesce_devmodel::{Device, DeviceModel, Operation, Options, Pacing, Parameters, Request, simulate};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn model(name: &str) -> (DeviceModel, Disk) {
    let model = DeviceModel::builtin(name).unwrap();
    let Parameters::Disk(disk) = model.parameters.clone() else { panic!("{name} is no disk drive") };
    (model, disk)
}

/// Mean milliseconds of a read of 4 KiB after a jump from the end of `before` bytes read in order, over many starting points in
/// the outer zone. `pause_ms`: the longest pause in between, which randomises the platter's angle.
fn jump_ms(disk: &Disk, before: u64, jump: i64, pause_ms: f64) -> f64 {
    let mut random = Seed(5).stream("devmodel/tests/jumps");
    let mut uniform = |below: f64| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * below;
    let (count, mut sum) = (2000, 0);
    for _ in 0..count {
        let mut device = disk.start();
        let start = (uniform(20e9) as u64 / 4096 + (1 << 18)) * 4096;
        let mut now = uniform(8e6) as u64;
        for offset in (0..before).step_by(4096) {
            now = device.serve(&Request::read_bytes(start + offset, 4096), now);
        }
        now += uniform(pause_ms * 1e6) as u64;
        let target = (start + before).checked_add_signed(jump).unwrap();
        sum += device.serve(&Request::read_bytes(target, 4096), now) - now;
    }
    sum as f64 / f64::from(count) / 1e6
}

#[test]
fn jump_times_match_the_sources() {
    let (_, disk) = model("hdd:st500dm002");
    // The data sheet: 144 MB/s, 7200 rpm, 1.0 ms from track to track, 8.5 ms at a third of the stroke.
    let (rate, rotation, command) = (144e3, 60e3 / 7200.0, 0.05);
    let seek = |share: f64| 1.0 + 7.5 * (3.0 * share).sqrt();
    let share = |bytes: u64| bytes as f64 / disk.capacity_bytes as f64;
    let third = disk.capacity_bytes as f64 * 0.4;
    let table = [
        ("forward 64 KiB", jump_ms(&disk, 4 * KIB, 64 << 10, 0.0), (64 * KIB + 4096) as f64 / rate),
        ("forward 256 KiB", jump_ms(&disk, 4 * KIB, 256 << 10, 0.0), (256 * KIB + 4096) as f64 / rate),
        ("backward 256 KiB in a segment", jump_ms(&disk, 512 * KIB, -(256 << 10), 0.0), command + 4.096 / 550.0),
        (
            "backward 256 KiB elsewhere",
            jump_ms(&disk, 4 * KIB, -(256 << 10), 0.0),
            rotation - (256 * KIB) as f64 / rate,
        ),
        ("4 MiB", jump_ms(&disk, 4 * KIB, 4 << 20, 60.0), command + seek(share(4 * MIB)) + rotation / 2.0),
        ("64 MiB", jump_ms(&disk, 4 * KIB, 64 << 20, 60.0), command + seek(share(64 * MIB)) + rotation / 2.0),
        // With half the rate at the inner edge, a third of the stroke from the outer edge holds two fifths of the bytes.
        ("a third of the stroke", jump_ms(&disk, 4 * KIB, third as i64, 60.0), command + 8.5 + rotation / 2.0),
    ];
    for (jump, modelled, source) in table {
        println!("{jump}: {modelled:.3} ms, sources {source:.3} ms ({:+.1} %)", (modelled / source - 1.0) * 100.0);
    }
    for (jump, modelled, source) in table {
        assert!((modelled / source - 1.0).abs() < 0.1, "{jump}: {modelled} against {source} ms");
    }
}

#[test]
fn streams_have_the_rates_of_the_data_sheet_at_both_edges() {
    let (model, _) = model("hdd:st500dm002");
    let rate = |from: u64| {
        let one = |index| Request::read_bytes(from + index * 128 * KIB, 128 * KIB);
        let outcome = simulate(&model, (0..2048u64).map(one), &Options::default()).unwrap();
        256.0 * MIB as f64 / outcome.seconds / 1e6
    };
    let (outer, inner) = (rate(0), rate(model.capacity_bytes() / MIB * MIB - 300 * MIB));
    assert!((outer / 144.0 - 1.0).abs() < 0.02, "{outer}");
    assert!((inner / 72.0 - 1.0).abs() < 0.02, "{inner}");
}

#[test]
fn several_streams_keep_their_segments() {
    let (_, disk) = model("hdd:st500dm002");
    let cost = |segments: u32| {
        let mut disk = disk.clone();
        disk.cache.segments = segments;
        let mut device = disk.start();
        let mut now = 0;
        // A file in order, with an inode far away that was read before between every two reads.
        for index in 0..2000u64 {
            now = device.serve(&Request::read_bytes(10_000_000_000 + index % 4 * 4096, 4096), now);
            now = device.serve(&Request::read_bytes(index * 16 * KIB, 16 * KIB), now);
        }
        now
    };
    assert!(cost(1) > 5 * cost(16), "{} {}", cost(1), cost(16));
}

#[test]
fn reordering_shortens_random_reads_and_a_write_cache_hides_writes() {
    let (model, disk) = model("hdd:st500dm002");
    let mut random = Seed(6).stream("devmodel/tests/reordering");
    let mut trace = |operation| {
        let mut one = || Request::of_bytes(operation, random.next_u64() % (disk.capacity_bytes / 4096) * 4096, 4096);
        (0..1000).map(|_| one()).collect::<Vec<_>>()
    };
    let reads = trace(Operation::Read);
    let at_depth =
        |depth| simulate(&model, &reads, &Options { pacing: Pacing::Depth(depth), ..Options::default() }).unwrap();
    let (one, many) = (at_depth(1), at_depth(32));
    assert!(many.seconds < 0.65 * one.seconds, "{} {}", many.seconds, one.seconds);
    assert_eq!(one.read.as_ref().map(|read| read.count), Some(1000));
    assert_eq!((one.write_amplification, one.collision_index), (None, None));
    let writes = trace(Operation::Write);
    let cached = simulate(&model, &writes[..500], &Options::default()).unwrap();
    assert!(cached.write.unwrap().p50_ns < 100_000);
}

/// 2,000 requests with times measured on the drive, with the pauses between them.
#[test]
fn modelled_times_match_a_real_drive() {
    let (_, disk) = model("hdd:atlas-10k");
    let mut device = disk.start();
    let (mut now, mut measured, mut modelled) = (0u64, Vec::new(), Vec::new());
    for line in include_str!("data/disk-atlas-10k.csv").lines().filter(|line| !line.starts_with(['#', 'o'])) {
        let fields: Vec<&str> = line.split(',').collect();
        let operation = if fields[0] == "read" { Operation::Read } else { Operation::Write };
        let number = |field: usize| fields[field].parse::<u64>().unwrap();
        let done = device.serve(&Request::new(operation, number(1), number(2) as u32), now);
        measured.push(number(3) as f64);
        modelled.push((done - now) as f64 / 1e3);
        now = done + number(4) * 1000;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let error = mean(&modelled) / mean(&measured) - 1.0;
    measured.sort_by(f64::total_cmp);
    modelled.sort_by(f64::total_cmp);
    // The demerit of Ruemmler and Wilkes (1994): root mean square of the distance between the two distributions.
    let squares: Vec<f64> = measured.iter().zip(&modelled).map(|(a, b)| (a - b).powi(2)).collect();
    let demerit = mean(&squares).sqrt() / mean(&measured);
    println!(
        "mean {:.0} us measured, {:+.1} % in the model, demerit {:.1} %",
        mean(&measured),
        error * 100.0,
        demerit * 100.0
    );
    assert!(error.abs() < 0.05 && demerit < 0.1, "mean {error:+.3}, demerit {demerit:.3}");
}

#[test]
fn invalid_parameters_are_refused() {
    let text = DeviceModel::builtin("hdd:atlas-10k").unwrap().to_toml().unwrap();
    for (from, to, says) in [
        ("heads = 6", "heads = 7", "the zones and heads hold"),
        ("heads = 6", "heads = 0", "heads is 0"),
        ("capacity_bytes = 9184760832", "capacity_bytes = 19184760832", "the zones and heads hold"),
        ("rpm = 10025.0", "rpm = nan", "rpm is NaN"),
        ("segments = 10", "segments = 4000000000", "cache.segments"),
        ("read_ahead_bytes = 181248", "read_ahead_bytes = 1812480", "must fit into"),
        ("hit_us = 184.0", "hit_us = 184.0\nspeed = 1", "speed"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let stated = DeviceModel::from_toml("test", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(stated.contains(says), "{to}: {stated}");
    }
}
