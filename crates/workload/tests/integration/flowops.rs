//! Every flowop of the language, by its effect on a real file system.

use crate::common::{TemporaryTarget, count, operations, run, valid};
use senesce_workload::Repetition;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One thread on a file set of `entries` existing files of 4 KiB, run for `count` counted operations.
fn single(temporary: &TemporaryTarget, fileset: &str, flowops: &str, count: u64) -> Repetition {
    let text = format!(
        "define fileset name=set, path=$dir, dirwidth=100, {fileset}
         define process name=p {{ thread name=t {{ {flowops} }} }}"
    );
    valid(run(temporary, &text, operations(count)))
}

/// All regular files below a directory, by path.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

const ONE: &str = "entries=1, size=4k, prealloc";
const FILE: &str = "set/00000001/00000001";

#[test]
fn names_on_disk_match_filebench() {
    let temporary = TemporaryTarget::new();
    single(&temporary, "entries=3, size=1k, prealloc", "flowop statfile name=s, filesetname=set", 1);
    let names: Vec<String> = files(&temporary.entry("set"))
        .iter()
        .map(|path| path.strip_prefix(temporary.path()).unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["set/00000001/00000001", "set/00000001/00000002", "set/00000001/00000003"]);
    assert!(files(&temporary.entry("set")).iter().all(|path| path.metadata().unwrap().len() == 1024));
}

#[test]
fn openfile_closefile_and_read_go_through_the_file() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop openfile name=o, filesetname=set, fd=1
                flowop read name=r, fd=1, iosize=1k, iters=6
                flowop closefile name=c, fd=1";
    let result = single(&temporary, ONE, flow, 8);
    assert_eq!([count(&result, "o"), count(&result, "r"), count(&result, "c")], [1, 6, 1]);
    let read = &result.flowops.iter().find(|(name, _)| name == "r").unwrap().1;
    assert_eq!(read.bytes, 5 * 1024, "four reads to the end, one of nothing, then from the start again");
    assert_eq!((result.reads, result.writes), (6, 0));
}

#[test]
fn createfile_creates_missing_files_and_directories() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop createfile name=c, filesetname=set, fd=1 flowop closefile name=x, fd=1";
    single(&temporary, "entries=5, size=4k", flow, 10);
    let made = files(&temporary.entry("set"));
    assert_eq!(made.len(), 5);
    assert!(made.iter().all(|path| path.metadata().unwrap().len() == 0));
}

#[test]
fn deletefile_deletes_and_spares_open_files() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop openfile name=o, filesetname=set, fd=1
                flowop deletefile name=d, filesetname=set, iters=6
                flowop closefile name=c, fd=1";
    let result = single(&temporary, "entries=4, size=1k, prealloc", flow, 5);
    assert_eq!([count(&result, "o"), count(&result, "d"), count(&result, "c")], [1, 3, 1]);
    assert_eq!(
        files(&temporary.entry("set")),
        [temporary.entry(FILE)],
        "the open file is spared, and nothing is counted for it"
    );
}

#[test]
fn deletefile_with_fd_deletes_the_file_of_that_slot() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop openfile name=o, filesetname=set, fd=2
                flowop closefile name=c, fd=2
                flowop deletefile name=d, fd=2, filesetname=set";
    single(&temporary, "entries=3, size=1k, prealloc", flow, 3);
    let left = files(&temporary.entry("set"));
    assert_eq!(left.len(), 2);
    assert!(!temporary.entry(FILE).exists(), "the first in rotation");
}

#[test]
fn write_is_sequential_or_random_within_the_file() {
    let temporary = TemporaryTarget::new();
    single(&temporary, ONE, "flowop write name=w, filesetname=set, fd=1, iosize=1k", 7);
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 6 * 1024, "six writes after the implied opening");
    let temporary = TemporaryTarget::new();
    single(&temporary, ONE, "flowop write name=w, filesetname=set, fd=1, iosize=1k, random", 50);
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 4096, "random writes stay inside");
}

#[test]
fn workingset_bounds_random_writes() {
    let temporary = TemporaryTarget::new();
    single(
        &temporary,
        "entries=1, size=0, prealloc",
        "flowop write name=w, filesetname=set, fd=1, iosize=1k, random, workingset=64k",
        400,
    );
    let length = temporary.entry(FILE).metadata().unwrap().len();
    assert_eq!(length, 64 << 10, "the last block of the working set is reached and not passed");
}

#[test]
fn readwholefile_reads_the_whole_file() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop readwholefile name=r, filesetname=set, fd=1, iosize=1k";
    let result = single(&temporary, "entries=1, size=10k, prealloc", flow, 4);
    assert_eq!(result.flowops[0].1.bytes, 3 * 10 * 1024, "three reads after the implied opening");
}

#[test]
fn writewholefile_writes_past_the_size_as_filebench_does() {
    for (size, written) in [(500, 500), (1024, 1024), (2048, 2048), (1536, 2048), (2560, 3072)] {
        let temporary = TemporaryTarget::new();
        let flow = "flowop createfile name=c, filesetname=set, fd=1
                    flowop writewholefile name=w, fd=1, srcfd=1, iosize=1k
                    flowop closefile name=x, fd=1";
        let result = single(&temporary, &format!("entries=1, size={size}"), flow, 3);
        assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), written, "size {size}");
        assert_eq!(result.flowops[1].1.bytes, written);
    }
}

#[test]
fn writewholefile_takes_the_size_of_srcfd() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=src, path=$dir, dirwidth=10, entries=1, size=3k, prealloc
        define fileset name=set, path=$dir, dirwidth=10, entries=1, size=9k
        define process name=p { thread name=t {
            flowop openfile name=o, filesetname=src, fd=1
            flowop createfile name=c, filesetname=set, fd=2
            flowop writewholefile name=w, fd=2, srcfd=1, iosize=1k
            flowop closefile name=x, fd=1 } }";
    valid(run(&temporary, text, operations(4)));
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 3 << 10);
}

#[test]
fn appendfile_and_appendfilerand_grow_the_file() {
    let temporary = TemporaryTarget::new();
    single(&temporary, ONE, "flowop appendfile name=a, filesetname=set, fd=1, iosize=2k", 4);
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 4096 + 3 * 2048);
    let temporary = TemporaryTarget::new();
    let result = single(&temporary, ONE, "flowop appendfilerand name=a, filesetname=set, fd=1, iosize=2k", 2001);
    let grown = temporary.entry(FILE).metadata().unwrap().len() - 4096;
    assert_eq!(grown, result.flowops[0].1.bytes);
    let mean = grown as f64 / 2000.0;
    assert!((960.0..1090.0).contains(&mean), "uniform from 0 to iosize - 1, so half of iosize on average: {mean}");
}

#[test]
fn statfile_and_fsync_and_fsyncset_are_counted_per_file() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop openfile name=o1, filesetname=set, fd=1
                flowop openfile name=o2, filesetname=set, fd=2
                flowop statfile name=s, filesetname=set
                flowop statfile name=s1, fd=1
                flowop fsync name=f, fd=1
                flowop fsyncset name=fs, filesetname=set
                flowop closefile name=c1, fd=1
                flowop closefile name=c2, fd=2";
    let result = single(&temporary, "entries=4, size=1k, prealloc", flow, 9);
    assert_eq!([count(&result, "s"), count(&result, "s1"), count(&result, "f"), count(&result, "fs")], [1, 1, 1, 2]);
}

#[test]
fn makedir_removedir_and_listdir_work_on_their_directories() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=100, entries=0, leafdirs=3
        define process name=p { thread name=t { flowop makedir name=m, filesetname=set } }";
    valid(run(&temporary, text, operations(3)));
    let leaves = fs::read_dir(temporary.entry("set/00000001")).unwrap().count();
    assert_eq!(leaves, 3);
    let temporary = TemporaryTarget::new();
    single(&temporary, "entries=0, leafdirs=3, prealloc", "flowop removedir name=r, filesetname=set", 2);
    assert_eq!(fs::read_dir(temporary.entry("set/00000001")).unwrap().count(), 1);
    let temporary = TemporaryTarget::new();
    let result = single(&temporary, "entries=2, size=1k, prealloc", "flowop listdir name=l, filesetname=set", 2);
    // The root holds `.`, `..` and one directory, the directory `.`, `..` and two files; each counts its name and 279.
    assert_eq!(result.flowops[0].1.bytes, (1 + 2 + 8 + 3 * 279) + (1 + 2 + 16 + 4 * 279));
}

#[test]
fn aiowrite_and_aiowait_write_the_file() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop aiowrite name=w, filesetname=set, fd=1, iosize=4k, random, dsync, iters=50
                flowop aiowait name=a";
    let result = single(&temporary, "entries=1, size=64k, prealloc", flow, 500);
    assert!(count(&result, "a") >= 9, "{result:?}");
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 64 << 10);
    assert_ne!(
        fs::read(temporary.entry(FILE)).unwrap()[..4096],
        senesce_workload::engine::memory::filled(1 << 20, 0x5e).unwrap()[..4096]
    );
}

#[test]
fn late_asynchronous_write_failure_fails_the_run() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=100, entries=1, size=64k, prealloc, readonly
        define process name=p { thread name=t, memsize=1m {
            flowop aiowrite name=w, filesetname=set, fd=1, iosize=4k, random, iters=100 } }";
    let result = run(&temporary, text, operations(10));
    assert!(!result.valid && result.io_failed && result.ops_per_second == 0.0, "{result:?}");
    let reason = result.reason.unwrap();
    assert!(reason.contains("asynchronous write of thread t-1, in flight when the run ended: "), "{reason}");
    assert!(reason.contains("Bad file descriptor"), "{reason}");
}

#[test]
fn flowops_of_equal_name_and_different_kind_are_counted_separately() {
    let temporary = TemporaryTarget::new();
    let text = "define fileset name=set, path=$dir, dirwidth=100, entries=2, size=4k, prealloc
        define process name=p {
            thread name=t { flowop read name=io, filesetname=set, fd=1, iosize=1k }
            thread name=u { flowop read name=io, filesetname=set, fd=1, iosize=1k }
            thread name=v { flowop write name=io, filesetname=set, fd=2, iosize=1k } }";
    let result = valid(run(&temporary, text, operations(2000)));
    let names: Vec<&str> = result.flowops.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["io", "io (write)"]);
    assert_eq!(count(&result, "io") + count(&result, "io (write)"), 2000);
    assert_eq!((result.reads, result.writes), (count(&result, "io"), count(&result, "io (write)")));
}

#[test]
fn opennext_rotates_through_descriptors_and_files() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop write name=w, filesetname=set, iosize=1k, opennext";
    let result = single(&temporary, "entries=4, size=0, prealloc", flow, 12);
    assert_eq!(count(&result, "w"), 12, "four openings and eight writes");
    let lengths: Vec<u64> = files(&temporary.entry("set")).iter().map(|path| path.metadata().unwrap().len()).collect();
    assert_eq!(lengths, [2048; 4]);
}

#[test]
fn indexed_chooses_by_index() {
    let temporary = TemporaryTarget::new();
    let flow = "flowop openfile name=o, filesetname=set, fd=1, indexed=1
                flowop appendfile name=a, fd=1, iosize=1k
                flowop closefile name=c, fd=1";
    single(&temporary, "entries=8, size=0, prealloc", flow, 9);
    let lengths: Vec<u64> = files(&temporary.entry("set")).iter().map(|path| path.metadata().unwrap().len()).collect();
    assert_eq!(lengths, [0, 0, 0, 0, 3072, 0, 0, 0], "1 times half of the entries");
}

#[test]
#[ignore = "needs O_DIRECT"]
fn dsync_and_directio_open_with_their_flags() {
    // A direct write whose length is not a multiple of the sector fails; a buffered one does not.
    let temporary = tempfile::tempdir().unwrap();
    let claimed =
        senesce_volume::ClaimedDirectory::claim(temporary.path(), Some(&temporary.path().to_string_lossy())).unwrap();
    let go = |attributes: &str| {
        let text = format!(
            "define fileset name=set, path=$dir, dirwidth=10, entries=1, size=8k, prealloc
             define process name=p {{ thread name=t {{ flowop write name=w, filesetname=set, fd=1, {attributes} }} }}"
        );
        let workload = crate::common::workload(&text);
        let interrupt = senesce_core::interrupt::Interrupt::new();
        let silent = senesce_core::progress::Silent;
        let bench = senesce_workload::Bench::prepare(&workload, &claimed, operations(3), &silent, &interrupt).unwrap();
        bench.run(&claimed, &silent, &interrupt).unwrap().repetition
    };
    valid(go("iosize=4k, directio"));
    valid(go("iosize=1000"));
    valid(go("iosize=1000, dsync"));
    let refused = go("iosize=1000, directio");
    assert!(!refused.valid && refused.reason.unwrap().contains("EINVAL"));
}

#[test]
fn random_choice_reaches_all_files_and_is_seeded() {
    let lengths = |seed| {
        let temporary = TemporaryTarget::new();
        let text = "define fileset name=set, path=$dir, dirwidth=100, entries=16, size=0, prealloc
            define process name=p { thread name=t {
                flowop openfile name=o, filesetname=set, fd=1
                flowop appendfile name=a, fd=1, iosize=100
                flowop closefile name=c, fd=1 } }";
        let options =
            senesce_workload::Options { random_choice: true, seed: senesce_core::Seed(seed), ..operations(600) };
        valid(run(&temporary, text, options));
        files(&temporary.entry("set")).iter().map(|path| path.metadata().unwrap().len()).collect::<Vec<_>>()
    };
    let first = lengths(1);
    assert!(first.iter().all(|length| *length > 0) && first.iter().any(|length| *length != first[0]), "{first:?}");
    assert_eq!(first, lengths(1));
    assert_ne!(first, lengths(2));
}

#[test]
fn reuse_repairs_sizes_and_trusttree_skips_checks() {
    let temporary = TemporaryTarget::new();
    let go = |extra: &str| {
        let text = format!(
            "define fileset name=set, path=$dir, dirwidth=10, entries=2, size=4k, prealloc, {extra}
             define process name=p {{ thread name=t {{ flowop statfile name=s, filesetname=set }} }}"
        );
        run(&temporary, &text, operations(2))
    };
    valid(go("paralloc"));
    let inode = || temporary.entry(FILE).metadata().unwrap().ino();
    let before = inode();
    fs::OpenOptions::new().write(true).open(temporary.entry(FILE)).unwrap().set_len(9000).unwrap();
    fs::OpenOptions::new().write(true).open(temporary.entry("set/00000001/00000002")).unwrap().set_len(10).unwrap();
    valid(go("reuse"));
    assert_eq!(inode(), before, "the file is the same");
    assert!(
        files(&temporary.entry("set")).iter().all(|path| path.metadata().unwrap().len() == 4096),
        "cut and filled up"
    );
    fs::write(temporary.entry(FILE), "short").unwrap();
    valid(go("trusttree"));
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 5, "trusted without a look");
    valid(go("cached"));
    assert_eq!(temporary.entry(FILE).metadata().unwrap().len(), 4096, "written again");
}
