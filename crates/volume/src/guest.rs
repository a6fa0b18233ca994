//! The virtual machine whose drives are scratch. Only this module allows erasing a drive without the user's word.

use crate::block_device::BlockDevice;
use crate::error::TargetError;
use crate::guard::{self, MountLine};
use std::fs;
use std::path::{Path, PathBuf};

pub const CONTROL: &str = "/run/senesce-guest";

/// File of [`CONTROL`] with the seconds since the guest's start by the clock of the host, for guests in virtual time.
pub const HOST_SECONDS: &str = "host-seconds";

/// File of [`CONTROL`] with the columns of the terminal on the host's standard output, if it is one.
pub const COLUMNS: &str = "columns";

pub const CONTROL_TAG: &str = "control";

pub const SERIAL: &str = "senesce-";

/// Prefix for drives whose content stays when the guest ends, which must not be erased.
pub const SERIAL_OF_KEPT: &str = "senesce-kept-";

/// Proof that this process runs in the guest. Environment variables prove nothing: anybody can set one.
#[derive(Debug, Clone, Copy)]
pub struct Guest(());

/// A selection among the guest's drives; their names change between boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveChoice {
    Only,
    Zoned,
    Smallest,
    Largest,
}

/// Returns the seconds since this guest in virtual time started, by the clock of the host (steps of a second).
pub fn host_seconds() -> Option<f64> {
    fs::read_to_string(Path::new(CONTROL).join(HOST_SECONDS)).ok()?.parse().ok()
}

/// Returns the columns of the terminal that shows the output of this guest.
pub fn columns() -> Option<usize> {
    fs::read_to_string(Path::new(CONTROL).join(COLUMNS)).ok()?.parse().ok()
}

/// Faults of the kernel since the guest's boot: bugs, warnings, reports of sanitizers and of lock checks. Empty outside
/// a guest.
pub fn kernel_faults() -> Vec<String> {
    match Guest::here() {
        Some(_) => crate::kernel_log::faults(),
        None => Vec::new(),
    }
}

/// Finds a device by path. `auto` is a drive of the guest, and refused on other machines.
pub fn find(text: &str, wanted: DriveChoice) -> Result<PathBuf, TargetError> {
    if text != "auto" {
        return Ok(text.into());
    }
    let guest = Guest::here().ok_or_else(|| {
        TargetError::refused(
            text,
            "it means a drive of the guest, but senesce does not run in a guest here",
            "name the device, write ./auto for a directory of that name, or run in the guest: senesce vm run --drive \
             nvme",
        )
    })?;
    guest.drive(wanted)
}

impl Guest {
    /// Returns `Some` if the guest's control share is mounted and the mount table is readable.
    pub fn here() -> Option<Self> {
        guard::mounts().is_ok_and(|mounts| mounts.iter().any(is_control)).then_some(Self(()))
    }

    /// Returns whether this is user-mode Linux, which writes all images to the host when it ends. A flush before would
    /// only wait for the host's disk.
    pub(crate) fn is_user_mode() -> bool {
        guard::mounts().is_ok_and(|mounts| mounts.iter().any(|line| is_control(line) && line.file_system == "hostfs"))
    }

    /// Returns the selected emulated drive. [`TargetError::Missing`] if the guest has no such drive,
    /// [`TargetError::Usage`] if it has several.
    pub fn drive(self, wanted: DriveChoice) -> Result<PathBuf, TargetError> {
        choose(emulated(Path::new("/sys/block")), wanted)
    }

    /// Returns the word for `erase` that allows erasing an emulated drive. Refuses all other drives.
    pub fn erase(self, drive: &Path) -> Result<String, TargetError> {
        let device = BlockDevice::open(drive)?;
        match device.serial() {
            Some(serial) if serial.starts_with(SERIAL_OF_KEPT) => Err(TargetError::refused(
                drive.display(),
                format!("its content is kept for later runs (serial number {serial}), but would be erased"),
                "leave out --keep-drive",
            )),
            Some(serial) if serial.starts_with(SERIAL) => Ok(device.path().display().to_string()),
            found => Err(TargetError::refused(
                drive.display(),
                format!("the guest did not emulate it (serial number {})", found.unwrap_or_else(|| "none".into())),
                format!("only drives whose serial number begins with {SERIAL} are scratch"),
            )),
        }
    }
}

fn is_control(line: &MountLine) -> bool {
    // hostfs exists only in user-mode Linux.
    let is_shared = matches!(line.file_system.as_str(), "9p" | "hostfs");
    line.mount_point == Path::new(CONTROL) && is_shared && line.source == Path::new(CONTROL_TAG)
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Drive {
    sectors: u64,
    path: PathBuf,
    zoned: bool,
}

fn emulated(blocks: &Path) -> Vec<Drive> {
    let entries = fs::read_dir(blocks).into_iter().flatten().flatten();
    let drive = |folder: PathBuf| {
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_string();
        let name = folder.file_name()?.to_string_lossy().into_owned();
        (name.starts_with("nvme") && read("device/serial").starts_with(SERIAL)).then(|| Drive {
            sectors: read("size").parse().unwrap_or(0),
            path: Path::new("/dev").join(name),
            zoned: read("queue/zoned") == "host-managed",
        })
    };
    let mut drives: Vec<Drive> = entries.filter_map(|entry| drive(entry.path())).collect();
    drives.sort();
    drives
}

/// Chooses among `drives`, which are sorted by size.
fn choose(mut drives: Vec<Drive>, wanted: DriveChoice) -> Result<PathBuf, TargetError> {
    drives.retain(|drive| wanted == DriveChoice::Only || drive.zoned == (wanted == DriveChoice::Zoned));
    let (what, how) = match wanted {
        DriveChoice::Only => ("NVMe drive", "nvme"),
        DriveChoice::Zoned => ("zoned drive", "zns"),
        DriveChoice::Smallest | DriveChoice::Largest => ("conventional NVMe drive", "nvme"),
    };
    if matches!(wanted, DriveChoice::Only | DriveChoice::Zoned) && drives.len() > 1 {
        let names: Vec<String> = drives.iter().map(|drive| drive.path.display().to_string()).collect();
        return Err(TargetError::Usage(format!("auto means the only {what}; name one of {}", names.join(", "))));
    }
    let chosen = if wanted == DriveChoice::Largest { drives.pop() } else { drives.into_iter().next() };
    chosen.map(|drive| drive.path).ok_or_else(|| {
        TargetError::missing(format!("auto: the guest's {what}"), format!("start it with senesce vm run --drive {how}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mount_point: &str, file_system: &str, source: &str) -> MountLine {
        MountLine {
            device: (0, 40),
            root: "/".into(),
            mount_point: mount_point.into(),
            options: "rw".into(),
            file_system: file_system.into(),
            source: source.into(),
        }
    }

    #[test]
    fn guest_is_recognised_by_its_control_share() {
        assert!(is_control(&line(CONTROL, "9p", CONTROL_TAG)));
        assert!(is_control(&line(CONTROL, "hostfs", CONTROL_TAG)));
        assert!(!is_control(&line(CONTROL, "tmpfs", CONTROL_TAG)), "a folder of a host");
        assert!(!is_control(&line(CONTROL, "9p", "home")), "a share of another virtual machine");
        assert!(!is_control(&line("/mnt", "9p", CONTROL_TAG)));
    }

    #[test]
    fn auto_is_refused_on_a_host() {
        for wanted in [DriveChoice::Only, DriveChoice::Zoned, DriveChoice::Smallest, DriveChoice::Largest] {
            assert!(matches!(find("auto", wanted), Err(TargetError::Refused { .. })));
        }
        assert_eq!(find("/dev/nvme7n1", DriveChoice::Zoned).unwrap(), Path::new("/dev/nvme7n1"));
    }

    #[test]
    #[ignore = "needs loop devices"]
    fn only_emulated_drives_may_be_erased() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let device = crate::LoopDevice::attach(file.as_file(), "guest test", false).unwrap();
        let refused = Guest(()).erase(device.path()).unwrap_err();
        assert!(matches!(refused, TargetError::Refused { .. }), "{refused}");
    }

    #[test]
    fn emulated_drives_are_chosen_by_kind() {
        let blocks = tempfile::tempdir().unwrap();
        let put = |name: &str, sectors: u64, zoned: &str, serial: &str| {
            for folder in ["queue", "device"] {
                fs::create_dir_all(blocks.path().join(name).join(folder)).unwrap();
            }
            fs::write(blocks.path().join(name).join("size"), sectors.to_string()).unwrap();
            fs::write(blocks.path().join(name).join("queue/zoned"), format!("{zoned}\n")).unwrap();
            fs::write(blocks.path().join(name).join("device/serial"), format!("{serial}\n")).unwrap();
        };
        let chosen = |wanted| choose(emulated(blocks.path()), wanted);
        put("vda", 9, "none", "senesce-disk");
        put("nvme9n1", 1, "none", "S4EWNX0R123456");
        assert!(
            matches!(chosen(DriveChoice::Only), Err(TargetError::Missing { .. })),
            "drives of the host are never chosen"
        );
        put("nvme0n1", 100, "none", "senesce-nvme0");
        assert_eq!(chosen(DriveChoice::Only).unwrap(), Path::new("/dev/nvme0n1"));
        put("nvme1n1", 20, "none", "senesce-nvme1");
        put("nvme2n1", 50, "host-managed", "senesce-zns2");
        assert_eq!(chosen(DriveChoice::Smallest).unwrap(), Path::new("/dev/nvme1n1"));
        assert_eq!(chosen(DriveChoice::Largest).unwrap(), Path::new("/dev/nvme0n1"));
        assert_eq!(chosen(DriveChoice::Zoned).unwrap(), Path::new("/dev/nvme2n1"));
        let several = chosen(DriveChoice::Only).unwrap_err().to_string();
        assert!(several.contains("/dev/nvme1n1, /dev/nvme2n1, /dev/nvme0n1"), "{several}");
    }
}
