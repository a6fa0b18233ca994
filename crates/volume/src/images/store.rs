//! The image store: aged images that studies make once and use many times, under a size limit.

use super::copy::copy_quietly;
use crate::error::TargetError;
use crate::lock;
use crate::sparse::NamedFile;
use rustix::fs::OFlags;
use senesce_core::Bytes;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const DEFAULT_CAP: Bytes = Bytes::gib(20);

/// Sets the limit: a size such as `50G`.
pub(crate) const CAP_VARIABLE: &str = "SENESCE_IMAGE_STORE_SIZE";

/// Returns `$XDG_CACHE_HOME/senesce`, or `~/.cache/senesce` (XDG base directory specification).
pub(crate) fn cache_folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/cache"))
        .join("senesce")
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredImage {
    pub key: String,
    pub description: String,
    pub size_bytes: u64,
    pub used_bytes: u64,
    /// Time of the last use, in seconds since 1970.
    pub last_used: u64,
}

/// A folder of images by key. When the limit is reached, the least recently used images are removed.
#[derive(Debug)]
pub struct ImageStore {
    folder: PathBuf,
    cap: Bytes,
}

impl ImageStore {
    pub fn open_default() -> Result<Self, TargetError> {
        let cap = match std::env::var(CAP_VARIABLE) {
            Ok(text) => text.parse().map_err(|error| TargetError::Usage(format!("{CAP_VARIABLE}: {error}")))?,
            Err(_) => DEFAULT_CAP,
        };
        Self::open(&cache_folder().join("images"), cap)
    }

    pub fn open(folder: &Path, cap: Bytes) -> Result<Self, TargetError> {
        fs::create_dir_all(folder).map_err(TargetError::io("make directory", folder))?;
        Ok(Self { folder: folder.into(), cap })
    }

    /// Returns the key of an image: a hash of everything that determines its content, as text (plan, file system,
    /// versions).
    pub fn key(content: &str) -> String {
        blake3::hash(content.as_bytes()).to_hex()[..32].to_string()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn cap(&self) -> Bytes {
        self.cap
    }

    /// Copies an image into the store under `key`, after removing others if necessary. [`TargetError::Missing`] for an
    /// image larger than the limit.
    pub fn put(&self, key: &str, description: &str, image: &Path) -> Result<StoredImage, TargetError> {
        let _lock = self.lock()?;
        let file = File::open(image).map_err(TargetError::named("open the image", image))?;
        let found = file.metadata().map_err(TargetError::io("inspect", image))?;
        let used_bytes = found.blocks() * 512;
        self.make_space(used_bytes, key)?;
        let (size_bytes, last_used) = (found.len(), now());
        let entry = StoredImage { key: key.into(), description: description.into(), size_bytes, used_bytes, last_used };
        copy_quietly(NamedFile { file: &file, path: image }, &self.image(key)?, found.len())?;
        self.write(&entry)?;
        Ok(entry)
    }

    /// Returns the image under `key`, which counts as used now. It must not be changed: copy it with [`Self::restore`].
    pub fn get(&self, key: &str) -> Result<Option<PathBuf>, TargetError> {
        let _lock = self.lock()?;
        self.find(key)
    }

    fn find(&self, key: &str) -> Result<Option<PathBuf>, TargetError> {
        let path = self.image(key)?;
        let Some(mut entry) = self.read(key).filter(|entry| is_whole(&path, entry)) else { return Ok(None) };
        entry.last_used = now();
        self.write(&entry)?;
        Ok(Some(path))
    }

    pub fn restore(&self, key: &str, to: &Path) -> Result<bool, TargetError> {
        let Some((file, path)) = self.open_image(key)? else { return Ok(false) };
        let size = file.metadata().map_err(TargetError::io("inspect", &path))?.len();
        copy_quietly(NamedFile { file: &file, path: &path }, to, size)?;
        Ok(true)
    }

    /// Opens the image under `key`; the descriptor stays readable if other processes remove the image.
    fn open_image(&self, key: &str) -> Result<Option<(File, PathBuf)>, TargetError> {
        let _lock = self.lock()?;
        let Some(path) = self.find(key)? else { return Ok(None) };
        let file = File::open(&path).map_err(TargetError::io("open the image", &path))?;
        Ok(Some((file, path)))
    }

    pub fn list(&self) -> Result<Vec<StoredImage>, TargetError> {
        let entries = fs::read_dir(&self.folder).map_err(TargetError::io("list", &self.folder))?;
        let keys =
            entries.flatten().filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_string()));
        let mut found: Vec<StoredImage> = keys.filter_map(|key| self.read(&key)).collect();
        found.sort_by_key(|entry| (std::cmp::Reverse(entry.last_used), entry.key.clone()));
        Ok(found)
    }

    /// Removes an image by its key or a unique prefix. [`TargetError::Usage`] if no key, or several keys, match.
    pub fn remove(&self, key: &str) -> Result<StoredImage, TargetError> {
        let _lock = self.lock()?;
        let mut matching = self.list()?.into_iter().filter(|entry| entry.key.starts_with(key));
        match (matching.next(), matching.next()) {
            (Some(entry), None) => {
                self.delete(&entry.key)?;
                Ok(entry)
            }
            (None, _) => Err(TargetError::Usage(format!(
                "no image in the store has the key {key}; `senesce image list` lists them"
            ))),
            _ => Err(TargetError::Usage(format!("several keys begin with {key}; give more characters of the key"))),
        }
    }

    fn make_space(&self, needed: u64, key: &str) -> Result<(), TargetError> {
        if needed > self.cap.0 {
            return Err(TargetError::missing(
                format!("space in the image store: the image takes {}, the limit is {}; it", Bytes(needed), self.cap),
                format!("raise {CAP_VARIABLE}"),
            ));
        }
        let mut entries: Vec<StoredImage> = self.list()?.into_iter().filter(|entry| entry.key != key).collect();
        let mut used = entries.iter().map(|entry| entry.used_bytes).fold(0, u64::saturating_add);
        while used.saturating_add(needed) > self.cap.0 {
            let Some(oldest) = entries.pop() else { break };
            tracing::info!("removing {} from the image store to make space", oldest.key);
            self.delete(&oldest.key)?;
            used = used.saturating_sub(oldest.used_bytes);
        }
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), TargetError> {
        let image = self.image(key)?;
        for path in [self.description(key), image] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(TargetError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn lock(&self) -> Result<File, TargetError> {
        let path = self.folder.join("lock");
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let file = File::options().create(true).write(true).truncate(false).custom_flags(flags).open(&path);
        let file = file.map_err(TargetError::io("open", &path))?;
        match lock::lock_waiting(&file) {
            Ok(()) => Ok(file),
            Err(error) => Err(TargetError::io("lock", &path)(error)),
        }
    }

    fn image(&self, key: &str) -> Result<PathBuf, TargetError> {
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(TargetError::Usage(format!(
                "'{key}' is not a key of an image: keys consist of letters and digits"
            )));
        }
        Ok(self.folder.join(format!("{key}.img")))
    }

    fn description(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    fn read(&self, key: &str) -> Option<StoredImage> {
        let text = senesce_core::input::regular(&self.description(key)).ok()?;
        // A key that differs from its file name is not this image, and may lead out of the store.
        serde_json::from_slice(&text).ok().filter(|entry: &StoredImage| entry.key == key)
    }

    fn write(&self, entry: &StoredImage) -> Result<(), TargetError> {
        let text = serde_json::to_vec_pretty(entry).unwrap_or_default();
        crate::image_file::replace(&self.description(&entry.key), |to| {
            use std::os::unix::fs::FileExt;
            to.file.write_all_at(&text, 0).map_err(TargetError::io("write", to.path))
        })
    }
}

fn is_whole(path: &Path, entry: &StoredImage) -> bool {
    path.metadata().is_ok_and(|found| found.len() == entry.size_bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(directory: &Path, name: &str, byte: u8) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, vec![byte; 1 << 20]).unwrap();
        path
    }

    fn age(store: &ImageStore, key: &str, seconds: u64) {
        let mut entry = store.read(key).unwrap();
        entry.last_used -= seconds;
        store.write(&entry).unwrap();
    }

    #[test]
    fn least_recently_used_images_are_evicted() {
        let directory = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&directory.path().join("store"), Bytes::mib(2)).unwrap();
        let keys: Vec<String> = ["a", "b", "c"].iter().map(|text| ImageStore::key(text)).collect();
        for (index, key) in keys.iter().enumerate().take(2) {
            store.put(key, "test", &image(directory.path(), "x.img", index as u8)).unwrap();
        }
        age(&store, &keys[0], 50);
        age(&store, &keys[1], 100);
        let back = directory.path().join("back.img");
        assert!(store.restore(&keys[1], &back).unwrap(), "and now it was used last");
        assert_eq!(fs::read(&back).unwrap(), vec![1; 1 << 20]);
        store.put(&keys[2], "test", &image(directory.path(), "x.img", 9)).unwrap();
        assert_eq!(store.get(&keys[0]).unwrap(), None, "it made space");
        assert!(store.get(&keys[1]).unwrap().is_some());
        store.remove(&keys[1][..6]).unwrap();
        assert_eq!(store.list().unwrap().len(), 1);
    }

    #[test]
    fn an_image_that_is_being_copied_out_survives_its_removal() {
        let directory = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&directory.path().join("store"), Bytes::mib(2)).unwrap();
        let key = ImageStore::key("a");
        store.put(&key, "test", &image(directory.path(), "x.img", 7)).unwrap();
        let (file, path) = store.open_image(&key).unwrap().unwrap();
        store.remove(&key).unwrap();
        let back = directory.path().join("back.img");
        copy_quietly(NamedFile { file: &file, path: &path }, &back, 1 << 20).unwrap();
        assert_eq!(fs::read(&back).unwrap(), vec![7; 1 << 20]);
        assert!(!store.restore(&key, &back).unwrap());
    }

    #[test]
    fn wrong_keys_and_too_large_images_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = ImageStore::open(directory.path(), Bytes::kib(4)).unwrap();
        let large = image(directory.path(), "x.img", 1);
        assert!(matches!(store.put("abc", "", &large), Err(TargetError::Missing { .. })));
        assert!(matches!(store.get("../etc"), Err(TargetError::Usage(_))));
        assert!(matches!(store.remove("zz"), Err(TargetError::Usage(_))));
    }

    #[test]
    fn a_planted_description_removes_nothing_outside() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious.json");
        fs::write(&precious, "{}").unwrap();
        let store = ImageStore::open(&directory.path().join("store"), Bytes::mib(2)).unwrap();
        let key = "../precious".to_string();
        let huge = StoredImage { key, description: String::new(), size_bytes: 1, used_bytes: u64::MAX, last_used: 0 };
        for name in ["planted.json", "another.json"] {
            fs::write(store.folder().join(name), serde_json::to_vec(&huge).unwrap()).unwrap();
        }
        assert!(store.remove("../precious").is_err() && store.remove("").is_err());
        store.put(&ImageStore::key("a"), "test", &image(directory.path(), "x.img", 1)).unwrap();
        assert!(precious.exists());
    }
}
