//! `senesce objects commit|checkout|verify|stats|advise`: the content-addressed object store.

mod advise;

use crate::Exit;
use crate::display::print_table;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure, Rows, number_of};
use senesce_objstore::store::checkout::{CheckoutOptions, CheckoutReport, checkout};
use senesce_objstore::store::commit::{CommitOptions, CommitReport, commit};
use senesce_objstore::store::stats::{StoreStats, stats};
use senesce_objstore::store::verify::{VerifyReport, verify};
use senesce_objstore::store::{StoreChoice, open_or_create};
use senesce_objstore::{ChunkerSpec, HashAlgorithm, Layout, Scheme, Store};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Keep directories in a content-addressed object store
#[derive(Args)]
pub(crate) struct Objects {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Save a directory as the next snapshot, in a new store if needed
    Commit(Commit),
    /// Write a snapshot into a new or empty directory
    Checkout(Checkout),
    /// Read every object and snapshot and list the damaged ones
    Verify(OnStore),
    /// Show the size and content of a store
    Stats(OnStore),
    /// Recommend a directory scheme for a volume
    Advise(advise::Advise),
}

#[derive(Args)]
struct Commit {
    /// Store
    store: PathBuf,
    /// Directory to save
    directory: PathBuf,
    /// Put every new object into a file, not into pack files
    #[arg(long, help_heading = "Objects")]
    loose: bool,
    /// Directories of loose objects, DIGITSxDEPTH [default: 2x1]
    #[arg(long, value_name = "D", help_heading = "New store")]
    scheme: Option<Scheme>,
    /// sha1 or blake3 [default: blake3]
    #[arg(long, value_name = "NAME", value_parser = hash, help_heading = "New store")]
    hash: Option<HashAlgorithm>,
    /// Method to cut files into chunks [default: fastcdc:16K]
    #[arg(long, value_name = "HOW", help_heading = "New store")]
    chunker: Option<ChunkerSpec>,
    /// List writes slower than this, such as 1ms
    #[arg(long, value_parser = duration, value_name = "TIME", help_heading = "Output")]
    log_slower_than: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Checkout {
    /// Store
    store: PathBuf,
    /// New or empty directory
    destination: PathBuf,
    /// Number of the snapshot [default: the latest]
    #[arg(long, value_name = "N", help_heading = "Objects")]
    snapshot: Option<u64>,
    /// Restore setuid, setgid and sticky bits of a trusted store
    #[arg(long, help_heading = "Objects")]
    special_bits: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct OnStore {
    /// Store
    store: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn hash(text: &str) -> Result<HashAlgorithm, String> {
    match text {
        "sha1" => Ok(HashAlgorithm::Sha1),
        "blake3" => Ok(HashAlgorithm::Blake3),
        _ => Err("expected sha1 or blake3".into()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

impl Verb for Objects {
    const NAME: &'static str = "objects";
    const ABOUT: &'static str = "Content-addressed object store for directories";
    const EXAMPLES: &'static [&'static str] = &["senesce objects commit STORE DIR", "senesce objects verify STORE"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        // A store is opened before signals are handled: until then they end the program.
        let code = match self.action {
            Action::Advise(advise) => return advise.run(),
            Action::Commit(options) => {
                let choice = StoreChoice { hash: options.hash, chunker: options.chunker, scheme: options.scheme };
                let mut store = open_or_create(&options.store, choice)?;
                let threads = std::thread::available_parallelism().map_or(1, usize::from);
                let how = CommitOptions {
                    layout: if options.loose { Layout::Loose } else { Layout::Pack },
                    threads,
                    log_slower_than: options.log_slower_than,
                };
                let interrupt = session.interrupt()?;
                let report = commit(&mut store, &options.directory, &how, session.progress(), &interrupt)?;
                session.clear();
                print(&report, options.json, show_commit)?;
                negative(!report.changed.is_empty() || !report.vanished.is_empty())
            }
            Action::Checkout(options) => {
                let store = Store::open(&options.store)?;
                let (progress, interrupt) = (session.progress(), session.interrupt()?);
                let how = CheckoutOptions { special_bits: options.special_bits };
                let report = checkout(&store, options.snapshot, &options.destination, how, progress, &interrupt)?;
                session.clear();
                print(&report, options.json, show_checkout)?;
                negative(!report.lost.is_empty() || !report.snapshot_problems.is_empty())
            }
            Action::Verify(options) => {
                let store = Store::open(&options.store)?;
                let report = verify(&store, session.progress(), &session.interrupt()?)?;
                session.clear();
                print(&report, options.json, show_verify)?;
                negative(!report.is_sound())
            }
            Action::Stats(options) => {
                print(&stats(&Store::open(&options.store)?)?, options.json, show_stats)?;
                ExitCode::Done
            }
        };
        Ok(code.into())
    }
}

fn negative(verdict: bool) -> ExitCode {
    if verdict { ExitCode::Negative } else { ExitCode::Done }
}

fn print<T: Serialize>(report: &T, json: bool, show: fn(&T)) -> Result<(), Failure> {
    if !json {
        show(report);
        return Ok(());
    }
    serde_json::to_writer_pretty(crate::output::stdout(), report).map_err(|error| output_failed(error.into()))?;
    println!();
    Ok(())
}

fn show_commit(report: &CommitReport) {
    let rate = report.bytes as f64 / report.elapsed_seconds.max(1e-9) / f64::from(1 << 20);
    println!(
        "snapshot {}: {}, {} in {}; new: {}, {}",
        report.snapshot,
        number_of(report.files, "file"),
        Bytes(report.bytes),
        number_of(report.objects, "object"),
        number_of(report.new_objects, "object"),
        Bytes(report.new_bytes)
    );
    println!(
        "durable after {:.3} s ({rate:.1} MiB/s), of which {:.3} s were the final sync",
        report.elapsed_seconds, report.finish_seconds
    );
    if let Some(lost) = report.time_lost {
        println!("invalid times: {lost}");
    }
    for slow in &report.slow_objects {
        println!("slow: {:.3} ms, {} at {:.3} s, {}", slow.write_ms, Bytes(slow.bytes), slow.at_seconds, slow.object);
    }
    if report.damaged_objects > 0 {
        eprintln!("stored {} again", number_of(report.damaged_objects, "damaged object"));
    }
    for pack in &report.damaged_packs {
        eprintln!("moved a damaged pack to {}; its intact objects were copied", pack.display());
    }
    if let Some(problem) = &report.not_salvaged {
        eprintln!("cannot move damaged packs: {problem}");
    }
    for path in &report.changed {
        eprintln!("{path} changed during every read; the snapshot has the last version read");
    }
    for path in &report.vanished {
        eprintln!("{path} disappeared before it was read; the snapshot lacks it");
    }
    for path in &report.left_out {
        eprintln!("{path} is a mount point or a special file; the snapshot lacks it");
    }
}

fn show_checkout(report: &CheckoutReport) {
    println!(
        "snapshot {}: wrote {}, {} in {:.3} s",
        report.snapshot,
        number_of(report.files, "file"),
        Bytes(report.bytes),
        report.elapsed_seconds
    );
    if let Some(lost) = report.time_lost {
        println!("invalid time: {lost}");
    }
    if report.stripped > 0 {
        eprintln!("{} setuid, setgid or sticky bits not restored\nhint: --special-bits restores them", report.stripped);
    }
    for problem in &report.snapshot_problems {
        eprintln!("snapshot {}: {problem}", report.snapshot);
    }
    for lost in &report.lost {
        eprintln!("lost: {}: {}", lost.path, lost.problem);
    }
}

fn show_verify(report: &VerifyReport) {
    println!(
        "{}, {}, {} in {:.3} s: {}",
        number_of(report.objects, "object"),
        Bytes(report.bytes),
        number_of(report.snapshots, "snapshot"),
        report.elapsed_seconds,
        if report.is_sound() { "sound" } else { "damaged" }
    );
    for problem in &report.problems {
        println!("{problem}");
    }
    for damaged in &report.damaged {
        println!("damaged: {} in {}: {}", damaged.object, damaged.place, damaged.problem);
    }
    for object in &report.missing {
        println!("missing: {object}");
    }
    for file in &report.affected_files {
        println!("lost file: {} of snapshot {} (object {})", file.path, file.snapshot, file.object);
    }
    if report.staging_bytes > 0 {
        eprintln!("{}", staged(report.staging_bytes));
    }
    for pack in &report.set_aside {
        eprintln!("damaged pack with copied objects: {pack}");
    }
}

fn staged(bytes: u64) -> String {
    format!("{} in staging: a commit is running, or was killed and the next commit removes it", Bytes(bytes))
}

fn show_stats(report: &StoreStats) {
    println!("hash {}, chunker {}, scheme {}", report.hash, report.chunker, report.scheme);
    println!(
        "{} of {} in {} of {}; deduplication {}",
        number_of(report.snapshots, "snapshot"),
        Bytes(report.snapshot_bytes),
        number_of(report.objects, "object"),
        Bytes(report.object_bytes),
        report.deduplication.map_or("-".into(), |ratio| format!("{ratio:.2}"))
    );
    println!(
        "{}; {} in {} (the occupancy law expects {:.0}); {} on disk",
        number_of(report.packs, "pack"),
        number_of(report.loose_objects, "loose object"),
        number_of(report.loose_directories, "directory"),
        report.loose_directories_expected,
        Bytes(report.disk_bytes)
    );
    if report.staging_bytes > 0 {
        println!("of these, {}", staged(report.staging_bytes));
    }
    let table = Rows::of(&report.sizes)
        .column("objects up to (bytes)", |(bound, _)| bound)
        .column("count", |(_, count)| count)
        .table("sizes", "");
    // A closed pipe is the reader's choice.
    let _ = print_table(&mut crate::output::stdout(), &table);
}
