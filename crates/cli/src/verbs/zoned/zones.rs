//! Zone states and zone commands of one drive.

use crate::Exit;
use crate::output::{Output, output_failed};
use clap::Args;
use senesce_core::output::Format;
use senesce_core::{ExitCode, Failure};
use senesce_zoned::ZonedError;
use senesce_zoned::manage::{Choice, Outcome};
use senesce_zoned::run::DeviceName;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// The drive.
#[derive(Args)]
pub(crate) struct Drive {
    /// /dev/ng0n1, /dev/nvme0n1, auto (the only zoned drive), sim:MODEL or null
    device: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The zones of a command.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Range {
    /// Zones: N or N..M
    #[arg(long, value_name = "ZONES", help_heading = "Zones")]
    zone: Option<String>,
    /// All zones
    #[arg(long, help_heading = "Zones")]
    all: bool,
}

impl Range {
    pub(crate) fn choice(&self) -> Result<Choice, Failure> {
        Ok(self.zone.as_deref().map_or(Ok(Choice::All), Choice::parse)?)
    }
}

impl Drive {
    /// Runs a zone command and shows the zones afterwards. A refused zone makes the exit code 5.
    pub(crate) fn show(
        &self,
        command: impl FnOnce(&DeviceName) -> Result<Outcome, ZonedError>,
    ) -> Result<Exit, Failure> {
        self.show_with_map(None, Output::default(), command)
    }

    /// Runs a zone command, shows the zones afterwards, and writes the zone map into a file.
    pub(crate) fn show_with_map(
        &self,
        map: Option<&Path>,
        output: Output,
        command: impl FnOnce(&DeviceName) -> Result<Outcome, ZonedError>,
    ) -> Result<Exit, Failure> {
        let device = self.device.parse()?;
        output.check(map, Format::Svg, b"")?;
        let outcome = command(&device)?;
        if let Some(file) = map {
            output.write(file, Format::Svg, senesce_report::render_svg(&outcome.map()).as_bytes())?;
        }
        self.print(&outcome).map_err(output_failed)?;
        Ok(if outcome.refused.is_empty() { ExitCode::Done } else { ExitCode::RunFailed }.into())
    }

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
            eprintln!("left {left} conventional zones unchanged: they have no write pointer");
        }
        Ok(())
    }
}
