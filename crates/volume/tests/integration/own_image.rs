//! An image that a run created may have been overwritten since then.

use crate::common::*;
use senesce_volume::{FileSystem, MARKER, OpenOptions, holds_only_ours, open};
use std::fs;
use std::path::Path;

/// Moves the time of the last write away from that of the creation.
fn written_a_minute_later(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
}

const RUN: &str = "0123456789abcdef0123456789abcdef";

#[test]
#[ignore = "needs loop devices"]
fn image_that_another_program_overwrote_is_not_ours() {
    let (_directory, path) = image_path();
    let spec = image(&path, "32M");
    let options = || OpenOptions::fresh(FileSystem::Ext4);
    let marked = |run: &str| OpenOptions { identity: Some(run[..16].into()), ..options() };
    open(&spec, &marked(RUN)).unwrap().close().unwrap();
    assert!(holds_only_ours(&path, RUN), "mkfs may have been killed");
    written_a_minute_later(&path);
    assert!(holds_only_ours(&path, RUN) && !holds_only_ours(&path, &RUN.replace('0', "f")), "of another aging");

    let target = open(&spec, &erasing(&path, options())).unwrap();
    fs::remove_file(target.mount_point().join(MARKER)).unwrap();
    target.close().unwrap();
    written_a_minute_later(&path);
    assert!(holds_only_ours(&path, RUN), "a kill came before the marker was written");

    let target = open(&spec, &erasing(&path, options())).unwrap();
    fs::remove_file(target.mount_point().join(MARKER)).unwrap();
    fs::write(target.mount_point().join("thesis.txt"), "precious").unwrap();
    target.close().unwrap();
    written_a_minute_later(&path);
    assert!(!holds_only_ours(&path, RUN) && !holds_only_ours(&path.with_extension("missing"), RUN));
    fs::write(&path, vec![7; 32 << 20]).unwrap();
    written_a_minute_later(&path);
    assert!(!holds_only_ours(&path, RUN));
}
