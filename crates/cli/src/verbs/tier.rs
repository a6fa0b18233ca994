//! `senesce tier`: the anti-caching file system.

use crate::Exit;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure};
use senesce_tierfs::pair::MakeRequest;
use senesce_tierfs::serve::{Allow, Memory, MountRequest, default_threads};
use senesce_tierfs::{Latency, Mode, Options, Promotion, background, pair, serve};
use serde_json::json;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Make, mount and check a file system that keeps hot blocks in memory and cold ones on disk
#[derive(Args)]
pub struct Tier {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make an empty file system in a memory region and a cold store
    Mkfs(Mkfs),
    /// Mount it
    Mount(Mount),
    /// Check an unmounted file system; changes nothing without --repair; exit 1 if it is damaged
    Check(Check),
    /// Compare a mounted file system with its checksums; exit 1 if something is damaged
    Scrub(StatsOf),
    /// Print the counters of a mounted file system
    Stats(StatsOf),
}

#[derive(Args)]
struct Mkfs {
    /// File of the region, best on DAX or tmpfs
    #[arg(long, value_name = "FILE")]
    nvm: PathBuf,
    /// Size of the region
    #[arg(long, value_name = "SIZE", help = "Size of the region [default: that of the file]")]
    nvm_size: Option<Bytes>,
    /// File or block device of the cold store
    #[arg(long, value_name = "FILE")]
    cold: PathBuf,
    /// Size of the cold store
    #[arg(long, value_name = "SIZE", help = "Size of the cold store [default: the device, or 8 regions, sparse]")]
    cold_size: Option<Bytes>,
    /// Path whose content may be lost; may be repeated
    #[arg(long, value_name = "PATH")]
    erase: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Mount {
    /// File of the region, or `anonymous` with --nvm-size
    #[arg(long, value_name = "FILE")]
    nvm: PathBuf,
    /// Size of anonymous memory
    #[arg(long, value_name = "SIZE")]
    nvm_size: Option<Bytes>,
    /// File or block device of the cold store
    #[arg(long, value_name = "FILE")]
    cold: PathBuf,
    /// Directory to mount on
    mount_point: PathBuf,
    /// With or without eviction
    #[arg(long, default_value = "anticache", value_parser = ["bpfs", "anticache"])]
    mode: String,
    /// Bytes of files in memory above which cold blocks are evicted
    #[arg(long, value_name = "SIZE", default_value = "40M")]
    threshold: Bytes,
    /// Time between two looks of the evictor
    #[arg(long, value_name = "DURATION", default_value = "10ms")]
    period: String,
    /// When a cold block that is read comes back to memory
    #[arg(long, default_value = "second", value_parser = ["always", "second", "never"])]
    promote: String,
    /// Threads that answer the kernel
    #[arg(long, value_name = "N", help = "Threads that answer the kernel [default: processors, at least 2]")]
    threads: Option<NonZeroUsize>,
    /// Whether evicted blocks have checksums
    #[arg(long, default_value = "on", value_parser = ["on", "off"])]
    block_sums: String,
    /// Latency added to the cold store: ssd, hdd or microseconds
    #[arg(long, value_name = "LATENCY")]
    cold_latency: Option<String>,
    /// Let device nodes work (root)
    #[arg(long)]
    dev: bool,
    /// Let setuid and setgid bits work (root)
    #[arg(long)]
    suid: bool,
    /// Stay in the foreground
    #[arg(long)]
    foreground: bool,
    /// Messages of a server in the background
    #[arg(long, value_name = "FILE", help = "Messages of a server in the background [default: none are kept]")]
    log: Option<PathBuf>,
}

#[derive(Args)]
struct Check {
    /// File of the region
    #[arg(long, value_name = "FILE")]
    nvm: PathBuf,
    /// File or block device of the cold store
    #[arg(long, value_name = "FILE")]
    cold: PathBuf,
    /// Give up what is damaged and keep the rest
    #[arg(long)]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct StatsOf {
    /// Where it is mounted
    mount_point: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Tier {
    const NAME: &'static str = "tier";
    const ABOUT: &'static str = "File system that moves cold blocks from memory to a disk";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce tier mkfs --nvm region --nvm-size 1G --cold cold",
        "senesce tier mount --nvm region --cold cold /mnt/tier",
    ];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::Mkfs(options) => make(options),
            Action::Mount(options) => mount(options, session),
            Action::Check(options) => check(options),
            Action::Scrub(options) => scrub(options, session),
            Action::Stats(options) => stats(options),
        }
    }
}

fn make(options: Mkfs) -> Result<Exit, Failure> {
    let Mkfs { nvm, nvm_size, cold, cold_size, erase, json } = options;
    let made = pair::make(&MakeRequest { nvm, nvm_size, cold, cold_size, erase })?;
    if json {
        print_json(&json!(made))?;
    } else {
        let (nvm, cold) = (Bytes(made.nvm_bytes), Bytes(made.cold_bytes));
        eprintln!("made a file system with {nvm} of memory and a cold store of {cold}");
    }
    Ok(ExitCode::Done.into())
}

fn mount(options: Mount, session: &Session) -> Result<Exit, Failure> {
    let log = options.log.clone();
    let foreground = options.foreground;
    let allow = Allow { devices: options.dev, setuid: options.suid };
    let request = request(options)?;
    if !foreground {
        return Ok(background::start(log.as_deref())?.map_or(ExitCode::Done.into(), |code| Exit::Command(code as u8)));
    }
    let interrupt = session.interrupt()?;
    serve::serve_with(&request, allow, &interrupt, |fs| {
        let stats = fs.stats();
        eprintln!(
            "mounted on {}: {}; cold store {}",
            request.mount_point.display(),
            stats.durability,
            stats.cold_store
        );
        background::report_ready()
    })?;
    Ok(ExitCode::Done.into())
}

fn request(options: Mount) -> Result<MountRequest, Failure> {
    let memory = match (options.nvm.to_str(), options.nvm_size) {
        (Some("anonymous"), Some(size)) => Memory::Anonymous(size),
        (Some("anonymous"), None) => return Err(Failure::usage("--nvm anonymous needs --nvm-size")),
        (_, Some(_)) => return Err(Failure::usage("--nvm-size belongs to mkfs, or to --nvm anonymous")),
        (_, None) => Memory::File(options.nvm),
    };
    // Each has a buffer for the largest write; more than the machine has processors rarely help.
    const MOST_THREADS: usize = 64;
    let threads = options.threads.map_or_else(default_threads, NonZeroUsize::get);
    if threads > MOST_THREADS {
        return Err(Failure::usage(format!("--threads {threads}: at most {MOST_THREADS}")));
    }
    Ok(MountRequest {
        memory,
        cold: options.cold,
        mount_point: options.mount_point,
        options: Options {
            mode: if options.mode == "bpfs" { Mode::Bpfs } else { Mode::Anticache },
            threshold: options.threshold,
            period: parse_duration(&options.period)?,
            promotion: match options.promote.as_str() {
                "always" => Promotion::Always,
                "never" => Promotion::Never,
                _ => Promotion::Second,
            },
            block_sums: options.block_sums == "on",
        },
        threads,
        cold_latency: options.cold_latency.as_deref().map(Latency::parse).transpose()?,
    })
}

fn repair(options: &Check) -> Result<(), Failure> {
    let done = pair::repair_pair(&options.nvm, &options.cold)?;
    if options.json {
        return print_json(&json!(done));
    }
    for what in &done.restored {
        eprintln!("restored: {what}");
    }
    for what in &done.lost {
        eprintln!("given up: {what}");
    }
    for what in &done.kept {
        eprintln!("kept without its name: {what}");
    }
    if done.nameless > 0 {
        let remedy = "mount it, remove files, umount it and repair it again";
        eprintln!("no space for the names of {} inodes, which are kept: {remedy}", done.nameless);
    }
    let repaired = done.restored.len() + done.lost.len();
    eprintln!("{repaired} problems repaired, {} inodes kept without their names", done.kept.len());
    Ok(())
}

fn scrub(options: StatsOf, session: &Session) -> Result<Exit, Failure> {
    let found = serve::scrub(&options.mount_point, &session.interrupt()?)?;
    if options.json {
        print_json(&json!(found))?;
    } else {
        for finding in &found.findings {
            eprintln!("damaged: {finding}");
        }
        eprintln!(
            "looked at {} inodes; {} evicted blocks have their checksum, {} have none; \
             {} damaged metadata, {} damaged blocks",
            found.inodes, found.blocks, found.without_sum, found.damaged_metadata, found.damaged_blocks
        );
    }
    let sound = found.damaged_metadata == 0 && found.damaged_blocks == 0;
    Ok(if sound { ExitCode::Done } else { ExitCode::Negative }.into())
}

fn check(options: Check) -> Result<Exit, Failure> {
    if options.repair {
        repair(&options)?;
    }
    let report = pair::check_pair(&options.nvm, &options.cold)?;
    if options.json {
        print_json(&json!(report))?;
    } else {
        for note in &report.notes {
            eprintln!("note: {note}");
        }
        for problem in report.problems.iter().chain(&report.damaged_blocks) {
            eprintln!("damaged: {problem}");
        }
        if report.more_problems > 0 {
            eprintln!("and {} more problems", report.more_problems);
        }
        let state = if report.clean { "cleanly unmounted" } else { "not unmounted cleanly" };
        eprintln!(
            "{state}; {} inodes, {} blocks of files in memory, {} cold; {} problems, {} damaged blocks",
            report.inodes,
            report.resident_blocks,
            report.cold_blocks,
            report.problems.len() as u64 + report.more_problems,
            report.damaged_blocks.len()
        );
    }
    Ok(if report.is_sound() { ExitCode::Done } else { ExitCode::Negative }.into())
}

fn stats(options: StatsOf) -> Result<Exit, Failure> {
    let stats = serve::stats(&options.mount_point)?;
    if options.json {
        print_json(&json!(stats))?;
        return Ok(ExitCode::Done.into());
    }
    let value = json!(stats);
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        println!("{:<26} {}", name.replace('_', " "), if value.is_null() { "none" } else { &text });
    }
    Ok(ExitCode::Done.into())
}

fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    writeln!(crate::output::stdout(), "{value}").map_err(output_failed)
}
