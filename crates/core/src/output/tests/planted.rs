//! Files planted by other users where root writes: root does not write through them or leave results to their owners.

use super::*;
use std::os::unix::fs::lchown;

#[test]
fn owner_of_a_planted_file_does_not_get_the_result() {
    const NOBODY: Option<u32> = Some(65534);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let owner = |path: &Path| (path.metadata().unwrap().uid(), path.metadata().unwrap().mode() & 0o777);
    fs::write(&path, "").unwrap();
    mode(&path, 0o666);
    if !rustix::process::geteuid().is_root() || std::os::unix::fs::chown(&path, NOBODY, NOBODY).is_err() {
        return eprintln!("files cannot be given away here");
    }
    mode(folder.path(), 0o1777);
    assert_refused(&path, "belongs to user 65534", false);
    assert_eq!(append(&path).unwrap_err().exit_code(), ExitCode::Refused);
    html(&path, Replace::Anything).unwrap();
    assert_eq!(owner(&path), (0, 0o600));

    // A user's report in the user's own folder stays theirs.
    mode(&path, 0o640);
    mode(folder.path(), 0o775);
    [folder.path(), path.as_path()].iter().for_each(|path| std::os::unix::fs::chown(path, NOBODY, NOBODY).unwrap());
    html(&path, Replace::SameFormat).unwrap();
    assert_eq!(owner(&path), (65534, 0o640));
}

#[test]
fn nothing_is_written_into_a_planted_pipe() {
    const NOBODY: Option<u32> = Some(65534);
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("report.html");
    let made = rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, rustix::fs::Mode::RUSR, 0);
    if made.is_err() || std::os::unix::fs::chown(&pipe, NOBODY, NOBODY).is_err() {
        return eprintln!("files cannot be given away here");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert_refused(&pipe, "pipe of user 65534", true);
    assert_eq!(append(&pipe).unwrap_err().exit_code(), ExitCode::Refused);
    // In a folder of its owner it may never be read.
    std::os::unix::fs::chown(folder.path(), NOBODY, NOBODY).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_refused(&pipe, "pipe of user 65534", true);
    std::os::unix::fs::chown(folder.path(), Some(0), Some(0)).unwrap();
    // In a folder of root it was created by root, or with root's permission.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    check(&pipe, Format::Html, HTML, Replace::SameFormat).unwrap();
}

#[test]
fn root_does_not_write_through_a_planted_parent_link() {
    const NOBODY: Option<u32> = Some(65534);
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name);
    [at("theirs"), at("ours")].iter().for_each(|path| fs::create_dir(path).unwrap());
    symlink(at("ours"), at("theirs/results")).unwrap();
    let given = [at("theirs"), at("theirs/results")].iter().try_for_each(|path| lchown(path, NOBODY, NOBODY));
    if !rustix::process::geteuid().is_root() || given.is_err() {
        return eprintln!("files cannot be given away here");
    }
    let out = at("theirs/results/out.html");
    for old in [None, Some("precious"), Some("")] {
        old.iter().for_each(|text| fs::write(at("ours/out.html"), text).unwrap());
        for refused in [
            html(&out, Replace::Anything),
            check(&out, Format::Html, HTML, Replace::Anything),
            append(&out).map(drop),
            NewFile::next_to(&out).map(drop).map_err(io_error("make", &out)),
            NewFile::private(&out).map(drop).map_err(io_error("make", &out)),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
            assert!(error.to_string().contains("link of user 65534 to a file of user 0"), "{error}");
        }
        assert_eq!(fs::read_to_string(at("ours/out.html")).ok().as_deref(), old);
    }
    // It is followed if its owner may write there anyway.
    lchown(at("ours"), NOBODY, NOBODY).unwrap();
    html(&out, Replace::Anything).unwrap();
    assert_eq!(fs::read(at("ours/out.html")).unwrap(), HTML);
}

#[test]
fn inspected_pipe_is_written_even_if_its_name_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, moved, precious) =
        (folder.path().join("pipe"), folder.path().join("moved"), folder.path().join("precious"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    fs::write(&precious, "precious").unwrap();
    let place = OutputPath::of(&pipe).unwrap();
    let Some(ExistingOutput::Stream(seen)) = place.existing().unwrap() else { panic!("it is a pipe") };
    fs::rename(&pipe, &moved).unwrap();
    symlink(&precious, &pipe).unwrap();
    let mut reader = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&moved).unwrap();
    open_stream(&seen, OFlags::WRONLY, &pipe).unwrap().write_all(HTML).unwrap();
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!((read.as_slice(), fs::read(&precious).unwrap().as_slice()), (HTML, &b"precious"[..]));
}

#[test]
fn planted_temporary_name_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    for planted in ["report.part", "report.html.part", ".report.html.part"] {
        symlink(&precious, folder.path().join(planted)).unwrap();
    }
    html(&folder.path().join("report.html"), Replace::SameFormat).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}
