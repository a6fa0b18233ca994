//! Commands in flight cost no allocation at any depth: twice the commands do not allocate more often.

use senesce_core::interrupt::Interrupt;
use senesce_core::{Bytes, Seed, Silent};
use senesce_zoned::job::{Activity, ActorSpec, Job, Zones};
use senesce_zoned::run::{RunOptions, check_on, run_prepared};
use senesce_zoned::sim::model::Model;
use senesce_zoned::sim::{SimDevice, SimOptions};
use senesce_zoned::{ZonedDevice, null::NullDevice};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Per thread, because other tests run concurrently.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A terminating thread no longer has a counter.
    let _ = ALLOCATIONS.try_with(|counter| counter.set(counter.get() + 1));
}

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(device: &mut dyn ZonedDevice, op: Activity, count: u64) -> u64 {
    let spec =
        ActorSpec { qd: 32, zones: Zones::Count(1), count: Some(count), bs: Bytes::kib(4), ..ActorSpec::new(op) };
    let checked = check_on(device, &Job { prepare: Some(Vec::new()), ..Job::of(vec![spec]) }).unwrap();
    let interrupt = Interrupt::new();
    let options = RunOptions { seed: Seed(1), progress: &Silent, interrupt: &interrupt };
    let before = ALLOCATIONS.get();
    run_prepared(device, &checked, &options).unwrap();
    ALLOCATIONS.get() - before
}

#[test]
fn commands_at_depth_32_do_not_allocate() {
    let model = Model::load("zn540").unwrap();
    for op in [Activity::Append, Activity::RandomRead] {
        let filled = (op == Activity::RandomRead).then_some(200_000);
        let mut few = SimDevice::new(&model, SimOptions::default(), Seed(1)).unwrap();
        let mut many = SimDevice::new(&model, SimOptions::default(), Seed(1)).unwrap();
        few.preset(0, filled).unwrap();
        many.preset(0, filled).unwrap();
        let few = allocations_of(&mut few, op, 20_000);
        let many = allocations_of(&mut many, op, 100_000);
        // Bandwidth needs one list entry per second; queues may grow to their final size late.
        assert!(many <= few + 16, "{op:?}: {few} allocations for 20000 commands, {many} for 100000");
    }
    let few = allocations_of(&mut NullDevice::new(None).unwrap(), Activity::Append, 20_000);
    let many = allocations_of(&mut NullDevice::new(None).unwrap(), Activity::Append, 100_000);
    assert!(many <= few + 16, "null: {few} allocations for 20000 commands, {many} for 100000");
}

/// As for real drives, on a loop device: rings and buffers are allocated before the first command.
#[test]
#[ignore = "needs loop devices, io_uring"]
fn commands_of_a_block_device_do_not_allocate() {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(64 << 20).unwrap();
    let loop_device = senesce_volume::LoopDevice::attach(image.as_file(), "senesce test", false).unwrap();
    let epoch = std::time::Instant::now();
    let rings = senesce_zoned::hardware::RingOptions::default();
    let open = || senesce_zoned::hardware::ZonedBlockDevice::open(loop_device.path(), true, epoch, rings).unwrap();
    let few = allocations_of(&mut open(), Activity::RandomRead, 2_000);
    let many = allocations_of(&mut open(), Activity::RandomRead, 10_000);
    assert!(many <= few + 16, "block device: {few} allocations for 2000 commands, {many} for 10000");
}
