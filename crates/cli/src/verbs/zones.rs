//! `senesce zones DEVICE list|open|close|finish|reset|format`: zone states and zone commands.

use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_zoned::manage::{Action, Choice, Outcome, format_drive, list, manage};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Look at zones and change their state
#[derive(Args)]
pub struct Zones {
    /// A drive such as /dev/ng0n1 or /dev/nvme0n1, or auto for the only zoned one; sim:MODEL and null start with empty zones
    device: String,
    /// list, open, close, finish, reset, or format (NVMe: another LBA format)
    #[arg(value_parser = ["list", "open", "close", "finish", "reset", "format"])]
    action: String,
    /// Zones: N or N..M
    #[arg(long, value_name = "ZONES", conflicts_with = "all")]
    zone: Option<String>,
    /// All zones
    #[arg(long)]
    all: bool,
    /// format: bytes per logical block
    #[arg(long, value_name = "BYTES")]
    lbaf: Option<u32>,
    /// Allow the loss of the data on this drive: repeat its path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Write the zone map to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl Verb for Zones {
    const NAME: &'static str = "zones";
    const ABOUT: &'static str = "List the zones of a drive with a zone map, or open, close, finish and reset them";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let device = self.device.parse()?;
        self.output.check(self.svg.as_deref(), Format::Svg, b"")?;
        let choice = match (&self.zone, self.all) {
            (Some(zones), _) => Choice::parse(zones)?,
            (None, true) => Choice::All,
            (None, false) if self.action == "list" => Choice::All,
            (None, false) if self.action == "format" => Choice::All,
            (None, false) => return Err(Failure::usage("name zones with --zone N or --zone N..M, or take --all")),
        };
        let outcome = match self.action.as_str() {
            "list" => list(&device, choice)?,
            "format" => {
                let bytes =
                    self.lbaf.ok_or_else(|| Failure::usage("format needs --lbaf BYTES, for example --lbaf 4096"))?;
                format_drive(&device, bytes, self.erase.as_deref())?
            }
            word => manage(&device, choice, Action::from_word(word)?, self.erase.as_deref())?,
        };
        if let Some(file) = &self.svg {
            self.output.write(file, Format::Svg, senesce_report::render_svg(&outcome.map()).as_bytes())?;
        }
        self.print(&outcome).map_err(output_failed)?;
        Ok(if outcome.refused.is_empty() { ExitCode::Done } else { ExitCode::RunFailed }.into())
    }
}

impl Zones {
    fn print(&self, outcome: &Outcome) -> std::io::Result<()> {
        let mut out = crate::output::stdout();
        if self.json {
            let refused: Vec<_> =
                outcome.refused.iter().map(|(zone, fault)| json!({"zone": zone, "why": fault.name()})).collect();
            let left = outcome.left_conventional;
            let value = json!({"geometry": outcome.geometry, "zones": outcome.zones, "refused": refused, "left_conventional": left});
            return writeln!(out, "{value:#}");
        }
        let geometry = &outcome.geometry;
        writeln!(out, "{}", outcome.headline())?;
        for format in &geometry.formats {
            let used = if format.block_bytes == geometry.block_bytes { " (in use)" } else { "" };
            writeln!(out, "format {}: {} B{used}", format.index, format.block_bytes)?;
        }
        writeln!(out, "{:>8}  {:<16} {:>16} {:>16} {:>8}", "zone", "state", "start", "write pointer", "written")?;
        for row in outcome.rows() {
            writeln!(out, "{row}")?;
        }
        for (zone, fault) in &outcome.refused {
            eprintln!("zone {zone}: {fault}");
        }
        if let left @ 1.. = outcome.left_conventional {
            eprintln!("{left} conventional zones are left as they are: they have no write pointer");
        }
        Ok(())
    }
}
