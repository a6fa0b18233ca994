//! Compares the models with the values they are based on, and the measurement with the models.

use proptest::prelude::*;
use senesce_core::Seed;
use senesce_devmodel::replay::busy_ns;
use senesce_devmodel::{Device, DeviceModel, Operation, Parameters, Probe, Request, measure};
use std::io;

const GIB: u64 = 1 << 30;

fn sequential(operation: Operation, bytes: u64, request: u64, queue_depth: u32) -> Vec<Request> {
    let one = |index| Request { queue_depth, ..Request::of_bytes(operation, index * request, request) };
    (0..bytes / request).map(one).collect()
}

/// Blocks of 4 KiB at deterministic positions spread over the device.
fn random(operation: Operation, capacity: u64, count: u64, queue_depth: u32) -> Vec<Request> {
    // The finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
    let place = |index: u64| {
        let z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % (capacity / 4096) * 4096
    };
    let one = |index| Request { queue_depth, ..Request::of_bytes(operation, place(index), 4096) };
    (0..count).map(one).collect()
}

fn close(value: f64, expected: f64, share: f64) -> bool {
    (value / expected - 1.0).abs() <= share
}

#[test]
fn built_in_devices_are_valid_and_round_trip() {
    for name in DeviceModel::builtin_names() {
        let model = DeviceModel::builtin(name).unwrap();
        assert_eq!(DeviceModel::from_toml(name, &model.to_toml().unwrap()).unwrap(), model);
        assert!(!model.sources.is_empty());
    }
}

#[test]
fn invalid_device_files_are_refused() {
    let text = DeviceModel::builtin("850-evo").unwrap().to_toml().unwrap();
    for (from, to) in [
        ("parallel_units = 32", "parallel_units = 0"),
        ("read_us = 82.106", "read_us = -1.0"),
        ("read_us = 82.106", "read_us = nan"),
        ("kind = \"ssd\"", "kind = \"tape\""),
        ("read_us = 82.106", "read_us = 82.106\nspeed = 1"),
        ("capacity_bytes = 250059350016", "capacity_bytes = 0"),
    ] {
        assert!(text.contains(from));
        assert!(DeviceModel::from_toml("test", &text.replace(from, to)).is_err(), "{to}");
    }
    assert!(DeviceModel::builtin("floppy").unwrap_err().to_string().contains("850-evo"));
}

#[test]
fn fuzzer_corpus_is_parsed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/device_file");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        if let Ok(model) = DeviceModel::from_toml("corpus", &text) {
            assert!(model.exercise().is_ok_and(f64::is_finite));
            seen += 1;
        }
    }
    assert!(seen >= 2);
}

#[test]
fn the_reference_ssd_has_the_rates_of_its_data_sheet() {
    let model = DeviceModel::reference_ssd().unwrap();
    let iops = |operation, depth| {
        let trace = random(operation, model.capacity_bytes(), 20_000, depth);
        trace.len() as f64 / model.seconds(&trace).unwrap()
    };
    assert!(close(iops(Operation::Read, 1), 10_000.0, 0.01), "{}", iops(Operation::Read, 1));
    assert!(close(iops(Operation::Read, 32), 97_000.0, 0.03), "{}", iops(Operation::Read, 32));
    assert!(close(iops(Operation::Write, 1), 40_000.0, 0.01), "{}", iops(Operation::Write, 1));
    assert!(close(iops(Operation::Write, 32), 88_000.0, 0.03), "{}", iops(Operation::Write, 32));
    let read = sequential(Operation::Read, GIB, 512 << 10, 4);
    assert!(close(GIB as f64 / model.seconds(&read).unwrap(), 540e6, 0.02));
    let write = sequential(Operation::Write, GIB, 512 << 10, 4);
    assert!(close(GIB as f64 / model.seconds(&write).unwrap(), 520e6, 0.02));
}

#[test]
fn the_reference_hdd_has_the_rates_of_its_data_sheet() {
    let model = DeviceModel::reference_hdd().unwrap();
    let sequential = sequential(Operation::Read, GIB, 128 << 10, 1);
    assert!(close(GIB as f64 / model.seconds(&sequential).unwrap(), 144e6, 0.01));
    // Seeks between uniform positions cover a third of the stroke on average; half a rotation of 8.33 ms follows.
    let trace = random(Operation::Read, model.capacity_bytes(), 4000, 1);
    let mean_ms = model.seconds(&trace).unwrap() / trace.len() as f64 * 1e3;
    assert!(close(mean_ms, 8.5 + 4.17, 0.12), "{mean_ms}");
}

#[test]
fn the_hp_97560_takes_the_published_time() {
    // The mean of the published seek curve over pairs of uniform positions is 12.9 ms; half of a rotation of 14.99 ms, 2.2 ms
    // overhead and 1.7 ms transfer follow.
    let model = DeviceModel::builtin("hp-97560").unwrap();
    let trace = random(Operation::Read, model.capacity_bytes(), 4000, 1);
    let mean_ms = model.seconds(&trace).unwrap() / trace.len() as f64 * 1e3;
    assert!(close(mean_ms, 12.9 + 7.5 + 2.2 + 1.7, 0.03), "{mean_ms}");
}

#[test]
fn scattering_costs_the_disk_drive_much_more_than_the_ssd() {
    let (hdd, ssd) = (DeviceModel::reference_hdd().unwrap(), DeviceModel::reference_ssd().unwrap());
    let slowdown = |model: &DeviceModel| {
        let together = sequential(Operation::Read, 64 << 20, 4096, 1);
        let apart = random(Operation::Read, 20 * GIB, together.len() as u64, 1);
        model.seconds(&apart).unwrap() / model.seconds(&together).unwrap()
    };
    assert!(slowdown(&hdd) > 50.0, "{}", slowdown(&hdd));
    assert!(slowdown(&ssd) < 1.5, "{}", slowdown(&ssd));
}

#[test]
fn a_cold_store_serves_as_many_requests_as_it_has_connections() {
    let model = DeviceModel::builtin("object-store").unwrap();
    let trace = |queue_depth| random(Operation::Read, model.capacity_bytes(), 160, queue_depth);
    assert!(close(model.seconds(&trace(1)).unwrap(), 160.0 * 0.15, 0.01));
    assert!(close(model.seconds(&trace(32)).unwrap(), 10.0 * 0.15, 0.01));
}

/// A model as a device to measure; the host needs 20 us between reads.
struct Modelled<'a> {
    model: &'a DeviceModel,
    device: Box<dyn Device>,
    now: u64,
}

impl Probe for Modelled<'_> {
    fn size(&self) -> u64 {
        self.model.capacity_bytes()
    }

    fn read(&mut self, offset: u64, bytes: u64) -> io::Result<u64> {
        self.now += 20_000;
        let done = self.device.serve(&Request::read_bytes(offset, bytes), self.now);
        let spent = done - self.now;
        self.now = done;
        Ok(spent)
    }

    fn read_many(&mut self, offsets: &[u64], bytes: u64, depth: u32) -> io::Result<u64> {
        let one = |offset: &u64| Request { queue_depth: depth, ..Request::read_bytes(*offset, bytes) };
        Ok(busy_ns(&mut *self.model.start(), &offsets.iter().map(one).collect::<Vec<_>>()))
    }
}

fn measured(model: &DeviceModel) -> DeviceModel {
    let mut probe = Modelled { model, device: model.start(), now: 0 };
    measure(&mut probe, "measured", None, Seed(1)).unwrap()
}

#[test]
fn measuring_a_modelled_disk_drive_finds_its_parameters() {
    let model = DeviceModel::reference_hdd().unwrap();
    let found = measured(&model);
    let (Parameters::Hdd(truth), Parameters::Hdd(hdd)) = (&model.parameters, &found.parameters) else {
        panic!("{found:?}")
    };
    assert!(close(hdd.rpm, truth.rpm, 0.05), "{}", hdd.rpm);
    assert!(
        close(hdd.outer_mb_per_s, truth.outer_mb_per_s, 0.02) && close(hdd.inner_mb_per_s, truth.inner_mb_per_s, 0.02)
    );
    for fraction in [0.01, 0.1, 1.0 / 3.0, 0.9] {
        assert!((hdd.seek.ms(fraction) - truth.seek.ms(fraction)).abs() < 0.6, "{fraction}: {:?}", hdd.seek);
    }
    let trace = random(Operation::Read, model.capacity_bytes(), 2000, 1);
    assert!(close(found.seconds(&trace).unwrap(), model.seconds(&trace).unwrap(), 0.05));
    let natural = found.measurement.as_ref().unwrap().natural_transfer_50_bytes.unwrap();
    assert!((1 << 20..=4 << 20).contains(&natural), "{natural}");
    assert_eq!(DeviceModel::from_toml("file", &found.to_toml().unwrap()).unwrap(), found);
}

#[test]
fn measuring_a_modelled_ssd_finds_its_parameters() {
    let model = DeviceModel::reference_ssd().unwrap();
    let found = measured(&model);
    assert!(matches!(found.parameters, Parameters::Ssd(_)));
    for depth in [1, 32] {
        let trace = random(Operation::Read, model.capacity_bytes(), 5000, depth);
        assert!(close(found.seconds(&trace).unwrap(), model.seconds(&trace).unwrap(), 0.1), "depth {depth}");
    }
}

#[test]
fn a_device_too_small_to_measure_is_refused() {
    struct Tiny;
    impl Probe for Tiny {
        fn size(&self) -> u64 {
            4096
        }
        fn read(&mut self, _: u64, _: u64) -> io::Result<u64> {
            unreachable!("nothing is read")
        }
        fn read_many(&mut self, _: &[u64], _: u64, _: u32) -> io::Result<u64> {
            unreachable!("nothing is read")
        }
    }
    assert!(measure(&mut Tiny, "tiny", None, Seed(1)).is_err());
}

/// Pins the times of a fixed trace, so that the model does not change by accident.
#[test]
fn golden_times() {
    let mut trace = sequential(Operation::Read, 8 << 20, 128 << 10, 2);
    trace.extend(random(Operation::Write, 100 * GIB, 50, 4));
    trace.push(Request::new(Operation::Flush, 0, 0));
    trace.extend(random(Operation::Read, 100 * GIB, 50, 1));
    let times: Vec<String> = ["st500dm002", "850-evo", "970-evo-plus", "object-store"]
        .into_iter()
        .map(|name| format!("{name} {:.6}", DeviceModel::builtin(name).unwrap().seconds(&trace).unwrap()))
        .collect();
    assert_eq!(times, GOLDEN);
}

const GOLDEN: [&str; 4] =
    ["st500dm002 0.967728", "850-evo 0.021186", "970-evo-plus 0.005720", "object-store 14.301129"];

fn request() -> impl Strategy<Value = Request> {
    let operation =
        prop_oneof![Just(Operation::Read), Just(Operation::Write), Just(Operation::Discard), Just(Operation::Flush)];
    (operation, any::<u64>(), 0u32..4096, 1u32..64).prop_map(|(operation, start, sectors, queue_depth)| Request {
        queue_depth,
        ..Request::new(operation, start >> (start % 64), sectors)
    })
}

proptest! {
    #[test]
    fn time_is_monotonic_and_deterministic(trace in proptest::collection::vec(request(), 0..60)) {
        for name in DeviceModel::builtin_names() {
            let model = DeviceModel::builtin(name).unwrap();
            let is_inside = trace.iter().all(|one| one.operation == Operation::Flush || one.end() <= model.capacity_bytes());
            match model.seconds(&trace) {
                Ok(seconds) => {
                    prop_assert!(is_inside && seconds.is_finite() && seconds >= 0.0);
                    prop_assert_eq!(seconds, model.seconds(&trace).unwrap());
                }
                Err(_) => prop_assert!(!is_inside),
            }
            let mut device = model.start();
            let mut now = 0;
            for request in &trace {
                let done = device.serve(request, now);
                prop_assert!(done >= now);
                now = done;
            }
        }
    }
}
