//! The raw files of the CLUSTER 2023 study on zoned drives, so that they go through the same analysis as our own runs.

mod analysis;
mod files;
mod gathered;
mod keys;
mod text;

use crate::zns::values::Values;
use files::walk;
use gathered::Gathered;
use senesce_core::{Analysis, Environment, Failure, Seed};
use senesce_runs::import::Importer;
use senesce_runs::run::{Context, Imported, Planned, Recorded, Run, import, only_imported};
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use text::{BySecond, bandwidth_log, operations};

/// The importer, and the reader of its records.
pub struct ZnsStudyImport;

/// What tells one import from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the folder or archive.
    pub source: String,
    /// Checksum over all files.
    pub crc32: String,
}

/// What was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The values of one key.
    Point(Values),
    /// A file that is no result of the study.
    Skipped {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// What was read.
    Imported {
        /// Files.
        files: usize,
        /// Operations without a duration, which were dropped.
        zeros_dropped: usize,
    },
}

impl Importer for ZnsStudyImport {
    fn name(&self) -> &'static str {
        "zns-study"
    }

    fn about(&self) -> &'static str {
        "raw files of the CLUSTER 2023 study on zoned drives: a folder or a zip archive"
    }

    fn import(&self, source: &Path, out: &Path) -> Result<(), Failure> {
        let mut gathered = Gathered::default();
        walk(source, &mut |found| {
            gathered.take(found);
            Ok(())
        })?;
        if gathered.len() == 0 {
            return Err(Failure::usage(format!(
                "{}: none of its {} files is a result of the study; fio results lie in \
                 ENGINE/DEVICE/FORMAT/OP/<bs>bs/<zones>zone/<qd>.json, others are lines of op,ns",
                source.display(),
                gathered.skipped.len()
            )));
        }
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sum = format!("{:08x}", gathered.checksum);
        let mut environment = Environment::default();
        environment.put("zns.device.0", format!("imported from {name}"));
        let spec = Spec { source: name, crc32: sum };
        import::<Self>(
            out,
            Imported { spec, environment, events: gathered.events(), measurements: Vec::new(), caveats: Vec::new() },
        )
    }
}

impl Run for ZnsStudyImport {
    const KIND: &'static str = "zns-study";
    type Spec = Spec;
    type Event = Event;
    type Step = ();

    fn steps(_spec: &Spec, _seed: Seed) -> Result<Vec<Planned<()>>, Failure> {
        Err(only_imported(Self::KIND))
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Err(only_imported(Self::KIND))
    }

    fn step(&mut self, _spec: &Spec, _step: &(), _context: &mut Context<'_, Self>) -> Result<(), Failure> {
        Err(only_imported(Self::KIND))
    }

    fn analyse(_spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        analysis::analyse(recorded)
    }
}

#[cfg(test)]
mod tests;
