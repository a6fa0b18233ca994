//! `senesce device measure DEV --zoned --fit FILE`: a model of a zoned drive.

use crate::Exit;
use crate::display::print_plan;
use crate::display::show;
use crate::output::Output;
use crate::session::Session;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{Failure, Seed};
use senesce_exp_zns::zoned_model::{Spec, ZonedModel, model_file};
use senesce_runner::{Conduct, Run, conduct};
use std::path::{Path, PathBuf};

/// How a model file begins.
const BEGINNING: &[u8] = b"name =";

/// What only a measurement with `--zoned` takes.
#[derive(Args)]
pub struct Options {
    /// Measure a zoned drive, whose data are lost, and fit the constants of its model
    #[arg(long, conflicts_with = "alignment", requires = "fit")]
    zoned: bool,
    /// With --zoned: the model file to write; `sim:FILE` then simulates the drive
    #[arg(long, value_name = "FILE", requires = "zoned")]
    fit: Option<PathBuf>,
    /// With --zoned: the model whose structure is kept, and whose constants are where nothing is measured [default: zn540]
    #[arg(long, value_name = "MODEL", requires = "zoned")]
    start: Option<String>,
    /// With --zoned: how often each point is measured [default: 3]
    #[arg(long, value_name = "N", requires = "zoned")]
    repetitions: Option<u32>,
    /// With --zoned: commands of an actor alone [default: 200000, simulated 40000]
    #[arg(long, value_name = "N", requires = "zoned")]
    commands: Option<u64>,
    /// With --zoned: seconds of actors beside one another [default: 20, simulated 3]
    #[arg(long, value_name = "SECONDS", requires = "zoned")]
    seconds: Option<f64>,
    /// With --zoned: rounds of single commands [default: 100, simulated 3000]
    #[arg(long, value_name = "N", requires = "zoned")]
    rounds: Option<u32>,
    /// With --zoned: allow the loss of the data on this real drive: repeat its path or serial number
    #[arg(long, value_name = "IDENTITY", requires = "zoned")]
    erase: Option<String>,
    /// With --zoned: print the points, what they write and how long they take, and stop
    #[arg(long, requires = "zoned")]
    dry_run: bool,
}

impl Options {
    /// Whether a model of a zoned drive is wanted.
    pub fn is_meant(&self) -> bool {
        self.zoned
    }

    fn spec(&self, device: &Path) -> Spec {
        let usual = Spec::of(&device.display().to_string(), self.start.as_deref().unwrap_or("zn540"));
        Spec {
            repetitions: self.repetitions.unwrap_or(usual.repetitions),
            commands: self.commands.unwrap_or(usual.commands),
            seconds: self.seconds.unwrap_or(usual.seconds),
            rounds: self.rounds.unwrap_or(usual.rounds),
            ..usual
        }
    }

    /// Measures what is not measured yet, fits, and writes the model file.
    pub fn run(
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
pub struct Fit {
    /// Tables (CSV) of points of one actor, of reads beside a writer, or of commands beside one another; one of three points is held out
    #[arg(required = true)]
    tables: Vec<PathBuf>,
    /// The model file to write; `sim:FILE` then simulates the drive
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The model whose structure is kept, and whose constants are where the tables say nothing
    #[arg(long, value_name = "MODEL", default_value = "zn540")]
    start: String,
    /// Run directory [default: senesce-runs/zoned-model-HASH]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Root seed
    #[arg(long, default_value_t = senesce_core::seed::DEFAULT_SEED.0)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Fit {
    /// Fits, and writes the model file.
    pub fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.output.check(Some(&self.model), Format::Text, BEGINNING)?;
        let spec = Spec::of_tables(&self.tables, &self.start)?;
        let (seed, file) = (Seed(self.seed), Some(self.model));
        RunSettings { seed, out: self.out, erase: None, file, output: self.output, json: self.json }
            .conclude(&spec, session)
    }
}

/// What is wanted of a run beside its specification.
struct RunSettings {
    seed: Seed,
    out: Option<PathBuf>,
    erase: Option<String>,
    file: Option<PathBuf>,
    output: Output,
    json: bool,
}

impl RunSettings {
    /// Does what is not done yet, and writes the model file when all of it is.
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
        show(&outcome, self.json, session)
    }
}
