//! `fsync-log`: appends records to a log in segments, each made durable before the next, as databases do.

use super::{ReadySetup, failed, wrong};
use rand::Rng;
use senesce_core::analysis::Better;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Failure, Measurement};
use std::fs::File;
use std::io::Write;
use std::time::Instant;

/// Records at scale 1, their minimum and maximum size, and the size of a full segment (bytes).
const RECORDS: f64 = 3000.0;
const LEAST: u64 = 64;
const LARGEST: u64 = 4096;
const SEGMENT: u64 = 1 << 20;

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let records = place.count(RECORDS, 10);
    let mut rng = DEFAULT_SEED.stream("study/ready/fsync-log");
    let mut content = vec![0; LARGEST as usize];
    rng.fill_bytes(&mut content);
    place.progress.phase("fsync-log", u64::from(records), "records");
    let (mut segments, mut in_segment, mut written, mut log) = (0u64, SEGMENT, 0u64, None);
    let begun = Instant::now();
    for record in 0..records {
        if in_segment >= SEGMENT {
            place.check_interrupt()?;
            let path = place.folder.join(format!("log{segments:05}"));
            log = Some(File::create_new(&path).map_err(failed("make", &path))?);
            (segments, in_segment) = (segments + 1, 0);
            // Its name is durable too.
            File::open(place.folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", place.folder))?;
        }
        let length = LEAST + rng.next_u64() % (LARGEST - LEAST + 1);
        if let Some(log) = &mut log {
            let appended = log.write_all(&content[..length as usize]).and_then(|()| log.sync_data());
            appended.map_err(failed("append to a log in", place.folder))?;
        }
        (in_segment, written) = (in_segment + length, written + length);
        if record % 64 == 0 {
            place.progress.position(u64::from(record), "");
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut found = 0;
    for entry in std::fs::read_dir(place.folder).map_err(failed("list", place.folder))?.flatten() {
        found += entry.metadata().map_err(failed("inspect", &entry.path()))?.len();
    }
    if found != written {
        return Err(wrong(format!("the logs have {found} bytes, but {written} were appended")));
    }
    Ok(vec![
        Measurement::new("durable records", "records/s", Better::Higher, f64::from(records) / seconds)?,
        Measurement::new("log time", "s", Better::Lower, seconds)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Silent;
    use senesce_core::interrupt::Interrupt;

    #[test]
    fn log_segments_have_all_appended_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let place = ReadySetup { folder: directory.path(), scale: 0.25, progress: &Silent, interrupt: &interrupt };
        let found = run(&place).unwrap();
        assert!((found[0].value.get() * found[1].value.get() - 750.0).abs() < 1e-6);
        assert!(std::fs::read_dir(directory.path()).unwrap().count() > 1);
        assert!(run(&place).is_err(), "an existing log is not overwritten");
    }
}
