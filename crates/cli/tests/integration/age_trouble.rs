//! Tests failures of an aging: each has a message, a record and exit code 5. Tests that need root are skipped without it.

use crate::common::{Started, ends, json, run_line, start_aging, stderr, succeeds, temporary_directory};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

struct Mounted {
    point: PathBuf,
}

impl Mounted {
    fn new(directory: &Path) -> Self {
        let (image, point) = (directory.join("disk.img"), directory.join("mnt"));
        std::fs::File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("make image");
        std::fs::create_dir(&point).expect("make mount point");
        call("mkfs.ext4", &["-q", "-F", &text(&image)]);
        call("mount", &["-o", "loop", &text(&image), &text(&point)]);
        Self { point }
    }

    /// Ages a directory on it until the first operations have started.
    fn age(&self, directory: &Path) -> Started {
        let line = format!(
            "age --create {} --profile agrawal --size 512M --fullness 0.5 --truncate-sizes=drop --overwrites 400 --threads 2 \
             --out run --json",
            self.point.join("aged").display()
        );
        start_aging(directory, &line, "run")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.point).status();
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn call(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().expect("run a program");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Appends to a file, and keeps taking space that is freed.
fn take_all_space_while(path: &Path, mut go_on: impl FnMut() -> bool) {
    let mut hog = std::fs::File::create(path).expect("make a file");
    let (whole, rest) = (vec![1; 1 << 20], vec![1; 4096]);
    while go_on() {
        if hog.write(&whole).is_err() && hog.write(&rest).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Exit code 5, one of the `words` and a path in the message, and a record that can be reported.
fn assert_reported(directory: &Path, ended: &Output, words: &[&str]) {
    let said = stderr(ended);
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(words.iter().any(|word| said.contains(word)) && said.contains("aged"), "{said}");
    succeeds(directory, "report run");
}

#[test]
#[ignore = "needs loop devices"]
fn plan_that_does_not_fit_leaves_nothing() {
    let directory = temporary_directory();
    ends(directory.path(), "age image:new.img,size=64M --fullness 0.99 --out run", 2);
    assert!(["run", "new.img"].iter().all(|name| !directory.path().join(name).exists()));
}

#[test]
#[ignore = "needs loop devices"]
fn full_file_system_is_reported() {
    let directory = temporary_directory();
    let mounted = Mounted::new(directory.path());
    let mut started = mounted.age(directory.path());
    take_all_space_while(&mounted.point.join("hog"), || started.is_running());
    assert_reported(directory.path(), &started.wait(), &["No space left on device"]);
}

#[test]
#[ignore = "needs loop devices"]
fn read_only_remount_is_reported() {
    let directory = temporary_directory();
    let mounted = Mounted::new(directory.path());
    let started = mounted.age(directory.path());
    // Refused while a file is open for writing; it works between two files.
    let remounted = (0..20_000).any(|_| {
        let status = Command::new("mount").args(["-o", "remount,ro", &text(&mounted.point)]).output();
        status.is_ok_and(|output| output.status.success())
    });
    assert!(remounted, "the file system was never free of writers");
    assert_reported(directory.path(), &started.wait(), &["Read-only file system"]);
}

#[test]
#[ignore = "needs loop devices"]
fn failing_device_is_reported() {
    let directory = temporary_directory();
    let mounted = Mounted::new(directory.path());
    let started = mounted.age(directory.path());
    // EXT4_IOC_SHUTDOWN ends all access like a lost device. Which error comes first is a race: once the journal's thread
    // notices, ext4 is also read-only.
    call("xfs_io", &["-x", "-c", "shutdown", &text(&mounted.point)]);
    assert_reported(directory.path(), &started.wait(), &["Input/output error", "Read-only file system"]);
}

#[test]
fn removed_directory_is_reported() {
    let directory = temporary_directory();
    let line = "age aged --create --profile agrawal --size 256M --truncate-sizes=drop --overwrites 200 --data sparse --out run";
    let started = start_aging(directory.path(), line, "run");
    // More files appear during the removal, so rename first.
    std::fs::rename(directory.path().join("aged"), directory.path().join("gone")).expect("rename");
    let _ = Command::new("rm").args(["-rf", "gone"]).current_dir(directory.path()).status();
    assert_reported(directory.path(), &started.wait(), &["No such file or directory"]);
}

#[test]
fn few_descriptors_suffice_for_many_directories() {
    let directory = temporary_directory();
    // dabre has 25,000 directories.
    let line = format!(
        "ulimit -n 256; exec {} age aged --create --profile dabre --size 2G --truncate-sizes=drop --data sparse \
         --max-operations 40000 --threads 8 --out run --json",
        assert_cmd::cargo::cargo_bin!("senesce").display()
    );
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["stopped_by"], "operations");
    succeeds(directory.path(), "verify run");
}

#[test]
#[ignore = "needs loop devices"]
fn other_users_of_a_measured_device_are_named() {
    let directory = temporary_directory();
    let mounted = Mounted::new(directory.path());
    let found = Command::new("findmnt").args(["-n", "-o", "SOURCE", &text(&mounted.point)]).output().expect("findmnt");
    let device = String::from_utf8_lossy(&found.stdout).trim().to_string();
    let measured = succeeds(directory.path(), &format!("device measure {device} --out measured.toml"));
    assert!(stderr(&measured).contains(&text(&mounted.point)), "{}", stderr(&measured));
    // Writing is refused.
    let aged = run_line(directory.path(), &format!("age {device} --erase {device}"));
    assert_eq!(aged.status.code(), Some(3), "{}", stderr(&aged));
    assert!(stderr(&aged).contains(&text(&mounted.point)), "{}", stderr(&aged));
    succeeds(directory.path(), &format!("trace {} --json traced.json -- true", mounted.point.display()));
    let traced: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("traced.json")).expect("result")).expect("JSON");
    assert_eq!(traced["only_command"], false, "others may use the mount: {traced}");
}
