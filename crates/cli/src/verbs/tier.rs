//! `senesce tier`: the anti-caching file system.

use crate::Exit;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use senesce_core::units::parse_duration;
use senesce_core::{Bytes, ExitCode, Failure, number_of};
use senesce_tierfs::pair::MakeRequest;
use senesce_tierfs::serve::{AllowedFeatures, Memory, MountRequest, default_threads};
use senesce_tierfs::{Latency, Mode, Options, Promotion, background, pair, serve};
use serde_json::json;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Make, mount and check a file system that keeps hot blocks in memory and cold ones on disk
#[derive(Args)]
pub(crate) struct Tier {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make an empty file system in a memory region and a cold store
    Mkfs(Mkfs),
    /// Mount a file system
    Mount(Mount),
    /// Check a mounted or unmounted file system, and with --repair fix it
    Check(Check),
    /// Show the counters of a mounted file system
    Stats(StatsOf),
}

#[derive(Args)]
struct Mkfs {
    /// Memory region: a file, best on DAX or tmpfs
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    nvm: PathBuf,
    /// Size of the memory region [default: the file's]
    #[arg(long, value_name = "SIZE", help_heading = "Target")]
    nvm_size: Option<Bytes>,
    /// Cold store: a file or block device
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    cold: PathBuf,
    /// Size of the cold store [default: 8 regions]
    #[arg(long, value_name = "SIZE", help_heading = "Target")]
    cold_size: Option<Bytes>,
    /// Confirm data loss: repeat the path; repeatable
    #[arg(long, value_name = "PATH")]
    erase: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Mount {
    /// Memory region: a file, or anonymous
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    nvm: PathBuf,
    /// Size of anonymous memory
    #[arg(long, value_name = "SIZE", help_heading = "Target")]
    nvm_size: Option<Bytes>,
    /// Cold store: a file or block device
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    cold: PathBuf,
    /// Added latency: ssd, hdd or microseconds
    #[arg(long, value_name = "LATENCY", help_heading = "Target")]
    cold_latency: Option<String>,
    /// Directory to mount on
    mount_point: PathBuf,
    /// anticache or bpfs
    #[arg(long, default_value = "anticache", value_parser = ["bpfs", "anticache"], hide_possible_values = true,
          help_heading = "Eviction")]
    mode: String,
    /// File data to keep in memory
    #[arg(long, value_name = "SIZE", default_value = "40M", help_heading = "Eviction")]
    threshold: Bytes,
    /// Interval of the evictor
    #[arg(long, value_name = "TIME", default_value = "10ms", help_heading = "Eviction")]
    period: String,
    /// Promotion: always, second, never
    #[arg(long, value_name = "WHEN", default_value = "second", value_parser = ["always", "second", "never"],
          hide_possible_values = true, help_heading = "Eviction")]
    promote: String,
    /// Checksums of evicted blocks: on or off
    #[arg(long, value_name = "STATE", default_value = "on", value_parser = ["on", "off"], hide_possible_values = true,
          help_heading = "Eviction")]
    block_sums: String,
    /// Threads [default: one per processor, at least 2]
    #[arg(long, value_name = "N", help_heading = "Server")]
    threads: Option<NonZeroUsize>,
    /// Enable device nodes (root)
    #[arg(long, help_heading = "Server")]
    dev: bool,
    /// Enable setuid and setgid bits (root)
    #[arg(long, help_heading = "Server")]
    suid: bool,
    /// Stay in the foreground
    #[arg(long, help_heading = "Server")]
    foreground: bool,
    /// File for the messages of a background server
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    log: Option<PathBuf>,
}

#[derive(Args)]
struct Check {
    /// Mount point of a file system in use
    #[arg(required_unless_present = "nvm", conflicts_with_all = ["nvm", "cold", "repair"])]
    mount_point: Option<PathBuf>,
    /// Memory region of an unmounted file system: a file
    #[arg(long, value_name = "FILE", requires = "cold", help_heading = "Target")]
    nvm: Option<PathBuf>,
    /// Cold store of an unmounted file system: a file or block device
    #[arg(long, value_name = "FILE", requires = "nvm", help_heading = "Target")]
    cold: Option<PathBuf>,
    /// Give up damaged parts and keep the rest
    #[arg(long, help_heading = "Repair")]
    repair: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct StatsOf {
    /// Mount point
    mount_point: PathBuf,
    /// Print the result as JSON
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
            Action::Check(options) => check(options, session),
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
        eprintln!("created a file system: {nvm} of memory, {cold} of cold store");
    }
    Ok(ExitCode::Done.into())
}

fn mount(options: Mount, session: &Session) -> Result<Exit, Failure> {
    let log = options.log.clone();
    let foreground = options.foreground;
    let allow = AllowedFeatures { devices: options.dev, setuid: options.suid };
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
        (Some("anonymous"), None) => {
            return Err(Failure::usage("size of anonymous memory not given\nhint: --nvm-size SIZE"));
        }
        (_, Some(_)) => {
            return Err(Failure::usage(
                "cannot resize a memory region\nhint: --nvm-size is for mkfs and --nvm anonymous",
            ));
        }
        (_, None) => Memory::File(options.nvm),
    };
    // Each thread has a buffer for the largest write; more threads than processors rarely help.
    const MOST_THREADS: usize = 64;
    let threads = options.threads.map_or_else(default_threads, NonZeroUsize::get);
    if threads > MOST_THREADS {
        return Err(Failure::usage(format!("cannot use {threads} threads: the maximum is {MOST_THREADS}")));
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

fn check(options: Check, session: &Session) -> Result<Exit, Failure> {
    let is_sound = match (&options.mount_point, &options.nvm, &options.cold) {
        (Some(mount_point), ..) => scrub(mount_point, options.json, session)?,
        (None, Some(nvm), Some(cold)) => {
            if options.repair {
                repair(nvm, cold, options.json)?;
            }
            check_pair(nvm, cold, options.json)?
        }
        _ => return Err(Failure::usage("no file system given\nhint: name a mount point, or --nvm and --cold")),
    };
    Ok(if is_sound { ExitCode::Done } else { ExitCode::Negative }.into())
}

fn repair(nvm: &Path, cold: &Path, json: bool) -> Result<(), Failure> {
    let done = pair::repair_pair(nvm, cold)?;
    if json {
        return print_json(&json!(done));
    }
    for what in &done.restored {
        eprintln!("restored: {what}");
    }
    for what in &done.lost {
        eprintln!("lost: {what}");
    }
    for what in &done.kept {
        eprintln!("kept without a name: {what}");
    }
    if done.nameless > 0 {
        let remedy = "mount, remove files, unmount and repair again";
        eprintln!("no space for the names of {} kept inodes\nhint: {remedy}", done.nameless);
    }
    let repaired = done.restored.len() + done.lost.len();
    eprintln!("{repaired} problems repaired, {} inodes kept without a name", done.kept.len());
    Ok(())
}

/// Checks whether a mounted file system is sound.
fn scrub(mount_point: &Path, json: bool, session: &Session) -> Result<bool, Failure> {
    let found = serve::scrub(mount_point, &session.interrupt()?)?;
    if json {
        print_json(&json!(found))?;
    } else {
        for finding in &found.findings {
            eprintln!("damaged: {finding}");
        }
        eprintln!(
            "checked {} inodes; {} evicted blocks have a checksum, {} have none; \
             {} damaged metadata, {} damaged blocks",
            found.inodes, found.blocks, found.without_sum, found.damaged_metadata, found.damaged_blocks
        );
    }
    Ok(found.damaged_metadata == 0 && found.damaged_blocks == 0)
}

/// Checks whether an unmounted file system is sound.
fn check_pair(nvm: &Path, cold: &Path, json: bool) -> Result<bool, Failure> {
    let report = pair::check_pair(nvm, cold)?;
    if json {
        print_json(&json!(report))?;
    } else {
        for note in &report.notes {
            eprintln!("note: {note}");
        }
        for problem in report.problems.iter().chain(&report.damaged_blocks) {
            eprintln!("damaged: {problem}");
        }
        if report.more_problems > 0 {
            eprintln!("and {}", number_of(report.more_problems, "more problem"));
        }
        let state = if report.clean { "cleanly unmounted" } else { "not unmounted cleanly" };
        eprintln!(
            "{state}; {}, {} of files in memory, {} cold; {}, {}",
            number_of(report.inodes, "inode"),
            number_of(report.resident_blocks, "block"),
            report.cold_blocks,
            number_of(report.problems.len() as u64 + report.more_problems, "problem"),
            number_of(report.damaged_blocks.len(), "damaged block")
        );
    }
    Ok(report.is_sound())
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
