//! Records that are imported instead of run.

use crate::analyse::analyse;
use crate::conduct::new_plan;
use crate::recorded::Common;
use crate::{Context, Planned, Recorded, Run};
use senesce_core::{Analysis, Environment, ExitCode, Failure, Measurement, Record, RunDirectory, Seed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::Path;

/// A kind of record that only an import makes. It is never run, and reported like a run.
pub trait ImportedRun: Sized + 'static {
    /// The word in `plan.toml`.
    const KIND: &'static str;

    type Spec: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync;

    type Event: Serialize + DeserializeOwned + Clone;

    /// Analyses the record, as [`Run::analyse`] does.
    fn analyse(spec: &Self::Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure>;
}

impl<T: ImportedRun> Run for T {
    const KIND: &'static str = <T as ImportedRun>::KIND;
    type Spec = T::Spec;
    type Event = T::Event;
    type Step = ();

    fn steps(_spec: &T::Spec, _seed: Seed) -> Result<Vec<Planned<()>>, Failure> {
        Err(only_imported(<T as ImportedRun>::KIND))
    }

    fn begin(_spec: &T::Spec, _context: &mut Context<'_, T>) -> Result<T, Failure> {
        Err(only_imported(<T as ImportedRun>::KIND))
    }

    fn step(&mut self, _spec: &T::Spec, _step: &(), _context: &mut Context<'_, T>) -> Result<(), Failure> {
        Err(only_imported(<T as ImportedRun>::KIND))
    }

    fn analyse(spec: &T::Spec, recorded: &Recorded<T>) -> Result<Analysis, Failure> {
        <T as ImportedRun>::analyse(spec, recorded)
    }
}

pub struct Imported<R: Run> {
    pub spec: R::Spec,
    /// Known facts about the measured system.
    pub environment: Environment,
    pub events: Vec<R::Event>,
    pub measurements: Vec<Measurement>,
    pub caveats: Vec<String>,
}

/// Makes the finished record of an import; the same import again changes nothing.
pub fn import<R: Run>(out: &Path, imported: Imported<R>) -> Result<(), Failure> {
    import_with(out, imported, |_| Ok(()))
}

/// Makes the finished record of an import with additional files, which `write` puts into the run directory.
pub fn import_with<R: Run>(
    out: &Path,
    imported: Imported<R>,
    write: impl FnOnce(&mut RunDirectory) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let plan = new_plan::<R>(&imported.spec, Seed(0))?;
    let mut directory = RunDirectory::open(out, &plan, &imported.environment)?;
    if directory.is_finished() {
        return Ok(());
    }
    if !directory.earlier_events().is_empty() {
        return Err(Failure::usage(format!(
            "{} contains an interrupted import; remove it or choose another directory",
            out.display()
        )));
    }
    write(&mut directory)?;
    directory.append_named(&imported.events)?;
    let measurements = imported.measurements.into_iter().map(Common::Measurement);
    let mut common: Vec<Common> = measurements.chain(imported.caveats.into_iter().map(Common::Caveat)).collect();
    if imported.events.is_empty() && common.is_empty() {
        // A finished record without events is taken for one that was emptied.
        common.push(Common::Caveat("the imported file contains no valid result".into()));
    }
    directory.append_named(&common)?;
    let analysis = analyse::<R>(&Record::open(out)?)?;
    Ok(directory.finish(&analysis.result)?)
}

fn only_imported(kind: &str) -> Failure {
    Failure::new(ExitCode::Usage, format!("'{kind}' cannot be run, only imported (senesce runs import)"))
}
