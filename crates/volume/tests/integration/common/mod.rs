//! Helpers of the integration tests.

pub mod tracers;

use senesce_core::failure::{Classify, ExitCode};
use senesce_volume::{LoopDevice, MountedTarget, OpenOptions, TargetError, TargetSpec, open};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A test for each file system: the function of this name, on a file system.
macro_rules! on_each_file_system {
    ($name:ident: $($test:ident $file_system:ident $needs:literal),+) => {
        mod $name {
            $(#[test]
            #[ignore = $needs]
            fn $test() {
                super::$name(senesce_volume::FileSystem::$file_system);
            })+
        }
    };
}
pub(crate) use on_each_file_system;

pub fn temporary_directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// A temporary directory and the path of an image in it.
pub fn image_path() -> (tempfile::TempDir, PathBuf) {
    let directory = temporary_directory();
    let path = directory.path().join("a.img");
    (directory, path)
}

pub fn existing(path: &Path) -> TargetSpec {
    TargetSpec::Image { path: path.into(), size: None }
}

pub fn attach(path: &Path) -> LoopDevice {
    let file = File::options().read(true).write(true).open(path).unwrap();
    LoopDevice::attach(&file, "test device", false).unwrap()
}

/// A loop device over an unnamed file in memory.
pub fn loop_device(size: u64) -> (File, LoopDevice) {
    let file = tempfile::tempfile_in(temporary_directory().path()).unwrap();
    file.set_len(size).unwrap();
    let device = LoopDevice::attach(&file, "test device", false).unwrap();
    (file, device)
}

/// Writes a partition table for sfdisk(8), which the kernel reads only on request.
pub fn partition(device: &Path, table: &str) {
    let mut sfdisk = Command::new("sfdisk").arg("-q").arg(device).stdin(Stdio::piped()).spawn().unwrap();
    sfdisk.stdin.take().unwrap().write_all(table.as_bytes()).unwrap();
    assert!(sfdisk.wait().unwrap().success());
}

#[track_caller]
pub fn run(words: &[&str]) {
    assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
}

pub fn image(path: &Path, size: &str) -> TargetSpec {
    format!("image:{},size={size}", path.display()).parse().unwrap()
}

pub fn open_image(path: &Path, size: &str) -> MountedTarget {
    open(&image(path, size), &OpenOptions::default()).unwrap()
}

pub fn left_over(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.starts_with(&*folder.to_string_lossy()) {
            found.push(format!("{} on {backing}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

pub fn in_memory() -> OpenOptions {
    OpenOptions { in_memory: true, ..OpenOptions::default() }
}

/// These options, and the permission to erase `path`.
pub fn erasing(path: &Path, options: OpenOptions) -> OpenOptions {
    OpenOptions { erase: Some(path.to_string_lossy().into_owned()), ..options }
}

#[track_caller]
pub fn fails<T>(result: Result<T, TargetError>, code: ExitCode, said: &str) {
    let error = result.err().expect("it fails");
    assert_eq!(error.exit_code(), code, "{error}");
    assert!(error.to_string().contains(said), "{error}");
}

#[track_caller]
pub fn refused<T>(result: Result<T, TargetError>, said: &str) {
    fails(result, ExitCode::Refused, said);
}

pub fn is_mounted(point: &Path) -> bool {
    std::fs::read_to_string("/proc/mounts").unwrap().contains(&*point.to_string_lossy())
}

pub fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env("SENESCE_TEST_CHILD", path);
    command.stdin(Stdio::piped());
    command
}

/// A process that is killed at the end.
pub struct Process(Child);

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A process after its line that begins with `ready`, and the rest of this line.
pub fn started(mut command: Command) -> (Process, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find_map(|line| Some(line.rsplit_once("ready")?.1.trim().to_string())).expect("ready");
    (Process(child), line)
}

pub fn process(words: &[&str]) -> Box<Process> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    Box::new(started(command).0)
}

/// A process that has a file open: `how` is a redirection of the shell.
pub fn holding(how: &str, path: &Path) -> Box<Process> {
    process(&["sh", "-c", &format!("exec 3{how}\"$1\"; echo ready; exec sleep 600"), "sh", path.to_str().unwrap()])
}

pub fn until_killed() {
    let _ = std::io::stdin().read(&mut [0]);
}

pub fn is_child() -> Option<PathBuf> {
    std::env::var_os("SENESCE_TEST_CHILD").map(PathBuf::from)
}
