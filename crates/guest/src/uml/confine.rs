//! What a user-mode kernel may see and do, enforced by the host: its own user, mount, process and network namespaces, and a tree
//! with nothing but the programs of the host (read-only) and the shared folders. Without namespaces, [`super::landlock`] confines
//! it.

use super::landlock;
use crate::guest::folder_at;
use rustix::fs::{CWD, Mode};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of this program in its two roles: it makes the namespaces, and it is the first process in them.
pub(super) const FIRST: &str = "senesce-confine";
const SECOND: &str = "senesce-confined";
/// This program in the guest.
pub(super) const PROGRAM: &str = "/guest/senesce";

/// Programs and libraries of the host.
pub(super) const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// Their configuration. Nothing else of /etc is visible.
pub(super) const SETTINGS: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/mke2fs.conf",
    "/etc/alternatives",
    "/etc/localtime",
];
pub(super) const DEVICES: [&str; 3] = ["null", "zero", "full"];
/// Entropy of the host, which the kernel offers to its guest as a hardware generator.
pub(super) const ENTROPY: [&str; 2] = ["random", "urandom"];
pub(super) const FOLDERS: [&str; 12] =
    ["proc", "sys", "dev", "tmp", "etc", "guest", "host", "memory", "root", "run", "mnt", "var/tmp"];
pub(super) const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shown {
    pub from: PathBuf,
    pub to: PathBuf,
    pub writable: bool,
}

/// How the host confines a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Method {
    Namespaces,
    /// If namespaces are forbidden.
    Landlock,
}

impl Method {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Confinement {
    pub method: Method,
    /// Empty folder on the host, where the tree is made.
    pub root: PathBuf,
    /// The kernel's folder for the file of its memory, and its home.
    pub temporary: PathBuf,
    pub shown: Vec<Shown>,
    /// Files of the tree with their content.
    pub files: Vec<(PathBuf, String)>,
    /// The kernel and its arguments.
    pub kernel: Vec<String>,
    /// Whether two runs of the kernel are equal: no entropy of the host, no random addresses, no waits for its storage.
    pub deterministic: bool,
}

/// Takes one of the two roles if this process was started for it; otherwise returns.
pub(crate) fn enter_if_confined() {
    let mut words = std::env::args_os();
    let role = words.next().unwrap_or_default();
    let is_first = match role.to_str() {
        Some(FIRST) => true,
        Some(SECOND) => false,
        _ => return,
    };
    let Some(config) = words.next().map(PathBuf::from) else { return };
    let ended = read(&config).and_then(|confinement| match (confinement.method, is_first) {
        (Method::Namespaces, true) => make_namespaces(&confinement, &config),
        (Method::Namespaces, false) => enter_tree(&confinement),
        (Method::Landlock, true) => landlock::supervise(&config),
        (Method::Landlock, false) => landlock::enter(&confinement),
    });
    match ended {
        Ok(status) => std::process::exit(status),
        Err(problem) => {
            eprintln!("senesce: cannot confine the user-mode kernel: {problem}");
            std::process::exit(CANNOT_CONFINE);
        }
    }
}

/// Exit status of a kernel that was not started.
pub(crate) const CANNOT_CONFINE: i32 = 126;

fn read(config: &Path) -> Result<Confinement, String> {
    let text = fs::read(config).map_err(|error| format!("read {}: {error}", config.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", config.display()))
}

fn make_namespaces(confinement: &Confinement, config: &Path) -> Result<i32, String> {
    // A working directory elsewhere would keep the copies of all mounts of the host alive.
    std::env::set_current_dir("/").map_err(|error| format!("enter /: {error}"))?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    // SAFETY: this process has a single thread and shares no descriptor table.
    unsafe { rustix::thread::unshare_unsafe(flags) }
        .map_err(|errno| format!("make namespaces: {}", io::Error::from(errno)))?;
    put("/proc/self/setgroups", "deny")?;
    put("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    put("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(wrong("make private", "/"))?;
    make_tree(confinement)?;
    let status = second_role(config).status().map_err(|error| format!("start the first process: {error}"))?;
    Ok(status.code().unwrap_or(125))
}

/// This program in its second role.
pub(super) fn second_role(config: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(SECOND).arg(config);
    command
}

/// The first process of the namespaces. Processes of the host are not visible in its /proc, which is read-only.
fn enter_tree(confinement: &Confinement) -> Result<i32, String> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| format!("end with the parent: {errno}"))?;
    let root = &confinement.root;
    let (proc, flags) = (root.join("proc"), MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC);
    rustix::mount::mount("proc", &proc, "proc", flags | MountFlags::RDONLY, None).map_err(wrong("mount", &proc))?;
    std::env::set_current_dir(root).map_err(|error| format!("enter {}: {error}", root.display()))?;
    rustix::process::pivot_root(".", "host").map_err(wrong("change the root to", root))?;
    std::env::set_current_dir("/").map_err(|error| format!("enter the tree: {error}"))?;
    rustix::mount::unmount("/host", UnmountFlags::DETACH).map_err(wrong("unmount", "/host"))?;
    let remount = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    rustix::mount::mount_remount("/", remount, "").map_err(wrong("make read-only", "/"))?;
    Err(start_kernel(confinement))
}

/// Becomes the kernel; otherwise returns the problem.
pub(super) fn start_kernel(confinement: &Confinement) -> String {
    let Some((program, arguments)) = confinement.kernel.split_first() else { return "no kernel".into() };
    if confinement.deterministic
        && let Err(errno) = senesce_sys::deterministic::make_deterministic()
    {
        // Docker's default profile of system calls forbids personality(2).
        let problem = io::Error::from(errno);
        return format!("fix addresses for virtual time: {problem} (Docker needs --security-opt seccomp=unconfined)");
    }
    let mut command = Command::new(program);
    // The memory of the guest is a file in TMPDIR; the kernel panics without a home.
    command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("TMPDIR", &confinement.temporary).env("HOME", &confinement.temporary);
    format!("start {program}: {}", command.exec())
}

/// The mount table where old programs (e4defrag) look for it.
pub(super) fn link_mounts(root: &Path) -> Result<(), String> {
    let link = root.join("etc/mtab");
    rustix::fs::symlink("/proc/self/mounts", &link).map_err(wrong("link", &link))
}

fn make_tree(confinement: &Confinement) -> Result<(), String> {
    let root = &confinement.root;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", root, "tmpfs", flags, Some(c"mode=0755")).map_err(wrong("mount", root))?;
    for folder in FOLDERS {
        folder_at(&root.join(folder))?;
    }
    rustix::mount::mount("tmpfs", root.join("tmp"), "tmpfs", flags, Some(c"mode=1777"))
        .map_err(wrong("mount", root.join("tmp")))?;
    // Before anything of the host is visible: a share may be /etc itself.
    write_at(&root.join("etc/passwd"), ACCOUNTS)?;
    link_mounts(root)?;
    confinement.files.iter().try_for_each(|(path, text)| write_at(&below(root, path), text))?;
    let entropy: &[&str] = if confinement.deterministic { &[] } else { &ENTROPY };
    for name in DEVICES.iter().chain(entropy) {
        show(root, &Path::new("/dev").join(name), &Path::new("/dev").join(name), Access::Device)?;
    }
    for path in SYSTEM.iter().chain(&SETTINGS).map(Path::new) {
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => copy_link(path, &below(root, path))?,
            Ok(_) => show(root, path, path, Access::Read)?,
            Err(_) => {}
        }
    }
    let program = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    show(root, &program, Path::new(PROGRAM), Access::Read)?;
    for Shown { from, to, writable } in &confinement.shown {
        show(root, from, to, if *writable { Access::Write } else { Access::Read })?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Device,
}

/// Binds a file or folder of the host into the tree, if it is not already visible there.
fn show(root: &Path, from: &Path, to: &Path, access: Access) -> Result<(), String> {
    let place = below(root, to);
    if from.is_dir() {
        folder_at(&place)?;
    } else if !place.exists() {
        write_at(&place, "")?;
    }
    let bind = MountFlags::BIND | MountFlags::REC;
    rustix::mount::mount(from, &place, "", bind, None).map_err(wrong("show", from))?;
    senesce_sys::mounted::restrict(&place, access == Access::Read, access != Access::Device)
        .map_err(wrong("restrict", from))
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn copy_link(from: &Path, to: &Path) -> Result<(), String> {
    let target = fs::read_link(from).map_err(|error| format!("read {}: {error}", from.display()))?;
    rustix::fs::symlinkat(&target, CWD, to).map_err(wrong("link", to))
}

fn write_at(path: &Path, text: &str) -> Result<(), String> {
    path.parent().map_or(Ok(()), folder_at)?;
    let failed = |error: io::Error| format!("write {}: {error}", path.display());
    let mut file = File::create(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644));
    Ok(())
}

fn put(path: &str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("write {path}: {error}"))
}

fn wrong(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> String {
    let path = path.as_ref().to_path_buf();
    move |errno| format!("{what} {}: {}", path.display(), io::Error::from(errno))
}
