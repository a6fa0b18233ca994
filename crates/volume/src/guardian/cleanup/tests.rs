use super::*;
use std::os::unix::fs::symlink;

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("place");
    (directory, path)
}

#[test]
fn tree_is_removed_and_its_replacement_stays() {
    let directory = tempfile::tempdir().unwrap();
    let (path, precious) = (directory.path().join("tree"), directory.path().join("precious"));
    fs::create_dir_all(path.join("a/b")).unwrap();
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("thesis"), "precious").unwrap();
    symlink(&precious, path.join("a/link")).unwrap();
    let owed = Cleanup::Tree { path: path.clone() };
    assert!(owed.undo().unwrap());
    assert!(!path.exists() && precious.join("thesis").exists(), "links are not followed");
    assert!(!owed.undo().unwrap());
    symlink(&precious, &path).unwrap();
    assert!(!owed.undo().unwrap(), "a link has its name");
    assert!(precious.join("thesis").exists());
}

#[test]
fn tree_stays_if_mount_table_is_unreadable() {
    let (_directory, path) = place();
    fs::create_dir_all(path.join("maybe-mounted")).unwrap();
    let error = remove_tree(&path, || Err(Errno::MFILE.into())).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    assert!(path.join("maybe-mounted").exists());
    assert!(remove_tree(&path, || Ok(Vec::new())).unwrap());
}

#[test]
#[ignore = "needs root"]
fn directory_of_another_user_stays() {
    let (_directory, path) = place();
    fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
    assert!(!Cleanup::Tree { path: path.clone() }.undo().unwrap());
    assert!(path.exists());
}

#[test]
fn value_is_restored_unless_changed_meanwhile() {
    let (_directory, path) = place();
    let owed = Cleanup::Value { path: path.clone(), value: "bfq".into(), ours: Some("none".into()) };
    assert!(!owed.undo().unwrap(), "the device is gone");
    fs::write(&path, "[none] bfq\n").unwrap();
    assert!(owed.undo().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "bfq");
    fs::write(&path, "kyber\n").unwrap();
    assert!(!owed.undo().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "kyber\n");
}

#[test]
fn process_is_killed_but_not_one_with_reused_number() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let (_, start_ticks) = stat_of(child.id()).unwrap();
    let other = Cleanup::Process { process: child.id(), start_ticks: start_ticks + 1 };
    assert!(!other.undo().unwrap());
    assert!(child.try_wait().unwrap().is_none());
    assert!(Cleanup::Process { process: child.id(), start_ticks }.undo().unwrap());
    assert!(!child.wait().unwrap().success());
}

#[test]
fn entries_round_trip() {
    let owed = Cleanup::Value { path: "/sys/x".into(), value: "1".into(), ours: None };
    let text = serde_json::to_string(&owed).unwrap();
    assert_eq!(serde_json::from_str::<Cleanup>(&text).unwrap(), owed);
    assert!(serde_json::from_str::<Cleanup>(r#"{"kind":"tree","path":"/x","force":true}"#).is_err());
}
