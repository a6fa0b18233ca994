//! Self-test of the guest: boots once and makes, mounts, writes, remounts, compares and unmounts every supported file
//! system and drive.

use clap::Args;
use clap::builder::PossibleValuesParser;
use senesce_core::{Analysis, Better, Bytes, ExitCode, Failure, Level, Measurement, Rows, Seed, Span};
use senesce_guest::carry::GuestBooted;
use senesce_guest::{Drive, GuestRun, KeptFiles, kernel};
use senesce_runner::{Context, Experiment, Planned, Recorded, Run};
use senesce_volume::FileSystem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

pub(crate) struct VmSelftest;

/// File systems to test, and the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spec {
    /// file systems to test in the guest
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(file_systems()))]
    pub file_systems: Vec<String>,
    /// time limit of the guest
    #[arg(long)]
    pub time_limit: Span,
}

fn file_systems() -> Vec<String> {
    let zoned = FileSystem::ALL.into_iter().filter(|known| known.entry().can_be_zoned);
    FileSystem::ALL.iter().map(ToString::to_string).chain(zoned.map(|known| format!("zoned-{known}"))).collect()
}

const DRIVES: [&str; 3] = ["nvme,size=512M", "nvme,size=128M", "zns,size=2G,zone=64M,cap=64M,open=14,active=14"];

/// Makes one file system, writes 2 MiB, and compares them after a remount. The drives are distinguished by their
/// properties.
const SCRIPT: &str = include_str!("../data/vm/selftest.sh");

/// One result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A file system was tested.
    Tried(FileSystemTest),
    /// The guest ran.
    Booted(GuestBooted),
}

/// Result for one file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileSystemTest {
    file_system: String,
    works: bool,
    /// None: the guest did not report it.
    seconds: Option<f64>,
    said: String,
}

impl Run for VmSelftest {
    const KIND: &'static str = "vm-selftest";
    const PUBLISHED: &'static str = include_str!("../data/published/vm-selftest.csv");
    const CLAIMS: &'static str = include_str!("../data/published/vm-selftest.claims.toml");
    type Spec = Spec;
    type Event = Event;
    type Step = ();

    fn steps(spec: &Spec, _seed: Seed) -> Result<Vec<Planned<()>>, Failure> {
        kernel::choose(None, Some(senesce_guest::kernel::Engine::Qemu))?;
        let words = format!("make {}, write, remount, compare", spec.file_systems.join(", "));
        let seconds = 5.0 + 3.0 * spec.file_systems.len() as f64;
        Ok(vec![Planned::new((), words, "emulated drives of the guest").costing(Bytes(0), seconds)])
    }

    fn begin(_spec: &Spec, _context: &mut Context<'_, Self>) -> Result<Self, Failure> {
        Ok(Self)
    }

    fn step(&mut self, spec: &Spec, _step: &(), context: &mut Context<'_, Self>) -> Result<(), Failure> {
        let guest = selftest_guest(&spec.file_systems, spec.time_limit.0)?;
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let outcome = guest.run(context.interrupt, &mut out, &mut errors)?;
        let said = String::from_utf8_lossy(&errors).into_owned();
        let all = tried(&spec.file_systems, &String::from_utf8_lossy(&out), outcome.exit_status, &said);
        all.into_iter().for_each(|tried| context.record(Event::Tried(tried)));
        context.record(Event::Booted(GuestBooted::of(&outcome)));
        Ok(())
    }

    fn exit_code(spec: &Spec, recorded: &Recorded<Self>) -> ExitCode {
        let states = states(spec, recorded.events());
        if states.iter().all(|tried| tried.works) { ExitCode::Done } else { ExitCode::Negative }
    }

    fn measurements(spec: &Spec, recorded: &Recorded<Self>) -> Vec<Measurement> {
        measurements(&states(spec, recorded.events()))
    }

    fn analyse(spec: &Spec, recorded: &Recorded<Self>) -> Result<Analysis, Failure> {
        let booted = recorded.events().rev().find_map(|event| match event {
            Event::Booted(guest) => Some(guest.clone()),
            Event::Tried(_) => None,
        });
        let tried = states(spec, recorded.events());
        let table = Rows::of(&tried)
            .column("file system", |one| &one.file_system)
            .column("works", |one| &one.works)
            .column("time (s)", |one| &one.seconds)
            .column("said", |one| &one.said)
            .table("file-systems", "File systems in the guest");
        let working = tried.iter().filter(|one| one.works).count();
        let boot = booted.as_ref().map_or_else(String::new, |boot| {
            format!("Kernel {} under {}: booted in {:.1} s. ", boot.kernel, boot.accelerator, boot.boot_seconds)
        });
        Ok(Analysis {
            title: "Self-test of the guest".into(),
            summary: format!("{boot}{working} of {} file systems work.", tried.len()),
            tables: vec![table],
            result: json!({"file_systems": tried, "boot": booted, "working": working, "tried": tried.len()}),
            ..Analysis::default()
        })
    }
}

/// Returns the result of every requested file system. One without a report counts as failed; if the guest itself
/// failed, its error is the reason.
fn tried(asked: &[String], out: &str, exit_status: u8, errors: &str) -> Vec<FileSystemTest> {
    let stated: Vec<FileSystemTest> = out.lines().filter_map(parse).collect();
    let silent = || match (exit_status, errors.lines().rev().find(|line| !line.trim().is_empty())) {
        (0, _) => "the guest did not report this file system".to_string(),
        (status, None) => format!("the guest ended with status {status} before it reported this file system"),
        (status, Some(line)) => format!("the guest ended with status {status}: {}", line.trim()),
    };
    let of = |name: &String| {
        let found = stated.iter().rev().find(|tried| tried.file_system == *name).cloned();
        found.unwrap_or_else(|| FileSystemTest {
            file_system: name.clone(),
            works: false,
            seconds: None,
            said: silent(),
        })
    };
    asked.iter().map(of).collect()
}

fn states<'a>(spec: &Spec, events: impl Iterator<Item = &'a Event>) -> Vec<FileSystemTest> {
    let stated: Vec<&FileSystemTest> =
        events.filter_map(|event| if let Event::Tried(tried) = event { Some(tried) } else { None }).collect();
    let of = |name: &String| {
        let found = stated.iter().rev().find(|tried| tried.file_system == *name);
        let silent = || FileSystemTest {
            file_system: name.clone(),
            works: false,
            seconds: None,
            said: "the record does not contain this file system".into(),
        };
        found.map_or_else(silent, |tried| (*tried).clone())
    };
    spec.file_systems.iter().map(of).collect()
}

/// Returns 1 for each working file system, 0 for each other, under the names that claims use.
fn measurements(states: &[FileSystemTest]) -> Vec<Measurement> {
    let one = |tried: &FileSystemTest| {
        let works = if tried.works { 1.0 } else { 0.0 };
        let one = Measurement::new("works", "", Better::Higher, works).ok()?;
        Some(one.under("file_system", &*tried.file_system))
    };
    states.iter().filter_map(one).collect()
}

impl Experiment for VmSelftest {
    const TITLE: &'static str = "Do the guest, its drives and its file systems work on this machine?";
    const PAGE: &'static str = include_str!("../docs/experiments/vm-selftest.md");

    fn defaults(level: Level) -> Spec {
        Spec {
            file_systems: level.of([["ext4", "f2fs"].map(str::to_string).to_vec(), file_systems(), file_systems()]),
            time_limit: Span::from_millis(level.of([60_000, 300_000, 300_000])),
        }
    }
}

fn selftest_guest(names: &[String], limit: Duration) -> Result<GuestRun, Failure> {
    let mut command: Vec<String> = ["bash", "-c", SCRIPT, "selftest"].map(str::to_string).to_vec();
    command.extend_from_slice(names);
    Ok(GuestRun {
        kernel: kernel::choose(None, Some(senesce_guest::kernel::Engine::Qemu))?,
        drives: DRIVES.iter().map(|text| Drive::parse(text)).collect::<Result<_, _>>()?,
        keep: KeptFiles::default(),
        memory: senesce_core::Bytes::gib(1),
        cpus: 2,
        accelerator: None,
        time: senesce_guest::GuestTime::Real,
        command,
        shares: Vec::new(),
        time_limit: Some(limit),
        columns: None,
    })
}

/// Parses a line of the script: `FILE_SYSTEM ok|failed SECONDS words ...`.
fn parse(line: &str) -> Option<FileSystemTest> {
    let mut words = line.splitn(4, ' ');
    let file_system = words.next()?.to_string();
    let works = match words.next()? {
        "ok" => true,
        "failed" => false,
        _ => return None,
    };
    let seconds = Some(words.next()?.parse().ok()?);
    Some(FileSystemTest { file_system, works, seconds, said: words.next().unwrap_or_default().trim().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_claims::{ClaimSet, Facts, decide, untested};
    use senesce_core::Verdict;

    #[test]
    fn script_lines_are_parsed_and_other_lines_skipped() {
        let tried = parse("f2fs failed 1.25 mount: unknown file system").unwrap();
        assert!(!tried.works);
        assert_eq!(tried.said, "mount: unknown file system");
        assert!(parse("xfs ok 0.5").unwrap().works);
        assert!(parse("NOTE: several default settings have changed").is_none());
    }

    fn verdict(states: &[FileSystemTest]) -> Verdict {
        let set = ClaimSet::parse(VmSelftest::CLAIMS, VmSelftest::PUBLISHED).unwrap();
        decide(&set, &measurements(states), &Facts::of(Level::Quick))[0].verdict
    }

    #[test]
    fn file_system_without_report_counts_as_failed() {
        let spec = VmSelftest::defaults(Level::Quick);
        let all: String = spec.file_systems.iter().map(|name| format!("{name} ok 1.0 \n")).collect();
        let whole = tried(&spec.file_systems, &all, 0, "");
        assert_eq!(verdict(&whole), Verdict::Supported);
        let cut = tried(&spec.file_systems, "ext4 ok 1.0 \n", 137, "Out of memory: Killed process\n");
        let asked = spec.file_systems.len();
        assert_eq!((cut.len(), cut.iter().filter(|one| one.works).count()), (asked, 1));
        assert!(cut[1].said.contains("status 137: Out of memory"), "{}", cut[1].said);
        assert_eq!(verdict(&cut), Verdict::NotSupported);
        let events: Vec<Event> = cut[..1].iter().cloned().map(Event::Tried).collect();
        assert_eq!(
            states(&spec, events.iter()).iter().filter(|one| !one.works).count(),
            asked - 1,
            "a record without them"
        );
    }

    #[test]
    fn every_claim_finds_its_values() {
        let set = ClaimSet::parse(VmSelftest::CLAIMS, VmSelftest::PUBLISHED).unwrap();
        let spec = VmSelftest::defaults(Level::Quick);
        assert_eq!(untested(&set, &measurements(&tried(&spec.file_systems, "", 0, ""))), Vec::<String>::new());
    }
}
