//! Flowops with an effect on the device only.

use crate::common::{operations, valid, workload};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_volume::{OpenOptions, TargetSpec};
use senesce_workload::Bench;

/// Bytes that reach the device during ten appends of 16 KiB, each followed by `sync`.
fn bytes_written(sync: &str, counted: u64) -> u64 {
    let target = senesce_volume::open(&"memory:64M".parse::<TargetSpec>().unwrap(), &OpenOptions::default()).unwrap();
    let device = target.block_device_info().unwrap();
    // Documentation/block/stat.rst: the seventh field is sectors written.
    let written = || -> u64 {
        let stat = std::fs::read_to_string(format!("/sys/class/block/{}/stat", device.name())).unwrap();
        stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    };
    let text = format!(
        "define fileset name=set, path=$dir, dirwidth=10, entries=1, size=4k, prealloc
         define process name=p {{ thread name=t {{
             flowop openfile name=o, filesetname=set, fd=1
             flowop appendfile name=a, fd=1, iosize=16k, iters=10
             {sync}
             flowop closefile name=c, fd=1 }} }}"
    );
    let interrupt = Interrupt::new();
    let bench = Bench::prepare(&workload(&text), target.directory(), operations(counted), &Silent, &interrupt).unwrap();
    target.sync().unwrap();
    let before = written();
    valid(bench.run(target.directory(), &Silent, &interrupt).unwrap().repetition);
    let bytes = written() - before;
    target.close().unwrap();
    bytes
}

#[test]
#[ignore = "needs loop devices"]
fn fsync_and_fsyncset_write_to_the_device() {
    let appended = 10 * (16 << 10);
    assert!(bytes_written("", 12) < appended, "without a sync the data stay in the page cache");
    assert!(bytes_written("flowop fsync name=f, fd=1", 13) >= appended);
    assert!(bytes_written("flowop fsyncset name=f, filesetname=set", 13) >= appended);
}
