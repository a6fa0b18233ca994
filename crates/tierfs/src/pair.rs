//! Region and cold store as files or devices: creating, opening, and all refusals.

use crate::check::{CheckReport, check};
use crate::cold::{AlignedBuffer, ColdStore, FileCold};
use crate::error::{TierError, io_error};
use crate::format::{BLOCK, Identity, most_slots};
use crate::nvm::{MappedNvm, lock, open_locked};
use crate::open::{format_region, identify};
use crate::repair::{RepairReport, repair};
use senesce_core::Bytes;
use senesce_core::output::Folder;
use senesce_volume::{BlockDevice, ClaimedDevice, guard};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct MakeRequest {
    pub nvm: PathBuf,
    /// Default: the size of an existing file.
    pub nvm_size: Option<Bytes>,
    pub cold: PathBuf,
    /// Default: the whole device, or [`COLD_FACTOR`] times the region in a sparse file.
    pub cold_size: Option<Bytes>,
    /// Paths (or serial numbers of devices) whose content may be lost.
    pub erase: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CreatedPair {
    pub nvm_bytes: u64,
    pub cold_bytes: u64,
    pub pair: String,
}

/// Default size of a cold store in a file, relative to the region.
pub(crate) const COLD_FACTOR: u64 = 8;
const LEAST_SLOTS: u64 = 16;

/// Creates an empty file system. Writes nothing before both halves are claimed.
pub fn make(request: &MakeRequest) -> Result<CreatedPair, TierError> {
    if request.nvm == request.cold {
        return Err(TierError::Usage("--nvm and --cold name the same file; use different files".into()));
    }
    let mut created = Created(Vec::new());
    let word = word_for(&request.nvm, request).map(str::to_string);
    let nvm = claim_file(&request.nvm, 0, &mut created, |_| word)?;
    let nvm_bytes = region_size(&nvm, request)?;
    let cold = ColdClaim::take(&request.cold, word_for(&request.cold, request), &mut created)?;
    let cold_bytes = cold.size(&request.cold, request.cold_size, nvm_bytes)?;
    let blocks = nvm_bytes / BLOCK as u64;
    let identity = Identity { pair: random_identity()?, blocks, slots: cold_bytes / BLOCK as u64 };

    cold.prepare(&request.cold, cold_bytes)?;
    write_cold_header(&cold, &request.cold, &identity)?;
    reserve(&nvm, &request.nvm, nvm_bytes)?;
    format_region(Box::new(MappedNvm::map(nvm, &request.nvm, false)?), &identity)?;
    created.0.clear();
    let pair = identity.pair.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(CreatedPair { nvm_bytes, cold_bytes, pair })
}

/// Returns the word of `--erase` for one half: its path, or a word that is neither half's path.
fn word_for<'a>(path: &Path, request: &'a MakeRequest) -> Option<&'a str> {
    let names = |half: &Path, word: &String| guard::names(word, half);
    let own = request.erase.iter().find(|word| names(path, word));
    let other = || request.erase.iter().find(|word| !names(&request.nvm, word) && !names(&request.cold, word));
    own.or_else(other).map(String::as_str)
}

/// Creates a cold store for a region of `nvm_bytes` in anonymous memory; overwrites one that was created in this way. Refuses
/// symbolic links.
pub(crate) fn fresh_cold(path: &Path, nvm_bytes: u64) -> Result<(FileCold, Identity), TierError> {
    let mut created = Created(Vec::new());
    let claim = ColdClaim::take_own(path, &mut created)?;
    let bytes = claim.size(path, None, nvm_bytes)?;
    let identity = Identity { pair: random_identity()?, blocks: 0, slots: bytes / BLOCK as u64 };
    claim.prepare(path, bytes)?;
    write_cold_header(&claim, path, &identity)?;
    created.0.clear();
    let cold = FileCold::of(claim.file(), path)?;
    drop(claim);
    lock(cold.file(), path)?;
    Ok((cold, identity))
}

/// Returns whether an open file or device is the cold store of a region in anonymous memory, which no longer exists.
fn is_own_cold(file: &File, path: &Path) -> bool {
    let mut header = [0; BLOCK];
    file.read_exact_at(&mut header, 0).is_ok()
        && Identity::decode_cold(&header, path).is_ok_and(|identity| identity.blocks == 0)
}

/// The files contain all users' files without their permissions: only the owner may read them, whatever the umask.
const FOR_THE_OWNER: u32 = 0o600;

/// Newly created files, removed if making the file system fails.
struct Created(Vec<(Folder, OsString)>);

impl Drop for Created {
    fn drop(&mut self) {
        for (folder, name) in &self.0 {
            let _ = folder.remove_file(name);
        }
    }
}

/// Claims and opens a file with its lock; `word` is the word of `--erase` for it.
fn claim_file(
    path: &Path,
    flags: i32,
    created: &mut Created,
    word: impl FnOnce(&File) -> Option<String>,
) -> Result<File, TierError> {
    let file = if path.exists() {
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let file = opened.map_err(io_error("open", path))?;
        guard::check_not_planted(&file, path)?;
        file
    } else {
        // A new file is created by name, never through a dangling link.
        let (folder, name) = Folder::of(path).map_err(io_error("make", path))?;
        let file = folder.create_new(&name, FOR_THE_OWNER).map_err(io_error("make", path))?;
        created.0.push((folder, name));
        file
    };
    lock(&file, path)?;
    guard::check_image(&file, path, word(&file).as_deref())?;
    file.set_permissions(Permissions::from_mode(FOR_THE_OWNER)).map_err(io_error("set the mode of", path))?;
    Ok(file)
}

fn region_size(file: &File, request: &MakeRequest) -> Result<u64, TierError> {
    let found = file.metadata().map_err(io_error("stat", &request.nvm))?.len();
    let bytes = request.nvm_size.map_or(found, |size| size.0) / BLOCK as u64 * BLOCK as u64;
    let least = crate::format::MIN_BLOCKS * BLOCK as u64;
    let most = u64::from(u32::MAX) * BLOCK as u64;
    if bytes < least || bytes > most {
        let range = format!("{} to {}", Bytes(least), Bytes(most));
        return Err(TierError::Usage(format!("a region of {} is not possible: set --nvm-size, {range}", Bytes(bytes))));
    }
    Ok(bytes)
}

/// Allocates all memory of the region: a store into a page that the file system cannot provide would end the process.
fn reserve(file: &File, path: &Path, bytes: u64) -> Result<(), TierError> {
    file.set_len(0).map_err(io_error("empty", path))?;
    file.set_len(bytes).map_err(io_error("size", path))?;
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(error) => Err(io_error("reserve the memory of", path)(error.into())),
    }
}

enum ColdClaim {
    File(File),
    Device(ClaimedDevice),
    OwnDevice(ClaimedDevice),
}

impl ColdClaim {
    fn take(path: &Path, erase: Option<&str>, created: &mut Created) -> Result<Self, TierError> {
        if is_block_device(path) {
            return Ok(Self::Device(ClaimedDevice::claim(path, erase)?));
        }
        Ok(Self::File(claim_file(path, 0, created, |_| erase.map(str::to_string))?))
    }

    /// Accepts an empty one, or the cold store of an anonymous region; the inspected file is the claimed one.
    fn take_own(path: &Path, created: &mut Created) -> Result<Self, TierError> {
        if !is_block_device(path) {
            let word = |file: &File| is_own_cold(file, path).then(|| path.display().to_string());
            return Ok(Self::File(claim_file(path, libc::O_NOFOLLOW | libc::O_NONBLOCK, created, word)?));
        }
        let device = ClaimedDevice::claim_unused(path)?;
        if is_own_cold(device.file(), path) {
            return Ok(Self::OwnDevice(device));
        }
        drop(device);
        Ok(Self::Device(ClaimedDevice::claim(path, None)?))
    }

    fn size(&self, path: &Path, wanted: Option<Bytes>, nvm_bytes: u64) -> Result<u64, TierError> {
        let bytes = match self {
            Self::File(_) => wanted.map_or(nvm_bytes * COLD_FACTOR, |size| size.0),
            Self::Device(device) | Self::OwnDevice(device) => wanted.map_or(device.size().0, |size| size.0),
        };
        if let Self::Device(device) | Self::OwnDevice(device) = self
            && bytes > device.size().0
        {
            let found = device.size();
            let path = path.display();
            return Err(TierError::Usage(format!("{path} has {found}, less than --cold-size {}", Bytes(bytes))));
        }
        let mut slots = (bytes / BLOCK as u64).min(u64::from(u32::MAX));
        if wanted.is_none() {
            slots = slots.min(most_slots(nvm_bytes / BLOCK as u64));
        }
        if slots < LEAST_SLOTS {
            let least = Bytes(LEAST_SLOTS * BLOCK as u64);
            return Err(TierError::Usage(format!("a cold store needs at least {least}; give a larger --cold-size")));
        }
        Ok(slots * BLOCK as u64)
    }

    fn file(&self) -> &File {
        match self {
            Self::File(file) => file,
            Self::Device(device) | Self::OwnDevice(device) => device.file(),
        }
    }

    fn prepare(&self, path: &Path, bytes: u64) -> Result<(), TierError> {
        match self {
            Self::File(file) => {
                file.set_len(0).map_err(io_error("empty", path))?;
                file.set_len(bytes).map_err(io_error("size", path))
            }
            Self::Device(device) => Ok(device.check_again()?),
            Self::OwnDevice(device) => Ok(device.check_unused_again()?),
        }
    }
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn write_cold_header(claim: &ColdClaim, path: &Path, identity: &Identity) -> Result<(), TierError> {
    let store = FileCold::of(claim.file(), path)?;
    let mut header = AlignedBuffer::new(1);
    let bytes = identity.encode_cold();
    header[..bytes.len()].copy_from_slice(&bytes);
    store.write(0, &header).and_then(|()| store.sync()).map_err(io_error("write the header of", path))
}

fn random_identity() -> Result<[u8; 16], TierError> {
    let path = Path::new("/dev/urandom");
    let mut pair = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut pair)).map_err(io_error("read", path))?;
    Ok(pair)
}

/// Both halves, locked and checked to belong together.
pub struct OpenPair {
    pub nvm: MappedNvm,
    pub cold: FileCold,
    pub identity: Identity,
}

/// Opens and locks both halves. With `private`, stores do not reach the region's file.
pub fn open(nvm_path: &Path, cold_path: &Path, private: bool) -> Result<OpenPair, TierError> {
    let nvm_file = open_locked(nvm_path)?;
    if !private {
        guard::check_not_planted(&nvm_file, nvm_path)?;
    }
    warn_of_readers(nvm_path);
    warn_of_readers(cold_path);
    let bytes = nvm_file.metadata().map_err(io_error("stat", nvm_path))?.len();
    if bytes < BLOCK as u64 {
        let found = format!("it has {bytes} bytes");
        return Err(TierError::Foreign { path: nvm_path.into(), role: "region", found });
    }
    let cold = open_cold(cold_path)?;
    if !private && !is_block_device(cold_path) {
        guard::check_not_planted(cold.file(), cold_path)?;
    }
    let nvm = MappedNvm::map(nvm_file, nvm_path, private)?;
    let identity = identify(&nvm, nvm_path)?;
    let other = cold_identity(&cold, cold_path)?;
    if identity.pair != other.pair {
        return Err(TierError::NotAPair { nvm: nvm_path.into(), cold: cold_path.into() });
    }
    let found = cold.bytes().map_err(io_error("find the size of", cold_path))?;
    let expected = identity.slots * BLOCK as u64;
    if found < expected {
        return Err(TierError::Truncated { path: cold_path.into(), found, expected });
    }
    Ok(OpenPair { nvm, cold, identity })
}

/// Warns if other users can read a half, because an earlier version created it or it was copied.
fn warn_of_readers(path: &Path) {
    let found = std::fs::metadata(path).ok().filter(|found| found.is_file());
    if found.is_some_and(|found| found.permissions().mode() & 0o077 != 0) {
        tracing::warn!(
            "other users can read {path}, and with it all files of the file system: run chmod 600 {path}",
            path = path.display()
        );
    }
}

fn open_cold(path: &Path) -> Result<FileCold, TierError> {
    if is_block_device(path) {
        guard::check_unused(&BlockDevice::open(path)?)?;
    }
    let cold = FileCold::open(path)?;
    lock(cold.file(), path)?;
    Ok(cold)
}

fn cold_identity(cold: &FileCold, path: &Path) -> Result<Identity, TierError> {
    let mut header = AlignedBuffer::new(1);
    match cold.read(0, &mut header) {
        Ok(()) => Identity::decode_cold(&header, path),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Identity::decode_cold(&[], path),
        Err(error) => Err(io_error("read the header of", path)(error)),
    }
}

/// Checks an unmounted file system without changing it.
pub fn check_pair(nvm: &Path, cold: &Path) -> Result<CheckReport, TierError> {
    let pair = open(nvm, cold, true)?;
    check(Box::new(pair.nvm), Some(&pair.cold), nvm)
}

/// Repairs an unmounted file system: discards damaged parts and keeps the rest.
pub fn repair_pair(nvm: &Path, cold: &Path) -> Result<RepairReport, TierError> {
    crate::repair::restore_headers(nvm, cold)?;
    let pair = open(nvm, cold, false)?;
    repair(Box::new(pair.nvm), Box::new(pair.cold), nvm)
}

#[cfg(test)]
mod tests;
