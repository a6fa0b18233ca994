//! The claim of a zoned drive: nobody uses it, and every zone is empty or its loss was allowed.

use super::block::ZonedBlockDevice;
use super::leftover::Leftover;
use super::looking::{found_on, holds_only_noise};
use super::nvme::{NvmeDevice, first_with_data};
use super::ring::RingOptions;
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::sim::HostPath;
use senesce_core::IoFailure;
use senesce_volume::{BlockDevice, ChangedSetting, ClaimedDevice};
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A drive that belongs to this run. While it lives, no other run can take it.
#[derive(Debug)]
pub struct ClaimedDrive {
    path: PathBuf,
    /// Serial number, or the path where there is none.
    identity: String,
    way: HostPath,
    epoch: Instant,
    /// The scheduler of the way; it is put back while the drive is still claimed.
    scheduler: Option<ChangedSetting>,
    /// The block device of the namespace; absent where the kernel shows none.
    claim: Option<ClaimedDevice>,
    /// Whether the zones are as an earlier part of the same run left them.
    is_ours: bool,
    /// Whether it was asked for once more before the first write.
    is_in_use: bool,
}

fn is_character_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_char_device())
}

/// /dev/ngXnY of /dev/nvmeXnY, or the device itself when it is a character device. A link is followed first: what lies beside
/// it says nothing about the drive.
fn passthrough_path(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    if is_character_device(&real) {
        return Some(real);
    }
    let name = real.file_name()?.to_str()?.strip_prefix("nvme")?.to_string();
    let found = real.with_file_name(format!("ng{name}"));
    is_character_device(&found).then_some(found)
}

/// Whether commands can bypass the block layer.
pub fn has_passthrough(path: &Path) -> bool {
    passthrough_path(path).is_some()
}

/// /dev/nvmeXnY of /dev/ngXnY, or the path itself when it is a block device. Links are followed as above.
fn block_path(path: &Path) -> Option<PathBuf> {
    if BlockDevice::number_of(path).is_some() {
        return Some(path.into());
    }
    let real = path.canonicalize().ok()?;
    let found = real.with_file_name(block_name(&real)?);
    BlockDevice::number_of(&found).is_some().then_some(found)
}

/// The name of the block device that belongs to a character device.
fn block_name(real: &Path) -> Option<String> {
    Some(format!("nvme{}", real.file_name()?.to_str()?.strip_prefix("ng")?))
}

/// The block device of a character device, as far as the kernel lists it in `class`.
fn hidden_block_device(path: &Path, class: &Path) -> Option<String> {
    let name = block_name(&path.canonicalize().ok()?)?;
    class.join(&name).exists().then_some(name)
}

fn open_file(path: &Path) -> Result<File, ZonedError> {
    File::options().read(true).write(true).open(path).map_err(|source| not_opened(path, source))
}

/// Why a drive could not be opened.
pub(super) fn not_opened(path: &Path, source: std::io::Error) -> ZonedError {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let remedy = match rustix::process::geteuid().is_root() {
                true => "root was refused as well: this container or control group hides the drive",
                false => "run as root",
            };
            ZonedError::Missing { what: format!("permission to open {}", path.display()), remedy: remedy.into() }
        }
        _ => ZonedError::Io(
            IoFailure::new("open", path, source).with_remedy("`senesce doctor` lists the drives of this machine"),
        ),
    }
}

fn open_on(
    path: &Path,
    way: HostPath,
    writable: bool,
    epoch: Instant,
    rings: RingOptions,
) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    path.metadata().map_err(|source| not_opened(path, source))?;
    if way.bypasses_block_layer() {
        let Some(character) = passthrough_path(path) else {
            return Err(ZonedError::Usage(format!(
                "{} has no passthrough: --path direct or passthrough needs an NVMe namespace (/dev/ng0n1); use --path none or mq-deadline",
                path.display()
            )));
        };
        let name = character.display().to_string();
        return Ok(Box::new(NvmeDevice::new(open_file(&character)?, &name, epoch, rings)?));
    }
    let Some(block) = block_path(path) else {
        return Err(ZonedError::Usage(format!(
            "{} is no block device and has none: use --path direct",
            path.display()
        )));
    };
    Ok(Box::new(ZonedBlockDevice::open(&block, writable, epoch, rings)?))
}

/// Whether there is a way through the block layer.
pub fn has_block_device(path: &Path) -> bool {
    block_path(path).is_some()
}

/// What the drive calls itself; of a device without a model, such as a null_blk or loop device, its kernel name.
pub fn model_of(path: &Path) -> Option<String> {
    let identified = passthrough_path(path).and_then(|character| {
        let file = File::open(&character).ok()?;
        super::nvme_commands::Identity::read(&file, &character.display().to_string()).ok()
    });
    if let Some(identity) = identified {
        return Some(identity.model);
    }
    let device = BlockDevice::open(&block_path(path)?).ok()?.disk();
    device.attribute("device/model").filter(|model| !model.is_empty()).or_else(|| Some(device.name().into()))
}

/// A drive to be looked at: limits and zone states. Nothing is claimed, nothing may be written.
///
/// # Errors
/// [`ZonedError::Usage`] when there is no such way to the drive, [`ZonedError::Missing`] without permission;
/// [`ZonedError::Io`] when it cannot be opened or does not tell its zones and limits.
pub fn open_for_reading(path: &Path, way: HostPath) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    open_on(path, way, false, Instant::now(), RingOptions::default())
}

/// The serial number of a drive, or its path where it has none.
fn identity_of(path: &Path) -> String {
    let block = block_path(path);
    let serial = block.as_deref().and_then(|block| BlockDevice::open(block).ok()?.serial());
    serial.unwrap_or_else(|| block.as_deref().unwrap_or(path).display().to_string())
}

/// Whether its zones are as an earlier part of the same run left them, or hold nothing but noise where that part was cut off. The
/// regions of a conventional drive tell nothing.
fn is_left_over(path: &Path, way: HostPath, left: &Leftover) -> Result<bool, ZonedError> {
    let mut device = open_for_reading(path, way)?;
    if !device.geometry().zoned {
        return Ok(false);
    }
    let found = found_on(&mut *device, block_path(path), &identity_of(path))?;
    Ok(left.is_found(&found) || left.drive == found.drive && holds_only_noise(&mut *device, block_path(path))?)
}

/// Refuses a drive whose block device this process cannot open, because the kernel lists it in `class` and no node of it is
/// here: nobody can tell who uses it.
fn check_visible(path: &Path, class: &Path, target: &str) -> Result<(), ZonedError> {
    match hidden_block_device(path, class) {
        None => Ok(()),
        Some(name) => Err(ZonedError::Refused {
            target: target.into(),
            found: format!("its block device {name} is not in its folder, so who uses it cannot be looked at"),
            remedy: format!("make /dev/{name} visible here; no flag allows using a drive that may be in use"),
        }),
    }
}

impl ClaimedDrive {
    /// Claims a drive for one way. Refused: a drive in use, one with a signature, and a zoned one with any zone that is not
    /// empty, unless `erase` repeats its path or serial number.
    ///
    /// # Errors
    /// [`ZonedError::Target`] or [`ZonedError::Refused`] with what was found and what would allow it; as
    /// [`open_for_reading`]; [`ZonedError::Target`] when the I/O scheduler cannot be set.
    pub fn claim(path: &Path, way: HostPath, erase: Option<&str>) -> Result<Self, ZonedError> {
        Self::claim_again(path, way, erase, None)
    }

    /// As [`Self::claim`]; zones that are as `left` says, or hold nothing but this program's noise, are not refused: the caller
    /// wrote them itself.
    ///
    /// # Errors
    /// As [`Self::claim`].
    pub fn claim_again(
        path: &Path,
        way: HostPath,
        erase: Option<&str>,
        left: Option<&Leftover>,
    ) -> Result<Self, ZonedError> {
        let given = path.display().to_string();
        let block = block_path(path);
        // The guard of block devices knows the block device's names: the path that the user wrote stands for them.
        let block_words = block.as_ref().map(|block| block.display().to_string());
        let word = match (erase, &block_words) {
            (Some(word), Some(block)) if word == given => Some(block.as_str()),
            (word, _) => word,
        };
        let mut is_ours = false;
        let mut look = || {
            is_ours = left.map_or(Ok(false), |left| is_left_over(path, way, left))?;
            Ok::<bool, ZonedError>(is_ours)
        };
        let claim = block.as_deref().map(|block| ClaimedDevice::claim_again(block, word, &mut look)).transpose()?;
        if claim.is_none() {
            check_visible(path, Path::new("/sys/class/block"), &given)?;
            look()?;
        }
        let mut identities = vec![given];
        identities.extend(block_words);
        identities.extend(claim.as_ref().and_then(|claim| claim.device().serial()));
        let mut drive = Self::over(path, way, claim);
        drive.is_ours = is_ours;
        drive.check_zones(&identities, erase, left)?;
        drive.set_scheduler()?;
        Ok(drive)
    }

    /// Claims a drive whose data are kept, for zone commands that lose none: refused when it is in use or another run has it.
    ///
    /// # Errors
    /// What the guard said.
    pub fn claim_unused(path: &Path, way: HostPath) -> Result<Self, ZonedError> {
        let claim = block_path(path).map(|block| ClaimedDevice::claim_unused(&block)).transpose()?;
        if claim.is_none() {
            check_visible(path, Path::new("/sys/class/block"), &path.display().to_string())?;
        }
        Ok(Self::over(path, way, claim))
    }

    fn over(path: &Path, way: HostPath, claim: Option<ClaimedDevice>) -> Self {
        let (identity, epoch) = (identity_of(path), Instant::now());
        Self { path: path.into(), identity, way, epoch, claim, is_ours: false, is_in_use: false, scheduler: None }
    }

    /// Whether its zones were as an earlier part of the same run left them.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Asks once more before the first write: nobody has begun to use it, and it holds nothing that its claim did not allow.
    ///
    /// # Errors
    /// What the guard said.
    pub fn check_before_first_write(&mut self) -> Result<(), ZonedError> {
        if !self.is_in_use {
            self.check_again()?;
            self.is_in_use = true;
        }
        Ok(())
    }

    fn check_again(&self) -> Result<(), ZonedError> {
        match &self.claim {
            Some(claim) if self.is_ours => Ok(claim.check_unused_again()?),
            Some(claim) => Ok(claim.check_again()?),
            None => check_visible(&self.path, Path::new("/sys/class/block"), &self.path.display().to_string()),
        }
    }

    fn check_zones(
        &self,
        identities: &[String],
        erase: Option<&str>,
        left: Option<&Leftover>,
    ) -> Result<(), ZonedError> {
        let allowed = erase.is_some_and(|word| identities.iter().any(|identity| identity == word));
        let mut device = open_on(&self.path, self.way, true, self.epoch, RingOptions::default())?;
        if !device.geometry().zoned {
            // A conventional drive has been looked at through its block device, or not at all.
            return match self.claim.is_some() || allowed {
                true => Ok(()),
                false => Err(ZonedError::Refused {
                    target: identities[0].clone(),
                    found: "there is no block device of it, so what it holds cannot be looked at".into(),
                    remedy: format!("allow the loss of its data with --erase {}", identities[0]),
                }),
            };
        }
        let zones = device.report(0, device.geometry().zones)?;
        let Some(first) = first_with_data(&zones) else { return Ok(()) };
        if allowed || self.is_ours {
            return Ok(());
        }
        let since = match left {
            None => "",
            Some(left) if left.content.is_none() => "; whether this run wrote them cannot be read",
            Some(_) => "; they are not as this run left them, and not all begin and end with what it writes",
        };
        let count = zones.iter().filter(|zone| zone.may_hold_data()).count();
        Err(ZonedError::Refused {
            target: identities[0].clone(),
            found: format!(
                "{count} of {} zones are not empty, the first is zone {} ({}){since}",
                zones.len(),
                first.zone,
                first.state
            ),
            remedy: format!("allow the loss of their data with --erase {}", identities.join(" or --erase ")),
        })
    }

    /// Goes on by another way.
    ///
    /// # Errors
    /// When the scheduler cannot be set.
    pub fn set_way(&mut self, way: HostPath) -> Result<(), ZonedError> {
        if way == self.way {
            return Ok(());
        }
        self.scheduler = None;
        self.way = way;
        self.set_scheduler()
    }

    /// What the zones hold now.
    ///
    /// # Errors
    /// When the drive does not report them.
    pub fn leftover(&self) -> Result<Leftover, ZonedError> {
        let mut device = open_on(&self.path, self.way, false, self.epoch, RingOptions::default())?;
        found_on(&mut *device, block_path(&self.path), &self.identity)
    }

    /// Sets the I/O scheduler of the way; it is put back when the claim ends.
    fn set_scheduler(&mut self) -> Result<(), ZonedError> {
        let (Some(claim), true) = (&self.claim, !self.way.bypasses_block_layer()) else { return Ok(()) };
        self.scheduler = Some(ChangedSetting::set(claim.device().queue_file("scheduler"), self.way.name())?);
        Ok(())
    }

    /// One more handle on the drive, with a ring of its own.
    ///
    /// # Errors
    /// As [`open_for_reading`].
    pub fn open(&self, rings: RingOptions) -> Result<Box<dyn ZonedDevice>, ZonedError> {
        open_on(&self.path, self.way, true, self.epoch, rings)
    }

    /// Changes the LBA format of an NVMe namespace; all data are lost.
    ///
    /// # Errors
    /// [`ZonedError::Usage`] for what is no NVMe namespace or has no such format; [`ZonedError::Missing`] when the
    /// controller cannot format; what the guard says; [`ZonedError::Io`] when the command fails.
    pub fn format(&self, block_bytes: u32) -> Result<(), ZonedError> {
        let Some(character) = passthrough_path(&self.path) else {
            return Err(ZonedError::Usage(format!("{} is no NVMe namespace", self.path.display())));
        };
        let name = character.display().to_string();
        let mut device = NvmeDevice::new(open_file(&character)?, &name, self.epoch, RingOptions::default())?;
        self.check_again()?;
        device.format(block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    use std::os::unix::fs::symlink;

    /// What a link is called and what lies beside it must not decide which drive is looked at.
    #[test]
    #[ignore = "needs root"]
    fn the_block_device_is_that_of_the_drive_and_not_of_a_link() {
        let room = tempfile::tempdir().unwrap();
        let real = room.path().canonicalize().unwrap();
        let (dev, planted) = (real.join("dev"), real.join("planted"));
        [&dev, &planted].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let node = |path: &Path, kind, number| mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, number).is_ok();
        // Devices that do nothing: a loop device that nobody made, and /dev/null.
        let made = node(&dev.join("nvme7n1"), FileType::BlockDevice, makedev(7, 250))
            && node(&planted.join("nvme0n1"), FileType::BlockDevice, makedev(7, 251))
            && node(&dev.join("ng7n1"), FileType::CharacterDevice, makedev(1, 3));
        assert!(made, "device nodes can be made");
        for link in ["drive", "ng0n1"] {
            symlink(dev.join("ng7n1"), planted.join(link)).unwrap();
            assert_eq!(block_path(&planted.join(link)).unwrap(), dev.join("nvme7n1"), "{link}");
            assert_eq!(passthrough_path(&planted.join(link)).unwrap(), dev.join("ng7n1"), "{link}");
        }
        symlink(dev.join("nvme7n1"), planted.join("disk")).unwrap();
        assert_eq!(passthrough_path(&planted.join("disk")).unwrap(), dev.join("ng7n1"));
    }

    #[test]
    fn a_block_device_that_is_hidden_here_is_known() {
        let room = tempfile::tempdir().unwrap();
        let class = room.path().join("class");
        std::fs::create_dir_all(class.join("nvme9n1")).unwrap();
        for (drive, hidden) in [("ng9n1", Some("nvme9n1")), ("ng8n1", None), ("other", None)] {
            std::fs::write(room.path().join(drive), "").unwrap();
            symlink(drive, room.path().join(format!("link-{drive}"))).unwrap();
            for path in [drive.to_string(), format!("link-{drive}")] {
                let path = room.path().join(path);
                assert_eq!(hidden_block_device(&path, &class).as_deref(), hidden);
                assert_eq!(check_visible(&path, &class, "drive").is_err(), hidden.is_some());
            }
        }
    }
}
