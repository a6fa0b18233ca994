//! Results of other benchmarks whose files say little more than numbers: hyperfine, IOR, mdtest.

mod hyperfine;
mod ior;
mod mdtest;
mod present;

use super::{ImportedFile, Importer, read_text};
use crate::run::{Imported, ImportedRun, NoEvent, Recorded, import};
use senesce_core::{Analysis, Environment, Failure, Measurement};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a file says.
#[derive(Debug, Default)]
struct Found {
    measurements: Vec<Measurement>,
    environment: Environment,
    caveats: Vec<String>,
}

/// One kind of file: its name, what it is, and how it is read. What is wrong with a file is told in words.
pub struct Format {
    name: &'static str,
    about: &'static str,
    read: fn(&str) -> Result<Found, String>,
}

/// `hyperfine --export-json`.
pub const HYPERFINE: Format =
    Format { name: "hyperfine", about: "what hyperfine --export-json writes", read: hyperfine::read };

/// What IOR prints.
pub const IOR: Format = Format { name: "ior", about: "what IOR 3 and 4 print", read: ior::read };

/// What mdtest prints.
pub const MDTEST: Format = Format { name: "mdtest", about: "what mdtest prints", read: mdtest::read };

/// Reads text as each of the imports would.
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
        if found.measurements.is_empty() {
            return Err(Failure::usage(format!("{}: it holds no valid result of {}", source.display(), self.name)));
        }
        let ImportedFile { source: name, crc32 } = ImportedFile::of(source, crc32fast::hash(text.as_bytes()));
        let spec = Spec { format: self.name.into(), source: name, crc32 };
        let Found { measurements, mut environment, caveats } = found;
        super::date(&mut environment, source, None);
        import::<Results>(out, Imported { spec, environment, events: Vec::new(), measurements, caveats })
    }
}

/// The reader of the records.
pub struct Results;

/// What tells one import from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spec {
    /// The program that measured: `hyperfine`, `ior`, `mdtest`.
    pub format: String,
    /// Name of the file.
    pub source: String,
    /// CRC-32 of its bytes, in hexadecimal.
    pub crc32: String,
}

impl ImportedRun for Results {
    const KIND: &'static str = "results";
    type Spec = Spec;
    type Event = NoEvent;

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        Ok(present::analysis(spec, recorded))
    }
}

/// Whether two numbers are the same within a share of the larger one.
fn agrees(ours: f64, theirs: f64, share: f64) -> bool {
    (ours - theirs).abs() <= share * ours.abs().max(theirs.abs())
}

#[cfg(test)]
mod tests;
