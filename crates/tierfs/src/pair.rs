//! Region and cold store on disk: making them and opening them, with every refusal.

use crate::cold::{AlignedBuffer, ColdStore, FileCold};
use crate::error::{TierError, io_error};
use crate::format::{BLOCK, Identity};
use crate::nvm::{MappedNvm, lock, open_locked};
use crate::open::{CheckReport, check, format_region, identify};
use senesce_core::Bytes;
use senesce_volume::{BlockDevice, ClaimedDevice, guard};
use std::fs::{File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What to make.
#[derive(Debug, Clone)]
pub struct MakeRequest {
    /// File of the region.
    pub nvm: PathBuf,
    /// Its size; that of the file if it exists already.
    pub nvm_size: Option<Bytes>,
    /// File or block device of the cold store.
    pub cold: PathBuf,
    /// Its size; the whole device, or [`COLD_FACTOR`] times the region in a sparse file.
    pub cold_size: Option<Bytes>,
    /// Paths (of a device also its serial number) whose content may be lost.
    pub erase: Vec<String>,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Made {
    /// Bytes of the region.
    pub nvm_bytes: u64,
    /// Bytes of the cold store.
    pub cold_bytes: u64,
    /// Identity of the pair, in hexadecimal digits.
    pub pair: String,
}

/// Size of a cold store in a file, in regions, unless it is said.
pub const COLD_FACTOR: u64 = 8;
const LEAST_SLOTS: u64 = 16;

/// Makes an empty file system. Nothing is written before both halves were found to be free to use.
pub fn make(request: &MakeRequest) -> Result<Made, TierError> {
    if request.nvm == request.cold {
        return Err(TierError::Usage("--nvm and --cold name the same file; they need one each".into()));
    }
    let mut created = Created(Vec::new());
    let nvm = claim_file(&request.nvm, word_for(&request.nvm, request), &mut created)?;
    let nvm_bytes = region_size(&nvm, request)?;
    let cold = ColdClaim::take(&request.cold, word_for(&request.cold, request), &mut created)?;
    let cold_bytes = cold.size(&request.cold, request.cold_size, nvm_bytes)?;
    let blocks = nvm_bytes / BLOCK as u64;
    let identity = Identity { pair: random_identity()?, blocks, slots: cold_bytes / BLOCK as u64 };

    cold.prepare(&request.cold, cold_bytes)?;
    write_cold_header(&request.cold, &identity)?;
    reserve(&nvm, &request.nvm, nvm_bytes)?;
    format_region(Box::new(MappedNvm::map(nvm, &request.nvm, false)?), &identity)?;
    created.0.clear();
    let pair = identity.pair.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Made { nvm_bytes, cold_bytes, pair })
}

/// The word of `--erase` that is meant for one half: its path, or what is neither half's path.
fn word_for<'a>(path: &Path, request: &'a MakeRequest) -> Option<&'a str> {
    let names = |half: &Path, word: &String| Path::new(word) == half;
    let own = request.erase.iter().find(|word| names(path, word));
    let other = || request.erase.iter().find(|word| !names(&request.nvm, word) && !names(&request.cold, word));
    own.or_else(other).map(String::as_str)
}

/// A new cold store for a region of `nvm_bytes` in anonymous memory; overwrites one that was made in this way before.
pub fn fresh_cold(path: &Path, nvm_bytes: u64) -> Result<(FileCold, Identity), TierError> {
    let known = File::open(path).is_ok_and(|mut file| {
        let mut header = [0; BLOCK];
        file.read_exact(&mut header).is_ok()
            && Identity::decode_cold(&header, path).is_ok_and(|identity| identity.blocks == 0)
    });
    let erase = known.then(|| path.display().to_string());
    let mut created = Created(Vec::new());
    let claim = ColdClaim::take(path, erase.as_deref(), &mut created)?;
    let bytes = claim.size(path, None, nvm_bytes)?;
    let identity = Identity { pair: random_identity()?, blocks: 0, slots: bytes / BLOCK as u64 };
    claim.prepare(path, bytes)?;
    write_cold_header(path, &identity)?;
    created.0.clear();
    drop(claim);
    Ok((open_cold(path)?, identity))
}

/// The files hold everybody's files without their permissions: only their owner may read them, whatever the umask.
const FOR_THE_OWNER: u32 = 0o600;

/// Files that did not exist before; removed again if making fails.
struct Created(Vec<PathBuf>);

impl Drop for Created {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn claim_file(path: &Path, erase: Option<&str>, created: &mut Created) -> Result<File, TierError> {
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    // A new file is made by name, never through a link that leads nowhere.
    options.read(true).write(true).create_new(is_new).mode(FOR_THE_OWNER);
    let file = options.open(path).map_err(io_error("open", path))?;
    if is_new {
        created.0.push(path.into());
    }
    lock(&file, path)?;
    guard::check_image(&file, path, erase)?;
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
        return Err(TierError::Usage(format!("a region of {} cannot be made: give --nvm-size, {range}", Bytes(bytes))));
    }
    Ok(bytes)
}

/// Gives the region all its memory now: a store into a page that the file system cannot provide would end the process.
fn reserve(file: &File, path: &Path, bytes: u64) -> Result<(), TierError> {
    file.set_len(0).map_err(io_error("empty", path))?;
    file.set_len(bytes).map_err(io_error("size", path))?;
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(error) => Err(io_error("reserve the memory of", path)(error.into())),
    }
}

/// A cold store that may be overwritten.
enum ColdClaim {
    File(File),
    Device(ClaimedDevice),
}

impl ColdClaim {
    fn take(path: &Path, erase: Option<&str>, created: &mut Created) -> Result<Self, TierError> {
        if is_block_device(path) {
            return Ok(Self::Device(ClaimedDevice::claim(path, erase)?));
        }
        Ok(Self::File(claim_file(path, erase, created)?))
    }

    fn size(&self, path: &Path, wanted: Option<Bytes>, nvm_bytes: u64) -> Result<u64, TierError> {
        let bytes = match self {
            Self::File(_) => wanted.map_or(nvm_bytes * COLD_FACTOR, |size| size.0),
            Self::Device(device) => wanted.map_or(device.size().0, |size| size.0),
        };
        if let Self::Device(device) = self
            && bytes > device.size().0
        {
            let found = device.size();
            let path = path.display();
            return Err(TierError::Usage(format!("{path} has {found}, less than --cold-size {}", Bytes(bytes))));
        }
        let slots = (bytes / BLOCK as u64).min(u64::from(u32::MAX));
        if slots < LEAST_SLOTS {
            let least = Bytes(LEAST_SLOTS * BLOCK as u64);
            return Err(TierError::Usage(format!("a cold store needs at least {least}; give a larger --cold-size")));
        }
        Ok(slots * BLOCK as u64)
    }

    fn prepare(&self, path: &Path, bytes: u64) -> Result<(), TierError> {
        match self {
            Self::File(file) => {
                file.set_len(0).map_err(io_error("empty", path))?;
                file.set_len(bytes).map_err(io_error("size", path))
            }
            Self::Device(device) => Ok(device.check_again()?),
        }
    }
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn write_cold_header(path: &Path, identity: &Identity) -> Result<(), TierError> {
    let store = FileCold::open(path)?;
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

/// Both halves, locked and found to belong together.
pub struct OpenPair {
    /// The region.
    pub nvm: MappedNvm,
    /// The cold store.
    pub cold: FileCold,
    /// What they are.
    pub identity: Identity,
}

/// Opens a pair. With `private`, nothing that is stored reaches the region's file.
pub fn open(nvm_path: &Path, cold_path: &Path, private: bool) -> Result<OpenPair, TierError> {
    let nvm_file = open_locked(nvm_path)?;
    warn_of_readers(nvm_path);
    warn_of_readers(cold_path);
    let bytes = nvm_file.metadata().map_err(io_error("stat", nvm_path))?.len();
    if bytes < BLOCK as u64 {
        let found = format!("it has {bytes} bytes");
        return Err(TierError::Foreign { path: nvm_path.into(), role: "region", found });
    }
    let cold = open_cold(cold_path)?;
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

/// Files that an earlier version made, or that were copied.
fn warn_of_readers(path: &Path) {
    let found = std::fs::metadata(path).ok().filter(|found| found.is_file());
    if found.is_some_and(|found| found.permissions().mode() & 0o077 != 0) {
        tracing::warn!(
            "{path} can be read by others, and so can all files in it: chmod 600 {path}",
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

/// Checks an unmounted file system; changes nothing.
pub fn check_pair(nvm: &Path, cold: &Path) -> Result<CheckReport, TierError> {
    let pair = open(nvm, cold, true)?;
    check(Box::new(pair.nvm), nvm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Room {
        folder: tempfile::TempDir,
    }

    impl Room {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn make(&self, nvm: &str, cold: &str) -> Result<Made, TierError> {
            make(&MakeRequest {
                nvm: self.path(nvm),
                nvm_size: Some(Bytes::mib(1)),
                cold: self.path(cold),
                cold_size: None,
                erase: Vec::new(),
            })
        }

        fn open(&self, nvm: &str, cold: &str) -> Result<OpenPair, TierError> {
            open(&self.path(nvm), &self.path(cold), false)
        }
    }

    #[test]
    fn a_pair_is_made_checked_and_opened_once() {
        let room = Room::new();
        let made = room.make("n", "c").unwrap();
        assert_eq!((made.nvm_bytes, made.cold_bytes), (1 << 20, 8 << 20));
        let report = check_pair(&room.path("n"), &room.path("c")).unwrap();
        assert!(report.clean && report.problems.is_empty(), "{report:?}");
        let held = room.open("n", "c").unwrap();
        assert!(matches!(room.open("n", "c"), Err(TierError::InUse { .. })));
        assert!(matches!(check_pair(&room.path("n"), &room.path("c")), Err(TierError::InUse { .. })));
        drop(held);
        assert!(room.open("n", "c").is_ok());
    }

    #[test]
    fn both_halves_are_for_their_owner_alone() {
        let room = Room::new();
        fs::write(room.path("n"), "").unwrap();
        fs::set_permissions(room.path("n"), Permissions::from_mode(0o666)).unwrap();
        room.make("n", "c").unwrap();
        for name in ["n", "c"] {
            let mode = fs::metadata(room.path(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{name}");
        }
        std::os::unix::fs::symlink(room.path("nowhere"), room.path("link")).unwrap();
        assert!(room.make("link", "c2").is_err());
        assert!(!room.path("nowhere").exists());
    }

    #[test]
    fn foreign_and_mixed_halves_are_refused_and_left_alone() {
        let room = Room::new();
        room.make("n", "c").unwrap();
        room.make("n2", "c2").unwrap();
        fs::write(room.path("foreign"), vec![b'x'; 1 << 20]).unwrap();
        fs::write(room.path("empty"), b"").unwrap();
        let before = fs::read(room.path("n")).unwrap();
        let words = |result: Result<OpenPair, TierError>| result.err().unwrap().to_string();
        assert!(words(room.open("n", "c2")).contains("two different file systems"));
        assert!(words(room.open("c", "n")).contains("swapped"));
        assert!(words(room.open("foreign", "c")).contains("not the region"));
        assert!(words(room.open("n", "foreign")).contains("not the cold store"));
        assert!(words(room.open("n", "empty")).contains("shorter than a header"));
        assert!(words(room.open("empty", "c")).contains("0 bytes"));
        assert!(words(room.open("missing", "c")).contains("ENOENT"));
        assert_eq!(fs::read(room.path("n")).unwrap(), before);
    }

    #[test]
    fn a_mount_refuses_what_a_check_refuses() {
        use crate::format::superblock;
        use std::os::unix::fs::FileExt;
        let room = Room::new();
        room.make("n", "c").unwrap();
        let region = File::options().write(true).open(room.path("n")).unwrap();
        region.write_all_at(&7u64.to_le_bytes(), superblock::STATE as u64).unwrap();
        let report = check_pair(&room.path("n"), &room.path("c")).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains("state word")), "{report:?}");
        let pair = room.open("n", "c").unwrap();
        let options = crate::Options {
            mode: crate::Mode::Bpfs,
            threshold: Bytes::mib(1),
            period: std::time::Duration::from_millis(10),
            promotion: crate::Promotion::Always,
        };
        let mounted = crate::TierFs::open(Box::new(pair.nvm), Box::new(pair.cold), &room.path("n"), &options);
        assert!(matches!(mounted.err(), Some(TierError::Damaged { .. })));
    }

    #[test]
    fn truncated_halves_are_refused() {
        let room = Room::new();
        room.make("n", "c").unwrap();
        File::options().write(true).open(room.path("c")).unwrap().set_len(1 << 20).unwrap();
        assert!(matches!(room.open("n", "c"), Err(TierError::Truncated { expected: 8388608, .. })));
        File::options().write(true).open(room.path("n")).unwrap().set_len(1 << 19).unwrap();
        assert!(matches!(room.open("n", "c"), Err(TierError::Truncated { found: 524288, .. })));
    }

    #[test]
    fn data_are_not_overwritten_unless_named() {
        let room = Room::new();
        fs::write(room.path("thesis"), b"precious").unwrap();
        assert!(matches!(room.make("thesis", "c"), Err(TierError::Target(_))));
        assert!(matches!(room.make("n", "thesis"), Err(TierError::Target(_))));
        assert_eq!(fs::read(room.path("thesis")).unwrap(), b"precious");
        assert!(!room.path("n").exists() && !room.path("c").exists(), "what was begun is removed");
        room.make("n", "c").unwrap();
        assert!(room.make("n", "c").is_err(), "it holds a file system");
        let erase = vec![room.path("thesis").display().to_string()];
        let request = MakeRequest {
            nvm: room.path("thesis"),
            nvm_size: Some(Bytes::mib(1)),
            cold: room.path("c3"),
            cold_size: Some(Bytes::kib(32)),
            erase,
        };
        assert!(matches!(make(&request), Err(TierError::Usage(_))), "the cold store is too small");
        assert_eq!(fs::read(room.path("thesis")).unwrap(), b"precious");
        make(&MakeRequest { cold_size: Some(Bytes::mib(4)), ..request.clone() }).unwrap();
        let both = ["thesis", "c3"].map(|name| room.path(name).display().to_string());
        for half in &both {
            let one = MakeRequest { erase: vec![half.clone()], ..request.clone() };
            assert!(matches!(make(&one), Err(TierError::Target(_))), "the other half is not named");
        }
        make(&MakeRequest { cold_size: Some(Bytes::mib(4)), erase: both.into(), ..request }).unwrap();
    }
}
