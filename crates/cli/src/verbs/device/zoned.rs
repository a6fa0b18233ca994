//! `senesce device measure DEV --fit FILE`: a model of a zoned drive.

use crate::Exit;
use crate::display::print_plan;
use crate::display::{Rerun, show_whole};
use crate::output::Output;
use crate::session::Session;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::parameter::real;
use senesce_core::{Failure, Seed};
use senesce_exp_aging::age::words;
use senesce_exp_zns::zoned_model::{Spec, ZonedModel, model_file};
use senesce_runner::{Conduct, Run, conduct};
use std::path::{Path, PathBuf};

const BEGINNING: &[u8] = b"name =";

/// Flags of a measurement with `--fit`.
#[derive(Args)]
pub(crate) struct Options {
    /// Overwrite a zoned drive and fit its model
    #[arg(long, value_name = "FILE", conflicts_with = "alignment", help_heading = "Model of a zoned drive")]
    fit: Option<PathBuf>,
    /// Model to start from [default: zn540]
    #[arg(long, value_name = "MODEL", requires = "fit", help_heading = "Model of a zoned drive")]
    start: Option<String>,
    /// Measurements of each point, at least 2 [default: 3]
    #[arg(long, value_name = "N", requires = "fit", help_heading = "Model of a zoned drive")]
    reps: Option<u32>,
    /// Multiply the length of each measurement
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = real(0.001..=1000.0), requires = "fit",
          help_heading = "Model of a zoned drive")]
    scale: f64,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY", requires = "fit", help_heading = "Model of a zoned drive")]
    erase: Option<String>,
    /// Print the plan only
    #[arg(long, requires = "fit", help_heading = "Model of a zoned drive")]
    dry_run: bool,
}

impl Options {
    /// Returns whether a model of a zoned drive is to be made.
    pub(crate) fn is_meant(&self) -> bool {
        self.fit.is_some()
    }

    fn spec(&self, device: &Path) -> Spec {
        let usual = Spec::of(&device.display().to_string(), self.start.as_deref().unwrap_or("zn540"));
        Spec {
            repetitions: self.reps.unwrap_or(usual.repetitions),
            commands: (usual.commands as f64 * self.scale).ceil() as u64,
            seconds: usual.seconds * self.scale,
            rounds: (f64::from(usual.rounds) * self.scale).ceil() as u32,
            ..usual
        }
    }

    pub(crate) fn run(
        self,
        device: &Path,
        out: Option<PathBuf>,
        output: &Output,
        json: bool,
        seed: Seed,
        session: &Session,
    ) -> Result<Exit, Failure> {
        output.check(self.fit.as_deref(), Format::Text, BEGINNING)?;
        let spec = self.spec(device);
        if self.dry_run {
            return print_plan(&ZonedModel::plan(&spec, seed)?, json);
        }
        let wanted = RunSettings { seed, out, erase: self.erase, file: self.fit, output: *output, json };
        wanted.conclude(&spec, session)
    }
}

/// A fit to tables.
#[derive(Args)]
pub(crate) struct Fit {
    /// CSV tables of measured points; every third is held out
    #[arg(required = true)]
    tables: Vec<PathBuf>,
    /// Model file to write, for sim:FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    model: PathBuf,
    /// Model to start from
    #[arg(long, value_name = "MODEL", default_value = "zn540", help_heading = "Fit")]
    start: String,
    /// Root seed
    #[arg(long, value_name = "N", default_value = words::SEED, value_parser = words::seed(), help_heading = "Fit")]
    seed: Seed,
    /// Run directory [default: senesce-runs/zoned-model-HASH]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl Fit {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.output.check(Some(&self.model), Format::Text, BEGINNING)?;
        let spec = Spec::of_tables(&self.tables, &self.start)?;
        let file = Some(self.model);
        RunSettings { seed: self.seed, out: self.out, erase: None, file, output: self.output, json: self.json }
            .conclude(&spec, session)
    }
}

struct RunSettings {
    seed: Seed,
    out: Option<PathBuf>,
    erase: Option<String>,
    file: Option<PathBuf>,
    output: Output,
    json: bool,
}

impl RunSettings {
    fn conclude(self, spec: &Spec, session: &Session) -> Result<Exit, Failure> {
        let interrupt = session.interrupt()?;
        let how = Conduct { out: self.out, erase: self.erase, ..session.conduct(&interrupt) };
        let outcome = conduct::<ZonedModel>(spec, self.seed, &how)?;
        if let Some(file) = &self.file {
            let name = file.file_stem().map_or("fitted".into(), |stem| stem.to_string_lossy().into_owned());
            if let Some(text) = model_file(&outcome.analysis.result, &name)? {
                self.output.write(file, Format::Text, text.as_bytes())?;
            }
        }
        show_whole(&outcome, Rerun::OtherDirectory, self.json, session)
    }
}
