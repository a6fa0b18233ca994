//! Checksums of the files next to `events.jsonl`, such as histograms.

use super::error::{RecordError, read_error};
use super::identity::{Sum, sum};
use crate::input::InputFolder;
use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};

/// Kind of the event. The last one of a file counts.
pub(super) const KIND: &str = "checksum";

/// A file of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SideFile {
    /// Its path in the run directory.
    pub file: String,
    pub bytes: u64,
    /// None while the file is replaced: a killed run leaves the old or the new one.
    pub crc: Option<Sum>,
}

impl SideFile {
    pub(super) fn of(file: &str, content: &[u8]) -> Self {
        Self { file: file.into(), bytes: content.len() as u64, crc: Some(sum(content)) }
    }

    pub(super) fn replaced(file: &str) -> Self {
        Self { file: file.into(), bytes: 0, crc: None }
    }

    /// Returns whether it is in the run directory, or in a subfolder of that.
    pub(super) fn is_within(&self) -> bool {
        let mut parts = Path::new(&self.file).components();
        parts.clone().count() <= 2 && parts.all(|part| matches!(part, Component::Normal(_)))
    }

    fn is(&self, file: File) -> io::Result<bool> {
        match &self.crc {
            None => Ok(true),
            Some(crc) => Ok(file.metadata()?.len() == self.bytes && sum_of(file.take(self.bytes))? == *crc),
        }
    }
}

fn sum_of(mut content: impl Read) -> io::Result<Sum> {
    let (mut hasher, mut part) = (Hasher::new(), vec![0; 64 << 10]);
    loop {
        match content.read(&mut part)? {
            0 => return Ok(format!("{:08x}", hasher.finalize())),
            bytes => hasher.update(&part[..bytes]),
        }
    }
}

/// The last checksum of each file.
#[derive(Debug, Clone, Default)]
pub(super) struct SideFiles(BTreeMap<String, SideFile>);

impl SideFiles {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn note(&mut self, file: SideFile) {
        self.0.insert(file.file.clone(), file);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Checks that the files are those that senesce wrote.
    ///
    /// # Errors
    /// [`RecordError::Altered`] with the first file that is not; those of reading.
    pub(super) fn check(&self, folder: &InputFolder, path: &Path) -> Result<(), RecordError> {
        self.0.values().filter(|file| file.crc.is_some()).try_for_each(|file| {
            let name = path.join(&file.file);
            match folder.file(Path::new(&file.file)).and_then(|opened| file.is(opened)) {
                Ok(true) => Ok(()),
                Ok(false) => Err(RecordError::Altered { path: name }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RecordError::Altered { path: name }),
                Err(error) => Err(read_error("read", &name)(error)),
            }
        })
    }
}
