//! Tests that a limit on the size of files is an error with its own exit code, and leaves nothing that refuses the next run.

use crate::common::{senesce, temporary_directory};
use std::path::Path;
use std::process::{Command, Output};

fn limited(folder: &Path, words: &[&str]) -> Output {
    let program = senesce(folder).get_program().to_owned();
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 1024; exec \"$@\"", "bash"]).arg(program).args(words).current_dir(folder);
    command.output().expect("run bash")
}

fn fails_cleanly(folder: &Path, words: &[&str], partial: &str) {
    let ended = limited(folder, words);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(5), "{words:?}: {said}");
    assert!(said.contains("EFBIG"), "{said}");
    assert!(!folder.join(partial).exists(), "{words:?} leaves {partial}");
}

#[test]
fn too_large_file_is_an_error() {
    let directory = temporary_directory();
    let folder = directory.path();
    std::fs::write(folder.join("source.img"), vec![7; 4 << 20]).unwrap();
    fails_cleanly(folder, &["image", "copy", "source.img", "copy.img"], "copy.img");
    fails_cleanly(folder, &["tier", "mkfs", "--nvm", "n", "--nvm-size", "4M", "--cold", "c"], "n");
}

#[test]
#[ignore = "needs loop devices"]
fn image_beyond_the_file_size_limit_is_removed() {
    let directory = temporary_directory();
    let words = ["bench", "image:new.img,size=64M", "file-ops", "--out", "run"];
    fails_cleanly(directory.path(), &words, "new.img");
    let source = std::fs::File::create(directory.path().join("source.img")).unwrap();
    source.set_len(16 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-qF", "source.img"]).current_dir(directory.path()).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4");
    fails_cleanly(directory.path(), &["image", "twin", "source.img", "twin.img"], "twin.img");
}
