use super::*;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};

const STRANGER: u32 = 65534;

fn same(folder: &Folder, path: &Path) -> bool {
    let (found, there) = (rustix::fs::fstat(folder).unwrap(), fs::metadata(path).unwrap());
    (found.st_dev, found.st_ino) == (there.dev(), there.ino())
}

/// Creates two folders, and another user's link in the first to the second; `None` if file ownership cannot be
/// changed.
fn scene() -> Option<(tempfile::TempDir, PathBuf, PathBuf)> {
    let room = tempfile::tempdir().unwrap();
    let (theirs, ours) = (room.path().join("theirs"), room.path().join("ours"));
    [&theirs, &ours].iter().for_each(|path| fs::create_dir(path).unwrap());
    symlink(&ours, theirs.join("link")).unwrap();
    let given = [&theirs, &theirs.join("link")]
        .iter()
        .try_for_each(|path| std::os::unix::fs::lchown(path, Some(STRANGER), Some(STRANGER)));
    match rustix::process::geteuid().is_root() && given.is_ok() {
        true => Some((room, theirs, ours)),
        false => {
            eprintln!("files cannot be given away here");
            None
        }
    }
}

#[test]
fn file_that_lost_its_name_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (folder, name) = Folder::of(&directory.path().join("image")).unwrap();
    let file = folder.create_new(&name, 0o600).unwrap();
    fs::write(directory.path().join("other"), "of another program").unwrap();
    fs::rename(directory.path().join("other"), directory.path().join("image")).unwrap();
    folder.remove_same(&name, &file).unwrap();
    assert_eq!(fs::read(directory.path().join("image")).unwrap(), b"of another program");
    let other = fs::File::open(directory.path().join("image")).unwrap();
    folder.remove_same(&name, &other).unwrap();
    assert!(!directory.path().join("image").exists());
}

#[test]
fn trusted_links_are_followed() {
    for (who, owner, behind) in [((0, 0), 0, 1000), ((0, 1000), 1000, 0), ((0, 0), 1000, 1000), ((1000, 1000), 7, 8)] {
        assert!(is_followed(who, owner, behind), "{who:?} {owner} {behind}");
    }
    for (who, owner, behind) in [((0, 0), 1000, 0), ((0, 0), 1000, 2000), ((0, 2000), 1000, 2000)] {
        assert!(!is_followed(who, owner, behind), "{who:?} {owner} {behind}");
    }
}

#[test]
fn paths_resolve_as_in_the_kernel() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/file"), "").unwrap();
    symlink("b", at("a/near")).unwrap();
    symlink(at("a/near"), at("far")).unwrap();
    symlink("../a/b/..", at("a/up")).unwrap();
    symlink("round", at("round")).unwrap();
    let held = fs::File::open(at("a")).unwrap();
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    for path in [at("a/b"), at("a/./b/../near/"), at("far/../b"), at("a/up/b"), by_descriptor.join("b")] {
        assert!(same(&Folder::open(&path).unwrap(), &at("a/b")), "{}", path.display());
    }
    for path in [".", "..", "/", "/proc/self/cwd", "/dev/.."] {
        assert!(same(&Folder::open(Path::new(path)).unwrap(), Path::new(path)), "{path}");
    }
    for path in [at("none"), at("a/file"), at("a/file/x"), at("round"), at("none/../a"), PathBuf::new()] {
        let expected = fs::read_dir(&path).unwrap_err().raw_os_error();
        assert_eq!(Folder::open(&path).unwrap_err().raw_os_error(), expected, "{}", path.display());
    }
}

#[test]
fn missing_folders_are_created_but_not_behind_dangling_links() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    assert!(same(&Folder::make(&at("a/b/c")).unwrap(), &at("a/b/c")));
    symlink(at("nowhere"), at("dangling")).unwrap();
    symlink(at("a"), at("link")).unwrap();
    assert!(Folder::make(&at("dangling/x")).is_err() && Folder::make(&at("dangling")).is_err());
    assert!(!at("nowhere").exists());
    assert!(same(&Folder::make(&at("link/new")).unwrap(), &at("a/new")));
}

#[test]
fn names_that_cannot_be_files_are_errors() {
    let room = tempfile::tempdir().unwrap();
    let (folder, name) = Folder::of(&room.path().join("out")).unwrap();
    assert!(same(&folder, room.path()) && name == "out");
    assert!(same(&Folder::of(Path::new("out")).unwrap().0, Path::new(".")));
    for path in ["/", "..", ".", "a/", "a/..", "a/."] {
        assert_eq!(Folder::of(Path::new(path)).unwrap_err().raw_os_error(), Some(21), "{path}");
    }
    assert_eq!(Folder::of(Path::new("")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn root_does_not_follow_links_that_gain_access() {
    let Some((_room, theirs, ours)) = scene() else { return };
    for path in [theirs.join("link"), theirs.join("link/sub"), theirs.join("../theirs/link/x/y")] {
        for opened in [Folder::open(&path), Folder::make(&path)] {
            let error = opened.unwrap_err();
            let found = UntrustedLink::in_error(&error).expect("it is the link");
            assert_eq!((found.owner, found.behind), (STRANGER, 0), "{error}");
            assert!(found.link.ends_with("theirs/link"), "{error}");
        }
    }
    assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
    // Also not if a link of root leads through one of theirs.
    symlink(theirs.join("link"), ours.join("by")).unwrap();
    assert!(UntrustedLink::in_error(&Folder::open(&ours.join("by")).unwrap_err()).is_some());
    // Their own target they could write to anyway.
    std::os::unix::fs::chown(&ours, Some(STRANGER), None).unwrap();
    assert!(same(&Folder::make(&theirs.join("link/new")).unwrap(), &ours.join("new")));
    std::os::unix::fs::chown(&ours, Some(0), None).unwrap();
    std::os::unix::fs::lchown(theirs.join("link"), Some(0), None).unwrap();
    assert!(same(&Folder::open(&theirs.join("link")).unwrap(), &ours));
}

#[test]
fn only_new_folders_in_folders_of_the_caller_are_given_to_the_caller() {
    let Some((_room, theirs, ours)) = scene() else { return };
    let make = |path: &Path| {
        let caller = Some(Caller { user: STRANGER, group: STRANGER });
        Walk { links: 0, makes: true, caller }.begin(path).unwrap();
        fs::metadata(path).unwrap().uid()
    };
    fs::create_dir(theirs.join("old")).unwrap();
    assert_eq!([make(&theirs.join("new/one")), make(&theirs.join("new"))], [STRANGER; 2]);
    assert_eq!([make(&ours.join("new")), make(&theirs.join("old"))], [0, 0]);
    // Folders that the caller put in the place of the new one.
    let opened = |path: &Path| Folder::open(path).unwrap().0;
    let caller = Caller { user: STRANGER, group: STRANGER };
    fs::create_dir_all(theirs.join("full/inner")).unwrap();
    caller.own(&opened(&theirs), &opened(&theirs.join("full"))).unwrap();
    caller.own(&opened(&theirs), &opened(Path::new("/proc"))).unwrap();
    assert_eq!(fs::metadata(theirs.join("full")).unwrap().uid(), 0);
}

#[test]
fn open_folder_is_kept_if_its_name_is_replaced() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    [at("folder"), at("elsewhere")].iter().for_each(|path| fs::create_dir(path).unwrap());
    let folder = Folder::open(&at("folder")).unwrap();
    fs::rename(at("folder"), at("moved")).unwrap();
    symlink(at("elsewhere"), at("folder")).unwrap();
    assert!(same(&folder, &at("moved")));
}
