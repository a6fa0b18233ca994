//! `senesce zoned measure|list|open|close|finish|reset|format`.

mod measure;
mod zones;

use crate::Exit;
use crate::output::Output;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use measure::Measure;
use senesce_core::Failure;
use senesce_zoned::manage::{Action as Command, Choice, format_drive, manage};
use std::path::PathBuf;
use zones::{Drive, Range};

/// Zoned drives, real, emulated or simulated
#[derive(Args)]
pub(crate) struct Zoned {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure writes, appends, reads, resets and finishes
    Measure(Box<Measure>),
    /// List the zones
    List {
        #[command(flatten)]
        drive: Drive,
        /// Zones: N or N..M [default: all]
        #[arg(long, value_name = "ZONES", help_heading = "Zones")]
        zone: Option<String>,
        /// Write the zone map to FILE
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Open zones
    Open(OnZones),
    /// Close zones
    Close(OnZones),
    /// Finish zones
    Finish(OnZones),
    /// Reset zones; their data is lost
    Reset(OnZones),
    /// Format an NVMe drive with another block size; its data is lost
    Format {
        #[command(flatten)]
        drive: Drive,
        /// Bytes per logical block
        #[arg(long, value_name = "BYTES", help_heading = "Target")]
        lbaf: u32,
        /// Confirm data loss: path or serial number
        #[arg(long, value_name = "IDENTITY")]
        erase: Option<String>,
    },
}

#[derive(Args)]
struct OnZones {
    #[command(flatten)]
    drive: Drive,
    #[command(flatten)]
    range: Range,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
}

impl Verb for Zoned {
    const NAME: &'static str = "zoned";
    const ABOUT: &'static str = "Measure zoned drives; list, open, close, finish and reset zones";
    const EXAMPLES: &'static [&'static str] =
        &["senesce zoned measure sim:zn540 --op append --bs 4k --qd 4", "sudo senesce zoned list auto"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Measure(measure) => measure.run(session),
            Action::List { drive, zone, svg, output } => {
                let choice = zone.as_deref().map_or(Ok(Choice::All), Choice::parse)?;
                let list = |device: &_| senesce_zoned::manage::list(device, choice);
                drive.show_with_map(svg.as_deref(), output, list)
            }
            Action::Open(zones) => zones.run(Command::OPEN),
            Action::Close(zones) => zones.run(Command::CLOSE),
            Action::Finish(zones) => zones.run(Command::FINISH),
            Action::Reset(zones) => zones.run(Command::RESET),
            Action::Format { drive, lbaf, erase } => drive.show(|device| format_drive(device, lbaf, erase.as_deref())),
        }
    }
}

impl OnZones {
    fn run(self, command: Command) -> Result<Exit, Failure> {
        let choice = self.range.choice()?;
        self.drive.show(|device| manage(device, choice, command, self.erase.as_deref()))
    }
}
