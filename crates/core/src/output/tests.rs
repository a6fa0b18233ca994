//! Twenty kinds of existing files: content and inode are kept unless replacing is allowed.

mod planted;

use super::*;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

const HTML: &[u8] = b"<!doctype html><title>new</title>";

/// Returns type, inode, mode, owner and bytes (of a regular file).
fn state(path: &Path) -> (u32, u64, u32, Option<Vec<u8>>) {
    let found = path.symlink_metadata().unwrap();
    let bytes = found.is_file().then(|| fs::read(path).unwrap());
    (found.mode(), found.ino(), found.uid(), bytes)
}

fn html(path: &Path, replace: Replace) -> Result<(), OutputError> {
    write(path, Format::Html, HTML, replace)
}

/// Asserts that writing is refused with the message `said`, with permission too if `always`, without changes.
fn assert_refused(path: &Path, said: &str, always: bool) {
    let before = state(path);
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().count();
    let ways: &[Replace] = if always { &[Replace::SameFormat, Replace::Anything] } else { &[Replace::SameFormat] };
    for way in ways {
        let error = html(path, *way).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(matches!(error.exit_code(), ExitCode::Refused | ExitCode::Usage), "{error}");
        assert!(check(path, Format::Html, HTML, *way).is_err(), "the check beforehand agrees");
    }
    assert_eq!(state(path), before);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), entries, "no other file is left");
}

#[test]
fn files_of_other_formats_keep_bytes_and_inode() {
    let folder = tempfile::tempdir().unwrap();
    let contents: [(&str, Vec<u8>); 8] = [
        ("letter.txt", b"Dear diary".to_vec()),
        ("disk.img", vec![0; 1 << 20]),
        ("ext4.img", [vec![0; 1080], vec![0x53, 0xEF], vec![0; 4096]].concat()),
        ("data.csv", b"name,phone\nanna,1\n".to_vec()),
        ("page.json", b"{\"a\": 1}".to_vec()),
        ("book.pdf", b"%PDF-1.4".to_vec()),
        ("archive.zip", b"PK\x03\x04".to_vec()),
        ("drawing.svg", b"<svg></svg>".to_vec()),
    ];
    for (name, bytes) in contents {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert_refused(&path, "--force", false);
        html(&path, Replace::Anything).unwrap();
        assert_eq!(fs::read(&path).unwrap(), HTML);
    }
}

#[test]
fn links_directories_and_sockets_are_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("page.html"), HTML).unwrap();
    symlink(at("page.html"), at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink(folder.path(), at("to-folder")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for name in ["link", "dangling", "to-folder"] {
        assert_refused(&at(name), "symbolic link", true);
    }
    assert_refused(&at("folder"), "is a directory", true);
    assert_refused(&at("socket"), "socket", true);
    assert!(!at("nowhere").exists());
    assert_eq!(fs::read(at("page.html")).unwrap(), HTML);
}

#[test]
fn devices_and_pipes_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["/dev/null", "/dev/zero"] {
        let before = state(Path::new(device));
        html(Path::new(device), Replace::SameFormat).unwrap();
        assert_eq!(state(Path::new(device)), before, "{device}");
    }
    let link = folder.path().join("null");
    symlink("/dev/null", &link).unwrap();
    html(&link, Replace::SameFormat).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let full = html(Path::new("/dev/full"), Replace::SameFormat).unwrap_err();
    assert_eq!(full.exit_code(), ExitCode::RunFailed, "{full}");

    let pipe = folder.path().join("pipe");
    let made = rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, rustix::fs::Mode::RUSR, 0);
    if made.is_err() {
        return eprintln!("a named pipe cannot be made here");
    }
    fs::set_permissions(&pipe, fs::Permissions::from_mode(0o600)).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    html(&pipe, Replace::SameFormat).unwrap();
    assert_eq!(reader.join().unwrap(), HTML);
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
}

#[test]
fn block_device_is_always_refused() {
    let found = fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
    let block = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.file_type().is_block_device());
    let Some(device) = found.into_iter().find(block) else { return eprintln!("this machine has no block device") };
    for way in [Replace::SameFormat, Replace::Anything] {
        let error = html(&device, way).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused);
        assert!(error.to_string().contains("block device"), "{error}");
    }
}

/// Passes a descriptor as a shell passes it to a program.
fn inherited(file: File) -> File {
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    file
}

#[test]
fn a_descriptor_is_appended_to_and_its_link_stays() {
    use std::io::Seek;
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redirected");
    fs::write(&path, "before ").unwrap();
    let mut file = inherited(File::options().read(true).write(true).open(&path).unwrap());
    file.seek(io::SeekFrom::End(0)).unwrap();
    let inode = state(&path).1;
    html(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), Replace::SameFormat).unwrap();
    html(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), Replace::SameFormat).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [b"before ", HTML, HTML].concat());
    assert_eq!(state(&path).1, inode);
    assert_eq!(descriptor(Path::new("/dev/stdout")), Some(1));
    assert_eq!(descriptor(&path), None);
}

#[test]
fn link_to_a_descriptor_is_a_link() {
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let (precious, link) = (folder.path().join("precious"), folder.path().join("out.html"));
    fs::write(&precious, "precious").unwrap();
    let reader = File::open(&precious).unwrap();
    let process = format!("/proc/{}/fd/{}", std::process::id(), reader.as_raw_fd());
    for to in [process.as_str(), "/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        symlink(to, &link).unwrap();
        assert_refused(&link, "symbolic link", true);
        assert_eq!(append(&link).unwrap_err().exit_code(), ExitCode::Refused, "{to}");
        fs::remove_file(&link).unwrap();
    }
    assert!(html(Path::new(&process), Replace::Anything).unwrap_err().to_string().contains("symbolic link"));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn read_only_descriptor_is_not_written() {
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let reader = inherited(File::open(&precious).unwrap());
    for place in ["/proc/self/fd", "/dev/fd", "/proc/thread-self/fd"] {
        let name = PathBuf::from(format!("{place}/{}", reader.as_raw_fd()));
        let all = [
            html(&name, Replace::Anything),
            check(&name, Format::Html, HTML, Replace::SameFormat),
            append(&name).map(drop),
        ];
        for refused in all.map(Result::unwrap_err) {
            assert_eq!(refused.exit_code(), ExitCode::Refused);
            assert!(refused.to_string().contains("not open for writing"), "{refused}");
        }
    }
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    // The same for a file that this program opened itself.
    let own = File::options().write(true).open(&precious).unwrap();
    for number in [999_999_999, own.as_raw_fd()] {
        let closed = html(Path::new(&format!("/dev/fd/{number}")), Replace::Anything).unwrap_err();
        assert!(closed.to_string().contains("no descriptor with this number"), "{closed}");
    }
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

/// Builds an access list (linux/posix_acl_xattr.h): the owner and user 65534 read and write, the group nothing.
fn access_list() -> Vec<u8> {
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let entries = [entry(1, 6, none), entry(2, 6, 65534), entry(4, 0, none), entry(16, 6, none), entry(32, 0, none)];
    [2u32.to_le_bytes().to_vec(), entries.concat()].concat()
}

#[test]
fn access_list_is_kept_without_group_access() {
    const NAME: &str = "system.posix_acl_access";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let list_of = |path: &Path| {
        let mut list = vec![0; 1024];
        let length = rustix::fs::lgetxattr(path, NAME, list.as_mut_slice()).ok()?;
        Some(list[..length].to_vec())
    };
    let set =
        |path: &Path, name: &str| rustix::fs::lsetxattr(path, name, &access_list(), rustix::fs::XattrFlags::empty());
    fs::write(&path, HTML).unwrap();
    if set(&path, NAME).is_err() {
        return eprintln!("this file system has no access lists");
    }
    html(&path, Replace::SameFormat).unwrap();
    assert_eq!(list_of(&path), Some(access_list()));
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o660, "the mask");

    // A file that replaces one without an access list does not inherit the folder's default list.
    fs::remove_file(&path).unwrap();
    fs::write(&path, HTML).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    set(folder.path(), "system.posix_acl_default").unwrap();
    html(&path, Replace::SameFormat).unwrap();
    assert_eq!((list_of(&path), path.metadata().unwrap().mode() & 0o777), (None, 0o660));
}

#[test]
fn control_characters_are_escaped_on_a_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::ffi::OsStrExt;
    let Ok(controller) = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY) else {
        return eprintln!("there are no pseudo-terminals here");
    };
    grantpt(&controller).and_then(|()| unlockpt(&controller)).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    if !terminal.exists() {
        return eprintln!("the terminals of this machine cannot be seen here");
    }
    // Without an open reader the output could be lost before it is read.
    let _open = File::options().read(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(&terminal).unwrap();
    let text = "name\n\u{1b}[31mred\u{202e}\n";
    write(&terminal, Format::Csv, text.as_bytes(), Replace::SameFormat).unwrap();
    let (mut controller, mut shown) = (File::from(controller), Vec::new());
    while !shown.ends_with(b"red\\u202e\r\n") && shown.len() < 1000 && !shown.contains(&0x1b) {
        let mut piece = [0; 256];
        let mut waiting = [rustix::event::PollFd::new(&controller, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut waiting, Some(&patience)), Ok(1), "{shown:?}");
        let length = controller.read(&mut piece).unwrap();
        shown.extend_from_slice(&piece[..length]);
    }
    assert_eq!(String::from_utf8(shown).unwrap(), "name\r\n\\u001b[31mred\\u202e\r\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), Format::Csv, text.as_bytes(), Replace::SameFormat).unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), text.as_bytes(), "a program reads what is");
}

#[test]
fn new_empty_and_equal_files_are_written_and_keep_mode_and_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    html(&path, Replace::SameFormat).unwrap();
    assert_eq!(fs::read(&path).unwrap(), HTML);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(&path, Format::Html, b"<!DOCTYPE HTML>again", Replace::SameFormat).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"<!DOCTYPE HTML>again");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    html(&empty, Replace::SameFormat).unwrap();
    assert_eq!(fs::read(&empty).unwrap(), HTML);
    let missing = html(&folder.path().join("no/folder"), Replace::SameFormat).unwrap_err();
    assert_eq!(missing.exit_code(), ExitCode::Usage, "{missing}");
    for ask in [html, |path: &Path, how| check(path, Format::Html, HTML, how)] {
        let error = ask(&path.join("below"), Replace::SameFormat).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage, "{error}");
        assert!(error.to_string().contains("is a file, not a directory"), "{error}");
    }
    assert!(check(&folder.path().join("no/folder"), Format::Html, HTML, Replace::SameFormat).is_err());
}

#[test]
fn only_logs_are_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for line in ["one\n", "two\n"] {
        append(&at("log")).unwrap().write_all(line.as_bytes()).unwrap();
    }
    assert_eq!(fs::read(at("log")).unwrap(), b"one\ntwo\n");
    append(Path::new("/dev/null")).unwrap().write_all(b"one").unwrap();
    fs::write(at("disk.img"), vec![0; 4096]).unwrap();
    symlink(at("log"), at("link")).unwrap();
    for name in ["disk.img", "link"] {
        assert_eq!(append(&at(name)).unwrap_err().exit_code(), ExitCode::Refused, "{name}");
    }
    assert_eq!(fs::read(at("disk.img")).unwrap(), vec![0; 4096]);
}
