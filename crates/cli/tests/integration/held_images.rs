//! Images in surroundings in which some witnesses of the guard say nothing: FUSE, a read-only root.

use crate::common::{ends, json, leftovers, senesce, succeeds, temporary_directory, words};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const READS: &str = "define fileset name=set, path=$dir, dirwidth=20, entries=4, size=4k, prealloc
define process name=p { thread name=t { flowop openfile name=open, filesetname=set, fd=1
    flowop closefile name=close, fd=1 } }
run 1
";

fn ext4(path: &Path) {
    fs::File::create(path).unwrap().set_len(64 << 20).unwrap();
    assert!(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path).status().unwrap().success());
}

/// The exit code of the program behind some words of a shell, in a mount namespace of its own.
fn code_behind(folder: &Path, script: &str, line: &str) -> Option<i32> {
    let program = senesce(folder);
    let script = format!("{script} exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]).arg(program.get_program());
    command.args(words(line)).current_dir(folder).env("XDG_CACHE_HOME", folder.join(".cache"));
    command.output().unwrap().status.code()
}

const BENCH: &str = "bench image:mnt/disk.img reads.f --erase mnt/disk.img --time 1s";

#[test]
#[ignore = "needs root, FUSE, loop devices"]
fn image_in_use_on_fuse_is_refused() {
    let directory = temporary_directory();
    let folder = directory.path();
    fs::write(folder.join("reads.f"), READS).unwrap();
    fs::create_dir(folder.join("mnt")).unwrap();
    succeeds(folder, "tier mkfs --nvm n --nvm-size 16M --cold c");
    succeeds(folder, "tier mount --nvm n --cold c mnt");
    let image = folder.join("mnt/disk.img");
    ext4(&image);
    let before = sum_of(&image);
    let file = fs::File::options().read(true).write(true).open(&image).unwrap();
    // Open for writing here.
    ends(folder, BENCH, 3);
    let pid_namespace = "set -- unshare --pid --fork --mount-proc \"$@\";";
    assert!(matches!(code_behind(folder, pid_namespace, BENCH), Some(3 | 4)), "open outside of the PID namespace");
    drop(file);
    let attached = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
    let device = String::from_utf8(attached.stdout).unwrap().trim().to_string();
    // Attached.
    ends(folder, BENCH, 3);
    for hidden in ["/sys", "/dev"] {
        let script = format!("mount -t tmpfs none {hidden} || exit 99;");
        assert!(matches!(code_behind(folder, &script, BENCH), Some(3 | 4)), "attached, {hidden} is empty");
    }
    assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
    assert_eq!(sum_of(&image), before, "nothing was written");
    // Nothing uses it.
    succeeds(folder, BENCH);
    assert!(Command::new("umount").arg(folder.join("mnt")).status().unwrap().success());
}

/// What b2sum(1) prints for a file.
fn sum_of(path: &Path) -> Vec<u8> {
    Command::new("b2sum").arg(path).output().unwrap().stdout
}

#[test]
#[ignore = "needs root, loop devices"]
fn nothing_is_written_to_an_image_below_a_read_only_root() {
    let directory = temporary_directory();
    let folder = directory.path();
    fs::write(folder.join("reads.f"), READS).unwrap();
    ext4(&folder.join("disk.img"));
    succeeds(folder, "snapshot create disk.img s0");
    let before = sum_of(&folder.join("disk.img"));
    let read_only = "mount -o remount,bind,ro / || exit 99;";
    for line in [
        "bench image:disk.img reads.f --erase disk.img --time 1s",
        "snapshot run disk.img s0 -- touch {}/new",
        "layout disk.img",
    ] {
        let code = code_behind(folder, read_only, line);
        assert!(matches!(code, Some(3..=5)), "{line}: {code:?}");
        assert_eq!(sum_of(&folder.join("disk.img")), before, "{line}");
    }
    assert_eq!(leftovers(folder), Vec::<String>::new());
}

/// A set-user-ID program loses the signal that a dying parent sends (PR_SET_PDEATHSIG).
#[test]
#[ignore = "needs root, loop devices"]
fn setuid_command_ends_before_unmounting() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    ext4(&folder.join("disk.img"));
    succeeds(folder, "snapshot create disk.img s0");
    let program = folder.join("setuid-sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    chown(&program, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let path = program.to_string_lossy().into_owned();
    let words = ["snapshot", "run", "disk.img", "s0", "--", &path, "3600"];
    let mut child = senesce(folder).args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut command = None;
    crate::common::wait_until(|| {
        command = process_of(&path);
        command.is_some()
    });
    let command = command.unwrap();
    let user = fs::read_to_string(format!("/proc/{command}/status")).unwrap();
    assert!(user.lines().any(|line| line.starts_with("Uid:") && line.contains("65534")), "{user}");
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    let backing = leftovers(folder);
    let device = backing[0].split(':').next().unwrap().to_string();
    let is_mounted = || mounts().lines().any(|line| line.starts_with(&format!("/dev/{device} ")));
    assert!(is_mounted());
    child.kill().unwrap();
    child.wait().unwrap();
    loop {
        // In this order: what lives now must have lived before the look at the mounts.
        let mounted = is_mounted();
        let lives = is_alive(command);
        assert!(mounted || !lives, "it outlived its mount");
        if !mounted {
            break;
        }
    }
    crate::common::wait_until(|| leftovers(folder).is_empty());
    assert!(json(&succeeds(folder, "snapshot restore disk.img s0 --json")).is_object());
}

/// The process that runs a program with these first bytes of its command line.
fn process_of(program: &str) -> Option<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|id| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.starts_with(program.as_bytes())))
}

fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
