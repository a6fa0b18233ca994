//! Imports the raw files of the CLUSTER 2023 study on zoned drives for the same analysis as our own runs.

mod agreement;
mod analysis;
mod files;
mod gathered;
mod keys;
mod text;

use crate::zns::values::Values;
pub use text::{bandwidth_log, operations};

use files::{ArtifactFile, above, walk};
use gathered::GatheredTree;
use senesce_core::{Analysis, Environment, ExitCode, Failure, number_of};
use senesce_runner::{Imported, ImportedRun, Recorded, import};
use senesce_runs::import::{ImportedFile, Importer};
use serde::{Deserialize, Serialize};
use std::path::Path;

pub(crate) struct ZnsStudyImport;

/// An imported item.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The values of one key.
    Point(Values),
    /// A file that is not a result of the study.
    Skipped { path: String, why: String },
    /// Totals of the import.
    Imported {
        /// Number of files.
        files: usize,
        /// Dropped operations without a duration.
        zeros_dropped: usize,
        /// Lines of these files without an operation.
        #[serde(default)]
        other_lines: usize,
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
        let mut gathered = GatheredTree::default();
        let above = above(source);
        walk(source, &mut |found| {
            gathered.take(ArtifactFile { path: format!("{above}{}", found.path), ..found });
            Ok(())
        })?;
        let (results, skipped) = (gathered.results, gathered.skipped.len());
        let spec = ImportedFile::of(source, gathered.checksum);
        let events = gathered.events();
        let is_empty = !events.iter().any(|event| matches!(event, Event::Point(_)));
        if is_empty && results == 0 {
            return Err(Failure::usage(format!(
                "{}: {} found, but no result of the study; fio results are files \
                 ENGINE/DEVICE/FORMAT/OP/<bs>bs/<zones>zone/<qd>.json, others are lines of op,ns",
                source.display(),
                number_of(skipped, "file")
            )));
        }
        let mut environment = Environment::default();
        environment.put("zns.device.0", format!("imported from {}", spec.source));
        import::<Self>(out, Imported { spec, environment, events, measurements: Vec::new(), caveats: Vec::new() })?;
        match is_empty {
            true => Err(Failure::new(
                ExitCode::RunFailed,
                format!("{}: no valid result; see the reasons in the record {}", source.display(), out.display()),
            )),
            false => Ok(()),
        }
    }
}

impl ImportedRun for ZnsStudyImport {
    const KIND: &'static str = "zns-study";
    type Spec = ImportedFile;
    type Event = Event;

    fn analyse(_spec: &ImportedFile, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        analysis::analyse(recorded)
    }
}

#[cfg(test)]
mod tests;
