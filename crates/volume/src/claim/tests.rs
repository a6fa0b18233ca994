use super::*;
use senesce_core::failure::{Classify, ExitCode};
use std::fs;

#[test]
fn a_foreign_directory_is_refused_until_its_path_is_repeated() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
    let error = ClaimedDirectory::claim(directory.path(), None).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Refused);
    let path = directory.path().to_string_lossy().into_owned();
    assert!(ClaimedDirectory::claim(directory.path(), Some(&path)).is_ok());
    assert!(ClaimedDirectory::claim(directory.path(), None).is_ok(), "now it carries the marker");
}

#[test]
fn a_directory_that_cannot_be_listed_is_not_taken_for_empty() {
    let file = tempfile::tempfile().unwrap();
    let error = count_foreign(&file, Path::new("/target")).unwrap_err();
    assert!(error.to_string().contains("list /target"), "{error}");
}

#[test]
fn visited_directory_gets_no_marker() {
    let directory = tempfile::tempdir().unwrap();
    ClaimedDirectory::check(directory.path(), None).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
    assert_eq!(ClaimedDirectory::check(directory.path(), None).unwrap_err().exit_code(), ExitCode::Refused);
}

#[test]
fn planted_marker_is_refused_and_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let (target, outside) = (directory.path().join("target"), directory.path().join("outside"));
    fs::create_dir(&target).unwrap();
    let marker = target.join(MARKER);
    let path = target.to_string_lossy().into_owned();
    std::os::unix::fs::symlink(&outside, &marker).unwrap();
    for existing in [false, true] {
        for erase in [None, Some(&*path)] {
            let error = ClaimedDirectory::claim(&target, erase).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
        }
        assert_eq!(outside.exists(), existing);
        fs::write(&outside, "precious").unwrap();
    }
    assert_eq!(fs::read(&outside).unwrap(), b"precious");
    fs::remove_file(&marker).unwrap();
    if rustix::process::geteuid().is_root() {
        fs::write(&marker, "").unwrap();
        std::os::unix::fs::chown(&marker, Some(1234), None).unwrap();
        let message = ClaimedDirectory::claim(&target, None).unwrap_err().to_string();
        assert!(message.contains("belongs to user 1234"), "{message}");
    }
}

#[test]
fn link_target_is_not_beneath() {
    let room = tempfile::tempdir().unwrap();
    let (target, outside) = (room.path().join("target"), room.path().join("outside"));
    let claimed = ClaimedDirectory::claim(&target, None).unwrap();
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, target.join("x")).unwrap();
    fs::create_dir(target.join("own")).unwrap();
    for inside in ["a", "own/a", "own/new/a", "x"] {
        claimed.check_beneath(&target.join(inside)).unwrap();
    }
    for out in ["x/a", "x/y/a", "own/../x/a"] {
        let error = claimed.check_beneath(&target.join(out)).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Refused, "{out}: {error}");
    }
}

#[test]
#[ignore = "needs root"]
fn directory_with_nested_mount_is_refused() {
    let room = tempfile::tempdir().unwrap();
    let (target, precious) = (room.path().join("target"), room.path().join("precious"));
    ClaimedDirectory::claim(&target, None).unwrap();
    fs::create_dir(&precious).unwrap();
    let point = target.join("bigfileset");
    fs::create_dir(&point).unwrap();
    rustix::mount::mount_bind(&precious, &point).unwrap();
    let refused = ClaimedDirectory::claim(&target, target.to_str()).map(drop);
    let itself = ClaimedDirectory::claim(&point, None).map(drop);
    let above = ClaimedDirectory::claim(&target, None).map(drop);
    rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(refused.unwrap_err().to_string().contains(&*point.to_string_lossy()));
    assert!(itself.is_ok() && above.is_err());
    let below = target.join("below");
    fs::create_dir_all(&below).unwrap();
    rustix::mount::mount_bind(&precious, &below).unwrap();
    rustix::mount::mount_bind(&precious, &target).unwrap();
    let hidden = ClaimedDirectory::claim(&target, None).map(drop);
    rustix::mount::unmount(&target, rustix::mount::UnmountFlags::empty()).unwrap();
    rustix::mount::unmount(&below, rustix::mount::UnmountFlags::empty()).unwrap();
    fs::remove_dir(below).unwrap();
    assert!(hidden.is_ok(), "{hidden:?}");
    assert!(ClaimedDirectory::claim(&target, None).is_ok());
}

#[test]
fn a_released_directory_cannot_be_written_through_its_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let mut claimed = ClaimedDirectory::claim(directory.path(), None).unwrap();
    claimed.release().unwrap();
    let result = rustix::fs::mkdirat(claimed.as_fd(), "stray", rustix::fs::Mode::RWXU);
    assert_eq!(result, Err(rustix::io::Errno::NOTDIR));
    claimed.retake().unwrap();
    rustix::fs::mkdirat(claimed.as_fd(), "ours", rustix::fs::Mode::RWXU).unwrap();
}

#[test]
#[ignore = "needs loop devices"]
fn own_data_is_recognised_on_second_claim() {
    use std::os::unix::fs::FileExt;
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(b"data", 0).unwrap();
    let device = crate::LoopDevice::attach(&file, "test", false).unwrap();
    let claim = |ours| ClaimedDevice::claim_again(device.path(), None, || Ok::<bool, TargetError>(ours));
    assert_eq!(claim(false).unwrap_err().exit_code(), ExitCode::Refused);
    let claimed = claim(true).unwrap();
    claimed.check_unused_again().unwrap();
    assert_eq!(claim(true).unwrap_err().exit_code(), ExitCode::Refused, "it is locked");
}
