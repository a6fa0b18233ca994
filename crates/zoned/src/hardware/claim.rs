//! Claims a zoned drive: it must be unused, and every zone empty or its loss allowed.

use super::block::ZonedBlockDevice;
use super::drive_content::{holds_only_noise, leftover_on};
use super::leftover::Leftover;
use super::nvme::{NvmeDevice, first_with_data};
use super::paths::{block_path, check_visible, identity_of, passthrough_path};
use super::ring::RingOptions;
use crate::device::ZonedDevice;
use crate::error::ZonedError;
use crate::geometry::ZoneInfo;
use crate::job::Pointers;
use crate::sim::HostPath;
use senesce_core::IoFailure;
use senesce_core::environment::remedy_of_right;
use senesce_volume::{ChangedSetting, ClaimedDevice};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A claimed drive. While this lives, no other run can claim the drive.
#[derive(Debug)]
pub(crate) struct ClaimedDrive {
    path: PathBuf,
    /// Serial number, or the path if the drive has none.
    identity: String,
    way: HostPath,
    epoch: Instant,
    /// Scheduler of the path, restored while the drive is still claimed.
    scheduler: Option<ChangedSetting>,
    /// Block device of the namespace; absent if the kernel shows none.
    claim: Option<ClaimedDevice>,
    /// Whether the zones are as an earlier part of the same run left them.
    is_ours: bool,
    /// Whether the drive was checked again before the first write.
    is_in_use: bool,
    /// How far the last job left its zones written; `None` if unknown.
    pointers: Option<Pointers>,
}

fn open_file(path: &Path) -> Result<File, ZonedError> {
    File::options().read(true).write(true).open(path).map_err(|source| not_opened(path, source))
}

pub(super) fn not_opened(path: &Path, source: std::io::Error) -> ZonedError {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let remedy = remedy_of_right("even root was refused: this container or control group hides the drive");
            ZonedError::Missing { what: format!("permission to open {}", path.display()), remedy: remedy.into() }
        }
        number => {
            let failure = IoFailure::new("open", path, source);
            let failure = failure.with_remedy("`senesce doctor` lists the drives of this machine");
            match number {
                Some(libc::ENOENT | libc::ENOTDIR) => ZonedError::Usage(failure.to_string()),
                _ => ZonedError::Io(failure),
            }
        }
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
            "{} is not a block device and does not have one: use --path direct",
            path.display()
        )));
    };
    Ok(Box::new(ZonedBlockDevice::open(&block, writable, epoch, rings)?))
}

/// Opens a drive to read limits and zone states. Claims and writes nothing.
pub fn open_for_reading(path: &Path, way: HostPath) -> Result<Box<dyn ZonedDevice>, ZonedError> {
    open_on(path, way, false, Instant::now(), RingOptions::default())
}

/// Returns whether the zones are as an earlier part of the same run left them, or hold only noise if that part was
/// interrupted. The regions of a conventional drive prove nothing.
fn is_left_over(path: &Path, way: HostPath, left: &Leftover) -> Result<bool, ZonedError> {
    let mut device = open_for_reading(path, way)?;
    if !device.geometry().zoned {
        return Ok(false);
    }
    let zones = device.report(0, device.geometry().zones)?;
    let found = leftover_on(&zones, device.geometry().block_bytes, block_path(path), &identity_of(path));
    Ok(left.is_found(&found) || left.drive == found.drive && holds_only_noise(&mut *device, block_path(path))?)
}

impl ClaimedDrive {
    /// Claims a drive for one path. Refuses a drive in use, one with a signature, and a zoned drive with any zone that
    /// is not empty, unless `erase` repeats its path or serial number.
    pub(crate) fn claim(path: &Path, way: HostPath, erase: Option<&str>) -> Result<Self, ZonedError> {
        Self::claim_again(path, way, erase, None)
    }

    /// Claims a drive like [`Self::claim`], but accepts zones that match `left` or hold only this program's noise: the
    /// same run wrote them.
    pub(crate) fn claim_again(
        path: &Path,
        way: HostPath,
        erase: Option<&str>,
        left: Option<&Leftover>,
    ) -> Result<Self, ZonedError> {
        let given = path.display().to_string();
        let block = block_path(path);
        // The guard reports the block device's name; replace it by the path that the user gave.
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

    /// Claims a drive for zone commands that lose no data. Refuses a drive that is in use or claimed by another run.
    pub(crate) fn claim_unused(path: &Path, way: HostPath) -> Result<Self, ZonedError> {
        let claim = block_path(path).map(|block| ClaimedDevice::claim_unused(&block)).transpose()?;
        if claim.is_none() {
            check_visible(path, Path::new("/sys/class/block"), &path.display().to_string())?;
        }
        Ok(Self::over(path, way, claim))
    }

    fn over(path: &Path, way: HostPath, claim: Option<ClaimedDevice>) -> Self {
        let (identity, epoch) = (identity_of(path), Instant::now());
        Self {
            path: path.into(),
            identity,
            way,
            epoch,
            claim,
            is_ours: false,
            is_in_use: false,
            pointers: None,
            scheduler: None,
        }
    }

    /// Returns whether the zones were as an earlier part of the same run left them.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Checks again before the first write that the drive is unused and holds only data whose loss was allowed.
    pub(crate) fn check_before_first_write(&mut self) -> Result<(), ZonedError> {
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
        if let Some(word) = erase.filter(|_| !allowed && !self.is_ours) {
            return Err(ZonedError::Refused {
                target: identities[0].clone(),
                found: format!("--erase {word} does not name it"),
                remedy: format!("repeat its identity: --erase {}", identities.join(" or --erase ")),
            });
        }
        let mut device = open_on(&self.path, self.way, true, self.epoch, RingOptions::default())?;
        if !device.geometry().zoned {
            // A conventional drive is inspected through its block device only.
            return match self.claim.is_some() || allowed {
                true => Ok(()),
                false => Err(ZonedError::Refused {
                    target: identities[0].clone(),
                    found: "it has no block device, so its content cannot be inspected".into(),
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
            Some(left) if left.content.is_none() => "; senesce cannot determine whether this run wrote them",
            Some(_) => {
                "; they differ from their state at the end of this run, and not all begin and end with its noise"
            }
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

    pub(crate) fn set_path(&mut self, way: HostPath) -> Result<(), ZonedError> {
        if way == self.way {
            return Ok(());
        }
        self.scheduler = None;
        self.way = way;
        self.set_scheduler()
    }

    /// Returns the current content of the zones. Contains no content hash if they are not as the last job left them.
    pub(crate) fn leftover(&self) -> Result<Leftover, ZonedError> {
        let mut device = open_on(&self.path, self.way, false, self.epoch, RingOptions::default())?;
        let zones = device.report(0, device.geometry().zones)?;
        let found = leftover_on(&zones, device.geometry().block_bytes, block_path(&self.path), &self.identity);
        Ok(if self.check_pointers(&zones).is_err() { found.vouching_for_nothing() } else { found })
    }

    pub(super) fn zones(&self) -> Result<Vec<ZoneInfo>, ZonedError> {
        let mut device = open_on(&self.path, self.way, false, self.epoch, RingOptions::default())?;
        device.report(0, device.geometry().zones)
    }

    /// Refuses zones that are not as the last job left them.
    pub(super) fn check_pointers(&self, zones: &[ZoneInfo]) -> Result<(), ZonedError> {
        self.pointers.as_ref().map_or(Ok(()), |pointers| pointers.check(zones))
    }

    pub(crate) fn check_unchanged(&self) -> Result<(), ZonedError> {
        if self.pointers.is_some() { self.check_pointers(&self.zones()?) } else { Ok(()) }
    }

    /// Remembers how far a job wrote the zones; `None`: unknown from now on.
    pub(crate) fn remember(&mut self, pointers: Option<Pointers>) {
        self.pointers = pointers;
    }

    /// Sets the I/O scheduler of the path; it is restored when the claim ends.
    fn set_scheduler(&mut self) -> Result<(), ZonedError> {
        let (Some(claim), true) = (&self.claim, !self.way.bypasses_block_layer()) else { return Ok(()) };
        self.scheduler = Some(ChangedSetting::set(claim.device().queue_file("scheduler"), self.way.name())?);
        Ok(())
    }

    /// Opens another handle with its own ring.
    pub(crate) fn open(&self, rings: RingOptions) -> Result<Box<dyn ZonedDevice>, ZonedError> {
        open_on(&self.path, self.way, true, self.epoch, rings)
    }

    /// Changes the LBA format of an NVMe namespace, destroying all data.
    pub(crate) fn format(&self, block_bytes: u32) -> Result<(), ZonedError> {
        let Some(character) = passthrough_path(&self.path) else {
            return Err(ZonedError::Usage(format!("{} is not an NVMe namespace", self.path.display())));
        };
        let name = character.display().to_string();
        let mut device = NvmeDevice::new(open_file(&character)?, &name, self.epoch, RingOptions::default())?;
        self.check_again()?;
        device.format(block_bytes)
    }
}
