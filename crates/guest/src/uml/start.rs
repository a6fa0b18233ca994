//! Starts a user-mode kernel for a run, by one of the methods of confinement.

use super::confine::TEMPORARY;
use super::processor::{self, OwnProcessor};
use super::userland::Userland;
use super::{HostTree, MODULES, Method, UmlMachine, readable_directory};
use crate::error::{GuestError, io_error, scratch_error};
use crate::guest::Job;
use crate::run::GuestRun;
use crate::scratch::Scratch;
use crate::space::{self, Growth};
use rustix::fs::StatVfsMountFlags;
use senesce_core::{Bytes, machine};
use senesce_sys::deterministic::can_fix_addresses;
use senesce_volume::ScratchDirectory;
use senesce_volume::guest::CONTROL;
use senesce_volume::scratch_directory::MEMORY;
use std::fs;
use std::path::PathBuf;
use std::process::Child;

pub(crate) struct Started {
    pub child: Child,
    /// Holds the guest's memory, if the method has no folder of its own for it.
    pub memory: Option<ScratchDirectory>,
    pub processor: Option<OwnProcessor>,
}

pub(crate) fn start(
    run: &GuestRun,
    mut job: Job,
    scratch: &Scratch,
    method: Method,
    userland: Option<Userland>,
) -> Result<Started, GuestError> {
    job.environment.extend(userland.map(|userland| (machine::GUEST_USERLAND.into(), userland.digest)));
    job.environment.push((machine::GUEST_CONFINEMENT.into(), method.word().into()));
    let fixed_addresses = run.time.is_virtual() && can_fix_addresses();
    if run.time.is_virtual() {
        let addresses = if fixed_addresses || run.kernel.has_fixed_memory() { "fixed" } else { "random" };
        job.environment.push((machine::GUEST_ADDRESSES.into(), addresses.into()));
    }
    let program = std::env::current_exe().map_err(io_error("find", "/proc/self/exe"))?;
    let readable: Vec<PathBuf> =
        [Some(program.clone()), readable_directory(&job.directory)].into_iter().flatten().collect();
    let (mut temporary, mut memory) = (TEMPORARY.into(), None);
    job.boot_modules = MODULES.into();
    if method == Method::Landlock {
        (temporary, memory) = memory_folder(run.memory, scratch)?;
        job.boot_modules = run.kernel.folder.join("boot");
        job.host_tree = Some(HostTree { readable: readable.clone(), control: scratch.control() });
    }
    let shares = run.shares.iter().map(|share| (share.clone(), share.clone()));
    let processor = processor::take();
    let machine = UmlMachine {
        kernel: &run.kernel,
        job: &job,
        memory_mib: run.memory.0 >> 20,
        time: run.time,
        fixed_addresses,
        processor: processor.as_ref().map(|own| own.number),
        console: scratch.console(),
        method,
        temporary,
        program,
        shares: std::iter::once((scratch.control(), CONTROL.into())).chain(shares).collect(),
        readable,
    };
    Ok(Started { child: machine.start(scratch.path())?, memory, processor })
}

/// Makes a folder for the guest's memory. It is in memory if there is enough space and programs may run from it, as the
/// kernel demands. Otherwise it is in the scratch directory.
fn memory_folder(size: Bytes, scratch: &Scratch) -> Result<(PathBuf, Option<ScratchDirectory>), GuestError> {
    let fits = rustix::fs::statvfs(MEMORY).is_ok_and(|found| {
        found.f_bavail.saturating_mul(found.f_frsize) >= size.0 && !found.f_flag.contains(StatVfsMountFlags::NOEXEC)
    });
    if fits && let Ok(folder) = ScratchDirectory::in_memory("vm") {
        return Ok((folder.path().to_path_buf(), Some(folder)));
    }
    let folder = scratch.path().join("memory");
    space::check(&[Growth {
        folder: scratch.path().into(),
        bytes: size.0,
        remedy: "set TMPDIR to a directory with more space",
    }])?;
    fs::create_dir_all(&folder).map_err(scratch_error("make folder", &folder))?;
    Ok((folder, None))
}
