//! The content of a snapshot as a BLAKE3 digest for each chunk, to verify a restore.

use crate::error::TargetError;
use crate::image_file::replace;
use crate::sparse::{NamedFile, Range, data_ranges};
use rayon::prelude::*;
use senesce_sys::zeros::is_zero;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CHUNK: u64 = 1 << 20;

const DIGEST: usize = blake3::OUT_LEN;
/// Stands for a chunk of zeros, which may be in a hole. No content is known that has this digest.
const ZEROES: [u8; DIGEST] = [0; DIGEST];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digests {
    size: u64,
    chunks: Vec<[u8; DIGEST]>,
}

impl Digests {
    pub(super) fn of(content: NamedFile, size: u64) -> Result<Self, TargetError> {
        let mut digests = Self { size, chunks: vec![ZEROES; size.div_ceil(CHUNK) as usize] };
        let used = digests.chunks_of(&data_ranges(content.file, size, content.path)?);
        let found: Vec<(u64, [u8; DIGEST])> = digests.digest(content, &used, |_, _| true)?;
        found.into_iter().for_each(|(chunk, digest)| digests.chunks[chunk as usize] = digest);
        Ok(digests)
    }

    pub(super) fn used(&self, content: NamedFile) -> Result<Vec<u64>, TargetError> {
        let mut used = self.chunks_of(&data_ranges(content.file, self.size, content.path)?);
        used.extend((0..).zip(&self.chunks).filter(|(_, digest)| **digest != ZEROES).map(|(chunk, _)| chunk));
        used.sort_unstable();
        used.dedup();
        Ok(used)
    }

    pub(super) fn chunks_of(&self, ranges: &[Range]) -> Vec<u64> {
        let touched = ranges.iter().filter(|range| range.start < range.end);
        let mut chunks: Vec<u64> =
            touched.flat_map(|range| range.start / CHUNK..range.end.min(self.size).div_ceil(CHUNK)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        chunks
    }

    pub(super) fn differing(&self, content: NamedFile, chunks: &[u64]) -> Result<Vec<u64>, TargetError> {
        let differs = |chunk: u64, digest: &[u8; DIGEST]| self.chunks[chunk as usize] != *digest;
        Ok(self.digest(content, chunks, differs)?.into_iter().map(|(chunk, _)| chunk).collect())
    }

    fn digest(
        &self,
        content: NamedFile,
        chunks: &[u64],
        wanted: impl Fn(u64, &[u8; DIGEST]) -> bool + Sync,
    ) -> Result<Vec<(u64, [u8; DIGEST])>, TargetError> {
        let read = |buffer: &mut Vec<u8>, chunk: u64| {
            let range = self.range(chunk);
            let bytes = &mut buffer[..range.length() as usize];
            content.file.read_exact_at(bytes, range.start).map_err(TargetError::io("read", content.path))?;
            let digest = if is_zero(bytes) { ZEROES } else { *blake3::hash(bytes).as_bytes() };
            Ok(wanted(chunk, &digest).then_some((chunk, digest)))
        };
        let found = chunks.par_iter().map_init(|| vec![0u8; CHUNK as usize], |buffer, chunk| read(buffer, *chunk));
        found.filter_map(Result::transpose).collect()
    }

    pub(super) fn range(&self, chunk: u64) -> Range {
        Range { start: chunk * CHUNK, end: ((chunk + 1) * CHUNK).min(self.size) }
    }

    pub(super) fn bytes(&self, chunks: &[u64]) -> u64 {
        chunks.iter().map(|chunk| self.range(*chunk).length()).sum()
    }

    pub(super) fn save(&self, path: &Path) -> Result<String, TargetError> {
        let bytes = self.chunks.as_flattened();
        replace(path, |to| to.file.write_all_at(bytes, 0).map_err(TargetError::io("write", to.path)))?;
        Ok(blake3::hash(bytes).to_hex().to_string())
    }

    pub(super) fn load(path: &Path, size: u64, hash: &str) -> Result<Self, TargetError> {
        // A missing file counts as damaged.
        let bytes = super::folder::read(path).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(TargetError::io("read the digests", path)(error)),
        })?;
        let (chunks, rest) = bytes.as_chunks::<DIGEST>();
        let whole = rest.is_empty() && chunks.len() as u64 == size.div_ceil(CHUNK);
        match whole && blake3::hash(&bytes).to_hex().as_str() == hash {
            true => Ok(Self { size, chunks: chunks.to_vec() }),
            false => Err(TargetError::damaged(
                path,
                "the snapshot's digests are damaged; after `senesce snapshot restore`, take the snapshot again under \
                 another name",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::{self, File};

    const SIZE: u64 = 5 * CHUNK + 4096;

    fn named(file: &File) -> NamedFile<'_> {
        NamedFile { file, path: Path::new("test file") }
    }

    fn filled() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(&[7; 10_000], CHUNK - 100).unwrap();
        file.write_all_at(&[9; 4096], SIZE - 4096).unwrap();
        file
    }

    #[test]
    fn zeroes_and_holes_are_the_same() {
        let (file, other) = (filled(), filled());
        other.write_all_at(&vec![0; CHUNK as usize], 3 * CHUNK).unwrap();
        let digests = Digests::of(named(&file), SIZE).unwrap();
        assert_eq!(Digests::of(named(&other), SIZE).unwrap(), digests);
        assert_eq!(digests.used(named(&file)).unwrap(), [0, 1, 5]);
        let used = digests.used(named(&other)).unwrap();
        assert_eq!((used.as_slice(), digests.bytes(&used)), (&[0, 1, 3, 5][..], 3 * CHUNK + 4096));
        assert_eq!(digests.differing(named(&other), &used).unwrap(), [0u64; 0]);
    }

    #[test]
    fn damaged_digest_file_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("d");
        let digests = Digests::of(named(&filled()), SIZE).unwrap();
        let hash = digests.save(&path).unwrap();
        assert_eq!(Digests::load(&path, SIZE, &hash).unwrap(), digests);
        assert!(Digests::load(&path, SIZE + CHUNK, &hash).is_err());
        let mut bytes = fs::read(&path).unwrap();
        bytes[40] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(Digests::load(&path, SIZE, &hash).unwrap_err().to_string().contains("damaged"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn every_change_is_found(at in 0..SIZE, value in 1u8..) {
            let file = filled();
            let digests = Digests::of(named(&file), SIZE).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ value], at).unwrap();
            let used = digests.used(named(&file)).unwrap();
            prop_assert_eq!(digests.differing(named(&file), &used).unwrap(), [at / CHUNK]);
        }
    }
}
