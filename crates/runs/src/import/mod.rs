//! Imports foreign data as run directories: one importer per kind.

pub(crate) mod block_trace;
pub mod fio;
pub mod results;
mod rules;

use senesce_core::circumstances::date_of;
use senesce_core::failure::errno_message;
use senesce_core::text::visible_line;
use senesce_core::{Environment, ExitCode, Failure, input};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub trait Importer: Sync {
    /// Returns the word after `senesce runs import`.
    fn name(&self) -> &'static str;

    fn about(&self) -> &'static str;

    /// Reads `source` and writes the run directory `out`. A usage error, with the line if known, for data that is not
    /// understood.
    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure>;

    fn with(&self, options: &Options) -> Result<Option<Box<dyn Importer>>, Failure> {
        match options {
            Options { map, pattern: None } if map.is_empty() => Ok(None),
            _ => Err(Failure::usage(format!(
                "--map is for 'import table' and --pattern for 'import trace': '{}' knows its columns",
                self.name()
            ))),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    pub map: Vec<String>,
    pub pattern: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Complaint {
    /// An error: the measured values do not count.
    Invalidates,
    Warns,
}

impl Complaint {
    fn of(line: &str) -> Option<Self> {
        let lower = line.to_lowercase();
        let says = |words: &str| lower.contains(words);
        let is_error = line.starts_with("ERROR") || line.contains("ERROR:") || says("** error **");
        match () {
            () if is_error || says("incorrect data") || says("verifying the data") => Some(Self::Invalidates),
            () if line.contains("WARNING") => Some(Self::Warns),
            () => None,
        }
    }
}

/// Maximum number of characters of a foreign text that are kept.
const MOST_CHARACTERS: usize = 400;

/// Formats foreign text on one line with escaped control characters. A truncated text ends with the checksum of the
/// whole.
pub(crate) fn printable(text: &str) -> String {
    let shown = visible_line(text);
    match shown.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}… (CRC-32 {:08x})", &shown[..end], crc32fast::hash(text.as_bytes())),
        None => shown.into_owned(),
    }
}

fn finish(source: &Path, out: &Path, nothing_counts: bool) -> Result<(), Failure> {
    match nothing_counts {
        true => Err(Failure::new(
            ExitCode::RunFailed,
            format!("{}: none of its numbers count; see the record {}", source.display(), out.display()),
        )),
        false => Ok(()),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedFile {
    /// Name of the file, folder or archive.
    pub source: String,
    /// CRC-32 of its bytes, in hexadecimal; of a folder or archive, that of all its files together.
    pub crc32: String,
}

impl ImportedFile {
    pub fn of(path: &Path, crc32: u32) -> Self {
        let source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { source, crc32: format!("{crc32:08x}") }
    }
}

pub const IMPORTERS: &[&dyn Importer] = &[
    &fio::Fio,
    &results::HYPERFINE,
    &results::IOR,
    &results::MDTEST,
    &block_trace::BLKTRACE,
    &block_trace::BLKPARSE,
    &results::table::TABLES,
    &block_trace::TRACES,
];

pub fn importer(known: &[&'static dyn Importer], name: &str) -> Result<&'static dyn Importer, Failure> {
    known.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
        let known = || known.iter().map(|one| one.name());
        let hint = senesce_core::parameter::suggest(name, known());
        Failure::usage(format!(
            "'{name}' cannot be imported{hint}; known are: {}",
            known().collect::<Vec<_>>().join(", ")
        ))
    })
}

/// The source of the date of undated results: copying their file may change it.
pub(crate) const DATED_BY_FILE: &str = "the time of their file";

/// Records the date of results: their own (seconds since 1970), else the modification time of the file.
pub(crate) fn date(facts: &mut Environment, source: &Path, stated: Option<u64>) {
    let written = || source.metadata().and_then(|found| found.modified()).ok().filter(has_date);
    let stated = stated.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds.min(LATEST_SECONDS)));
    if let Some(moment) = stated.or_else(written) {
        facts.put("run.date", date_of(moment));
        facts.put("run.date_from", if stated.is_some() { "the results" } else { DATED_BY_FILE });
    }
}

/// Moments before 1970 are not recorded.
fn has_date(moment: &SystemTime) -> bool {
    moment.duration_since(UNIX_EPOCH).is_ok_and(|since| since.as_secs() <= LATEST_SECONDS)
}

/// The end of the year 9999, the latest recorded date.
const LATEST_SECONDS: u64 = 253_402_300_799;

/// Reads the text of a foreign file or pipe in UTF-8.
pub(crate) fn read_text(source: &Path) -> Result<String, Failure> {
    let bytes = input::file_or_pipe(source).map_err(|error| {
        Failure::new(ExitCode::Usage, format!("read {}: {}; check the path", source.display(), errno_message(&error)))
    })?;
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{} is not text", source.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_devices_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("result.json");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let failure = read_text(&link).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Usage);
        assert!(failure.to_string().contains("neither a file nor a pipe"), "{failure}");
    }

    #[test]
    fn file_without_date_leaves_run_undated() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(has_date(&at(0)) && has_date(&at(LATEST_SECONDS)));
        assert!(!has_date(&(UNIX_EPOCH - Duration::from_secs(1))) && !has_date(&at(LATEST_SECONDS + 1)));

        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_modified(UNIX_EPOCH - Duration::from_secs(1)).unwrap();
        let mut facts = Environment::default();
        date(&mut facts, file.path(), None);
        assert_eq!(facts.0.get("run.date"), None);
        date(&mut facts, file.path(), Some(u64::MAX));
        assert!(
            facts.0.get("run.date").and_then(|date| date.as_str()).is_some_and(|date| date.starts_with("9999-12-31"))
        );
    }
}
