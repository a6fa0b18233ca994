//! Results of benchmarks whose files are mostly numbers: hyperfine, IOR, mdtest, and any table.

mod hyperfine;
mod ior;
mod mdtest;
mod present;
mod printed;
pub mod table;

use super::{ImportedFile, Importer, finish, read_text};
use senesce_core::{Analysis, Environment, Failure, Measurement};
use senesce_runner::{Imported, ImportedRun, NoEvent, Recorded, import};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Default)]
struct ParsedResults {
    measurements: Vec<Measurement>,
    environment: Environment,
    caveats: Vec<String>,
}

pub struct Format {
    name: &'static str,
    about: &'static str,
    read: fn(&str) -> Result<ParsedResults, String>,
}

pub const HYPERFINE: Format =
    Format { name: "hyperfine", about: "the output of hyperfine --export-json", read: hyperfine::read };

pub(crate) const IOR: Format = Format { name: "ior", about: "the output of IOR 3 and 4", read: ior::read };

pub(crate) const MDTEST: Format = Format { name: "mdtest", about: "the output of mdtest", read: mdtest::read };

pub fn check(text: &str) {
    for format in [&HYPERFINE, &IOR, &MDTEST] {
        drop((format.read)(text));
    }
}

impl Importer for Format {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let text = read_text(source)?;
        let found = (self.read)(&text).map_err(|problem| Failure::usage(format!("{}: {problem}", source.display())))?;
        record(found, source, &text, self.name, Vec::new(), out)
    }
}

fn record(
    found: ParsedResults,
    source: &Path,
    text: &str,
    format: &str,
    map: Vec<String>,
    out: &Path,
) -> Result<(), Failure> {
    let ParsedResults { measurements, mut environment, caveats } = found;
    let nothing_counts = measurements.is_empty();
    if nothing_counts && caveats.is_empty() {
        return Err(Failure::usage(format!("{}: it contains no valid result of {format}", source.display())));
    }
    let ImportedFile { source: name, crc32 } = ImportedFile::of(source, crc32fast::hash(text.as_bytes()));
    let spec = Spec { format: format.into(), source: name, crc32, map };
    super::date(&mut environment, source, None);
    import::<Results>(out, Imported { spec, environment, events: Vec::new(), measurements, caveats })?;
    finish(source, out, nothing_counts)
}

pub(crate) struct Results;

/// The identity of an imported result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// The program that measured: `hyperfine`, `ior`, `mdtest`; `table`: unknown.
    pub format: String,
    /// Name of the file.
    pub source: String,
    /// CRC-32 of its bytes, in hexadecimal.
    pub crc32: String,
    /// The columns of a table and their meaning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<String>,
}

impl ImportedRun for Results {
    const KIND: &'static str = "results";
    type Spec = Spec;
    type Event = NoEvent;

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(present::analysis(spec, recorded))
    }
}

#[cfg(test)]
mod tests;
