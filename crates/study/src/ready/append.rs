//! `slow-append`: several files grow in turn, with an fsync of each now and then, as logs and mailboxes do.

use super::{ReadySetup, failed, wrong};
use senesce_core::analysis::Better;
use senesce_core::{Bytes, Failure, Measurement};
use senesce_layout::{Layout, Options};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const FILES: usize = 16;
/// Bytes that a file grows by in each round.
const STEP: usize = 16 << 10;
const ROUNDS_PER_FSYNC: u32 = 8;
/// Rounds at scale 1: 16 MiB.
const ROUNDS: u32 = 64;

/// Appends to new files in a new folder: 16 MiB, or less if `most` is less. Returns the bytes written.
///
/// # Errors
/// As mkdir(2), open(2), write(2) and fsync(2).
pub fn slow_append(folder: &Path, most: Bytes) -> Result<u64, Failure> {
    fs::create_dir(folder).map_err(failed("make folder", folder))?;
    let count = (most.0 / (FILES * STEP) as u64).clamp(u64::from(ROUNDS_PER_FSYNC), u64::from(ROUNDS));
    rounds(folder, count as u32, &mut |_| Ok(()))
}

fn rounds(folder: &Path, count: u32, each: &mut dyn FnMut(u32) -> Result<(), Failure>) -> Result<u64, Failure> {
    let open = |number| File::create_new(folder.join(format!("log{number:02}")));
    let mut files: Vec<File> =
        (0..FILES).map(open).collect::<Result<_, _>>().map_err(failed("make a log in", folder))?;
    for round in 0..count {
        each(round)?;
        for file in &mut files {
            file.write_all(&[round as u8; STEP]).map_err(failed("append to a log in", folder))?;
            if (round + 1) % ROUNDS_PER_FSYNC == 0 {
                file.sync_all().map_err(failed("sync a log in", folder))?;
            }
        }
    }
    files.iter().try_for_each(|file| file.sync_all()).map_err(failed("sync a log in", folder))?;
    Ok((FILES * STEP) as u64 * u64::from(count))
}

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let count = place.count(f64::from(ROUNDS), ROUNDS_PER_FSYNC);
    place.progress.phase("slow-append", u64::from(count), "rounds");
    let begun = Instant::now();
    let written = rounds(place.folder, count, &mut |round| {
        place.progress.position(u64::from(round), "");
        place.check_interrupt()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let layout = Layout::examine(place.folder, &Options::default())?.summary;
    if layout.files != FILES as u64 {
        return Err(wrong(format!("{} files were found instead of the {FILES} that were appended to", layout.files)));
    }
    let extents = layout.extents as f64 / FILES as f64;
    Ok(vec![
        Measurement::new("append time", "s", Better::Lower, seconds)?,
        Measurement::new("append bandwidth", "MB/s", Better::Higher, written as f64 / 1e6 / seconds)?,
        Measurement::new("extents per appended file", "extents/file", Better::Lower, extents)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_gets_the_bytes_of_all_rounds() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("logs");
        let written = slow_append(&folder, Bytes::mib(4)).unwrap();
        assert_eq!(written, 4 << 20);
        let lengths: Vec<u64> =
            fs::read_dir(&folder).unwrap().map(|one| one.unwrap().metadata().unwrap().len()).collect();
        assert_eq!((lengths.len(), lengths.iter().sum::<u64>()), (FILES, written));
        assert!(lengths.iter().all(|length| *length == lengths[0]));
        assert!(slow_append(&folder, Bytes::mib(4)).is_err(), "existing files are not appended to");
    }
}
