//! Takes root's user number from a guest that root starts. Its sources are mounted so that root's files belong to another user.

use super::confine::wrong;
use super::view::Source;
use rustix::fs::CWD;
use rustix::mount::OpenTreeFlags;
use rustix::process::{Gid, Uid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Name of this program in its role of holding a user namespace open.
pub(super) const HOLDER: &str = "senesce-user-namespace";
/// The last number that systemd reserves for users of containers (systemd.io/UIDS-GIDS). No account has it.
const USER: u32 = 1_879_048_191;

/// Makes this process the root of a user namespace that is [`USER`] on the host. `false`: not possible here, such as on a file
/// system without mapped owners, or if root itself is a user of a container. Then nothing has changed.
pub(super) fn become_other_user(sources: &mut [Source]) -> Result<bool, String> {
    // Owners other than root keep their numbers.
    let owners = format!("0 {USER} 1\n1 1 {}\n", USER - 1);
    let Ok((owners, users)) = namespace(&owners).and_then(|owners| Ok((owners, namespace(&format!("0 {USER} 1\n"))?)))
    else {
        return Ok(false);
    };
    let own = || sources.iter().filter(|source| source.is_own);
    let Ok(mounts) = own().map(|source| mapped(source, &owners)).collect::<Result<Vec<_>, _>>() else {
        return Ok(false);
    };
    for (source, mount) in sources.iter_mut().filter(|source| source.is_own).zip(mounts) {
        source.mount = Some(mount);
    }
    let parent = rustix::process::getppid();
    enter(users.as_fd()).map_err(wrong("become another user in", "a user namespace"))?;
    // A change of users clears the signal.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(wrong("end with", "the parent"))?;
    if rustix::process::getppid() == parent { Ok(true) } else { Err("the parent has ended".into()) }
}

fn mapped(source: &Source, owners: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mount = rustix::mount::open_tree(CWD, &source.from, flags)?;
    senesce_sys::mounted::map_owners(&mount, owners)?;
    Ok(mount)
}

fn enter(namespace: impl AsFd) -> rustix::io::Result<()> {
    let (user, group) = (Uid::ROOT, Gid::ROOT);
    // This process has one thread, so that the calls change all of it.
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

/// Opens a user namespace with these lines of uid_map(5) for users and groups.
fn namespace(lines: &str) -> io::Result<OwnedFd> {
    let mut holder = Command::new("/proc/self/exe");
    holder.arg0(HOLDER).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = holder.spawn()?;
    let opened = map(&mut holder, lines);
    drop(holder.stdin.take());
    holder.wait()?;
    opened
}

fn map(holder: &mut std::process::Child, lines: &str) -> io::Result<OwnedFd> {
    holder.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?.read_exact(&mut [0])?;
    let of_holder = |name: &str| format!("/proc/{}/{name}", holder.id());
    for name in ["uid_map", "gid_map"] {
        fs::write(of_holder(name), lines)?;
    }
    Ok(File::open(of_holder("ns/user"))?.into())
}

/// Runs the role of [`HOLDER`]: reports when its namespace exists, and holds it until the end of its input.
pub(super) fn hold_namespace() -> i32 {
    // SAFETY: this process has a single thread and shares no descriptor table.
    if unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }.is_err() {
        return 1;
    }
    let said = io::Write::write_all(&mut io::stdout(), b".").and_then(|()| io::Write::flush(&mut io::stdout()));
    let ended = io::stdin().read_to_end(&mut Vec::new());
    i32::from(said.is_err() || ended.is_err())
}
