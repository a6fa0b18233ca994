//! `senesce image`.

mod twin;

use crate::Exit;
use crate::display::print_table;
use crate::output::Output;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand, ValueEnum};
use senesce_core::output::Format;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Bytes, ExitCode, Failure, Table};
use senesce_devmodel::last_write::{LastWrites, Order};
use senesce_runs::trace::{CommandLine, run_command};
use senesce_runs::write_order::{self, Copying};
use senesce_volume::images::{self, Extent};
use senesce_volume::{ClaimedDevice, ImageStore, Stitched};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Copy, pack and keep images
#[derive(Args)]
pub(crate) struct Image {
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
        /// Write every block, even the unused ones
        #[arg(long, conflicts_with = "order", help_heading = "Copy")]
        full: bool,
        /// Order of writes: address or last-write
        #[arg(long, value_enum, hide_possible_values = true, help_heading = "Copy")]
        order: Option<OrderWord>,
        /// Trace of all writes [default: IMAGE.order]
        #[arg(long, value_name = "TRACE", requires = "order", help_heading = "Copy")]
        history: Vec<PathBuf>,
        /// Reach the steady state of this spare area
        #[arg(long, value_name = "SHARE", requires = "order", value_parser = spare_share, help_heading = "Copy")]
        steady_state: Option<f64>,
        /// Confirm data loss: path or serial number
        #[arg(long, value_name = "IDENTITY")]
        erase: Option<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Pack the used parts of an image into a compressed file
    Pack {
        /// The image
        image: PathBuf,
        /// File to write
        pack: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Unpack an image and check its hash
    Unpack {
        /// The packed image
        pack: PathBuf,
        /// Image file to write
        image: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a device from slices of a large one while a command runs
    Stitch(Stitch),
    /// Copy the metadata of a file system into a sparse image
    Twin(twin::Twin),
    /// List the image store
    List {
        /// Print the result as JSON
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

/// In which order a copy writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderWord {
    /// From the first address to the last
    Address,
    /// As the blocks were last written
    LastWrite,
}

impl OrderWord {
    fn order(self) -> Order {
        match self {
            Self::Address => Order::Address,
            Self::LastWrite => Order::LastWrite,
        }
    }

    /// Loads the recorded order. Writing by address needs none.
    fn writes(self, image: &Path, history: &[PathBuf]) -> Result<LastWrites, Failure> {
        match (self, history) {
            (Self::Address, _) => Ok(LastWrites::new(0)),
            (Self::LastWrite, []) => write_order::load(image),
            (Self::LastWrite, traces) => write_order::of_traces(image, traces),
        }
    }
}

fn spare_share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().map(|number| number / unit);
    share
        .ok()
        .filter(|share| (0.01..=4.0).contains(share))
        .ok_or_else(|| "expected a share of 1 % to 400 %, for example 7% or 0.07".into())
}

#[derive(Args)]
struct Stitch {
    /// The large block device
    device: PathBuf,
    /// Number of slices
    #[arg(long, value_name = "N", help_heading = "Device")]
    slices: u64,
    /// Size of the stitched device
    #[arg(long, value_name = "SIZE", help_heading = "Device")]
    size: Bytes,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Command, with {} for the device; none: keep it until Ctrl-C
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Verb for Image {
    const NAME: &'static str = "image";
    const ABOUT: &'static str = "Copy, pack, twin, stitch and store images";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce image copy old.img copy.img",
        "senesce image pack old.img old.pack",
        "sudo senesce image twin /dev/sdb1 twin.img",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Twin(twin) => twin.run(session),
            Action::Copy { image, destination, full, order, history, steady_state, erase, json } => {
                let erase = erase.as_deref();
                let report = match order {
                    None => {
                        let extent = if full { Extent::Full } else { Extent::Used };
                        images::copy(&image, &destination, extent, erase)?
                    }
                    Some(word) => {
                        let writes = word.writes(&image, &history)?;
                        let copying = Copying { order: word.order(), steady_state, seed: DEFAULT_SEED };
                        write_order::copy(&image, &destination, &writes, &copying, erase)?
                    }
                };
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

fn say(as_json: bool, report: &impl Serialize, message: &str) -> Result<Exit, Failure> {
    match as_json {
        true => println!("{:#}", json!(report)),
        false => println!("{message}"),
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
        eprintln!("press Ctrl-C to remove the device");
        while !interrupt.requested() {
            std::thread::sleep(Duration::from_millis(50));
        }
        return Ok(ExitCode::Interrupted.into());
    }
    let status =
        run_command(&CommandLine { words: options.command.clone(), output_to_stderr: false, spares: false }, path)?;
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
    let mut table = Table::new("images", "", &["key", "size", "space", "content"]);
    for entry in entries {
        let (size, used) = (Bytes(entry.size_bytes).to_string(), Bytes(entry.used_bytes).to_string());
        table.row((&entry.key, size, used, &entry.description));
    }
    print_table(&mut crate::output::stdout(), &table).map_err(output_failed)?;
    Ok(ExitCode::Done.into())
}
