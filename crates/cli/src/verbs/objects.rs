//! `senesce objects commit|checkout|verify|stats|advise`: the content-addressed object store.

mod advise;

use crate::Exit;
use crate::display::print_table;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure, Table};
use senesce_objstore::store::checkout::{CheckoutOptions, CheckoutReport, checkout};
use senesce_objstore::store::commit::{CommitOptions, CommitReport, commit};
use senesce_objstore::store::stats::{StoreStats, stats};
use senesce_objstore::store::verify::{VerifyReport, verify};
use senesce_objstore::store::{StoreChoice, open_or_create};
use senesce_objstore::{ChunkerSpec, HashAlgorithm, Layout, Scheme, Store};
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Keep directories in a content-addressed object store
#[derive(Args)]
pub struct Objects {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Save a directory as the next snapshot; makes the store if there is none
    Commit(Commit),
    /// Write a snapshot back into a new or empty directory
    Checkout(Checkout),
    /// Read every object and snapshot and name what is damaged
    Verify(OnStore),
    /// Show the size and content of a store
    Stats(OnStore),
    /// Recommend a directory scheme for a volume
    Advise(advise::Advise),
}

#[derive(Args)]
struct Commit {
    /// The store
    store: PathBuf,
    /// What to save
    directory: PathBuf,
    /// Put new objects into pack files (the default)
    #[arg(long, conflicts_with = "loose")]
    pack: bool,
    /// Put every new object into a file of its own
    #[arg(long)]
    loose: bool,
    /// Directory scheme of loose objects, DIGITSxDEPTH; fixed when the store is made
    #[arg(long, help = "Directory scheme of loose objects, DIGITSxDEPTH; fixed when the store is made [default: 2x1]")]
    scheme: Option<Scheme>,
    /// Hash that names objects; fixed when the store is made
    #[arg(long, value_parser = hash, help = "Hash that names objects, sha1 or blake3; fixed when the store is made [default: blake3]")]
    hash: Option<HashAlgorithm>,
    /// How files are cut; fixed when the store is made
    #[arg(
        long,
        help = "How files are cut: fastcdc:AVERAGE, rolling-sum:WINDOW:DIVISOR[:reset], fixed:SIZE; fixed when the store is made [default: fastcdc:16K]"
    )]
    chunker: Option<ChunkerSpec>,
    /// Threads
    #[arg(long, help = "Threads [default: one per CPU]", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// List objects whose write takes longer, for example 1ms
    #[arg(long, value_parser = duration, value_name = "TIME")]
    log_slower_than: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Checkout {
    /// The store
    store: PathBuf,
    /// A new or empty directory
    destination: PathBuf,
    /// Number of the snapshot
    #[arg(long, help = "Number of the snapshot [default: the latest]")]
    snapshot: Option<u64>,
    /// Restore setuid, setgid and sticky bits too; only for a store that you trust
    #[arg(long)]
    special_bits: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct OnStore {
    /// The store
    store: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn hash(text: &str) -> Result<HashAlgorithm, String> {
    match text {
        "sha1" => Ok(HashAlgorithm::Sha1),
        "blake3" => Ok(HashAlgorithm::Blake3),
        _ => Err("it is sha1 or blake3".into()),
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
        // A store is opened before signals are caught: until then they end the program.
        let code = match self.action {
            Action::Advise(advise) => return advise.run(),
            Action::Commit(options) => {
                let choice = StoreChoice { hash: options.hash, chunker: options.chunker, scheme: options.scheme };
                let mut store = open_or_create(&options.store, choice)?;
                let threads =
                    options.threads.map(usize::from).or(std::thread::available_parallelism().ok().map(usize::from));
                let how = CommitOptions {
                    layout: if options.loose { Layout::Loose } else { Layout::Pack },
                    threads: threads.unwrap_or(1),
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
        "snapshot {}: {} files, {} in {} objects; new: {} objects, {}",
        report.snapshot,
        report.files,
        Bytes(report.bytes),
        report.objects,
        report.new_objects,
        Bytes(report.new_bytes)
    );
    println!(
        "durable after {:.3} s ({rate:.1} MiB/s), of which {:.3} s were the final sync",
        report.elapsed_seconds, report.finish_seconds
    );
    if let Some(lost) = report.time_lost {
        println!("these times do not count: {lost}");
    }
    for slow in &report.slow_objects {
        println!("slow: {:.3} ms, {} at {:.3} s, {}", slow.write_ms, Bytes(slow.bytes), slow.at_seconds, slow.object);
    }
    if report.damaged_objects > 0 {
        eprintln!("{} objects of the store were damaged; they were stored again", report.damaged_objects);
    }
    for pack in &report.damaged_packs {
        eprintln!("a damaged pack is now {}; its whole objects were copied", pack.display());
    }
    if let Some(problem) = &report.not_salvaged {
        eprintln!("damaged packs stay where they are: {problem}");
    }
    for path in &report.changed {
        eprintln!("{path} changed at every attempt to read it; the snapshot holds what was read last");
    }
    for path in &report.vanished {
        eprintln!("{path} was gone when it was to be read; it is not in the snapshot");
    }
    for path in &report.left_out {
        eprintln!("{path} is a mount point or not a file, directory or link; it is not in the snapshot");
    }
}

fn show_checkout(report: &CheckoutReport) {
    println!(
        "snapshot {}: wrote {} files, {} in {:.3} s",
        report.snapshot,
        report.files,
        Bytes(report.bytes),
        report.elapsed_seconds
    );
    if let Some(lost) = report.time_lost {
        println!("this time does not count: {lost}");
    }
    if report.stripped > 0 {
        eprintln!("{} setuid, setgid or sticky bits were left out; --special-bits restores them", report.stripped);
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
        "{} objects, {}, {} snapshots in {:.3} s: {}",
        report.objects,
        Bytes(report.bytes),
        report.snapshots,
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
        eprintln!("a damaged pack whose whole objects were copied: {pack}");
    }
}

fn staged(bytes: u64) -> String {
    format!("{} in staging: a commit is running, or was killed and the next commit removes them", Bytes(bytes))
}

fn show_stats(report: &StoreStats) {
    println!("hash {}, chunker {}, scheme {}", report.hash, report.chunker, report.scheme);
    println!(
        "{} snapshots of {} in {} objects of {}; deduplication {}",
        report.snapshots,
        Bytes(report.snapshot_bytes),
        report.objects,
        Bytes(report.object_bytes),
        report.deduplication.map_or("-".into(), |ratio| format!("{ratio:.2}"))
    );
    println!(
        "{} packs; {} loose objects in {} directories (the occupancy law expects {:.0}); {} on disk",
        report.packs,
        report.loose_objects,
        report.loose_directories,
        report.loose_directories_expected,
        Bytes(report.disk_bytes)
    );
    if report.staging_bytes > 0 {
        println!("of these, {}", staged(report.staging_bytes));
    }
    let mut table = Table::new("sizes", "", &["objects up to (bytes)", "count"]);
    for (bound, count) in &report.sizes {
        table.row(vec![json!(bound), json!(count)]);
    }
    // A closed pipe is the reader's choice.
    let _ = print_table(&mut crate::output::stdout(), &table);
}
