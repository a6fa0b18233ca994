//! `senesce image`.

use crate::Exit;
use crate::display::print_table;
use crate::output::Output;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::{Args, Subcommand};
use senesce_core::output::Format;
use senesce_core::{Bytes, ExitCode, Failure, Table};
use senesce_runs::trace::{CommandLine, run_command};
use senesce_volume::images::{self, Extent};
use senesce_volume::{ClaimedDevice, ImageStore, Stitched};
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Copy, pack and keep images
#[derive(Args)]
pub struct Image {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Copy an image to a file or onto a device and verify the copy
    Copy {
        /// The image
        image: PathBuf,
        /// File or block device to write
        destination: PathBuf,
        /// Write every block, also those that hold nothing
        #[arg(long)]
        full: bool,
        /// Allow the loss of what the destination holds, by repeating its path or serial number
        #[arg(long, value_name = "IDENTITY")]
        erase: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Pack the used parts of an image into one compressed file with manifest and hash
    Pack {
        /// The image
        image: PathBuf,
        /// File to write
        pack: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Unpack an image and check its hash
    Unpack {
        /// The packed image
        pack: PathBuf,
        /// Image file to write
        image: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a device of slices spread over a large one, for as long as a command runs
    Stitch(Stitch),
    /// List the image store
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove images from the image store
    Rm {
        /// Keys, or beginnings of keys
        #[arg(required = true)]
        keys: Vec<String>,
    },
}

#[derive(Args)]
struct Stitch {
    /// The large block device
    device: PathBuf,
    /// How many slices
    #[arg(long, value_name = "N")]
    slices: u64,
    /// Size of the stitched device
    #[arg(long, value_name = "SIZE")]
    size: Bytes,
    /// Allow the loss of what the large device holds, by repeating its path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Write the new device and its slices to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// The command; {} is the stitched device. Without one it is kept until Ctrl-C
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Verb for Image {
    const NAME: &'static str = "image";
    const ABOUT: &'static str =
        "Copy, pack and unpack images; stitch a device of slices; list and clean the image store";

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Copy { image, destination, full, erase, json } => {
                let extent = if full { Extent::Full } else { Extent::Used };
                let report = images::copy(&image, &destination, extent, erase.as_deref())?;
                let (copied, size) = (Bytes(report.copied_bytes), Bytes(report.size_bytes));
                let seconds = report.elapsed_seconds;
                say(json, &report, &format!("{copied} of {size} copied in {seconds:.2} s and verified"))
            }
            Action::Pack { image, pack, json } => {
                let report = images::pack(&image, &pack)?;
                let (used, packed) = (Bytes(report.used_bytes), Bytes(report.packed_bytes));
                say(json, &report, &format!("{used} packed into {packed}, blake3 {}", report.blake3))
            }
            Action::Unpack { pack, image, json } => {
                let report = images::unpack(&pack, &image)?;
                let (used, size) = (Bytes(report.used_bytes), Bytes(report.size_bytes));
                say(json, &report, &format!("{used} of an image of {size} unpacked, hash verified"))
            }
            Action::Stitch(options) => stitch(&options, session),
            Action::List { json } => list(json),
            Action::Rm { keys } => {
                let store = ImageStore::open_default()?;
                for key in keys {
                    let entry = store.remove(&key)?;
                    println!("removed {} ({})", entry.key, Bytes(entry.used_bytes));
                }
                Ok(ExitCode::Done.into())
            }
        }
    }
}

fn say(as_json: bool, report: &impl Serialize, words: &str) -> Result<Exit, Failure> {
    match as_json {
        true => println!("{:#}", json!(report)),
        false => println!("{words}"),
    }
    Ok(ExitCode::Done.into())
}

fn stitch(options: &Stitch, session: &Session) -> Result<Exit, Failure> {
    options.output.check(options.json.as_deref(), Format::Json, b"")?;
    let interrupt = session.interrupt()?;
    let claimed = ClaimedDevice::claim(&options.device, options.erase.as_deref())?;
    let stitched = Stitched::create(claimed, options.slices, options.size)?;
    let path = stitched.path();
    if let Some(file) = &options.json {
        let text = format!("{:#}\n", json!({"device": path, "slices": stitched.slices()}));
        options.output.write(file, Format::Json, text.as_bytes())?;
    }
    if options.command.is_empty() {
        println!("{}", path.display());
        eprintln!("kept until Ctrl-C");
        while !interrupt.requested() {
            std::thread::sleep(Duration::from_millis(50));
        }
        return Ok(ExitCode::Interrupted.into());
    }
    let status = run_command(&CommandLine { words: options.command.clone(), output_to_stderr: false }, path)?;
    Ok(if interrupt.requested() { ExitCode::Interrupted.into() } else { Exit::Command(status) })
}

fn list(as_json: bool) -> Result<Exit, Failure> {
    let store = ImageStore::open_default()?;
    let entries = store.list()?;
    if as_json {
        println!("{:#}", json!({"folder": store.folder(), "cap_bytes": store.cap(), "images": entries}));
        return Ok(ExitCode::Done.into());
    }
    let used: u64 = entries.iter().map(|entry| entry.used_bytes).sum();
    eprintln!("{}: {} of at most {}", store.folder().display(), Bytes(used), store.cap());
    let mut table = Table::new("images", "", &["key", "size", "room", "what it is"]);
    for entry in entries {
        let (size, used) = (Bytes(entry.size_bytes).to_string(), Bytes(entry.used_bytes).to_string());
        table.row(vec![json!(entry.key), json!(size), json!(used), json!(entry.description)]);
    }
    print_table(&mut crate::output::stdout(), &table).map_err(output_failed)?;
    Ok(ExitCode::Done.into())
}
