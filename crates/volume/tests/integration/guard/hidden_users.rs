//! Users of an image that /proc does not show, and data that a sample misses.

use super::{Holds, Never, Situation, claim_device, claim_image};
use super::{MIB, SIZE, image, judge, state, text};
use crate::common::{attach, existing, holding, refused, temporary_directory};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use senesce_volume::snapshot::{Method, Snapshots};
use senesce_volume::{ClaimedDirectory, OpenOptions, TargetSpec, open};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn never(name: &'static str, target: &Path, said: &'static str) -> Situation {
    Situation { name, target: target.into(), answer: Never, said, _held: vec![] }
}

/// Sends a descriptor that no process receives (unix(7), SCM_RIGHTS).
fn send(socket: &UnixStream, file: &File) {
    let byte = [0u8; 1];
    let mut data = libc::iovec { iov_base: byte.as_ptr() as *mut _, iov_len: 1 };
    // Aligned as a header must be, and large enough for one descriptor.
    let mut control = [0u64; 8];
    // SAFETY: the structures are plain numbers and pointers; all that they point to lives through the call.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut data, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), libc::CMSG_SPACE(4) as usize);
        let header = libc::CMSG_FIRSTHDR(&message);
        ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file.as_raw_fd());
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &message, 0), 1);
    }
}

/// An image with data and a snapshot of it.
fn with_a_snapshot() -> (tempfile::TempDir, PathBuf) {
    let directory = temporary_directory();
    let path = image(directory.path(), "image", &[(MIB, b"diary")]);
    Snapshots::of(&existing(&path), None).unwrap().create("s0", Method::Copy).unwrap();
    (directory, path)
}

/// Refuses both emptying the image and restoring its snapshot.
fn is_refused(name: &'static str, path: &Path) {
    judge(&never(name, path, ""), claim_image);
    refused(Snapshots::of(&existing(path), None).and_then(|mut all| all.rollback("s0", true)), "");
}

#[test]
fn an_image_with_a_hidden_user_is_refused() {
    let (directory, path) = with_a_snapshot();
    let before = state(directory.path());
    let open = || File::options().read(true).write(true).open(&path).unwrap();

    let file = open();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is not accessed, and unmapped below.
    let mapped = unsafe { mmap(std::ptr::null_mut(), 4096, protection, MapFlags::SHARED, &file, 0) }.unwrap();
    drop(file);
    is_refused("mapped, with its descriptor closed", &path);
    // SAFETY: it was mapped above and nothing refers to it.
    unsafe { munmap(mapped, 4096) }.unwrap();

    let (near, far) = UnixStream::pair().unwrap();
    let file = open();
    send(&near, &file);
    drop(file);
    is_refused("in flight in a socket", &path);
    drop((near, far));

    let file = File::open(&path).unwrap();
    is_refused("open for reading", &path);
    drop(file);
    assert_eq!(state(directory.path()), before);
    Snapshots::of(&existing(&path), None).unwrap().rollback("s0", true).unwrap();
}

/// A process outside of the PID namespace of the guard.
#[test]
#[ignore = "needs root"]
fn an_image_open_in_another_pid_namespace_is_refused() {
    if let Some(path) = crate::common::is_child() {
        return is_refused("open in another PID namespace", &path);
    }
    let (_directory, path) = with_a_snapshot();
    let holder = holding("<>", &path);
    let test = "guard::hidden_users::an_image_open_in_another_pid_namespace_is_refused";
    let child = crate::common::child(test, &path);
    let mut words = vec!["--mount", "--pid", "--fork", "--mount-proc"];
    let own: Vec<String> = std::iter::once(child.get_program())
        .chain(child.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.extend(own.iter().map(String::as_str));
    let output = std::process::Command::new("unshare").args(words).env("SENESCE_TEST_CHILD", &path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    drop(holder);
}

/// QEMU opens images without O_EXCL and locks bytes of them by open file description.
#[test]
#[ignore = "long: needs root, qemu-storage-daemon"]
fn an_image_that_qemu_has_open_in_another_mount_namespace_is_refused() {
    let (directory, path) = with_a_snapshot();
    let before = state(directory.path());
    let script = "qemu-storage-daemon --blockdev driver=file,node-name=f,filename=\"$1\",locking=on --chardev stdio,id=m --monitor m";
    let words = ["--mount", "--propagation", "private", "sh", "-c", script, "sh", text(&path)];
    let mut daemon = Command::new("unshare").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It greets once the image is open.
    let mut greeting = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    assert!(greeting.contains("QMP"), "{greeting}");
    is_refused("open in qemu-storage-daemon", &path);
    drop(daemon.stdin.take());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(state(directory.path()), before);
}

#[test]
#[ignore = "needs loop devices"]
fn data_between_the_samples_of_a_loop_device_are_found() {
    let directory = temporary_directory();
    // The sample reads 4 KiB of each 320 KiB.
    let at = 100 * MIB + 8192;
    let path = image(directory.path(), "image", &[(at, b"diary")]);
    assert!(at + 5 < SIZE);
    let device = attach(&path);
    let target = device.path().to_path_buf();
    judge(&Situation { name: "data", target, answer: Holds, said: "unknown kind", _held: vec![] }, claim_device);
}

#[test]
fn erase_of_another_target_is_refused_even_if_empty() {
    let directory = temporary_directory();
    let at = |name: &str| -> PathBuf { directory.path().join(name) };
    let empty = image(directory.path(), "empty", &[]);
    fs::create_dir(at("folder")).unwrap();
    let wrong = || OpenOptions { erase: Some("/dev/nosuch".into()), ..OpenOptions::default() };
    let new = TargetSpec::Image { path: at("new"), size: Some(senesce_core::Bytes(SIZE)) };
    let specs = [
        TargetSpec::Image { path: empty, size: None },
        new,
        TargetSpec::Directory(at("folder")),
        TargetSpec::Memory { size: senesce_core::Bytes(SIZE) },
    ];
    let needs_root = |spec: &TargetSpec| spec.needs_root() && !rustix::process::geteuid().is_root();
    for spec in specs.iter().filter(|spec| !needs_root(spec)) {
        refused(open(spec, &wrong()), "");
    }
    assert!(!at("new").exists() && fs::read_dir(at("folder")).unwrap().next().is_none());
    assert!(ClaimedDirectory::claim(&at("folder"), Some("/dev/nosuch")).is_err());
    ClaimedDirectory::claim(&at("folder"), Some(&format!("{}/", at("folder").display()))).unwrap();
}
