//! Twenty kinds of places for an output: what is there keeps its bytes and its inode unless it may be replaced.

use super::*;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

const HTML: &[u8] = b"<!doctype html><title>new</title>";

/// Type, inode, mode, owner and bytes (of a regular file).
fn state(path: &Path) -> (u32, u64, u32, Option<Vec<u8>>) {
    let found = path.symlink_metadata().unwrap();
    let bytes = found.is_file().then(|| fs::read(path).unwrap());
    (found.mode(), found.ino(), found.uid(), bytes)
}

fn html(path: &Path, replace: Replace) -> Result<(), OutputError> {
    write(path, Format::Html, HTML, replace)
}

/// Writing is refused with `said`, with and without permission where `always`, and nothing is altered by it.
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
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), entries, "nothing is left beside it");
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
fn devices_and_pipes_are_written_into() {
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
fn a_block_device_is_refused_whatever_is_said() {
    let found = fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
    let block = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.file_type().is_block_device());
    let Some(device) = found.into_iter().find(block) else { return eprintln!("this machine has no block device") };
    for way in [Replace::SameFormat, Replace::Anything] {
        let error = html(&device, way).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused);
        assert!(error.to_string().contains("block device"), "{error}");
    }
}

#[test]
fn a_descriptor_is_appended_to_and_its_link_stays() {
    use std::io::Seek;
    use std::os::fd::AsRawFd;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redirected");
    fs::write(&path, "before ").unwrap();
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
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
        assert!(error.to_string().contains("its folder is a file"), "{error}");
    }
    assert!(check(&folder.path().join("no/folder"), Format::Html, HTML, Replace::SameFormat).is_err());
}

#[test]
fn a_log_grows_and_nothing_else_does() {
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

#[test]
fn a_planted_name_of_a_temporary_file_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    for planted in ["report.part", "report.html.part", ".report.html.part"] {
        symlink(&precious, folder.path().join(planted)).unwrap();
    }
    html(&folder.path().join("report.html"), Replace::SameFormat).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}
