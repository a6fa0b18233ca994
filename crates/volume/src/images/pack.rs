//! Packed images: a format line, a line of JSON (the manifest), then the used ranges as one zstd stream.

use crate::error::TargetError;
use crate::image_file::{make_new, refuse_existing};
use crate::sparse::{self, NamedFile, Range};
use crate::{guard, lock, signature};
use senesce_core::Bytes;
use senesce_core::input::open_regular;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &str = "senesce image pack 1";
/// A manifest is one line; a range takes at most 42 bytes of JSON.
const MANIFEST_LIMIT: u64 = 1 << 30;
const CHUNK: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackManifest {
    pub size_bytes: u64,
    /// The file system in it, if senesce knows it.
    pub file_system: Option<String>,
    pub program_version: String,
    /// BLAKE3 of the bytes of all ranges in order.
    pub blake3: String,
    /// The used ranges: first byte and length.
    pub ranges: Vec<(u64, u64)>,
    /// BLAKE3 of the size and the ranges (each number in 8 bytes, little-endian): the same bytes at other offsets are
    /// another image. Absent in old packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places_blake3: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackReport {
    pub size_bytes: u64,
    pub used_bytes: u64,
    pub packed_bytes: u64,
    pub blake3: String,
}

impl PackManifest {
    /// Reads the head of a pack. [`TargetError::Damaged`] for other files, and for ranges that are empty, out of order
    /// or outside the image.
    pub(crate) fn read(input: &mut impl BufRead, path: &Path) -> Result<Self, TargetError> {
        let foreign = || TargetError::damaged(path, "it is not a packed image (`senesce image pack` makes them)");
        let mut line = String::new();
        input.by_ref().take(MAGIC.len() as u64 + 1).read_line(&mut line).map_err(|_| foreign())?;
        if line.trim_end() != MAGIC {
            return Err(foreign());
        }
        let mut line = Vec::new();
        input.take(MANIFEST_LIMIT).read_until(b'\n', &mut line).map_err(TargetError::io("read", path))?;
        let manifest: Self = serde_json::from_slice(&line)
            .map_err(|error| TargetError::damaged(path, format!("its manifest cannot be read ({error})")))?;
        let mut end = 0u64;
        for (start, length) in &manifest.ranges {
            let next = start.checked_add(*length).filter(|next| *start >= end && *next <= manifest.size_bytes);
            let next = next.filter(|_| *length > 0);
            end = next.ok_or_else(|| TargetError::damaged(path, "its manifest has ranges outside the image"))?;
        }
        match &manifest.places_blake3 {
            Some(places) if *places != hash_of_places(manifest.size_bytes, &manifest.ranges) => {
                Err(TargetError::damaged(path, "the hash of its size and ranges does not match; copy it again"))
            }
            _ => Ok(manifest),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.ranges.iter().map(|(_, length)| length).sum()
    }
}

fn hash_of_places(size: u64, ranges: &[(u64, u64)]) -> String {
    let mut hasher = blake3::Hasher::new();
    let numbers = ranges.iter().flat_map(|(start, length)| [*start, *length]);
    for number in std::iter::once(size).chain(numbers) {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

pub fn pack(from: &Path, to: &Path) -> Result<PackReport, TargetError> {
    refuse_existing(to)?;
    let (file, size) = guard::open_image(from, false)?;
    lock::lock(&file, from)?;
    let source = NamedFile { file: &file, path: from };
    let ranges = used_ranges(source, size)?;
    let mut hasher = blake3::Hasher::new();
    each_chunk(source, &ranges, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    let places: Vec<_> = ranges.iter().map(|range| (range.start, range.length())).collect();
    let manifest = PackManifest {
        size_bytes: size,
        file_system: signature::file_system(&file, size, from)?.map(|known| known.to_string()),
        program_version: env!("CARGO_PKG_VERSION").into(),
        blake3: hasher.finalize().to_hex().to_string(),
        places_blake3: Some(hash_of_places(size, &places)),
        ranges: places,
    };
    let packed_bytes = make_new(to, |part| write_pack(source, &manifest, &ranges, part))?;
    let used_bytes = manifest.used_bytes();
    Ok(PackReport { size_bytes: size, used_bytes, packed_bytes, blake3: manifest.blake3 })
}

fn write_pack(
    source: NamedFile,
    manifest: &PackManifest,
    ranges: &[Range],
    part: NamedFile,
) -> Result<u64, TargetError> {
    let failed = |error| TargetError::io("write", part.path)(error);
    let mut output = part.file;
    let head = serde_json::to_string(manifest).unwrap_or_default();
    writeln!(output, "{MAGIC}\n{head}").map_err(failed)?;
    let mut encoder = zstd::Encoder::new(output, 3).map_err(failed)?;
    each_chunk(source, ranges, |chunk| encoder.write_all(chunk).map_err(TargetError::io("write", part.path)))?;
    encoder.finish().map_err(failed)?;
    Ok(part.file.metadata().map_err(failed)?.len())
}

/// Computes BLAKE3 of the size of a file and of the positions and bytes of its data. Holes and blocks of zeros are
/// equal, and holes are not read.
pub fn content_hash(path: &Path) -> Result<String, TargetError> {
    let file = File::open(path).map_err(TargetError::named("open", path))?;
    let size = file.metadata().map_err(TargetError::io("read the size of", path))?.len();
    let source = NamedFile { file: &file, path };
    let ranges = used_ranges(source, size)?;
    let places: Vec<_> = ranges.iter().map(|range| (range.start, range.length())).collect();
    let mut hasher = blake3::Hasher::new();
    hasher.update(hash_of_places(size, &places).as_bytes());
    each_chunk(source, &ranges, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hasher.finalize().to_hex().to_string())
}

fn used_ranges(source: NamedFile, size: u64) -> Result<Vec<Range>, TargetError> {
    let mut used: Vec<Range> = Vec::new();
    let mut buffer = vec![0u8; CHUNK];
    for range in sparse::data_ranges(source.file, size, source.path)? {
        let mut at = range.start;
        while at < range.end {
            let length = CHUNK.min((range.end - at) as usize);
            source.file.read_exact_at(&mut buffer[..length], at).map_err(TargetError::io("read", source.path))?;
            for piece in sparse::pieces(&buffer[..length], true) {
                used.push(Range { start: at + piece.start as u64, end: at + piece.end as u64 });
            }
            at += length as u64;
        }
    }
    Ok(sparse::merge(used))
}

fn each_chunk(
    source: NamedFile,
    ranges: &[Range],
    mut action: impl FnMut(&[u8]) -> Result<(), TargetError>,
) -> Result<(), TargetError> {
    let mut buffer = vec![0u8; CHUNK];
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let length = CHUNK.min((range.end - at) as usize);
            source.file.read_exact_at(&mut buffer[..length], at).map_err(TargetError::io("read", source.path))?;
            action(&buffer[..length])?;
            at += length as u64;
        }
    }
    Ok(())
}

/// Unpacks `from` into a new file at `to`, which is removed if the pack is damaged ([`TargetError::Damaged`]). Refuses
/// an existing file. [`TargetError::Missing`] without enough free space.
pub fn unpack(from: &Path, to: &Path) -> Result<PackReport, TargetError> {
    let file = open_regular(from).map_err(TargetError::named("open", from))?;
    let packed_bytes = file.metadata().map_err(TargetError::io("inspect", from))?.len();
    let mut input = BufReader::new(file);
    let manifest = PackManifest::read(&mut input, from)?;
    check_space(&manifest, to)?;
    make_new(to, |part| read_data(&mut input, &manifest, from, part))?;
    let (size_bytes, used_bytes) = (manifest.size_bytes, manifest.used_bytes());
    Ok(PackReport { size_bytes, used_bytes, packed_bytes, blake3: manifest.blake3 })
}

/// Checks the free space. A small pack may claim more data than the disk can hold, and fill it before that is noticed.
fn check_space(manifest: &PackManifest, to: &Path) -> Result<(), TargetError> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let host = rustix::fs::statvfs(folder).map_err(TargetError::errno("ask for the space in", folder))?;
    let (free, used) = (Bytes(host.f_bavail.saturating_mul(host.f_frsize)), Bytes(manifest.used_bytes()));
    match used <= free {
        true => Ok(()),
        false => Err(TargetError::missing(
            format!(
                "space for {}: the pack contains {used}, but {} has {free} free; it",
                to.display(),
                folder.display()
            ),
            "free some space or choose another path",
        )),
    }
}

fn read_data(
    input: &mut impl BufRead,
    manifest: &PackManifest,
    from: &Path,
    part: NamedFile,
) -> Result<(), TargetError> {
    let broken = |_| TargetError::damaged(from, "the pack is cut off or damaged; copy it again");
    part.file.set_len(manifest.size_bytes).map_err(TargetError::io("set the size of", part.path))?;
    let mut decoder = zstd::Decoder::with_buffer(input).map_err(broken)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0u8; CHUNK];
    for (start, length) in &manifest.ranges {
        let mut done = 0;
        while done < *length {
            let chunk = &mut buffer[..CHUNK.min((length - done) as usize)];
            decoder.read_exact(chunk).map_err(broken)?;
            hasher.update(chunk);
            part.file.write_all_at(chunk, start + done).map_err(TargetError::io("write", part.path))?;
            done += chunk.len() as u64;
        }
    }
    match hasher.finalize().to_hex().as_str() == manifest.blake3 {
        true => Ok(()),
        false => Err(TargetError::damaged(from, "the hash of its content does not match; copy it again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn image(directory: &Path) -> PathBuf {
        let path = directory.join("a.img");
        let file = File::create(&path).unwrap();
        file.set_len(32 << 20).unwrap();
        file.write_all_at(&[5; 70_000], 4096).unwrap();
        file.write_all_at(b"end", (32 << 20) - 3).unwrap();
        path
    }

    /// Creates an image; returns its path, and those of its pack and of the unpacked image.
    fn scene() -> (tempfile::TempDir, PathBuf, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let from = image(directory.path());
        let [to, back] = ["a.pack", "b.img"].map(|name| directory.path().join(name));
        (directory, from, to, back)
    }

    #[test]
    fn an_image_is_packed_and_unpacked() {
        let (_directory, from, to, back) = scene();
        let report = pack(&from, &to).unwrap();
        assert!(report.packed_bytes < 2000 && report.used_bytes < 90_000, "{report:?}");
        assert_eq!(unpack(&to, &back).unwrap().blake3, report.blake3);
        assert!(std::fs::read(&from).unwrap() == std::fs::read(&back).unwrap());
        assert!(matches!(unpack(&to, &back), Err(TargetError::Refused { .. })));
    }

    #[test]
    fn content_hash_skips_holes_and_equates_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let path = image(directory.path());
        let file = File::options().write(true).open(&path).unwrap();
        let hash = content_hash(&path).unwrap();
        file.write_all_at(&[0; 1 << 20], 8 << 20).unwrap();
        assert_eq!(content_hash(&path).unwrap(), hash);
        file.write_all_at(&[5], 9 << 20).unwrap();
        assert_ne!(content_hash(&path).unwrap(), hash);
        // Reading such a hole takes an hour.
        file.set_len(4 << 40).unwrap();
        assert_ne!(content_hash(&path).unwrap(), hash, "the size counts");
    }

    #[test]
    fn damaged_pack_leaves_no_files() {
        let (directory, from, to, back) = scene();
        pack(&from, &to).unwrap();
        let whole = std::fs::read(&to).unwrap();
        for cut in [0, 10, 60, whole.len() - 30, whole.len() - 1] {
            std::fs::write(&to, &whole[..cut]).unwrap();
            assert!(unpack(&to, &back).is_err(), "cut at {cut}");
        }
        for at in [3, 40, whole.len() - 20] {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            std::fs::write(&to, damaged).unwrap();
            assert!(unpack(&to, &back).is_err(), "damaged at {at}");
        }
        assert!(!back.exists());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn thousand_damaged_packs_leave_no_files_and_do_not_crash() {
        use rand_pcg::rand_core::Rng;
        let directory = tempfile::tempdir().unwrap();
        let (to, back) = (directory.path().join("a.pack"), directory.path().join("back/b.img"));
        std::fs::create_dir(directory.path().join("back")).unwrap();
        let original = std::fs::read(image(directory.path())).unwrap();
        pack(&directory.path().join("a.img"), &to).unwrap();
        let whole = std::fs::read(&to).unwrap();
        let mut random = senesce_core::Seed(0x22).stream("volume/damaged-packs");
        let mut below = |most: usize| random.next_u32() as usize % most;
        let mut unpacked = 0;
        for round in 0..1000 {
            let mut bytes = whole.clone();
            // Half of the damage is in the manifest, which states the amount and the offsets of the writes.
            let reach = if round % 2 == 0 { whole.len().min(200) } else { whole.len() };
            for _ in 0..1 + below(4) {
                bytes[below(reach)] = if below(2) == 0 { b'0' + below(10) as u8 } else { below(256) as u8 };
            }
            if below(4) == 0 {
                bytes.truncate(below(whole.len()));
            }
            std::fs::write(&to, &bytes).unwrap();
            match unpack(&to, &back) {
                Ok(_) => {
                    unpacked += 1;
                    assert!(std::fs::read(&back).unwrap() == original, "another image: {round}");
                    std::fs::remove_file(&back).unwrap();
                }
                Err(error) => assert!(error.to_string().contains("a.pack") || error.to_string().contains("b.img")),
            }
            assert_eq!(std::fs::read_dir(directory.path().join("back")).unwrap().count(), 0);
        }
        assert!(unpacked < 500, "most of the damage is noticed: {unpacked}");
    }

    #[test]
    fn pack_without_places_hash_is_read() {
        let (_directory, from, to, back) = scene();
        pack(&from, &to).unwrap();
        let whole = std::fs::read(&to).unwrap();
        let key = b",\"places_blake3\":";
        let at = whole.windows(key.len()).position(|window| window == key).unwrap();
        let value = 2 + 64;
        std::fs::write(&to, [&whole[..at], &whole[at + key.len() + value..]].concat()).unwrap();
        unpack(&to, &back).unwrap();
        assert!(std::fs::read(&from).unwrap() == std::fs::read(&back).unwrap());
    }

    proptest! {
        #[test]
        fn arbitrary_manifest_never_panics(text in "[\\{\\}\\[\\]a-z_0-9:,\"\n]{0,200}") {
            let bytes = format!("{MAGIC}\n{text}");
            let _ = PackManifest::read(&mut bytes.as_bytes(), Path::new("p"));
        }

        #[test]
        fn accepted_ranges_lie_in_the_image(
            size in prop_oneof![any::<u64>(), 0u64..100],
            ranges in prop::collection::vec((prop_oneof![any::<u64>(), 0u64..100], 0u64..100), 0..4),
        ) {
            let pairs = ranges.iter().map(|(start, length)| format!("[{start},{length}]")).collect::<Vec<_>>().join(",");
            let begin = format!("{{\"size_bytes\":{size},\"file_system\":null,\"program_version\":\"0\"");
            let bytes = format!("{MAGIC}\n{begin},\"blake3\":\"\",\"ranges\":[{pairs}]}}\n");
            let read = PackManifest::read(&mut bytes.as_bytes(), Path::new("p"));
            let ends = ranges.iter().map(|(start, length)| u128::from(*start) + u128::from(*length));
            let begins = std::iter::once(0).chain(ends.clone()).zip(&ranges).all(|(end, (start, _))| end <= u128::from(*start));
            let sound = begins && ends.clone().all(|end| end <= size.into()) && ranges.iter().all(|(_, length)| *length > 0);
            prop_assert_eq!(read.is_ok(), sound);
        }
    }
}
