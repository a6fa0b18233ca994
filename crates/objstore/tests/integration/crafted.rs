//! Malicious stores: nothing is written outside of the destination, and nothing crashes.

use crate::common::temporary_directory;
use rand::RngExt;
use senesce_core::Seed;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_objstore::store::checkout::{CheckoutOptions, CheckoutReport, checkout};
use senesce_objstore::store::commit::{CommitOptions, commit};
use senesce_objstore::store::snapshot::{EntryKind, Header, SnapshotEntry, decode, encode};
use senesce_objstore::store::verify::verify;
use senesce_objstore::{Layout, Store, StoreSettings};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

#[path = "../../../../fuzz/shared/store_checkout.rs"]
mod store_checkout;

#[test]
fn fuzz_corpus_stays_inside_the_destination() {
    let folder = temporary_directory();
    let scene = store_checkout::Scene::new(folder.path());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/store_checkout");
    let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3);
    files.iter().for_each(|path| scene.exercise(&fs::read(path).unwrap()));
}

struct Scene {
    folder: tempfile::TempDir,
    header: Header,
    file: EntryKind,
}

impl Scene {
    fn new() -> Self {
        let folder = temporary_directory();
        fs::create_dir_all(folder.path().join("outside/sub")).unwrap();
        fs::write(folder.path().join("outside/precious"), "precious").unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("file"), "planted").unwrap();
        let mut store = Store::create(&folder.path().join("store"), StoreSettings::default()).unwrap();
        let options = CommitOptions { layout: Layout::Pack, threads: 1, log_slower_than: None };
        commit(&mut store, &work, &options, &Silent, &Interrupt::new()).unwrap();
        let snapshot = decode(1, &fs::read(folder.path().join("store/snapshots/000001")).unwrap());
        let file = snapshot.entries[0].kind.clone();
        Self { header: snapshot.header.unwrap(), file, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn entry(&self, path: &str, kind: EntryKind) -> SnapshotEntry {
        SnapshotEntry { path: path.into(), mode: 0o644, uid: 0, gid: 0, modified: (1, 2), kind }
    }

    fn link(&self, path: &str, to: &Path) -> SnapshotEntry {
        self.entry(path, EntryKind::Link { to: to.to_string_lossy().into_owned() })
    }

    fn check_out(&self, entries: &[SnapshotEntry], options: CheckoutOptions) -> CheckoutReport {
        fs::write(self.path("store/snapshots/000001"), encode(&self.header, entries)).unwrap();
        let back = self.path("back");
        let _ = fs::remove_dir_all(&back);
        let store = Store::open(&self.path("store")).unwrap();
        checkout(&store, None, &back, options, &Silent, &Interrupt::new()).unwrap()
    }

    /// Names, inodes and times of everything outside.
    fn outside(&self) -> Vec<(PathBuf, u64, u32, i64, i64, u32)> {
        let mut paths = vec![self.path("outside"), self.path("outside/sub")];
        for folder in ["outside", "outside/sub", ""] {
            paths.extend(fs::read_dir(self.path(folder)).unwrap().map(|entry| entry.unwrap().path()));
        }
        paths.retain(|path| !path.ends_with("back") && !path.ends_with("store"));
        paths.sort();
        let facts = |path: PathBuf| {
            let found = path.symlink_metadata().unwrap();
            (path, found.ino(), found.mode(), found.mtime(), found.mtime_nsec(), found.uid())
        };
        paths.into_iter().map(facts).collect()
    }
}

#[test]
fn links_of_a_store_are_not_followed() {
    let scene = Scene::new();
    let before = scene.outside();
    let out = scene.path("outside");
    let file = |path: &str| scene.entry(path, scene.file.clone());
    let directory = |path: &str| scene.entry(path, EntryKind::Directory);
    let attacks: Vec<Vec<SnapshotEntry>> = vec![
        vec![scene.link("l", &out), scene.link("l/planted", Path::new("x"))],
        vec![scene.link("l", &out), file("l/planted")],
        vec![scene.link("l", &out), directory("l/planted")],
        vec![scene.link("l", &out), directory("l/sub"), scene.link("l/sub/x", Path::new("y"))],
        vec![scene.link("d", &out), directory("d"), file("d/planted")],
        vec![directory("d"), scene.link("d/up", Path::new("..")), scene.link("d/up/../../outside/x", &out)],
        vec![scene.link("l", Path::new("../outside")), scene.link("l/precious", Path::new("x"))],
        vec![file("../outside/planted"), file("/outside/planted")],
    ];
    for entries in attacks {
        let report = scene.check_out(&entries, CheckoutOptions::default());
        assert!(!report.lost.is_empty(), "{entries:?}");
        assert_eq!(scene.outside(), before, "{entries:?}");
    }
}

#[test]
fn setuid_bits_are_only_restored_on_request() {
    let scene = Scene::new();
    let entry = SnapshotEntry { mode: 0o6755, ..scene.entry("program", scene.file.clone()) };
    let shared = SnapshotEntry { mode: 0o1777, ..scene.entry("tmp", EntryKind::Directory) };
    let mode = |name: &str| fs::metadata(scene.path("back").join(name)).unwrap().mode() & 0o7777;
    let report = scene.check_out(&[entry.clone(), shared.clone()], CheckoutOptions::default());
    assert_eq!((mode("program"), mode("tmp"), report.stripped), (0o755, 0o777, 2));
    let report = scene.check_out(&[entry, shared], CheckoutOptions { special_bits: true });
    assert_eq!((mode("program"), mode("tmp"), report.stripped), (0o6755, 0o1777, 0));
}

#[test]
fn crafted_stores_write_nothing_outside_and_do_not_crash() {
    let scene = Scene::new();
    let before = scene.outside();
    let mut random = Seed(0x20).stream("objstore/crafted");
    let parts = ["a", "b", "l", "..", ".", "", "/", "outside", "sub", "%2E%2E", "%00", "precious", "\u{1b}[31m"];
    let targets = ["..", "/", ".", "a", "l", "../outside", "../../outside", "", "/proc/self/cwd", "/dev/null"];
    for _ in 0..1000 {
        let mut entries = Vec::new();
        for _ in 0..random.random_range(1..8) {
            let length = random.random_range(1..4);
            let path: Vec<&str> = (0..length).map(|_| parts[random.random_range(0..parts.len())]).collect();
            let kind = match random.random_range(0..3) {
                0 => scene.file.clone(),
                1 => EntryKind::Directory,
                _ => EntryKind::Link { to: targets[random.random_range(0..targets.len())].into() },
            };
            let modified = (random.random::<i64>() >> random.random_range(0..60), random.random());
            entries.push(SnapshotEntry { mode: random.random(), modified, ..scene.entry(&path.join("/"), kind) });
        }
        scene.check_out(&entries, CheckoutOptions { special_bits: random.random() });
        assert_eq!(scene.outside(), before, "{entries:?}");
    }
}

#[test]
fn damaged_stores_do_not_crash() {
    let scene = Scene::new();
    let before = scene.outside();
    let mut random = Seed(0x21).stream("objstore/damaged");
    let pack = fs::read_dir(scene.path("store/packs")).unwrap().next().unwrap().unwrap().path();
    let files = [scene.path("store/snapshots/000001"), scene.path("store/store.json"), pack];
    let whole: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    for _ in 0..1000 {
        for (path, whole) in files.iter().zip(&whole) {
            let mut bytes = whole.clone();
            match random.random_range(0..4) {
                0 => bytes.truncate(random.random_range(0..bytes.len())),
                1 => {
                    for _ in 0..random.random_range(1..6) {
                        let at = random.random_range(0..bytes.len());
                        bytes[at] = random.random();
                    }
                }
                2 => bytes.extend((0..random.random_range(1..40)).map(|_| random.random::<u8>())),
                _ => {}
            }
            fs::write(path, bytes).unwrap();
        }
        let back = scene.path("back");
        let _ = fs::remove_dir_all(&back);
        if let Ok(store) = Store::open(&scene.path("store")) {
            let _ = checkout(&store, None, &back, CheckoutOptions::default(), &Silent, &Interrupt::new());
            let _ = verify(&store, &Silent, &Interrupt::new());
        }
    }
    assert_eq!(scene.outside(), before);
}

/// Commits `work` again, as loose objects.
fn commit_again(scene: &Scene) -> Result<(), String> {
    let options = CommitOptions { layout: Layout::Loose, threads: 1, log_slower_than: None };
    let mut store = Store::open(&scene.path("store")).map_err(|error| error.to_string())?;
    let done = commit(&mut store, &scene.path("work"), &options, &Silent, &Interrupt::new());
    done.map(drop).map_err(|error| error.to_string())
}

#[test]
fn commit_does_not_write_through_links_of_the_store() {
    let scene = Scene::new();
    fs::write(scene.path("work/file"), "another").unwrap();
    let (outside, precious) = (scene.path("outside"), scene.path("outside/precious"));
    let before = scene.outside();
    for (name, to) in [("lock", &precious), ("objects", &outside), ("packs", &outside), ("snapshots", &outside)] {
        let (place, kept) = (scene.path("store").join(name), scene.path("kept"));
        fs::rename(&place, &kept).unwrap();
        symlink(to, &place).unwrap();
        assert!(commit_again(&scene).is_err(), "{name}");
        fs::remove_file(&place).unwrap();
        fs::rename(&kept, &place).unwrap();
        assert_eq!(scene.outside(), before, "{name}");
    }
    for first in 0..256 {
        symlink(&outside, scene.path("store/objects").join(format!("{first:02x}"))).unwrap();
    }
    commit_again(&scene).unwrap_err();
    assert_eq!(scene.outside(), before);
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    for first in 0..256 {
        fs::remove_file(scene.path("store/objects").join(format!("{first:02x}"))).unwrap();
    }
    commit_again(&scene).unwrap();
}

#[test]
fn endless_objects_and_packs_are_reported_and_not_read() {
    let scene = Scene::new();
    let back = scene.path("back");
    let check_out = |scene: &Scene| {
        let _ = fs::remove_dir_all(&back);
        let store = Store::open(&scene.path("store")).map_err(|error| error.to_string())?;
        let _ = verify(&store, &Silent, &Interrupt::new());
        let done = checkout(&store, None, &back, CheckoutOptions::default(), &Silent, &Interrupt::new());
        done.map_err(|error| error.to_string())
    };
    fs::write(scene.path("work/file"), "another").unwrap();
    commit_again(&scene).unwrap();
    let folder = fs::read_dir(scene.path("store/objects")).unwrap().next().unwrap().unwrap().path();
    let object = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&object).unwrap();
    symlink("/dev/zero", &object).unwrap();
    let report = check_out(&scene).unwrap();
    assert!(report.lost[0].problem.contains("not a regular file"), "{:?}", report.lost);

    let pack = scene.path("store/packs/large.pack");
    symlink("/dev/zero", &pack).unwrap();
    assert!(check_out(&scene).unwrap_err().contains("not a regular file"));
    fs::remove_file(&pack).unwrap();
    // An index as long as the file: 8 TiB, all holes.
    let file = fs::File::create(&pack).unwrap();
    file.set_len(8 << 40).unwrap();
    let trailer = [&(((8u64 << 40) - 1000) / 44).to_le_bytes()[..], &[0; 32], b"SNSINDX1"].concat();
    file.write_all_at(&trailer, (8 << 40) - trailer.len() as u64).unwrap();
    let store = Store::open(&scene.path("store")).unwrap();
    let problem = store.packs().iter().find_map(|pack| pack.problem.clone()).unwrap();
    assert!(problem.contains("number of index entries"), "{problem}");
}

#[test]
fn snapshot_with_the_maximum_number_is_an_error() {
    let scene = Scene::new();
    let snapshots = scene.path("store/snapshots");
    fs::rename(snapshots.join("000001"), snapshots.join(u64::MAX.to_string())).unwrap();
    assert!(commit_again(&scene).unwrap_err().contains("the maximum number"));
}

#[test]
fn store_is_not_created_through_planted_links() {
    let scene = Scene::new();
    let before = scene.outside();
    let prepared = scene.path("back");
    fs::create_dir_all(prepared.join("staging")).unwrap();
    symlink(scene.path("outside/precious"), prepared.join("staging/store.json")).unwrap();
    Store::create(&prepared, Store::open(&scene.path("store")).unwrap().settings()).unwrap();
    assert_eq!(scene.outside(), before);
    assert_eq!(fs::read(scene.path("outside/precious")).unwrap(), b"precious");
    assert!(prepared.join("store.json").symlink_metadata().unwrap().is_file());
}

#[test]
fn snapshot_larger_than_free_space_is_refused() {
    use senesce_core::failure::{Classify, ExitCode};
    let scene = Scene::new();
    let EntryKind::File { size, objects, .. } = scene.file.clone() else { panic!("it is a file") };
    let back = scene.path("back");
    let check_out = |entries: &[SnapshotEntry]| {
        fs::write(scene.path("store/snapshots/000001"), encode(&scene.header, entries)).unwrap();
        let store = Store::open(&scene.path("store")).unwrap();
        checkout(&store, None, &back, CheckoutOptions::default(), &Silent, &Interrupt::new())
    };
    let huge = EntryKind::File { size: u64::MAX / 2, objects: objects.clone(), holes: Vec::new(), changed: false };
    let entries = ["a", "b", "c", "d"].map(|name| scene.entry(name, huge.clone()));
    assert_eq!(check_out(&entries).unwrap_err().exit_code(), ExitCode::Missing);
    assert_eq!(fs::read_dir(&back).unwrap().count(), 0);
    // Longer than declared: nothing is written beyond, and nothing of it is left.
    let repeated = EntryKind::File { size, objects: objects.repeat(1000), holes: Vec::new(), changed: false };
    let report = check_out(&[scene.entry("a", repeated), scene.entry("b", scene.file.clone())]).unwrap();
    assert_eq!((report.files, report.lost.len()), (1, 1));
    assert!(!back.join("a").exists() && back.join("b").exists());
}
