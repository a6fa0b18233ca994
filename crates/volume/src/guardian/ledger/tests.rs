use super::*;
use crate::guardian::boots::outlives_a_boot;

fn ledger() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = Owner::of(child.id());
    child.wait().unwrap();
    let folder = |owner: &Owner| directory.path().join("owners").join(owner.to_string());
    fs::create_dir(directory.path().join("owners")).unwrap();
    let (dead, living) = (folder(&dead), folder(&Owner::current()));
    (directory, dead, living)
}

fn tree(path: &Path) -> Cleanup {
    fs::create_dir_all(path.join("content")).unwrap();
    Cleanup::Tree { path: path.into() }
}

#[test]
fn sweep_undoes_ended_processes_in_reverse_and_spares_running_ones() {
    let (directory, dead, living) = ledger();
    let path = |name: &str| directory.path().join(name);
    // A value in a tree is restored before the tree goes.
    LedgerEntry::write_in(&dead, 0, tree(&path("tree"))).unwrap();
    let file = path("tree/value");
    fs::write(&file, "ours").unwrap();
    let value = Cleanup::Value { path: file, value: "before".into(), ours: Some("ours".into()) };
    LedgerEntry::write_in(&dead, 1, value).unwrap();
    LedgerEntry::write_in(&living, 0, tree(&path("live"))).unwrap();
    let found = sweep(&path("owners"));
    let outcomes: Vec<_> = found.iter().map(|one| &one.outcome).collect();
    assert_eq!(outcomes, [&Outcome::Undone, &Outcome::Undone], "{found:?}");
    assert!(found[0].what.starts_with("setting"), "{found:?}");
    assert!(!path("tree").exists() && path("live/content").exists());
    assert!(!dead.exists() && living.exists());
    assert_eq!(sweep(&path("owners")), []);
    assert_eq!(of_the_living(&path("owners")).len(), 1);
}

#[test]
fn first_sweep_cleans_up_after_just_killed_process() {
    for round in 0..30 {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("owners")).unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let folder = directory.path().join("owners").join(Owner::of(child.id()).to_string());
        LedgerEntry::write_in(&folder, 0, tree(&directory.path().join("tree"))).unwrap();
        child.kill().unwrap();
        let found = sweep(&directory.path().join("owners"));
        child.wait().unwrap();
        assert!(matches!(found[..], [SweptLeftover { outcome: Outcome::Undone, .. }]), "round {round}: {found:?}");
    }
}

#[test]
fn torn_entry_is_dropped_and_failed_clean_up_stays_recorded() {
    let (directory, dead, _) = ledger();
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("00000000"), "{\"kind\":\"tr").unwrap();
    let busy = directory.path().join("busy");
    fs::create_dir_all(busy.join("file")).unwrap();
    LedgerEntry::write_in(&dead, 1, Cleanup::Directory { path: busy.clone() }).unwrap();
    let found = sweep(&directory.path().join("owners"));
    assert!(matches!(found[..], [SweptLeftover { outcome: Outcome::Failed(_), .. }]), "{found:?}");
    assert_eq!(fs::read_dir(&dead).unwrap().count(), 1);
    fs::remove_dir(busy.join("file")).unwrap();
    assert_eq!(sweep(&directory.path().join("owners"))[0].outcome, Outcome::Undone);
    assert!(!dead.exists() && !busy.exists());
}

#[test]
fn newer_entry_stays_and_unwritable_path_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let (directory, dead, _) = ledger();
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("00000000"), r#"{"kind":"of-tomorrow","path":"/x"}"#).unwrap();
    let found = sweep(&directory.path().join("owners"));
    assert!(matches!(found[..], [SweptLeftover { outcome: Outcome::Failed(_), .. }]), "{found:?}");
    assert!(dead.join("00000000").exists());
    let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xff".to_vec()));
    assert!(LedgerEntry::write_in(&dead, 1, Cleanup::Tree { path: odd }).is_err());
    assert!(!dead.join("00000001").exists());
}

fn of_another_boot(parent: &Path, is_older: bool) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir_in(parent).unwrap();
    let path = |name: &str| directory.path().join(name);
    let before = path("owners").join(Owner::current().of_another_boot().to_string());
    fs::create_dir(path("owners")).unwrap();
    fs::write(path("setting"), "new").unwrap();
    LedgerEntry::write_in(&before, 0, Cleanup::Value { path: path("setting"), value: "old".into(), ours: None })
        .unwrap();
    LedgerEntry::write_in(&before, 1, tree(&path("tree"))).unwrap();
    if is_older {
        let old = std::time::SystemTime::now() - senesce_sys::clock::since_boot() - Duration::from_secs(60);
        for path in [path("tree"), path("tree/content"), before.join("00000000"), before.join("00000001")] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
    }
    let tree = path("tree");
    (directory, before, tree)
}

#[test]
fn entries_of_another_kernel_since_boot_stay() {
    for parent in [env!("CARGO_MANIFEST_DIR"), "/dev/shm"] {
        let (directory, ledger, tree) = of_another_boot(Path::new(parent), false);
        let found = sweep(&directory.path().join("owners"));
        let untouched = |one: &SweptLeftover| one.outcome == Outcome::OtherKernel;
        assert!(found.len() == 2 && found.iter().all(untouched), "{found:?}");
        assert!(tree.exists() && fs::read_dir(ledger).unwrap().count() == 2);
    }
    // In memory nothing is older than the boot, whatever its time stamp says.
    let (directory, _, tree) = of_another_boot(Path::new("/dev/shm"), true);
    sweep(&directory.path().join("owners"));
    assert!(tree.exists());
}

#[test]
fn earlier_boot_leaves_only_directories() {
    let (directory, ledger, tree) = of_another_boot(Path::new(env!("CARGO_MANIFEST_DIR")), true);
    let found = sweep(&directory.path().join("owners"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(fs::read_to_string(directory.path().join("setting")).unwrap(), "new");
    let is_removed = outlives_a_boot(directory.path());
    assert_eq!((!tree.exists(), !ledger.exists()), (is_removed, is_removed));
}

#[test]
#[ignore = "needs root"]
fn mount_is_undone_in_its_own_namespace() {
    let (directory, dead, _) = ledger();
    let point = directory.path().join("point");
    fs::create_dir(&point).unwrap();
    let mut child = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", "mount -t tmpfs none \"$0\" && echo ok; cat"])
        .arg(&point)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut [0; 3]).unwrap();
    let other = std::os::unix::fs::MetadataExt::ino(&fs::metadata(format!("/proc/{}/ns/mnt", child.id())).unwrap());
    let entry = LedgerEntry::write_in(&dead, 0, Cleanup::Mount { point: point.clone() }).unwrap();
    let mut value: Value = serde_json::from_slice(&fs::read(&entry.path).unwrap()).unwrap();
    value[NAMESPACE] = other.into();
    fs::write(&entry.path, value.to_string()).unwrap();
    let mounts = || fs::read_to_string(format!("/proc/{}/mounts", child.id())).unwrap();
    assert!(mounts().contains(point.to_str().unwrap()));
    let found = sweep(&directory.path().join("owners"));
    assert_eq!(found[0].outcome, Outcome::Undone, "{found:?}");
    assert!(!mounts().contains(point.to_str().unwrap()), "{}", mounts());
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn a_mount_is_left_only_when_its_owner_has_ended() {
    let (directory, dead, living) = ledger();
    let left = |name: &str| is_left_mount(&directory.path().join("owners"), Path::new(name));
    LedgerEntry::write_in(&dead, 0, Cleanup::Mount { point: "/mnt/dead".into() }).unwrap();
    LedgerEntry::write_in(&living, 0, Cleanup::Mount { point: "/mnt/live".into() }).unwrap();
    assert!(left("/mnt/dead"));
    assert!(left("/mnt/dead/fs"), "on a directory in it");
    assert!(!left("/mnt/live"), "its run continues");
    assert!(!left("/mnt/unknown"), "nobody wrote it down");
    LedgerEntry::write_in(&living, 1, Cleanup::Mount { point: "/mnt/dead".into() }).unwrap();
    assert!(!left("/mnt/dead"), "another process has the point too");
}

#[test]
fn folder_is_removed_with_its_last_entry() {
    let (_directory, _, living) = ledger();
    let one = LedgerEntry::write_in(&living, 0, Cleanup::Mapping { name: "x".into() }).unwrap();
    let two = LedgerEntry::write_in(&living, 1, Cleanup::Mapping { name: "y".into() }).unwrap();
    one.strike_out();
    assert!(living.exists());
    two.strike_out();
    assert!(!living.exists());
}
