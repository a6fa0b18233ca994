//! A store on disk.
//!
//! ```text
//! store.json           hash, chunker, directory scheme, their checksum
//! objects/             loose objects by the scheme
//! packs/NAME.pack      packed objects; NAME.pack.damaged is a damaged pack whose intact objects were copied
//! snapshots/000001     committed snapshots, in order
//! staging/             unpublished objects; emptied by the next commit
//! lock                 held by the process that commits
//! ```
//!
//! Everything is private to its owner, because it contains files without their permissions. Objects and snapshots are only added.
//! A snapshot is renamed into place after all its objects are durable, so neither a killed process nor a power failure leaves a
//! snapshot with missing objects.

pub mod checkout;
pub mod commit;
mod loose;
pub mod pack;
mod reading;
mod salvage;
pub(crate) mod settings;
mod sink;
pub mod snapshot;
mod space;
mod sparse;
mod staging;
pub mod stats;
pub mod verify;
mod walk;
mod workers;
mod writing;

use crate::chunker::spec::LONGEST_STORED;
use crate::error::{StoreError, io};
use crate::object_id::ObjectId;
use pack::Pack;
use rustix::fs::OFlags;
use senesce_core::failure::errno_message;
use senesce_core::{input, output};
use senesce_sys::lock::Locked;
use senesce_volume::guard;
use serde::{Deserialize, Serialize};
pub use settings::{StoreChoice, StoreSettings};
use snapshot::Snapshot;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opens the store at `path`, or creates it if it does not exist. Fails if an existing store does not match the choice.
pub fn open_or_create(path: &Path, choice: StoreChoice) -> Result<Store, StoreError> {
    if !path.join(settings::FILE).exists() {
        return Store::create(path, choice.over(StoreSettings::default()));
    }
    let store = Store::open(path)?;
    let wanted = choice.over(store.settings);
    if wanted != store.settings {
        let (found, wanted) = (store.settings.to_string(), wanted.to_string());
        return Err(StoreError::OtherSettings { path: path.into(), found, wanted });
    }
    Ok(store)
}

/// Layout of new objects of a commit. One store may hold both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One file each, by the store's scheme.
    Loose,
    Pack,
}

#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    settings: StoreSettings,
    packs: Vec<Pack>,
    index: HashMap<ObjectId, (usize, pack::PackEntry)>,
    more_copies: HashMap<ObjectId, Vec<(usize, pack::PackEntry)>>,
}

impl Store {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let settings = settings::read(path)?;
        let (index, more_copies) = (HashMap::new(), HashMap::new());
        let mut store = Self { path: path.into(), settings, packs: Vec::new(), index, more_copies };
        for pack in names(&path.join("packs"))?.iter().filter(|name| name.extension().is_some_and(|end| end == "pack"))
        {
            store.add_pack(Pack::open(pack, settings.hash)?);
        }
        Ok(store)
    }

    /// Creates a store in a new or empty directory, or where an earlier attempt was killed.
    pub fn create(path: &Path, settings: StoreSettings) -> Result<Self, StoreError> {
        make_directory(path)?;
        for name in names(path)? {
            let ours = FOLDERS.iter().any(|folder| name.ends_with(folder)) && is_directory(&name);
            let unused = ours && (name.ends_with("staging") || names(&name)?.is_empty());
            if !unused && !name.ends_with("lost+found") {
                return Err(StoreError::Foreign(path.into()));
            }
        }
        for folder in FOLDERS {
            make_directory(&path.join(folder))?;
        }
        let text = settings::encode(&settings);
        write_durably(&path.join(settings::FILE), &path.join("staging").join(settings::FILE), text.as_bytes())?;
        Self::open(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub fn settings(&self) -> StoreSettings {
        self.settings
    }

    pub fn packs(&self) -> &[Pack] {
        &self.packs
    }

    /// Reads an object's bytes and checks them against its name; otherwise returns the reason.
    pub(crate) fn read(&self, id: &ObjectId) -> Result<Vec<u8>, String> {
        let checked = |data: Vec<u8>| match self.settings.hash.name(&data) == *id {
            true => Ok(data),
            false => Err("its name is not the hash of its content".to_string()),
        };
        let mut problem = None;
        for (pack, entry) in self.copies(id) {
            let pack = &self.packs[pack];
            let data = pack.read(&entry).map_err(|error| format!("{}: {}", pack.path.display(), errno_message(&error)));
            match data.and_then(checked) {
                Ok(data) => return Ok(data),
                Err(found) => problem = Some(found),
            }
        }
        let path = self.loose_path(id);
        let data = read_loose(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("it is not in a pack, and {} does not exist", path.display()),
            _ => format!("{}: {}", path.display(), errno_message(&error)),
        });
        data.and_then(checked).map_err(|found| problem.unwrap_or(found))
    }

    /// Copies of an object in packs: pack and position.
    fn copies(&self, id: &ObjectId) -> impl Iterator<Item = (usize, pack::PackEntry)> {
        let more = self.more_copies.get(id).into_iter().flatten();
        self.index.get(id).into_iter().chain(more).copied()
    }

    /// Returns the numbers in ascending order.
    pub fn snapshot_numbers(&self) -> Result<Vec<u64>, StoreError> {
        let names = names(&self.path.join("snapshots"))?;
        Ok(names.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect())
    }

    /// Reads the snapshot with this number, by default the latest.
    pub(crate) fn snapshot(&self, number: Option<u64>) -> Result<Snapshot, StoreError> {
        let numbers = self.snapshot_numbers()?;
        let wanted = number.or(numbers.last().copied()).unwrap_or(0);
        if !numbers.contains(&wanted) {
            let known = match (numbers.first(), numbers.last()) {
                (Some(first), Some(last)) => format!("{first} to {last}"),
                _ => "none".into(),
            };
            return Err(StoreError::NoSnapshot { path: self.path.clone(), number: wanted, known });
        }
        let path = self.snapshot_path(wanted);
        Ok(snapshot::decode(wanted, &input::regular(&path).map_err(io("read", &path))?))
    }

    fn snapshot_path(&self, number: u64) -> PathBuf {
        self.path.join("snapshots").join(format!("{number:06}"))
    }

    fn loose_path(&self, id: &ObjectId) -> PathBuf {
        self.path.join("objects").join(self.settings.scheme.path(&id.hex()))
    }

    fn add_pack(&mut self, pack: Pack) {
        let number = self.packs.len();
        for entry in &pack.entries {
            if let Some(other) = self.index.insert(entry.id, (number, *entry)) {
                self.more_copies.entry(entry.id).or_default().push(other);
            }
        }
        self.packs.push(pack);
    }

    /// Takes the writers' lock and empties `staging` after an interrupted commit.
    fn lock(&self) -> Result<Locked, StoreError> {
        if let Some(folder) = FOLDERS.iter().map(|name| self.path.join(name)).find(|path| {
            // The next commit creates it.
            !(is_directory(path) || path.ends_with("staging") && path.symlink_metadata().is_err())
        }) {
            let problem = format!("{} is not a directory", folder.display());
            return Err(StoreError::NotAStore { path: self.path.clone(), problem });
        }
        let path = self.path.join("lock");
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(flags).open(&path);
        let file = file.map_err(io("open", &path))?;
        let locked = Locked::within(file, Duration::ZERO).map_err(io("lock", &path))?;
        let locked = locked.ok_or_else(|| StoreError::InUse(self.path.clone()))?;
        self.empty_staging()?;
        Ok(locked)
    }
}

/// Private to the owner, whatever the umask.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Creates a directory with mode 0700, and its parents with default modes; keeps an existing one.
fn make_directory(path: &Path) -> Result<(), StoreError> {
    if let Some(found) = output::obstacle(path) {
        return Err(output::OutputError::NoDirectory(found).into());
    }
    if let Some(above) = path.parent() {
        output::directory(above)?;
    }
    match fs::DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(_) if path.is_dir() => {
            let directory = File::open(path).map_err(io("open directory", path))?;
            Ok(guard::check_not_planted(&directory, path)?)
        }
        made => made.map_err(io("make directory", path)),
    }
}

fn create_new(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create_new(true).mode(FILE_MODE).open(path)
}

const FOLDERS: [&str; 4] = ["objects", "packs", "snapshots", "staging"];

/// Does not follow links: nothing is written through them.
fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Returns the sorted paths of a directory's entries.
fn names(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = fs::read_dir(folder).map_err(io("list", folder))?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(io("list", folder))?;
    paths.sort();
    Ok(paths)
}

/// Writes a file atomically, even with respect to power failures.
fn write_durably(path: &Path, temporary: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    // Removes remains of an earlier attempt, or a planted file: a link would be written through.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("remove", temporary)(error)),
        _ => {}
    }
    let mut file = create_new(temporary).map_err(io("create", temporary))?;
    file.write_all(bytes).map_err(io("write", temporary))?;
    file.sync_all().map_err(io("sync", temporary))?;
    fs::rename(temporary, path).map_err(io("rename into place", path))?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(io("sync directory", path))
}

/// Writes back all dirty data of the file system of `path` (syncfs(2)).
pub fn sync_file_system(path: &Path) -> Result<(), StoreError> {
    let folder = File::open(path).map_err(io("open", path))?;
    rustix::fs::syncfs(&folder).map_err(io("sync the file system of", path))
}

/// Reads the bytes of an object's file, which may be sparse: at most a chunk.
pub(super) fn read_loose(path: &Path) -> std::io::Result<Vec<u8>> {
    match input::open_regular(path)?.metadata()?.len() {
        length if length > LONGEST_STORED as u64 => {
            Err(std::io::Error::other(format!("it has {length} bytes, more than the maximum of a chunk")))
        }
        _ => input::regular(path),
    }
}
