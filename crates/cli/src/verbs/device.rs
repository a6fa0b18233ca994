//! `senesce device`: models of devices, and their measurement.

mod zoned;

use crate::Exit;
use crate::display::terminal_width;
use crate::messages::wrapped;
use crate::output::Output;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure, Seed, number_of};
use senesce_devmodel::simulate::Before;
use senesce_devmodel::ssd::alignment::measure_alignment;
use senesce_devmodel::{DeviceModel, Options, Outcome, Pacing, measure};
use senesce_exp_aging::age::words;
use senesce_runs::simulated::{self, InitialContent};
use senesce_volume::DeviceProbe;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

const ALIGNED_READS: usize = 2000;

/// Measure a device, or show the models that traces are timed on
#[derive(Args)]
pub(crate) struct Device {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure a drive: by reads, or with --fit a zoned drive by writes
    Measure(Measure),
    /// Fit the model of a zoned drive to published measurements
    Fit(zoned::Fit),
    /// List the built-in models
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Time a block trace on a model
    Simulate(Simulate),
    /// Print the device file of a model, with its sources
    Show {
        /// Name from `senesce device list`, or a device file
        name: String,
    },
}

#[derive(Args)]
struct Measure {
    /// Block device, only read; with --fit a zoned drive, overwritten, or sim:MODEL
    device: PathBuf,
    /// Find stripe and dies of an SSD by alignment; print JSON
    #[arg(long, conflicts_with = "out", help_heading = "Measurement")]
    alignment: bool,
    /// Root seed
    #[arg(long, value_name = "N", default_value = words::SEED, value_parser = words::seed())]
    seed: Seed,
    #[command(flatten)]
    zoned: zoned::Options,
    /// Device file [default: standard output], or run directory
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Simulate {
    /// Name from `senesce device list`, or a device file
    model: String,
    /// Trace file, run of `trace`, or blkparse text (#MAJOR,MINOR selects a device)
    trace: PathBuf,
    /// Requests in flight [default: as recorded]
    #[arg(long, value_name = "N", conflicts_with = "issue_times", value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Simulation")]
    depth: Option<u32>,
    /// Issue requests at their recorded times
    #[arg(long, help_heading = "Simulation")]
    issue_times: bool,
    /// Keep the recorded think times between requests
    #[arg(long, conflicts_with_all = ["depth", "issue_times"], help_heading = "Simulation")]
    closed: bool,
    /// State: read, empty, filled, overwritten:N
    #[arg(long, value_name = "STATE", default_value = "read", hide_default_value = true, help_heading = "Simulation")]
    before: StateBefore,
    /// Root seed
    #[arg(long, value_name = "N", default_value = words::SEED, value_parser = words::seed(), help_heading = "Simulation")]
    seed: Seed,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy)]
struct StateBefore(InitialContent, Before);

impl FromStr for StateBefore {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let state = match text {
            "read" => return Ok(Self(InitialContent::WhatIsRead, Before::Empty)),
            "empty" => Before::Empty,
            "filled" => Before::Filled,
            _ => {
                let rounds = text.strip_prefix("overwritten:").and_then(|rounds| rounds.parse().ok());
                Before::Overwritten(rounds.ok_or("expected read, empty, filled or overwritten:N")?)
            }
        };
        Ok(Self(InitialContent::AsOptions, state))
    }
}

impl Simulate {
    fn run(&self) -> Result<String, Failure> {
        let model = DeviceModel::load(&self.model)?;
        let trace = simulated::load(&self.trace)?;
        let pacing = match (self.depth, self.issue_times) {
            (Some(depth), _) => Pacing::Depth(depth),
            (None, true) => Pacing::IssueTime,
            (None, false) => Pacing::QueueDepth,
        };
        let StateBefore(held, before) = self.before;
        let options = Options { pacing, before, seed: self.seed.0, ..Options::default() };
        let time = if self.closed { simulated::simulate_loop } else { simulated::simulate };
        let outcome = time(&model, &trace, held, &options)?;
        Ok(if self.json { format!("{:#}\n", json!(outcome)) } else { text_of(&outcome) })
    }
}

/// Formats a few lines for readers, without values that do not apply.
fn text_of(outcome: &Outcome) -> String {
    let requests = number_of(outcome.requests, "request");
    let mut lines = vec![format!("modelled on {}: {requests} in {:.6} s", outcome.device, outcome.seconds)];
    let mut line = |name: &str, text: Option<String>| lines.extend(text.map(|text| format!("  {name:<22}{text}")));
    line("rate", outcome.mib_per_s.map(|rate| format!("{rate:.1} MiB/s")));
    for (name, latency) in [("read", &outcome.read), ("write", &outcome.write), ("discard and flush", &outcome.other)] {
        let us = |ns: f64| ns / 1e3;
        line(
            name,
            latency.as_ref().map(|one| {
                let (mean, p99, most) = (us(one.mean_ns), us(one.p99_ns as f64), us(one.max_ns as f64));
                let requests = number_of(one.count, "request");
                format!("{requests}: mean {mean:.1} us, 99 % below {p99:.1} us, at most {most:.1} us")
            }),
        );
    }
    line("write amplification", outcome.write_amplification.map(|factor| format!("{factor:.3}")));
    line("collision index", outcome.collision_index.map(|index| format!("{index:.3}")));
    line("erases", outcome.erases.map(|count| count.to_string()));
    lines.join("\n") + "\n"
}

impl Verb for Device {
    const NAME: &'static str = "device";
    const ABOUT: &'static str = "Measure drives by reads; list, show and simulate drive models";
    const EXAMPLES: &'static [&'static str] =
        &["senesce device list", "sudo senesce device measure /dev/sdb --out sdb.toml"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let text = match self.action {
            Action::Measure(Measure { device, out, output, json, seed, zoned, .. }) if zoned.is_meant() => {
                return zoned.run(&device, out, &output, json, seed, session);
            }
            Action::Measure(options) => options.run(session)?,
            Action::Fit(options) => return options.run(session),
            Action::List { json } => list(json)?,
            Action::Simulate(options) => options.run()?,
            Action::Show { name } => DeviceModel::load(&name)?.to_toml()?,
        };
        session.clear();
        crate::output::stdout().write_all(text.as_bytes()).map_err(output_failed)?;
        Ok(ExitCode::Done.into())
    }
}

impl Measure {
    fn run(self, session: &Session) -> Result<String, Failure> {
        self.output.check(self.out.as_deref(), Format::Text, b"name =")?;
        let mut probe = DeviceProbe::open(&self.device)?;
        if let Some(used) = probe.used() {
            eprintln!(
                "note: {} is in use: {used}; reads of other programs change the result\nhint: measure it unmounted or idle",
                self.device.display()
            );
        }
        if self.alignment {
            session.progress().phase(&format!("read {} at many alignments", self.device.display()), 0, "reads");
            let seen = measure_alignment(&mut probe, ALIGNED_READS, self.seed)?;
            return Ok(format!("{:#}\n", json!(seen)));
        }
        session.progress().phase(&format!("measure {}, reading only", self.device.display()), 0, "reads");
        let rotational = probe.rotational();
        let name = self.device.display().to_string();
        let model = measure(&mut probe, &name, rotational, self.seed)?;
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
        let one = |(name, model): &(&str, DeviceModel)| {
            let kind = model.parameters.kind();
            json!({"id": name, "name": name, "kind": kind, "description": model.name, "sources": model.sources, "model": model})
        };
        let models: Vec<_> = models.iter().map(one).collect();
        return Ok(format!("{:#}\n", json!(models)));
    }
    let width = models.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, model): &(&str, DeviceModel)| {
        wrapped(&format!("{name:<width$}  {}\n", model.name), terminal_width(), width + 2)
    };
    Ok(models.iter().map(line).collect())
}
