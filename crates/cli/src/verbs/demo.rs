//! `senesce demo`: a short aging, with whatever this machine supports.

mod text;

use crate::Exit;
use crate::display::{Rerun, begin_result, show_brief, show_owner, show_record, terminal_width};
use crate::experiment_text::{TEXT_WIDTH, lines};
use crate::output::output_failed;
use crate::registry::REGISTRY;
use crate::session::{Session, runs_directory};
use crate::verb_table::Verb;
use crate::verbs::report;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use senesce_core::analysis::score_lines;
use senesce_core::environment::is_root;
use senesce_core::failure::failed;
use senesce_core::machine::{KERNEL_ADVICE, is_emulated, memory_available};
use senesce_core::{Analysis, Bytes, ExitCode, Failure, Level, Record, Silent, Verdict};
use senesce_exp_aging::age::{Age, AgeSpec, demo};
use senesce_runner::{Conduct, Needs, Outcome, State, conduct, default_path, new_plan};
use senesce_volume::scratch_directory::MEMORY;
use senesce_volume::{FileSystem, ScratchDirectory};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Sizes of the files in a directory, in MiB.
const SIZES: [u64; 3] = [256, 128, 64];
/// Measures the simulated drive if aging is impossible.
const SIMULATED: &str = "zns-intra-zone";

/// Age a small file system in seconds and write a report
#[derive(Args)]
pub(crate) struct Demo {
    /// image, directory or simulator [default: first that works]
    #[arg(long, value_name = "WHAT", value_parser = ["image", "directory", "simulator"], hide_possible_values = true,
          help_heading = "Target")]
    on: Option<String>,
    /// Run directory [default: senesce-runs/KIND-HASH]
    #[arg(long, short, value_name = "RUNDIR")]
    out: Option<PathBuf>,
    /// Run again in a new directory; --out must be one
    #[arg(long)]
    again: bool,
}

/// Returns whether this user without root has the result that a user-mode kernel would show.
pub(crate) fn is_stored(verb: &str, arguments: &ArgMatches) -> bool {
    verb == Demo::NAME && Demo::from_arg_matches(arguments).is_ok_and(|demo| demo.stored().is_some())
}

impl Verb for Demo {
    const NAME: &'static str = "demo";
    const ABOUT: &'static str = "Age a small file system in seconds and write a report";
    const EXAMPLES: &'static [&'static str] = &["senesce demo", "senesce demo --on simulator"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.out.as_deref().map_or(Ok(()), report::check_default)?;
        let outcome = match (self.stored(), self.on.as_deref()) {
            (Some(spec), _) => self.age(&spec, session)?,
            (None, Some("image")) => self.image(session)?,
            (None, Some("directory")) => self.directory(session)?,
            (None, Some(_)) => self.simulator(session)?,
            (None, None) => self.first_that_works(session)?,
        };
        let rerun = Rerun::of(self.out.as_deref());
        let exit = match outcome.analysis.tables.first().filter(|table| table.id == "answer") {
            Some(answer) => {
                begin_result(&outcome, rerun, session);
                text::write_answer(&mut crate::output::stdout(), &outcome.analysis, answer).map_err(output_failed)?;
                ended(&outcome)
            }
            None if is_simulated(&outcome.analysis) => {
                begin_result(&outcome, rerun, session);
                write_simulated(&mut crate::output::stdout(), &outcome.analysis).map_err(output_failed)?;
                ended(&outcome)
            }
            None => show_brief(&outcome, rerun, false, session)?,
        };
        println!("report: {}", report::write_default(&outcome.path)?.display());
        Ok(exit)
    }
}

impl Demo {
    fn stored(&self) -> Option<AgeSpec> {
        if is_root() { None } else { self.stored_in(&runs_directory()) }
    }

    /// Returns the demo of a user-mode kernel, if its result is stored and wanted.
    fn stored_in(&self, runs: &Path) -> Option<AgeSpec> {
        if self.again || self.on.as_deref().is_some_and(|on| on != "image") {
            return None;
        }
        let spec = demo::spec(demo::SMALL).ok()?;
        let plan = new_plan::<Age>(&spec, spec.seed).ok()?;
        let path = self.out.clone().unwrap_or_else(|| default_path(runs, &plan, false));
        let record = Record::open(&path).ok()?;
        let is_same = record.plan.kind == plan.kind && record.plan.identity() == plan.identity();
        (is_same && !record.is_partial()).then_some(spec)
    }

    fn first_that_works(&self, session: &Session) -> Result<Outcome, Failure> {
        type Try = fn(&Demo, &Session) -> Result<Outcome, Failure>;
        let ways: [(&str, Try); 2] = [("an image in memory", Demo::image), ("a scratch directory", Demo::directory)];
        for (name, way) in ways {
            match way(self, session) {
                Err(failure) if is_missing(&failure) => {
                    session.progress().say(&format!("skipped {name}: {}", with_hint(&failure.to_string())));
                }
                other => return other,
            }
        }
        self.simulator(session)
    }

    fn image(&self, session: &Session) -> Result<Outcome, Failure> {
        let fitting = memory_available().map_or(Ok(demo::TARGET), demo::target_for)?;
        let (target, why) = match fitting {
            demo::TARGET if is_emulated() => (demo::SMALL, "this kernel is slow"),
            fitting => (fitting, "little memory is available"),
        };
        if target != demo::TARGET {
            let words = format!("{why}: a smaller demo, {target} instead of {}", demo::TARGET);
            session.progress().say(&words);
        }
        session.progress().say(&format!("senesce age {target} {}", demo::flags(target).join(" ")));
        self.age(&demo::spec(target)?, session)
    }

    fn directory(&self, session: &Session) -> Result<Outcome, Failure> {
        let (scratch, mebibytes) = scratch()?;
        if mebibytes < SIZES[0] {
            session
                .progress()
                .say(&format!("little space: a smaller demo, {mebibytes} MiB instead of {} MiB", SIZES[0]));
        }
        session
            .progress()
            .say("aging a scratch directory, without copies, free space, file-system check and cold caches");
        let size = format!("{mebibytes}M");
        // Commits on a disk with other users would take minutes.
        let flags = ["--size", &size, "--overwrites", "8", "--truncate-sizes", "--commit-share", "none"];
        // The scratch directory itself is locked.
        let files = scratch.path().join("files");
        std::fs::create_dir(&files).map_err(failed("create", &files))?;
        let target = files.to_string_lossy().into_owned();
        session.progress().say(&format!("senesce age {target} {}", flags.join(" ")));
        self.age(&AgeSpec::of_flags(&flags)?.on(Some(target.parse()?))?, session)
    }

    fn age(&self, spec: &AgeSpec, session: &Session) -> Result<Outcome, Failure> {
        let interrupt = session.interrupt()?;
        let how = Conduct { out: self.out.clone(), again: self.again, ..session.conduct(&interrupt) };
        conduct::<Age>(spec, spec.seed, &how)
    }

    fn simulator(&self, session: &Session) -> Result<Outcome, Failure> {
        session.progress().say(&format!(
            "no file system is aged: this measures a simulated zoned drive (senesce reproduce {SIMULATED} --scale smoke)"
        ));
        let experiment = REGISTRY.experiment(SIMULATED)?;
        let command = experiment.arguments(Command::new(SIMULATED).no_binary_name(true));
        let chosen = command.try_get_matches_from([""; 0]).map_err(not_understood)?;
        let interrupt = session.interrupt()?;
        let how = Conduct {
            out: self.out.clone(),
            again: self.again,
            scale: Some(Level::Smoke),
            progress: &Silent,
            ..session.conduct(&interrupt)
        };
        experiment.reproduce(Level::Smoke, &chosen, &how)
    }
}

/// Returns the exit code. The line of the report has the path of a complete run.
fn ended(outcome: &Outcome) -> Exit {
    match outcome.state {
        State::Done | State::WasDone => {
            show_owner(outcome);
            outcome.exit_code().into()
        }
        _ => show_record(outcome),
    }
}

/// Returns the failure with its own hint, or else that of a demo of a new file system.
fn with_hint(failure: &str) -> String {
    if failure.contains("\nhint: ") { failure.into() } else { failure.to_owned() + &hint(is_root(), has_maker()) }
}

fn hint(is_root: bool, has_maker: bool) -> String {
    let package = FileSystem::Ext4.package();
    let needed = match (is_root, has_maker) {
        (true, true) => "senesce doctor lists the missing parts".to_string(),
        (true, false) => format!("install {package}; senesce doctor lists other missing parts"),
        (false, true) => format!("run sudo senesce demo; or, for the full demo without root, {KERNEL_ADVICE}"),
        (false, false) => {
            format!(
                "run sudo senesce demo; or, for the full demo without root, install {package}, then {KERNEL_ADVICE}"
            )
        }
    };
    format!("\nhint: {needed}")
}

/// Returns whether mkfs.ext4 is installed, even if only root's PATH has it.
fn has_maker() -> bool {
    let (program, package) = FileSystem::Ext4.maker();
    Needs::default().and_program(program, package).are_met()
}

/// Maximum number of claims that the demo prints; the report has all.
const MOST_CLAIMS: usize = 5;

fn is_simulated(analysis: &Analysis) -> bool {
    analysis.findings.iter().any(|finding| matches!(finding.verdict, Verdict::ModelAgrees | Verdict::ModelDiffers))
}

/// Writes the score, then the first claims with values.
fn write_simulated(out: &mut impl Write, analysis: &Analysis) -> io::Result<()> {
    let width = terminal_width().unwrap_or(TEXT_WIDTH);
    lines(out, &analysis.title, 0, width)?;
    score_lines(&analysis.findings).iter().try_for_each(|line| lines(out, line, 0, width))?;
    for finding in analysis.findings.iter().filter(|finding| !finding.measured.is_empty()).take(MOST_CLAIMS) {
        let claim = finding.claim.trim_end_matches('.');
        let values = format!("published {}, simulated {}", finding.published, finding.measured);
        lines(out, &format!("- {}: {claim} ({values})", finding.verdict.text()), 2, width)?;
    }
    writeln!(out)
}

fn is_missing(failure: &Failure) -> bool {
    failure.exit_code() == ExitCode::Missing
}

fn not_understood(error: clap::Error) -> Failure {
    Failure::usage(error.to_string())
}

/// Creates a private directory in the first location that accepts one and has space for the largest possible size. Also
/// returns that size in MiB. Memory comes last: tmpfs has no extents.
fn scratch() -> Result<(ScratchDirectory, u64), Failure> {
    let places = [PathBuf::from("."), std::env::temp_dir(), PathBuf::from(MEMORY)];
    let mut refused = None;
    let ways = SIZES.iter().flat_map(|size| places.iter().map(move |place| (*size, place)));
    for (size, place) in ways.filter(|(size, place)| has_space(place, space_for(*size))) {
        match ScratchDirectory::create(place, "demo") {
            Ok(scratch) => return Ok((scratch, size)),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or_else(
        || {
            let names: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            let message = format!(
                "cannot find {} of writable space in {}\nhint: set TMPDIR to a directory that has it",
                space_for(SIZES[SIZES.len() - 1]),
                names.join(", ")
            );
            Failure::new(ExitCode::Missing, message)
        },
        Failure::from,
    ))
}

/// Adds a reserve of a quarter to the size of the files.
fn space_for(mebibytes: u64) -> Bytes {
    Bytes::mib(mebibytes * 5 / 4)
}

fn has_space(place: &Path, space: Bytes) -> bool {
    let writable = rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok();
    writable && rustix::fs::statvfs(place).is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) >= space.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Environment, Finding, RunDirectory};
    use serde_json::json;

    #[test]
    fn failure_keeps_its_own_hint() {
        let own = demo::target_for(senesce_core::Bytes(0)).unwrap_err().to_string();
        assert_eq!(with_hint(&own), own);
        assert_eq!(with_hint("mkfs.ext4 not found").matches("hint: ").count(), 1);
    }

    #[test]
    fn simulated_result_begins_with_the_score_and_fits_a_screen() {
        let finding = |verdict, measured: &str| Finding {
            claim: "Appends of 4 KiB in one zone do not get faster beyond depth 4".into(),
            published: "132168 1/s".into(),
            measured: measured.into(),
            verdict,
            ..Finding::default()
        };
        let mut findings = vec![finding(Verdict::NotTestable, ""); 20];
        findings.extend(vec![finding(Verdict::ModelAgrees, "133020 1/s"); 20]);
        let analysis = Analysis { title: "Zoned drive".into(), findings, ..Analysis::default() };
        assert!(is_simulated(&analysis));
        let mut out = Vec::new();
        write_simulated(&mut out, &analysis).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() <= 22 && text.lines().all(|line| line.len() <= TEXT_WIDTH), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("20 model agrees")), "{text}");
        assert_eq!(text.matches("- model agrees").count(), MOST_CLAIMS);
    }

    #[test]
    fn missing_requirement_names_packages() {
        for (is_root, has_maker) in [(true, true), (true, false), (false, true), (false, false)] {
            let words = hint(is_root, has_maker);
            assert_eq!(words.contains("e2fsprogs"), !has_maker, "{words}");
            assert_eq!(words.contains("senesce vm setup"), !is_root, "{words}");
        }
    }

    fn parsed(words: &[&str]) -> Demo {
        let words = [&["senesce", "demo"], words].concat();
        let matches = crate::command().try_get_matches_from(words).unwrap();
        Demo::from_arg_matches(matches.subcommand().unwrap().1).unwrap()
    }

    #[test]
    fn hint_for_a_complete_demo_fits_its_options() {
        let rerun = |words: &[&str]| Rerun::of(parsed(words).out.as_deref());
        assert_eq!((rerun(&[]), parsed(&["--again"]).again), (Rerun::Again, true));
        assert_eq!(rerun(&["--out", "run"]), Rerun::OtherDirectory);
        assert!(parsed(&["--out", "run", "--again"]).again, "the runner refuses it if the run is complete");
    }

    #[test]
    fn stored_demo_of_a_guest_is_found_unless_another_is_requested() {
        let runs = tempfile::tempdir().unwrap();
        let spec = demo::spec(demo::SMALL).unwrap();
        let plan = new_plan::<Age>(&spec, spec.seed).unwrap();
        let path = default_path(runs.path(), &plan, false);
        let mut run = RunDirectory::open(&path, &plan, &Environment::default()).unwrap();
        run.append("test", &1).unwrap();
        assert!(parsed(&[]).stored_in(runs.path()).is_none(), "it is not complete");
        run.finish(&json!({})).unwrap();
        drop(run);
        let out = path.to_str().unwrap();
        for (words, expected) in [
            (&["--on", "image"][..], true),
            (&[], true),
            (&["--out", out], true),
            (&["--again"], false),
            (&["--on", "simulator"], false),
            (&["--out", "nonexistent"], false),
        ] {
            assert_eq!(parsed(words).stored_in(runs.path()).is_some(), expected, "{words:?}");
        }
    }
}
