use super::*;
use std::os::unix::fs::FileExt;

#[test]
fn mount_lines_are_read_with_escapes() {
    let line = r"36 35 98:0 /mnt1 /mnt/my\040disk rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
    let parsed = parse_mount_line(line).unwrap();
    assert_eq!(parsed.device, (98, 0));
    assert_eq!(parsed.mount_point, Path::new("/mnt/my disk"));
    assert_eq!(parsed.options, "rw,noatime,errors=continue");
    assert_eq!((parsed.file_system.as_str(), parsed.source.as_path()), ("ext3", Path::new("/dev/root")));
}

#[test]
fn image_with_data_is_refused_until_its_path_is_repeated() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    assert!(check_image(file.as_file(), file.path(), None).is_ok(), "all zero");
    file.as_file().write_all_at(b"x", 3 << 20).unwrap();
    let refused = |erase| matches!(check_image(file.as_file(), file.path(), erase), Err(TargetError::Refused { .. }));
    assert!(refused(None));
    assert!(refused(Some("/another/file")));
    assert!(!refused(Some(&file.path().to_string_lossy())));
}
