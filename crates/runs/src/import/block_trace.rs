//! Traces recorded by blktrace, in its binary form and as the text of blkparse.

use super::Importer;
use crate::trace::{self, Summary};
use senesce_core::{Environment, Failure};
use senesce_volume::trace::{blkparse, blktrace};
use senesce_volume::{BlockTrace, TargetError};
use std::path::{Path, PathBuf};

type Read = fn(&Path, Option<(u32, u32)>) -> Result<BlockTrace, TargetError>;

/// One form of foreign traces.
pub struct BlockTraces {
    name: &'static str,
    about: &'static str,
    read: Read,
}

/// Binary files of blktrace.
pub const BLKTRACE: BlockTraces = BlockTraces {
    name: "blktrace",
    about: "files of blktrace: NAME.blktrace.CPU, their common NAME, or their folder; append #MAJOR,MINOR to choose a device",
    read: blktrace::import,
};

/// Text of blkparse.
pub const BLKPARSE: BlockTraces = BlockTraces {
    name: "blkparse",
    about: "the default text of blkparse; append #MAJOR,MINOR to choose a device",
    read: blkparse::import,
};

impl Importer for BlockTraces {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let (path, device) = split_device(source);
        let trace = (self.read)(&path, device)?;
        let spec = trace::Spec::Imported {
            format: self.name.to_string(),
            source: source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            requests: trace.len() as u64,
        };
        // Nothing is known of the machine that it was recorded on.
        let mut environment = Environment::default();
        super::date(&mut environment, &path, None);
        trace::record(&trace, &Summary::of(&trace)?, spec, &environment, out)
    }
}

/// A path, and the device that was chosen behind a `#`.
pub(crate) fn split_device(source: &Path) -> (PathBuf, Option<(u32, u32)>) {
    let text = source.to_string_lossy();
    let chosen = text.rsplit_once('#').and_then(|(path, device)| {
        let (major, minor) = device.split_once(',')?;
        Some((PathBuf::from(path), (major.parse().ok()?, minor.parse().ok()?)))
    });
    chosen.map_or_else(|| (source.into(), None), |(path, device)| (path, Some(device)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Record;

    const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

    #[test]
    fn both_forms_become_runs_that_can_be_analysed() {
        for (importer, file, requests) in [(&BLKTRACE, "blktrace/read", 1), (&BLKPARSE, "blkparse/default", 2)] {
            let directory = tempfile::tempdir().unwrap();
            let out = directory.path().join("run");
            importer.import(&Path::new(CORPUS).join(file), &out).unwrap();
            let analysis = crate::run::analyse::<trace::BlockTraceRun>(&Record::open(&out).unwrap()).unwrap();
            assert_eq!(analysis.result["requests"], requests, "{file}");
        }
    }

    #[test]
    fn recordings_begun_under_load_or_with_errors_are_counted_and_not_valid() {
        for (file, requests, why) in
            [("begun-under-load", 1, "never issued"), ("failed-request", 2, "ended with an error")]
        {
            for (importer, folder) in [(&BLKTRACE, "blktrace"), (&BLKPARSE, "blkparse")] {
                let directory = tempfile::tempdir().unwrap();
                let out = directory.path().join("run");
                importer.import(&Path::new(CORPUS).join(folder).join(file), &out).unwrap();
                let result = crate::run::analyse::<trace::BlockTraceRun>(&Record::open(&out).unwrap()).unwrap().result;
                assert_eq!(
                    (&result["requests"], &result["valid"]),
                    (&requests.into(), &false.into()),
                    "{folder}/{file}"
                );
                assert!(result.to_string().contains(why), "{folder}/{file}: {result}");
            }
        }
    }

    #[test]
    fn a_foreign_file_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("run");
        let error = BLKTRACE.import(&Path::new(CORPUS).join("blktrace/other-byte-order"), &out).unwrap_err();
        assert!(error.to_string().contains("other byte order"), "{error}");
        assert!(!out.exists());
    }

    #[test]
    fn the_device_is_chosen_behind_a_hash() {
        assert_eq!(split_device(Path::new("/a/sda#8,16")), ("/a/sda".into(), Some((8, 16))));
        assert_eq!(split_device(Path::new("/a/odd#name")), ("/a/odd#name".into(), None));
    }
}
