//! `kill -9` at any moment, and a power failure after a commit.

use crate::common::{LAYOUTS, temporary_directory};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_objstore::store::checkout::{CheckoutOptions, checkout};
use senesce_objstore::store::commit::{CommitOptions, commit};
use senesce_objstore::store::verify::verify;
use senesce_objstore::{Layout, Store, StoreSettings};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FILES: usize = 1500;

fn save(place: &Path, work: &Path, layout: Layout) {
    let mut store = match Store::open(place) {
        Ok(store) => store,
        Err(_) => Store::create(place, StoreSettings::default()).unwrap(),
    };
    let options = CommitOptions { layout, threads: 2, log_slower_than: None };
    commit(&mut store, work, &options, &Silent, &Interrupt::new()).unwrap();
}

fn fill(work: &Path, generation: usize) {
    fs::create_dir_all(work).unwrap();
    for number in 0..FILES {
        let text = format!("file {number} of generation {}", if number % 3 == 0 { generation } else { 0 });
        fs::write(work.join(number.to_string()), text.repeat(40)).unwrap();
    }
}

/// The process that is killed: this test binary again, configured by its environment.
#[test]
fn child() {
    let Ok(place) = std::env::var("SENESCE_TEST_STORE") else { return };
    let work = std::env::var("SENESCE_TEST_WORK").unwrap();
    let layout = if std::env::var("SENESCE_TEST_LAYOUT").unwrap() == "Loose" { Layout::Loose } else { Layout::Pack };
    save(Path::new(&place), Path::new(&work), layout);
}

fn child_command(place: &Path, work: &Path, layout: Layout) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::child"]).env("SENESCE_TEST_STORE", place).env("SENESCE_TEST_WORK", work);
    command.env("SENESCE_TEST_LAYOUT", format!("{layout:?}")).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn killed_commit_loses_no_committed_data() {
    for layout in LAYOUTS {
        let directory = temporary_directory();
        let (place, work) = (directory.path().join("store"), directory.path().join("work"));
        fill(&work, 0);
        let started = Instant::now();
        assert!(child_command(&directory.path().join("trial"), &work, layout).status().unwrap().success());
        let whole = started.elapsed();
        let (mut killed, mut committed) = (0, Vec::new());
        for round in 0..24u32 {
            fill(&work, round as usize);
            let mut child = child_command(&place, &work, layout).spawn().unwrap();
            // From the start to slightly after the end.
            std::thread::sleep(whole.mul_f64(f64::from(round) / 20.0).min(Duration::from_secs(2)));
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
            let Ok(store) = Store::open(&place) else {
                assert!(committed.is_empty(), "the store is gone");
                continue;
            };
            let numbers = store.snapshot_numbers().unwrap();
            assert!(numbers.starts_with(&committed), "{committed:?} became {numbers:?}");
            committed = numbers;
            let report = verify(&store, &Silent, &Interrupt::new()).unwrap();
            assert!(report.is_sound(), "{layout:?}, round {round}: {report:?}");
        }
        eprintln!("{layout:?}: {killed} of 24 killed, {} snapshots survived", committed.len());
        assert!(killed >= 5, "the test must really kill");
        fill(&work, 99);
        save(&place, &work, layout);
        let store = Store::open(&place).unwrap();
        let back = directory.path().join("back");
        let report = checkout(&store, None, &back, CheckoutOptions::default(), &Silent, &Interrupt::new()).unwrap();
        assert!(report.lost.is_empty() && report.files == FILES as u64);
        assert_eq!(fs::read(back.join("3")).unwrap(), fs::read(work.join("3")).unwrap());
        assert_eq!(fs::read_dir(place.join("staging")).unwrap().flatten().filter(|e| e.path().is_file()).count(), 0);
    }
}

/// Copies the mounted image right after the commit returned, as after a power failure.
#[test]
#[ignore = "needs loop devices"]
fn commit_is_durable_when_it_returns() {
    use senesce_volume::{FileSystem, OpenOptions, TargetSpec, open, visit};
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        for layout in LAYOUTS {
            let directory = temporary_directory();
            let (image, copy) = (directory.path().join("live.img"), directory.path().join("after power failure.img"));
            let spec = TargetSpec::Image { path: image.clone(), size: Some(senesce_core::Bytes::mib(320)) };
            let target = open(&spec, &OpenOptions::fresh(file_system)).unwrap();
            let work = target.mount_point().join("work");
            fill(&work, 0);
            save(&target.mount_point().join("store"), &work, layout);
            copy_sparse(&image, &copy);
            target.close().unwrap();
            let spec = TargetSpec::Image { path: copy, size: None };
            let after = visit(&spec, &OpenOptions::default()).unwrap();
            let store = Store::open(&after.mount_point().join("store")).unwrap();
            assert_eq!(store.snapshot_numbers().unwrap(), [1], "{file_system} {layout:?}");
            let report = verify(&store, &Silent, &Interrupt::new()).unwrap();
            assert!(report.is_sound(), "{file_system} {layout:?}: {report:?}");
            assert_eq!(report.objects, FILES as u64, "{file_system} {layout:?}");
            drop(store);
            after.close().unwrap();
        }
    }
}

fn copy_sparse(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--sparse=always").args([from, to]).status().unwrap();
    assert!(status.success());
}
