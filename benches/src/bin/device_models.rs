//! Speed of the modelled disks and solid-state drives, and memory of the map of those with a flash translation layer:
//! `cargo run --release -p senesce-benches --bin device_models`.

use senesce_devmodel::simulate::Before;
use senesce_devmodel::ssd::Drive;
use senesce_devmodel::{DeviceModel, Operation, Options, Pacing, Parameters, Request, simulate};

const ROUNDS: usize = 3;
const GIB: u64 = 1 << 30;

fn cpu_seconds() -> f64 {
    senesce_sys::clock::thread_cpu_time().as_secs_f64()
}

/// Places that are the same in every run.
fn random(operation: Operation, bytes: u64, count: u64) -> impl Iterator<Item = Request> + Clone {
    (0..count).map(move |index| {
        let spread = index.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let page = (u128::from(spread) * u128::from(bytes / 4096)) >> 64;
        Request::of_bytes(operation, page as u64 * 4096, 4096)
    })
}

/// The model cut down to 512 blocks of a plane and so many pages, so that filling it does not take the time.
fn cut(name: &str, pages_per_block: u32) -> DeviceModel {
    let mut model = DeviceModel::load(name).expect("a built-in model");
    if let Parameters::FlashSsd(flash) = &mut model.parameters {
        (flash.geometry.blocks_per_plane, flash.geometry.pages_per_block) = (512, pages_per_block);
        let physical = flash.geometry.bytes().expect("smaller than before") as f64;
        flash.capacity_bytes = (physical / (1.0 + flash.spare_share)) as u64 / 4096 * 4096;
        flash.check(name).expect("still a drive");
    }
    model
}

fn report(name: &str, work: &str, count: u64, mut seconds: impl FnMut() -> f64) {
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| count as f64 / seconds() / 1e6).collect();
    rates.sort_by(f64::total_cmp);
    println!("| {name} | {work} | {:.2} | {:.2} |", rates[ROUNDS - 1], rates[ROUNDS / 2]);
}

/// CPU seconds of a simulation; `before` is left out by timing it alone.
fn timed(model: &DeviceModel, trace: impl Iterator<Item = Request>, depth: u32, before: Before) -> f64 {
    let options = Options { pacing: Pacing::Depth(depth), before, ..Options::default() };
    let start = cpu_seconds();
    simulate(model, std::iter::empty::<Request>(), &options).expect("an empty trace");
    let prepared = cpu_seconds();
    simulate(model, trace, &options).expect("a trace within the device");
    cpu_seconds() - prepared - (prepared - start)
}

fn main() {
    println!("| model | trace | million per CPU second: best | median of {ROUNDS} |\n|-|-|-|-|");
    let count = 1_000_000;
    for name in ["hdd:st500dm002", "hdd:atlas-10k"] {
        let model = DeviceModel::load(name).expect("a built-in model");
        let (capacity, none) = (model.capacity_bytes(), Before::Empty);
        let sequential = |operation| (0..count).map(move |index| Request::of_bytes(operation, index * 4096, 4096));
        report(name, "reads in order (requests)", count, || timed(&model, sequential(Operation::Read), 1, none));
        report(name, "random reads (requests)", count, || {
            timed(&model, random(Operation::Read, capacity, count), 1, none)
        });
        report(name, "random writes (requests)", count / 10, || {
            timed(&model, random(Operation::Write, capacity, count / 10), 1, none)
        });
        report(name, "random reads, depth 32 (requests)", count / 10, || {
            timed(&model, random(Operation::Read, capacity, count / 10), 32, none)
        });
    }
    for (name, pages) in [("ssd:fast24", 30), ("ssd:970-pro", 16), ("ssd:mlc-sata", 8)] {
        let model = cut(name, pages);
        let (bytes, filled) = (model.capacity_bytes().min(8 * GIB), Before::Filled);
        let whole = model.capacity_bytes();
        report(name, "random writes with collection (pages)", count, || {
            timed(&model, random(Operation::Write, whole, count), 16, Before::Overwritten(1.0))
        });
        report(name, "random reads (pages)", count, || {
            timed(&model, random(Operation::Read, bytes, count), 16, filled)
        });
        let large = |operation| {
            (0..count / 32).map(move |index| Request::of_bytes(operation, index * 131_072 % (bytes / 2), 131_072))
        };
        report(name, "reads of 128 KiB in order (pages)", count, || timed(&model, large(Operation::Read), 4, filled));
        report(name, "writes of 128 KiB in order (pages)", count, || timed(&model, large(Operation::Write), 4, filled));
    }
    println!("\n| drive | bytes of the map for each mapped page |\n|-|-|");
    for name in DeviceModel::builtin_names() {
        if let Parameters::FlashSsd(flash) = DeviceModel::load(name).expect("a built-in model").parameters {
            println!("| {name} | {:.2} |", Drive::new(&flash).map().bytes_per_mapped_page());
        }
    }
}
