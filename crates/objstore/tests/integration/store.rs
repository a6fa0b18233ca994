//! A store from commit to checkout, intact and damaged.

use crate::common::{LAYOUTS, Scene};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_objstore::store::checkout::{CheckoutOptions, checkout};
use senesce_objstore::store::commit::{CommitOptions, commit};
use senesce_objstore::store::stats::stats;
use senesce_objstore::{HashAlgorithm, Layout, Store, StoreError, StoreSettings};
use senesce_sys::lock::Locked;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An empty store next to a tree of files.
fn scene(scheme: &str, hash: HashAlgorithm) -> Scene {
    let settings = StoreSettings { hash, chunker: "fastcdc:4K".parse().unwrap(), scheme: scheme.parse().unwrap() };
    let scene = Scene { threads: 2, ..Scene::with(settings) };
    tree(&scene.work());
    scene
}

/// 200 small files, one of 300 KB, an empty one, a link, an odd name, two equal files, an empty directory.
fn tree(root: &Path) {
    use rand::RngExt;
    let mut random = senesce_core::Seed(7).stream("objstore/test-tree");
    for number in 0..200 {
        let folder = root.join(format!("d{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        let data: Vec<u8> = (0..number * 13 % 3000).map(|_| random.random()).collect();
        fs::write(folder.join(format!("f{number}")), data).unwrap();
    }
    let big: Vec<u8> = (0..300_000).map(|_| random.random()).collect();
    fs::write(root.join("big"), &big).unwrap();
    fs::write(root.join("d1/copy of big"), &big).unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("big", root.join("link")).unwrap();
    fs::create_dir(root.join("nothing here")).unwrap();
    fs::write(root.join(std::ffi::OsStr::new("100%\n")), "odd").unwrap();
}

/// Everything that a checkout must restore: content, mode and time, by path.
fn facts(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let (path, data) = (entry.path(), entry.metadata().unwrap());
            let content = if data.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if data.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            let relative = path.strip_prefix(root).unwrap().to_path_buf();
            found.insert(relative, (content, data.mode(), data.mtime(), data.mtime_nsec()));
        }
    }
    found
}

fn modes(root: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = vec![(root.to_path_buf(), root.metadata().unwrap().mode() & 0o7777)];
    for entry in fs::read_dir(root).unwrap().flatten() {
        let data = entry.path().symlink_metadata().unwrap();
        match data.is_dir() {
            true => found.extend(modes(&entry.path())),
            false => found.push((entry.path(), data.mode() & 0o7777)),
        }
    }
    found
}

#[test]
fn store_is_private() {
    for layout in LAYOUTS {
        let scene = scene("2x1", HashAlgorithm::Blake3);
        // A private file: its mode is independent of the modes of the store's files.
        fs::set_permissions(scene.work().join("big"), fs::Permissions::from_mode(0o600)).unwrap();
        scene.commit(layout);
        let open = modes(&scene.place()).into_iter().filter(|(_, mode)| mode & 0o077 != 0).collect::<Vec<_>>();
        assert!(open.is_empty(), "{open:?}");
        scene.check_out(None);
        assert_eq!(scene.path("back").metadata().unwrap().mode() & 0o7777, 0o700);
    }
}

#[test]
fn committed_files_are_restored_and_stored_once() {
    for (layout, scheme, hash) in [
        (Layout::Loose, "2x1", HashAlgorithm::Sha1),
        (Layout::Loose, "1x3", HashAlgorithm::Blake3),
        (Layout::Loose, "0x0", HashAlgorithm::Sha1),
        (Layout::Loose, "4x10", HashAlgorithm::Sha1),
        (Layout::Pack, "2x1", HashAlgorithm::Blake3),
        (Layout::Pack, "2x1", HashAlgorithm::Sha1),
    ] {
        let scene = scene(scheme, hash);
        let first = scene.commit(layout);
        assert_eq!((first.snapshot, first.files), (1, 204));
        assert_eq!(first.objects, first.new_objects);
        assert!(first.new_bytes + 300_000 <= first.bytes, "the copy is stored once: {first:?}");
        let second = scene.commit(layout);
        assert_eq!((second.snapshot, second.new_objects, second.objects), (2, 0, first.objects));
        fs::write(scene.work().join("d2/f2"), "edited").unwrap();
        let other = if layout == Layout::Pack { Layout::Loose } else { Layout::Pack };
        assert_eq!(scene.commit(other).new_objects, 1, "an edit in the other layout");

        let report = scene.verify();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!((report.objects, report.snapshots), (first.objects + 1, 3));
        assert_eq!(scene.check_out(None).lost, []);
        assert_eq!(facts(&scene.path("back")), facts(&scene.work()), "{layout:?} {scheme}");
        let counts = stats(&scene.store()).unwrap();
        assert_eq!((counts.objects, counts.snapshots), (first.objects + 1, 3));
    }
}

/// Damages every object file (or the pack) in turn, in three ways.
#[test]
fn damage_is_reported_and_the_rest_is_restored() {
    for layout in LAYOUTS {
        for damage in ["flip", "truncate", "remove"] {
            let scene = scene("2x1", HashAlgorithm::Blake3);
            scene.commit(layout);
            let files = scene.files(if layout == Layout::Pack { "packs" } else { "objects" });
            let victim = files.into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
            let mut bytes = fs::read(&victim).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::remove_file(&victim).unwrap();
            match damage {
                "flip" => fs::write(&victim, &bytes).unwrap(),
                "truncate" => fs::write(&victim, &bytes[..middle]).unwrap(),
                _ => {}
            }
            let report = scene.verify();
            assert!(!report.is_sound(), "{layout:?} {damage}");
            assert!(!report.affected_files.is_empty());
            if damage == "flip" {
                assert_eq!(report.damaged.len(), 1);
                assert!(report.damaged[0].place.contains(victim.file_name().unwrap().to_str().unwrap()));
            }
            let out = scene.check_out(None);
            let mut lost: Vec<&str> = out.lost.iter().map(|lost| lost.path.as_str()).collect();
            let mut expected: Vec<&str> = report.affected_files.iter().map(|file| file.path.as_str()).collect();
            let (whole, returned) = (facts(&scene.work()), facts(&scene.path("back")));
            for (path, fact) in &returned {
                assert_eq!(&whole[path], fact, "{path:?}");
            }
            assert_eq!(returned.len() + lost.len(), whole.len());
            lost.sort_unstable();
            expected.sort_unstable();
            assert_eq!(lost, expected);
            // A new commit of the same tree heals the store, unless a damaged object looks intact from outside.
            if damage != "flip" {
                scene.commit(layout);
                let report = scene.verify();
                assert!(report.affected_files.is_empty() && report.missing.is_empty(), "{layout:?} {damage}");
            }
        }
    }
}

#[test]
fn foreign_folders_are_refused() {
    let scene = Scene::with(StoreSettings::default());
    fs::write(scene.work().join("thesis.txt"), "precious").unwrap();
    assert!(matches!(Store::create(&scene.work(), StoreSettings::default()), Err(StoreError::Foreign(_))));
    assert!(matches!(Store::open(&scene.work()), Err(StoreError::NotAStore { .. })));
    let out = |to: &Path| {
        checkout(&scene.store(), None, to, CheckoutOptions::default(), &Silent, &Interrupt::new()).map(drop)
    };
    assert!(matches!(out(&scene.path("back")), Err(StoreError::NoSnapshot { .. })));
    let options = CommitOptions { layout: Layout::Pack, threads: 1, log_slower_than: None };
    let file = scene.work().join("thesis.txt");
    let file = commit(&mut scene.store(), &file, &options, &Silent, &Interrupt::new());
    assert!(matches!(file, Err(StoreError::NoSource(_))));
    scene.commit(Layout::Pack);
    assert!(matches!(out(&scene.work()), Err(StoreError::DestinationNotEmpty(_))));
}

#[test]
fn store_inside_of_its_source_is_not_committed() {
    let scene = Scene::with(StoreSettings::default());
    fs::write(scene.path("file"), "content").unwrap();
    for _ in 0..2 {
        assert_eq!(scene.commit_of(&scene.path("."), Layout::Loose).unwrap().files, 1);
    }
}

#[test]
fn concurrent_commit_is_refused_and_leaves_no_snapshot() {
    let scene = scene("2x1", HashAlgorithm::Blake3);
    let file = fs::File::create(scene.place().join("lock")).unwrap();
    let holder = Locked::within(file, Duration::ZERO).unwrap().unwrap();
    assert!(matches!(scene.commit_of(&scene.work(), Layout::Loose), Err(StoreError::InUse(_))));
    drop(holder);
    assert_eq!(scene.store().snapshot_numbers().unwrap(), Vec::<u64>::new());
    assert_eq!(scene.commit(Layout::Loose).snapshot, 1);
}

#[test]
fn slow_objects_are_listed() {
    let scene = scene("2x1", HashAlgorithm::Blake3);
    let limit = Some(Duration::ZERO);
    let options = CommitOptions { layout: Layout::Loose, threads: 2, log_slower_than: limit };
    let report = commit(&mut scene.store(), &scene.work(), &options, &Silent, &Interrupt::new()).unwrap();
    assert_eq!(report.slow_objects.len() as u64, report.new_objects);
    assert!(report.slow_objects.windows(2).all(|pair| pair[0].at_seconds <= pair[1].at_seconds));
}

#[test]
#[ignore = "needs root"]
fn folder_of_another_user_is_refused_as_destination() {
    let scene = scene("2x1", HashAlgorithm::Blake3);
    scene.commit(Layout::Pack);
    let (store, shared) = (scene.store(), scene.path("shared"));
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let to = |name: &str, owner: u32| {
        let planted = shared.join(name);
        fs::create_dir(&planted).unwrap();
        std::os::unix::fs::chown(&planted, Some(owner), None).unwrap();
        planted
    };
    let out = |to: &Path| checkout(&store, None, to, CheckoutOptions::default(), &Silent, &Interrupt::new()).map(drop);
    let planted = to("planted", 1234);
    assert!(out(&planted).unwrap_err().to_string().contains("belongs to user 1234"));
    assert_eq!(fs::read_dir(&planted).unwrap().count(), 0);
    assert!(Store::create(&planted, StoreSettings::default()).is_err());
    out(&to("own", 0)).unwrap();
}
