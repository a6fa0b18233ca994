//! `senesce device`: models of devices, and their measurement.

use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::{Args, Subcommand};
use senesce_core::output::Format;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_devmodel::{DeviceModel, measure};
use senesce_volume::DeviceProbe;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Measure a device, or show the models that traces are timed on
#[derive(Args)]
pub struct Device {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure a block device by reading it (bandwidth, seek curve, natural transfer size) and write a device file
    Measure(Measure),
    /// List the built-in models
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the device file of a built-in model, with its sources
    Show {
        /// Name from `senesce device list`
        name: String,
    },
}

#[derive(Args)]
struct Measure {
    /// Block device; it is only read
    device: PathBuf,
    /// File to write
    #[arg(long, short, value_name = "FILE", help = "Device file to write [default: standard output]")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Print the model as JSON
    #[arg(long)]
    json: bool,
    /// Chooses the places that are read
    #[arg(long, default_value_t = DEFAULT_SEED.0)]
    seed: u64,
}

impl Verb for Device {
    const NAME: &'static str = "device";
    const ABOUT: &'static str = "Measure a device by reading it; list and show the models that traces are timed on";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let text = match self.action {
            Action::Measure(options) => options.run(session)?,
            Action::List { json } => list(json)?,
            Action::Show { name } => DeviceModel::builtin(&name)?.to_toml()?,
        };
        session.clear();
        crate::output::stdout().write_all(text.as_bytes()).map_err(output_failed)?;
        Ok(ExitCode::Done.into())
    }
}

impl Measure {
    /// Measures; gives what goes to standard output.
    fn run(self, session: &Session) -> Result<String, Failure> {
        self.output.check(self.out.as_deref(), Format::Text, b"name =")?;
        let mut probe = DeviceProbe::open(&self.device)?;
        session.progress().phase(&format!("measure {}, reading only", self.device.display()), 0, "reads");
        let rotational = probe.rotational();
        let name = self.device.display().to_string();
        let model = measure(&mut probe, &name, rotational, Seed(self.seed))?;
        let text = model.to_toml()?;
        if let Some(file) = &self.out {
            self.output.write(file, Format::Text, text.as_bytes())?;
        }
        Ok(match (self.json, self.out) {
            (true, _) => format!("{:#}\n", json!(model)),
            (false, Some(file)) => format!("{}\n", file.display()),
            (false, None) => text,
        })
    }
}

fn list(json: bool) -> Result<String, Failure> {
    let models = DeviceModel::builtin_names()
        .map(|name| DeviceModel::builtin(name).map(|model| (name, model)))
        .collect::<Result<Vec<_>, _>>()?;
    if json {
        let models: Vec<_> = models.iter().map(|(name, model)| json!({"id": name, "model": model})).collect();
        return Ok(format!("{:#}\n", json!(models)));
    }
    Ok(models.iter().map(|(name, model)| format!("{name:<14} {}\n", model.name)).collect())
}
