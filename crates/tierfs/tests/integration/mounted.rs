//! Coherence on a mount between descriptors that bypass the kernel's cache and descriptors that use it.

use senesce_core::Bytes;
use senesce_core::interrupt::Interrupt;
use senesce_tierfs::pair::{MakeRequest, check_pair, make};
use senesce_tierfs::serve::{Memory, MountRequest, Server, scrub};
use senesce_tierfs::{Latency, Options};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Mounts a small file system in a temporary directory.
fn mount(cold_latency: Option<Latency>) -> (tempfile::TempDir, Server, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let [nvm, cold, mount_point] = ["nvm", "cold", "mount"].map(|name| directory.path().join(name));
    std::fs::create_dir(&mount_point).unwrap();
    let size = Some(Bytes::mib(16));
    make(&MakeRequest { nvm: nvm.clone(), nvm_size: size, cold: cold.clone(), cold_size: None, erase: Vec::new() })
        .unwrap();
    let (memory, options, point) = (Memory::File(nvm), Options::default(), mount_point.clone());
    let request = MountRequest { memory, cold, mount_point: point, options, threads: 2, cold_latency };
    (directory, Server::start(request).unwrap(), mount_point)
}

#[test]
#[ignore = "needs FUSE"]
fn new_file_is_coherent_while_its_creator_writes() {
    let (_directory, server, mount_point) = mount(None);
    for readable in [false, true] {
        let path = mount_point.join(format!("log-{readable}"));
        let maker = File::options().write(true).read(readable).create_new(true).open(&path).unwrap();
        let mut expected = Vec::new();
        for round in 0..40u8 {
            // Unaligned, over the end, and over ranges that a reader has cached.
            let (at, piece) = (usize::from(round) * 1000 / 3, vec![round; 3000]);
            expected.resize(expected.len().max(at + piece.len()), 0);
            expected[at..at + piece.len()].copy_from_slice(&piece);
            maker.write_all_at(&piece, at as u64).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), expected, "after write {round}");
        }
        let other = File::options().write(true).open(&path).unwrap();
        other.write_all_at(b"other", 4094).unwrap();
        expected[4094..4099].copy_from_slice(b"other");
        maker.write_all_at(b"maker", 4097).unwrap();
        expected[4097..4102].copy_from_slice(b"maker");
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        if readable {
            assert_eq!(read_all(&maker), expected);
        }
    }
    server.stop().unwrap();
}

fn read_all(file: &File) -> Vec<u8> {
    let mut data = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut data, 0).unwrap();
    data
}

#[test]
#[ignore = "needs FUSE"]
fn a_shared_map_of_a_new_file_agrees_with_every_descriptor() {
    let (_directory, server, mount_point) = mount(None);
    let path = mount_point.join("mapped");
    let maker = File::options().write(true).read(true).create_new(true).open(&path).unwrap();
    maker.set_len(3 * 4096).unwrap();
    let other = File::options().write(true).read(true).open(&path).unwrap();
    // SAFETY: no process truncates the file while it is mapped.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&maker).unwrap() };
    let mut expected = vec![0; 3 * 4096];
    for round in 1..20u8 {
        let at = usize::from(round) * 600;
        map[at..at + 4].copy_from_slice(&[round; 4]);
        expected[at..at + 4].copy_from_slice(&[round; 4]);
        assert_eq!(read_all(&maker), expected, "by its maker, {round}");
        assert_eq!(read_all(&other), expected, "by another, {round}");
        for (writer, offset) in [(&maker, 10), (&other, 20)] {
            writer.write_all_at(&[round; 8], (at + offset) as u64).unwrap();
            expected[at + offset..at + offset + 8].copy_from_slice(&[round; 8]);
            assert_eq!(map[..], expected, "in the map, {round}");
        }
    }
    map[5] = 99;
    expected[5] = 99;
    map.flush().unwrap();
    drop((map, maker, other));
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    server.stop().unwrap();
}

#[test]
#[ignore = "needs FUSE, file capabilities"]
fn writes_drop_capabilities_with_and_without_cache() {
    const NAME: &str = "security.capability";
    // VFS_CAP_REVISION_2, CAP_NET_RAW permitted (include/uapi/linux/capability.h).
    let capability = [0, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (_directory, server, mount_point) = mount(None);
    for readable in [false, true] {
        let path = mount_point.join(format!("program-{readable}"));
        let maker = File::options().write(true).read(readable).create_new(true).open(&path).unwrap();
        maker.write_all_at(b"#!", 0).unwrap();
        rustix::fs::setxattr(&path, NAME, &capability, rustix::fs::XattrFlags::empty()).unwrap();
        let mut value = [0; 64];
        assert_eq!(rustix::fs::getxattr(&path, NAME, &mut value).unwrap(), capability.len());
        maker.write_all_at(b"more", 2).unwrap();
        let after = rustix::fs::getxattr(&path, NAME, &mut value);
        assert_eq!(after, Err(rustix::io::Errno::NODATA), "opened for reading too: {readable}");
    }
    server.stop().unwrap();
}

#[test]
#[ignore = "needs FUSE"]
fn times_before_1970_keep_their_fraction() {
    let (_directory, server, mount_point) = mount(None);
    let path = mount_point.join("old");
    std::fs::write(&path, "old").unwrap();
    for (seconds, fraction) in [(-315_619_200, 250_000_000), (-1, 900_000_000), (-7, 0), (7, 1)] {
        let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: fraction };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(rustix::fs::CWD, &path, &times, rustix::fs::AtFlags::empty()).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (seconds, fraction));
    }
    server.stop().unwrap();
}

#[test]
#[ignore = "needs FUSE"]
fn damage_under_a_mount_is_eio_counted_and_found_by_a_scrub() {
    let (directory, server, mount_point) = mount(None);
    let path = mount_point.join("cold");
    let content: Vec<u8> = (0..20 << 20).map(|at: u32| (at / 4096) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    assert!(server.fs().stats().cold_blocks > 1000, "more than memory holds");
    let interrupt = Interrupt::new();
    let sound = scrub(&mount_point, &interrupt).unwrap();
    assert!(sound.findings.is_empty() && sound.blocks > 1000 && sound.ended == 1, "{sound:?}");
    let cold = File::options().read(true).write(true).open(directory.path().join("cold")).unwrap();
    let slot = (1..).find(|slot| {
        let mut block = [0; 4096];
        cold.read_exact_at(&mut block, slot * 4096).unwrap();
        block[0] != 0 && block == [block[0]; 4096]
    });
    cold.write_all_at(b"damage", slot.unwrap() * 4096 + 77).unwrap();
    cold.sync_all().unwrap();
    let found = scrub(&mount_point, &interrupt).unwrap();
    assert_eq!((found.damaged_blocks, found.damaged_metadata, found.ended), (1, 0, 2), "{found:?}");
    let reader = File::open(&path).unwrap();
    let mut wrong = Vec::new();
    for (at, expected) in content.chunks(4096).enumerate() {
        let mut block = [0; 4096];
        match reader.read_exact_at(&mut block, at as u64 * 4096) {
            Ok(()) => assert_eq!(block, expected, "block {at}"),
            Err(error) => wrong.push(error.raw_os_error()),
        }
    }
    assert_eq!(wrong, [Some(libc::EIO)]);
    assert!(server.fs().stats().damaged_block_reads > 0);
    drop(reader);
    server.stop().unwrap();
    let report = check_pair(&directory.path().join("nvm"), &directory.path().join("cold")).unwrap();
    assert_eq!((report.problems.len(), report.damaged_blocks.len()), (0, 1), "{report:?}");
}

#[test]
#[ignore = "needs FUSE"]
fn space_of_deleted_files_returns_to_the_disk_of_the_cold_store() {
    let (directory, server, mount_point) = mount(None);
    let used = || std::fs::metadata(directory.path().join("cold")).unwrap().blocks() * 512;
    let path = mount_point.join("large");
    std::fs::write(&path, vec![7; 40 << 20]).unwrap();
    let full = used();
    assert!(full > 20 << 20, "{full}");
    std::fs::remove_file(&path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while used() > full / 8 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(used() <= full / 8, "{} of {full} bytes are left", used());
    assert!(server.fs().stats().punched_cold_blocks > 4000);
    server.stop().unwrap();
}

/// Argument of io_submit(2) (include/uapi/linux/aio_abi.h).
#[repr(C)]
#[derive(Default)]
struct Submission {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: u16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_descriptor: u32,
}

/// Submits a write; returns its result if it is complete when io_submit(2) returns.
fn submit_write(file: &File, data: &[u8], offset: i64) -> Option<i64> {
    const WRITE: u16 = 1;
    let descriptor = u32::try_from(file.as_raw_fd()).unwrap();
    let (buffer, bytes) = (data.as_ptr() as u64, data.len() as u64);
    let mut one = Submission { opcode: WRITE, descriptor, buffer, bytes, offset, ..Submission::default() };
    let (mut context, mut event) = (0u64, [0i64; 4]);
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: everything passed to the kernel lives until io_destroy(2), which waits for pending requests.
    let events = unsafe {
        assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut context), 0);
        let mut list = [&raw mut one];
        assert_eq!(libc::syscall(libc::SYS_io_submit, context, 1, list.as_mut_ptr()), 1);
        let events = libc::syscall(libc::SYS_io_getevents, context, 0, 1, event.as_mut_ptr(), &raw const no_time);
        assert_eq!(libc::syscall(libc::SYS_io_destroy, context), 0);
        events
    };
    (events == 1).then_some(event[2])
}

/// The kernel drops pages cached during a direct write only if it waits for that write.
#[test]
#[ignore = "needs FUSE"]
fn submitted_direct_write_completes_and_is_visible_to_cached_readers() {
    let (_directory, server, mount_point) = mount(Some(Latency::HDD));
    let path = mount_point.join("file");
    let mut expected = vec![1; 8 << 20];
    std::fs::write(&path, &expected).unwrap();
    let cached = File::open(&path).unwrap();
    let direct = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    for round in 2..6u8 {
        assert_eq!(read_all(&cached), expected);
        // The bytes around the write must first be read from a slow disk.
        while server.fs().evict(1024) > 0 {}
        let at = usize::from(round) * 10_000;
        assert_eq!(submit_write(&direct, &[round; 6000], at as i64), Some(6000), "under way when it was submitted");
        expected[at..at + 6000].fill(round);
    }
    assert_eq!(read_all(&cached), expected);
    server.stop().unwrap();
}
