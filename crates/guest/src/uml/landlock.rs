//! Confinement without namespaces: Landlock (landlock(7)) for files and TCP, a filter of system calls for the rest, and a process
//! that ends everything the kernel started.

use super::confine::{self, Confinement, DEVICES, ENTROPY, SETTINGS, SYSTEM};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::process::{Pid, Signal, WaitIdOptions, WaitOptions};
use signal_hook::consts::{SIGCHLD, SIGTERM};
use signal_hook::iterator::Signals;
use std::fmt::Display;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};

/// The first version that restricts TCP (Linux 6.7). Later ones restrict more if the kernel has them.
const REQUIRED: ABI = ABI::V4;
const NEWEST: ABI = ABI::V6;

/// Starts the kernel, and ends all its processes with it, with SIGTERM, or with the parent.
///
/// The kernel's children outlive it: they are stopped by ptrace(2) and not killed with their tracer in older versions.
pub(super) fn supervise(config: &Path) -> Result<i32, String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let mut signals = Signals::new([SIGTERM, SIGCHLD]).map_err(failed("handle signals"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| failed("adopt the kernel's processes")(errno.into()))?;
    let mut command = confine::second_role(config);
    // Also makes it the leader of a process group.
    senesce_sys::process::ends_with_parent(&mut command);
    let kernel = command.spawn().map_err(failed("start the kernel's process"))?;
    for signal in signals.forever() {
        if signal == SIGTERM || has_ended(&kernel) {
            break;
        }
    }
    Ok(end_group(&kernel).and_then(|status| status.code()).unwrap_or(125))
}

/// Does not reap it, so that its number remains that of its group.
fn has_ended(kernel: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(rustix::process::waitid(rustix::process::WaitId::Pid(Pid::from_child(kernel)), options), Ok(None))
}

/// Kills the group and waits for all its processes. Returns the status of the kernel.
fn end_group(kernel: &Child) -> Option<ExitStatus> {
    let kernel = Pid::from_child(kernel);
    let _ = rustix::process::kill_process_group(kernel, Signal::KILL);
    let mut status = None;
    while let Ok(Some((process, ended))) = rustix::process::wait(WaitOptions::empty()) {
        if process == kernel {
            status = Some(ExitStatus::from_raw(ended.as_raw()));
        }
    }
    status
}

/// Restricts this process and becomes the kernel.
pub(super) fn enter(confinement: &Confinement) -> Result<i32, String> {
    let unavailable = |error: &dyn Display| {
        format!("Landlock: {error} (it needs Linux 6.7, with landlock in /sys/kernel/security/lsm)")
    };
    restrict(confinement).map_err(|error| unavailable(&error))?;
    refuse_the_rest()?;
    Err(confine::start_kernel(confinement))
}

#[cfg(target_arch = "x86_64")]
fn refuse_the_rest() -> Result<(), String> {
    senesce_sys::confined::refuse_what_landlock_allows()
        .map_err(|errno| format!("filter system calls: {}", io::Error::from(errno)))
}

#[cfg(not(target_arch = "x86_64"))]
fn refuse_the_rest() -> Result<(), String> {
    Err("filter system calls: supported on x86-64 only".into())
}

fn restrict(confinement: &Confinement) -> Result<(), RulesetError> {
    let read = AccessFs::from_read(REQUIRED);
    let look_only = read & !AccessFs::Execute;
    let devices = DEVICES.iter().chain(if confinement.deterministic { &[][..] } else { &ENTROPY });
    let devices: Vec<_> = devices.map(|name| Path::new("/dev").join(name)).collect();
    let mut rules = ruleset()?.create()?;
    rules = allow(rules, SYSTEM.iter().chain(&SETTINGS).map(Path::new), read)?;
    rules = allow(rules, [Path::new("/proc/cpuinfo")].into_iter(), look_only)?;
    rules = allow(rules, devices.iter().map(Path::new), look_only | AccessFs::WriteFile)?;
    rules = allow(rules, confinement.kernel.first().map(Path::new).into_iter(), read)?;
    for shown in &confinement.shown {
        let access = if shown.writable { writes() | look_only } else { look_only };
        rules = allow(rules, [shown.from.as_path()].into_iter(), access)?;
    }
    rules = allow(rules, [confinement.temporary.as_path()].into_iter(), writes() | look_only)?;
    rules.restrict_self().map(|_| ())
}

fn ruleset() -> Result<Ruleset, RulesetError> {
    let required = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .handle_access(AccessNet::from_all(REQUIRED))?;
    required
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))
}

/// Returns all write rights except those for device nodes.
fn writes() -> BitFlags<AccessFs> {
    AccessFs::from_write(REQUIRED) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Adds a rule for each path. Missing paths are left out. Rights for folders do not apply to a file.
fn allow<'a>(
    rules: RulesetCreated,
    paths: impl Iterator<Item = &'a Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    paths.filter_map(|path| Some((path, PathFd::new(path).ok()?))).try_fold(rules, |rules, (path, opened)| {
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(REQUIRED) };
        rules.add_rule(PathBeneath::new(opened, access))
    })
}
