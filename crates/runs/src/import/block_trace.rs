//! Importers of block traces: binary blktrace files, the text of blkparse, and any text in columns.

use super::{ImportedFile, Importer, Options};
use crate::trace::{self, Summary};
use senesce_core::{Environment, Failure};
use senesce_volume::trace::{blkparse, blktrace, columns};
use senesce_volume::{BlockTrace, TargetError};
use std::path::{Path, PathBuf};

type Read = fn(&Path, Option<(u32, u32)>) -> Result<BlockTrace, TargetError>;

pub(crate) struct BlockTraces {
    name: &'static str,
    about: &'static str,
    read: Read,
}

pub(crate) const BLKTRACE: BlockTraces = BlockTraces {
    name: "blktrace",
    about: "files of blktrace: NAME.blktrace.CPU, their common NAME, or their folder; append #MAJOR,MINOR to choose a device",
    read: blktrace::import,
};

pub(crate) const BLKPARSE: BlockTraces = BlockTraces {
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
        record(&trace, self.name, source, &path, Vec::new(), out)
    }
}

fn record(
    trace: &BlockTrace,
    format: &str,
    source: &Path,
    file: &Path,
    caveats: Vec<String>,
    out: &Path,
) -> Result<(), Failure> {
    let ImportedFile { source, crc32 } = ImportedFile::of(source, crc32fast::hash(&trace.to_bytes()));
    let spec = trace::Spec::Imported { format: format.into(), source, requests: trace.len() as u64, crc32 };
    // Nothing is known about the machine of the recording.
    let mut environment = Environment::default();
    super::date(&mut environment, file, None);
    trace::record(trace, &Summary::of(trace)?, spec, &environment, caveats, out)?;
    super::finish(file, out, trace.is_empty() || trace.valid().is_err())
}

pub(crate) struct Traces;

pub(crate) static TRACES: Traces = Traces;

struct Patterned(String);

const EXAMPLE: &str =
    "hint: write the columns of a line in their order, for example --pattern time:us,device,op,offset,size,latency:us";

impl Importer for Traces {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn about(&self) -> &'static str {
        "block traces in columns; --pattern names them, or a format: msr, systor17, alibaba, tencent, fio-iolog"
    }

    fn import(&self, _source: &Path, _out: &Path) -> Result<(), Failure> {
        let formats = columns::FORMATS.map(|(name, _)| name).join(", ");
        Err(Failure::usage(format!("'import trace' needs --pattern: a format ({formats}) or columns\n{EXAMPLE}")))
    }

    fn with(&self, options: &Options) -> Result<Option<Box<dyn Importer>>, Failure> {
        if !options.map.is_empty() {
            return Err(Failure::usage("--map is for 'import table'; a trace needs --pattern"));
        }
        let pattern = options.pattern.as_ref();
        if let Some(Err(problem)) = pattern.map(|pattern| columns::Pattern::parse(pattern)) {
            return Err(Failure::usage(format!("--pattern: {problem}")));
        }
        Ok(pattern.map(|pattern| Box::new(Patterned(pattern.clone())) as Box<dyn Importer>))
    }
}

impl Importer for Patterned {
    fn name(&self) -> &'static str {
        Traces.name()
    }

    fn about(&self) -> &'static str {
        Traces.about()
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let text = source.to_string_lossy();
        // An existing file may have a # in its name.
        let chosen = text.rsplit_once('#').filter(|_| !source.exists());
        let (path, device) = chosen.map_or((source, None), |(path, device)| (Path::new(path), Some(device)));
        let columns::Columns { trace, caveats } = columns::import(path, &self.0, device)?;
        record(&trace, &format!("trace {}", self.0), source, path, caveats, out)
    }
}

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
    use serde_json::{Value, json};

    const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

    fn imported(importer: &dyn Importer, file: &str) -> (Result<(), Failure>, Value) {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("run");
        let imported = importer.import(&Path::new(CORPUS).join(file), &out);
        let analysis = senesce_runner::analyse::<trace::BlockTraceRun>(&Record::open(&out).unwrap()).unwrap();
        (imported, analysis.result)
    }

    #[test]
    fn both_blktrace_formats_become_analysable_runs() {
        for (importer, file, requests) in [(&BLKTRACE, "blktrace/read", 1), (&BLKPARSE, "blkparse/default", 2)] {
            let (imported, result) = imported(importer, file);
            imported.unwrap();
            assert_eq!(result["requests"], requests, "{file}");
        }
    }

    #[test]
    fn recordings_with_busy_start_or_errors_are_invalid() {
        for (file, requests, why) in
            [("begun-under-load", 1, "have no issue"), ("failed-request", 2, "ended with an error")]
        {
            for (importer, folder) in [(&BLKTRACE, "blktrace"), (&BLKPARSE, "blkparse")] {
                let (imported, result) = imported(importer, &format!("{folder}/{file}"));
                let error = imported.unwrap_err();
                assert_eq!(error.exit_code(), senesce_core::failure::ExitCode::RunFailed, "{folder}/{file}: {error}");
                assert_eq!(
                    [&result["requests"], &result["valid"]],
                    [&json!(requests), &json!(false)],
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
    fn device_is_chosen_after_a_hash() {
        assert_eq!(split_device(Path::new("/a/sda#8,16")), ("/a/sda".into(), Some((8, 16))));
        assert_eq!(split_device(Path::new("/a/odd#name")), ("/a/odd#name".into(), None));
    }
}
