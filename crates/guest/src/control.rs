//! The folder through which host and guest exchange reports. It also contains the programs that the guest finds first.

use crate::error::{GuestError, io_error, scratch_error};
use crate::kernel::Kernel;
use crate::uml::GuestTime;
use crate::uml::userland::Userland;
use senesce_volume::guest::{COLUMNS, HOST_SECONDS};
use std::fs;
use std::path::Path;

/// Folder of the programs that the guest's PATH lists first.
pub(crate) const PROGRAMS: &str = "programs";

/// Reports `seconds` since the guest's start to it. Readers see the whole number or the previous one.
pub(crate) fn put_host_seconds(control: &Path, seconds: u64) -> Result<(), GuestError> {
    let (part, whole) = (control.join("host-seconds.part"), control.join(HOST_SECONDS));
    fs::write(&part, seconds.to_string()).map_err(scratch_error("write", &part))?;
    fs::rename(&part, &whole).map_err(scratch_error("write", &whole))
}

/// Reports the seconds since the start of a guest in virtual time, and the columns of the terminal that shows its output.
pub(crate) fn put_facts(control: &Path, time: GuestTime, columns: Option<usize>) -> Result<(), GuestError> {
    if time.is_virtual() {
        put_host_seconds(control, 0)?;
    }
    let Some(columns) = columns else { return Ok(()) };
    let file = control.join(COLUMNS);
    fs::write(&file, columns.to_string()).map_err(scratch_error("write", &file))
}

pub(crate) fn prepare(control: &Path, kernel: &Kernel, userland: Option<&Userland>) -> Result<(), GuestError> {
    let _ = fs::remove_dir_all(control);
    fs::create_dir_all(control).map_err(scratch_error("make folder", control))?;
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, control.join(name)).map_err(scratch_error("link", control.join(name)))
    };
    let program = std::env::current_exe().map_err(io_error("find", "/proc/self/exe"))?;
    link(&program, "modprobe")?;
    // A fixed name, independent of the file's name here.
    let programs = control.join(PROGRAMS);
    fs::create_dir(&programs).map_err(scratch_error("make folder", &programs))?;
    link(&program, &format!("{PROGRAMS}/senesce"))?;
    link(&program, &format!("{PROGRAMS}/modprobe"))?;
    for name in userland.map(|userland| userland.programs.as_slice()).unwrap_or_default() {
        link(&program, &format!("{PROGRAMS}/{name}"))?;
    }
    link(&kernel.modules(), "modules")?;
    // A copy: a user-mode guest may not see the kernel's folder. Programs in a guest recognise it by this file.
    let (from, to) = (kernel.folder.join("modules.json"), control.join("modules.json"));
    fs::copy(&from, &to).map(drop).map_err(io_error("copy", &from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_terminal_and_seconds_of_the_host_are_files() {
        let control = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(control.path().join(name)).ok();
        put_facts(control.path(), GuestTime::Real, None).unwrap();
        assert_eq!((read(HOST_SECONDS), read(COLUMNS)), (None, None));
        put_facts(control.path(), GuestTime::Still, Some(132)).unwrap();
        assert_eq!((read(HOST_SECONDS), read(COLUMNS)), (Some("0".into()), Some("132".into())));
    }

    #[test]
    fn list_of_modules_stays_without_the_folder_of_the_kernel() {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("modules.json"), "{}").unwrap();
        let kernel = Kernel { version: "6.12".into(), folder: folder.path().into() };
        let control = scratch.path().join("control");
        prepare(&control, &kernel, None).unwrap();
        drop(folder);
        assert_eq!(fs::read_to_string(control.join("modules.json")).unwrap(), "{}");
    }
}
