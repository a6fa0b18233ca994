//! What a user-mode kernel may see and do, enforced by the host: its own user, mount, process and network namespaces, and a tree
//! with nothing but the programs of the host (read-only) and the shared folders ([`super::view`]). Without namespaces,
//! [`super::landlock`] confines it.

use super::{landlock, other_user, processor, view};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use senesce_sys::deterministic;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of this program in its two roles: it makes the namespaces, and it is the first process in them.
pub(super) const FIRST: &str = "senesce-confine";
const SECOND: &str = "senesce-confined";
/// Given instead of the path of a configuration that another user cannot read: standard input has it.
const STDIN: &str = "-";
/// This program in the guest.
pub(super) const PROGRAM: &str = "/guest/senesce";

/// The kernel's folder for the file of its memory. A share or the working directory may cover /tmp.
pub(super) const TEMPORARY: &str = "/guest/tmp";

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
pub(super) struct BindMount {
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
    pub shown: Vec<BindMount>,
    /// Files of the tree with their content.
    pub files: Vec<(PathBuf, String)>,
    /// The kernel and its arguments.
    pub kernel: Vec<String>,
    /// Whether two runs of the kernel are equal: no entropy of the host, no waits for its storage.
    pub deterministic: bool,
    /// Whether addresses are fixed too. Docker's default profile of system calls forbids it.
    pub fixed_addresses: bool,
    /// The host's processor for the kernel and its programs.
    pub processor: Option<usize>,
}

/// Takes one of the two roles if this process was started for it; otherwise returns.
pub(crate) fn enter_if_confined() {
    let mut words = std::env::args_os();
    let role = words.next().unwrap_or_default();
    if role == other_user::HOLDER {
        std::process::exit(other_user::hold_namespace());
    }
    let is_first = match role.to_str() {
        Some(FIRST) => true,
        Some(SECOND) => false,
        _ => return,
    };
    let Some(config) = words.next().map(PathBuf::from) else { return };
    let ended = read(&config).and_then(|confinement| {
        // Before any filter of system calls.
        confinement.processor.into_iter().for_each(processor::stay_on);
        match (confinement.method, is_first) {
            (Method::Namespaces, true) => make_namespaces(&confinement, &config),
            (Method::Namespaces, false) => enter_tree(&confinement),
            (Method::Landlock, true) => landlock::supervise(&config),
            (Method::Landlock, false) => landlock::enter(&confinement),
        }
    });
    match ended {
        Ok(status) => std::process::exit(status),
        Err(problem) => {
            eprintln!("senesce: cannot confine the user-mode kernel: {problem}");
            std::process::exit(CANNOT_CONFINE);
        }
    }
}

fn read_to_end(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// Exit status of a kernel that was not started.
pub(crate) const CANNOT_CONFINE: i32 = 126;

fn read(config: &Path) -> Result<Confinement, String> {
    let text = if config == Path::new(STDIN) { read_to_end(io::stdin()) } else { fs::read(config) };
    let text = text.map_err(|error| format!("read {}: {error}", config.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", config.display()))
}

fn make_namespaces(confinement: &Confinement, config: &Path) -> Result<i32, String> {
    let config = File::open(config).map_err(|error| format!("read {}: {error}", config.display()))?;
    // The folder of the tree, which another user cannot reach by its path.
    std::env::set_current_dir(&confinement.root).map_err(|error| format!("enter the tree's folder: {error}"))?;
    let mut sources = view::sources(confinement)?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid == 0 && other_user::become_other_user(&mut sources)? {
        unshare(UnshareFlags::empty())?;
    } else {
        unshare(UnshareFlags::NEWUSER)?;
        put("/proc/self/setgroups", "deny")?;
        put("/proc/self/uid_map", &format!("0 {uid} 1"))?;
        put("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    }
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(wrong("make private", "/"))?;
    view::make_tree(confinement, &sources)?;
    let mut first = Command::new(below(Path::new("."), Path::new(PROGRAM)));
    let status = first.arg0(SECOND).arg(STDIN).stdin(config).status();
    Ok(status.map_err(|error| format!("start the first process: {error}"))?.code().unwrap_or(125))
}

fn unshare(users: UnshareFlags) -> Result<(), String> {
    let rest =
        [UnshareFlags::NEWNS, UnshareFlags::NEWPID, UnshareFlags::NEWNET, UnshareFlags::NEWIPC, UnshareFlags::NEWUTS];
    let flags = rest.into_iter().fold(users, |flags, flag| flags | flag);
    // SAFETY: this process has a single thread and shares no descriptor table.
    unsafe { rustix::thread::unshare_unsafe(flags) }
        .map_err(|errno| format!("make namespaces: {}", io::Error::from(errno)))
}

/// Returns the command that runs this program in its second role.
pub(super) fn second_role(config: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(SECOND).arg(config);
    command
}

/// Acts as the first process of the namespaces, in the folder of the tree. Processes of the host are not visible in its
/// /proc, which is read-only.
fn enter_tree(confinement: &Confinement) -> Result<i32, String> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| format!("end with the parent: {errno}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "proc", "proc", flags | MountFlags::RDONLY, None).map_err(wrong("mount", "/proc"))?;
    rustix::process::pivot_root(".", "host").map_err(wrong("change the root to", &confinement.root))?;
    std::env::set_current_dir("/").map_err(|error| format!("enter the tree: {error}"))?;
    rustix::mount::unmount("/host", UnmountFlags::DETACH).map_err(wrong("unmount", "/host"))?;
    let remount = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    rustix::mount::mount_remount("/", remount, "").map_err(wrong("make read-only", "/"))?;
    Err(start_kernel(confinement))
}

/// Becomes the kernel; otherwise returns the problem.
pub(super) fn start_kernel(confinement: &Confinement) -> String {
    let Some((program, arguments)) = confinement.kernel.split_first() else { return "no kernel".into() };
    if let Err(errno) = limit_randomness(confinement) {
        return format!("make the kernel deterministic: {}", io::Error::from(errno));
    }
    let mut command = Command::new(program);
    // The memory of the guest is a file in TMPDIR; the kernel panics without a home.
    command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("TMPDIR", &confinement.temporary).env("HOME", &confinement.temporary);
    format!("start {program}: {}", command.exec())
}

fn limit_randomness(confinement: &Confinement) -> Result<(), rustix::io::Errno> {
    if confinement.fixed_addresses {
        deterministic::fix_addresses()?;
    }
    if confinement.deterministic { deterministic::make_deterministic() } else { Ok(()) }
}

pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

pub(super) fn put(path: &str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("write {path}: {error}"))
}

pub(super) fn wrong(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(rustix::io::Errno) -> String {
    let path = path.as_ref().to_path_buf();
    move |errno| format!("{what} {}: {}", path.display(), io::Error::from(errno))
}
