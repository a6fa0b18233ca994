//! Files that another user placed next to a user's images and snapshots: they are neither trusted nor written.

use crate::common::{attach, existing, image as image_spec, image_path, in_memory, refused, temporary_directory};
use senesce_volume::snapshot::{Method, Snapshots, Verify};
use senesce_volume::{OpenOptions, TargetSpec, open};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

const SIZE: usize = 4 << 20;
const STRANGER: u32 = 1234;

struct Scene {
    directory: tempfile::TempDir,
    spec: TargetSpec,
}

impl Scene {
    fn new() -> Self {
        let (directory, path) = image_path();
        fs::write(&path, vec![1; SIZE]).unwrap();
        let scene = Self { directory, spec: existing(&path) };
        scene.snapshots().create("one", Method::Copy).unwrap();
        fs::write(scene.path("a.img"), vec![9; SIZE]).unwrap();
        fs::write(scene.folder().join("journal"), "one").unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn folder(&self) -> PathBuf {
        self.path("a.img.snapshots")
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::of(&self.spec, None).unwrap()
    }

    fn is_untouched(&self) -> bool {
        fs::read(self.path("a.img")).unwrap() == vec![9; SIZE] && self.folder().join("journal").exists()
    }
}

#[test]
fn listing_snapshots_completes_no_restore() {
    let scene = Scene::new();
    fs::write(scene.folder().join("\u{1b}[31m.json"), "{}").unwrap();
    assert_eq!(scene.snapshots().names(), ["one"]);
    assert!(scene.is_untouched());
    refused(scene.snapshots().create("two", Method::Copy), "was interrupted");
    refused(scene.snapshots().run_and_rollback("one", "", Verify::Auto, |_| Ok(())), "senesce snapshot restore");
    assert!(scene.is_untouched());
    let report = scene.snapshots().rollback("one", false).unwrap();
    assert!(report.verified && report.note.unwrap().contains("was completed"));
    assert!(!scene.folder().join("journal").exists());
}

#[test]
fn restore_of_another_snapshot_replaces_an_interrupted_one() {
    let scene = Scene::new();
    fs::remove_file(scene.folder().join("journal")).unwrap();
    scene.snapshots().create("nine", Method::Copy).unwrap();
    fs::write(scene.path("a.img"), vec![5; SIZE]).unwrap();
    fs::write(scene.folder().join("journal"), "one").unwrap();
    let report = scene.snapshots().rollback("nine", false).unwrap();
    assert!(report.note.unwrap().contains("a restore of one had been interrupted"));
    assert_eq!(fs::read(scene.path("a.img")).unwrap(), vec![9; SIZE]);
    assert!(!scene.folder().join("journal").exists());
}

#[test]
fn world_writable_snapshot_folder_is_refused() {
    let scene = Scene::new();
    for mode in [0o777, 0o1777, 0o703] {
        fs::set_permissions(scene.folder(), Permissions::from_mode(mode)).unwrap();
        refused(scene.snapshots().rollback("one", false), "all users may write there");
        refused(scene.snapshots().create("two", Method::Copy), "all users may write there");
        refused(scene.snapshots().run_and_rollback("one", "", Verify::Auto, |_| Ok(())), "all users");
    }
    assert_eq!(scene.snapshots().names(), ["one"]);
    assert!(scene.is_untouched());
}

#[test]
#[ignore = "needs root"]
fn snapshot_folder_of_another_user_is_refused() {
    let scene = Scene::new();
    chown(scene.folder(), Some(STRANGER), None).unwrap();
    refused(scene.snapshots().rollback("one", false), "belongs to user 1234");
    chown(scene.folder(), Some(0), Some(STRANGER)).unwrap();
    fs::set_permissions(scene.folder(), Permissions::from_mode(0o770)).unwrap();
    refused(scene.snapshots().rollback("one", false), "group 1234 may write there");
    // By a link of theirs to a folder of ours.
    fs::set_permissions(scene.folder(), Permissions::from_mode(0o700)).unwrap();
    fs::rename(scene.folder(), scene.path("elsewhere")).unwrap();
    symlink(scene.path("elsewhere"), scene.folder()).unwrap();
    std::os::unix::fs::lchown(scene.folder(), Some(STRANGER), None).unwrap();
    refused(Snapshots::of(&scene.spec, None), "link of user 1234 to a directory of user 0");
    assert!(scene.is_untouched());
    // The owner of the image may change it anyway.
    chown(scene.path("elsewhere"), Some(STRANGER), None).unwrap();
    for path in [scene.directory.path(), &scene.path("a.img")] {
        chown(path, Some(STRANGER), None).unwrap();
    }
    assert!(scene.snapshots().rollback("one", false).unwrap().verified);
}

fn shared(directory: &Path) -> PathBuf {
    let shared = directory.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    shared
}

#[test]
#[ignore = "needs root, loop devices"]
fn image_planted_by_another_user_is_not_written() {
    let directory = temporary_directory();
    let shared = shared(directory.path());
    let path = shared.join("a.img");
    let make = || open(&image_spec(&path, "64M"), &OpenOptions { erase: None, ..OpenOptions::default() }).map(drop);
    fs::write(&path, "").unwrap();
    chown(&path, Some(STRANGER), None).unwrap();
    refused(make(), "belongs to user 1234");
    refused(open(&image_spec(&path, "64M"), &in_memory()), "belongs to user 1234");
    fs::remove_file(&path).unwrap();
    fs::write(shared.join("other"), "").unwrap();
    fs::hard_link(shared.join("other"), &path).unwrap();
    refused(make(), "several names");
    fs::remove_file(&path).unwrap();
    // A link of theirs, to a file of root's. The kernel may refuse to follow it too (fs.protected_symlinks).
    fs::write(directory.path().join("precious"), "").unwrap();
    symlink(directory.path().join("precious"), &path).unwrap();
    std::os::unix::fs::lchown(&path, Some(STRANGER), None).unwrap();
    assert!(make().is_err());
    assert_eq!(fs::metadata(directory.path().join("precious")).unwrap().len(), 0);
    fs::remove_file(&path).unwrap();
    make().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 64 << 20, "an own one may lie there");
}

#[test]
#[ignore = "needs root"]
fn image_replaced_by_another_user_is_not_restored() {
    let scene = Scene::new();
    fs::set_permissions(scene.directory.path(), Permissions::from_mode(0o1777)).unwrap();
    chown(scene.path("a.img"), Some(STRANGER), None).unwrap();
    refused(Snapshots::of(&scene.spec, None), "belongs to user 1234");
    assert!(scene.is_untouched());
}

#[test]
fn links_in_snapshot_folder_are_not_followed() {
    let scene = Scene::new();
    fs::remove_file(scene.folder().join("journal")).unwrap();
    let secret = scene.path("secret");
    fs::write(&secret, vec![7; SIZE]).unwrap();
    for name in ["one.img", "one.json"] {
        let (own, kept) = (scene.folder().join(name), scene.path("kept"));
        fs::rename(&own, &kept).unwrap();
        symlink(if name == "one.img" { &secret } else { &kept }, &own).unwrap();
        let error = scene.snapshots().rollback("one", true).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{name}: {error}");
        assert_eq!(fs::read(scene.path("a.img")).unwrap(), vec![9; SIZE]);
        fs::remove_file(&own).unwrap();
        fs::rename(&kept, &own).unwrap();
    }
    assert!(scene.snapshots().rollback("one", true).unwrap().verified);
}

#[test]
#[ignore = "needs root, loop devices"]
fn copy_through_link_of_another_user_is_refused() {
    let directory = temporary_directory();
    let at = |name: &str| directory.path().join(name);
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
    fs::write(at("a.img"), vec![1; SIZE]).unwrap();
    fs::write(at("blank"), vec![0; SIZE]).unwrap();
    let stick = attach(&at("blank"));
    symlink(stick.path(), at("copy.img")).unwrap();
    std::os::unix::fs::lchown(at("copy.img"), Some(STRANGER), None).unwrap();
    use senesce_volume::images::{Extent, copy};
    refused(copy(&at("a.img"), &at("copy.img"), Extent::Used, None), "the link");
    drop(stick);
    assert_eq!(fs::read(at("blank")).unwrap(), vec![0; SIZE]);
}

#[test]
#[ignore = "needs root, loop devices"]
fn image_behind_link_of_another_user_is_refused() {
    let directory = temporary_directory();
    let at = |name: &str| directory.path().join(name);
    let make = |path: &Path| open(&image_spec(path, "64M"), &OpenOptions::default()).map(drop);
    let give = |path: &Path, user| std::os::unix::fs::lchown(path, Some(user), None).unwrap();
    [at("theirs"), at("ours")].iter().for_each(|path| fs::create_dir(path).unwrap());
    symlink(at("ours"), at("theirs/images")).unwrap();
    symlink(at("ours/old.img"), at("theirs/a.img")).unwrap();
    [at("theirs"), at("theirs/images"), at("theirs/a.img")].iter().for_each(|path| give(path, STRANGER));
    fs::write(at("ours/old.img"), "").unwrap();
    for path in ["theirs/images/new.img", "theirs/images/old.img", "theirs/a.img"] {
        refused(make(&at(path)), "user 1234 to a file of user 0");
    }
    let found: Vec<_> = fs::read_dir(at("ours")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((found, fs::metadata(at("ours/old.img")).unwrap().len()), (vec!["old.img".into()], 0));
    // A link of theirs to a file of theirs in their folder.
    fs::write(at("theirs/own.img"), "").unwrap();
    fs::remove_file(at("theirs/a.img")).unwrap();
    symlink("own.img", at("theirs/a.img")).unwrap();
    [at("theirs/own.img"), at("theirs/a.img")].iter().for_each(|path| give(path, STRANGER));
    make(&at("theirs/a.img")).unwrap();
    assert_eq!(fs::metadata(at("theirs/own.img")).unwrap().len(), 64 << 20);
}
