//! Pack files: objects in sequence, then an index.
//!
//! ```text
//! "SNSPACK1"                                  8 bytes
//! record: "OBJ1", length u32, name 32 bytes   40 bytes, then the object
//! ...
//! index entry: name 32, offset u64, length u32, 44 bytes each, offset being that of the object itself
//! trailer: entries u64, BLAKE3 of the index 32, "SNSINDX1"
//! ```
//!
//! Numbers are little-endian. A pack is written once from start to end and renamed into place after fsync, so every pack has its
//! index. If the index is damaged, the records are found by their headers.

use crate::chunker::spec::LONGEST_STORED;
use crate::error::{StoreError, io};
use crate::object_id::{HashAlgorithm, ObjectId};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use senesce_core::input::open_regular;
use senesce_core::machine::memory_available;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"SNSPACK1";
const RECORD: &[u8; 4] = b"OBJ1";
const END: &[u8; 8] = b"SNSINDX1";
const RECORD_HEADER: usize = 40;
const ENTRY: usize = 44;
const TRAILER: usize = 48;

/// Size at which a pack is closed and another one started.
pub(crate) const FULL_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackEntry {
    pub id: ObjectId,
    pub offset: u64,
    pub length: u32,
}

#[derive(Debug)]
pub(crate) struct PackWriter {
    path: PathBuf,
    file: BufWriter<File>,
    offset: u64,
    entries: Vec<PackEntry>,
}

impl PackWriter {
    /// Creates a pack at `path`, which must not exist.
    pub(crate) fn create(path: PathBuf) -> Result<Self, StoreError> {
        let file = super::create_new(&path).map_err(io("create pack", &path))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(MAGIC).map_err(io("write", &path))?;
        Ok(Self { path, file, offset: MAGIC.len() as u64, entries: Vec::new() })
    }

    pub(crate) fn append(&mut self, id: ObjectId, data: &[u8]) -> Result<(), StoreError> {
        let entry = PackEntry { id, offset: self.offset + RECORD_HEADER as u64, length: data.len() as u32 };
        let header = header_of(&entry);
        self.file.write_all(&header).and_then(|()| self.file.write_all(data)).map_err(io("write", &self.path))?;
        self.entries.push(entry);
        self.offset += (RECORD_HEADER + data.len()) as u64;
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the index, makes the pack durable and renames it into `folder` under a name derived from its index.
    pub(crate) fn finish(mut self, folder: &Path) -> Result<PathBuf, StoreError> {
        let index = encode_index(&self.entries);
        let sum = blake3::hash(&index);
        let count = self.entries.len() as u64;
        let parts: [&[u8]; 4] = [&index, &count.to_le_bytes(), sum.as_bytes(), END];
        for part in parts {
            self.file.write_all(part).map_err(io("write", &self.path))?;
        }
        let file = self.file.into_inner().map_err(|error| io("write", &self.path)(error.into_error()))?;
        file.sync_data().map_err(io("sync", &self.path))?;
        let place = folder.join(format!("{}.pack", &sum.to_hex()[..32]));
        std::fs::rename(&self.path, &place).map_err(io("rename into place", &place))?;
        Ok(place)
    }
}

fn header_of(entry: &PackEntry) -> [u8; RECORD_HEADER] {
    let mut header = [0; RECORD_HEADER];
    header[..4].copy_from_slice(RECORD);
    header[4..8].copy_from_slice(&entry.length.to_le_bytes());
    header[8..].copy_from_slice(entry.id.padded());
    header
}

fn encode_index(entries: &[PackEntry]) -> Vec<u8> {
    let mut index = Vec::with_capacity(entries.len() * ENTRY);
    for entry in entries {
        index.extend_from_slice(entry.id.padded());
        index.extend_from_slice(&entry.offset.to_le_bytes());
        index.extend_from_slice(&entry.length.to_le_bytes());
    }
    index
}

#[derive(Debug)]
pub struct Pack {
    pub path: PathBuf,
    pub entries: Vec<PackEntry>,
    /// Problem of the pack itself; its entries are then those that could be recovered.
    pub problem: Option<String>,
    file: File,
}

impl Pack {
    /// Opens a pack and reads its index; recovers the records if the index is damaged.
    pub(crate) fn open(path: &Path, algorithm: HashAlgorithm) -> Result<Self, StoreError> {
        let file = open_regular(path).map_err(io("open pack", path))?;
        let bytes = file.metadata().map_err(io("read the size of", path))?.len();
        let (entries, problem) = match read_index(&file, bytes, algorithm).map_err(io("read", path))? {
            Ok(entries) => (entries, None),
            Err(problem) => (recover(&file, bytes, algorithm).map_err(io("read", path))?, Some(problem)),
        };
        Ok(Self { path: path.into(), entries, problem, file })
    }

    pub(crate) fn has_header(&self, entry: &PackEntry) -> bool {
        let mut header = [0; RECORD_HEADER];
        let start = entry.offset.checked_sub(RECORD_HEADER as u64);
        start.is_some_and(|start| self.file.read_exact_at(&mut header, start).is_ok()) && header == header_of(entry)
    }

    /// Reads the bytes of an object, which are not yet checked against its name.
    pub(crate) fn read(&self, entry: &PackEntry) -> std::io::Result<Vec<u8>> {
        let mut data = vec![0; entry.length as usize];
        self.file.read_exact_at(&mut data, entry.offset)?;
        Ok(data)
    }
}

fn read_index(
    file: &impl ReadAt,
    bytes: u64,
    algorithm: HashAlgorithm,
) -> std::io::Result<Result<Vec<PackEntry>, String>> {
    let least = (MAGIC.len() + TRAILER) as u64;
    if bytes < least {
        return Ok(Err(format!("the pack is truncated to {bytes} bytes")));
    }
    let trailer = file.at(bytes - TRAILER as u64, TRAILER)?;
    if &trailer[40..] != END {
        return Ok(Err("the pack is truncated or its end is damaged".into()));
    }
    // The file may be sparse, and its index larger than memory.
    let most = memory_available().map_or(u64::MAX, |memory| memory.0 / 4).min(bytes - least);
    let index_bytes = number_u64(&trailer[..8]).checked_mul(ENTRY as u64);
    let Some(index_bytes) = index_bytes.filter(|index_bytes| *index_bytes <= most) else {
        return Ok(Err("the number of index entries is damaged".into()));
    };
    let index = file.at(bytes - TRAILER as u64 - index_bytes, index_bytes as usize)?;
    if blake3::hash(&index).as_bytes() != &trailer[8..40] {
        return Ok(Err("the index is damaged".into()));
    }
    if file.at(0, MAGIC.len())? != MAGIC {
        return Ok(Err("its first bytes are not those of a pack".into()));
    }
    let data_end = bytes - TRAILER as u64 - index_bytes;
    let too_long = |entry: &PackEntry| entry.length as usize > LONGEST_STORED;
    let entries: Vec<PackEntry> = index.chunks_exact(ENTRY).map(|entry| decode_entry(entry, algorithm)).collect();
    let inside = |entry: &PackEntry| entry.offset.checked_add(entry.length.into()).is_some_and(|end| end <= data_end);
    if !entries.iter().all(inside) {
        return Ok(Err("the index points outside the pack".into()));
    }
    // The pack may be sparse, and each thread would allocate as much.
    if entries.iter().any(too_long) {
        return Ok(Err(format!("the index has an object of more than {LONGEST_STORED} bytes, the maximum of a chunk")));
    }
    Ok(Ok(entries))
}

fn decode_entry(entry: &[u8], algorithm: HashAlgorithm) -> PackEntry {
    PackEntry {
        id: ObjectId::new(&entry[..algorithm.bytes()]),
        offset: number_u64(&entry[32..40]),
        length: number_u32(&entry[40..44]),
    }
}

/// Walks the records. After damage, searches the next header whose name matches its bytes.
fn recover(file: &impl ReadAt, bytes: u64, algorithm: HashAlgorithm) -> std::io::Result<Vec<PackEntry>> {
    let mut entries = Vec::new();
    let mut at = MAGIC.len() as u64;
    while at + RECORD_HEADER as u64 <= bytes {
        if let Some(entry) = record_at(file, at, bytes, algorithm)? {
            entries.push(entry);
            at = entry.offset + u64::from(entry.length);
        } else {
            at = next_mark(file, at + 1, bytes)?;
        }
    }
    Ok(entries)
}

fn record_at(file: &impl ReadAt, at: u64, bytes: u64, algorithm: HashAlgorithm) -> std::io::Result<Option<PackEntry>> {
    let header = file.at(at, RECORD_HEADER)?;
    let length = number_u32(&header[4..8]);
    let offset = at + RECORD_HEADER as u64;
    if &header[..4] != RECORD || offset + u64::from(length) > bytes || length as usize > LONGEST_STORED {
        return Ok(None);
    }
    let id = ObjectId::new(&header[8..8 + algorithm.bytes()]);
    let data = file.at(offset, length as usize)?;
    Ok((algorithm.name(&data) == id).then_some(PackEntry { id, offset, length }))
}

/// Returns the next possible start of a record at or after `at`, or `bytes` if not found.
fn next_mark(file: &impl ReadAt, mut at: u64, bytes: u64) -> std::io::Result<u64> {
    loop {
        at = file.next_data(at);
        if at.saturating_add(RECORD_HEADER as u64) > bytes {
            return Ok(bytes);
        }
        let window = file.at(at, (bytes - at).min(1 << 16) as usize)?;
        if let Some(found) = window.windows(4).position(|four| four == RECORD) {
            return Ok(at + found as u64);
        }
        at += window.len().saturating_sub(3).max(1) as u64;
    }
}

/// Reads at an offset: from a file, or from memory in tests and the fuzzer.
trait ReadAt {
    fn at(&self, offset: u64, length: usize) -> std::io::Result<Vec<u8>>;

    /// Returns the next offset with data; a file may be sparse and longer than any disk.
    fn next_data(&self, at: u64) -> u64 {
        at
    }
}

impl ReadAt for File {
    fn at(&self, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let mut data = vec![0; length];
        self.read_exact_at(&mut data, offset)?;
        Ok(data)
    }

    fn next_data(&self, at: u64) -> u64 {
        match rustix::fs::seek(self, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => u64::MAX,
            // Its file system does not support it.
            Err(_) => at,
        }
    }
}

impl ReadAt for &[u8] {
    fn at(&self, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let start = usize::try_from(offset).map_err(std::io::Error::other)?;
        let slice = start.checked_add(length).and_then(|end| self.get(start..end));
        slice.map(<[u8]>::to_vec).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }
}

pub fn decode(bytes: &[u8], algorithm: HashAlgorithm) -> (Vec<PackEntry>, Option<String>) {
    let size = bytes.len() as u64;
    match read_index(&bytes, size, algorithm) {
        Ok(Ok(entries)) => (entries, None),
        Ok(Err(problem)) => (recover(&bytes, size, algorithm).unwrap_or_default(), Some(problem)),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

fn number_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn number_u32(bytes: &[u8]) -> u32 {
    number_u64(bytes) as u32
}

#[cfg(test)]
mod tests;
