//! `senesce reproduce ID`: runs a published experiment. Flags are made from its specification.

use crate::Exit;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::verbs::carry::show;
use clap::{Arg, ArgAction, ArgMatches, Command};
use senesce_core::{ExitCode, Failure, Level, Plan, Record, Verdict};
use senesce_runs::measurements;
use senesce_runs::run::{Common, Conduct, Outcome, Reproducible};
use std::path::PathBuf;

/// The clap command with one subcommand per experiment, whose flags are made once it is asked for.
pub fn command() -> Command {
    let root = Command::new("reproduce")
        .about("Run a published experiment and compare with its published values")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand_value_name("EXPERIMENT")
        .subcommand_help_heading("Experiments");
    let of = |experiment: &'static dyn Reproducible| {
        Command::new(experiment.kind()).about(experiment.title()).defer(with_flags)
    };
    root.subcommands(REGISTRY.experiments().map(of))
}

/// `command`, which is named as an experiment, with the experiment's flags.
fn with_flags(command: Command) -> Command {
    let experiment = REGISTRY.experiment(command.get_name());
    let command = command
        .arg(
            Arg::new("scale")
                .long("scale")
                .default_value("quick")
                .value_parser(["smoke", "quick", "paper"])
                .help("smoke: at most 10 s; quick: minutes; paper: as published, where the machine has space"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .short('o')
                .value_name("RUNDIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Run directory [default: senesce-runs/ID-HASH, so the same command continues or reprints]"),
        )
        .arg(
            Arg::new("erase")
                .long("erase")
                .value_name("IDENTITY")
                .help("Repeat the path or serial number of what may be lost"),
        )
        .arg(Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Print the plan and stop"))
        .arg(Arg::new("again").long("again").action(ArgAction::SetTrue).help("Run anew although it was run before"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the result as JSON"));
    match experiment {
        Ok(experiment) => experiment.arguments(command),
        Err(_) => command,
    }
}

/// Runs the chosen experiment.
pub fn run(matches: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    let (id, chosen) = matches.subcommand().ok_or_else(|| Failure::usage("name an experiment"))?;
    let experiment = REGISTRY.experiment(id)?;
    let level: Level = chosen.get_one::<String>("scale").map_or(Ok(Level::Quick), |text| text.parse())?;
    let json = chosen.get_flag("json");
    if chosen.get_flag("dry-run") {
        return print_plan(&experiment.plan(level, chosen)?, json);
    }
    let interrupt = session.interrupt()?;
    let how = Conduct {
        out: chosen.get_one::<PathBuf>("out").cloned(),
        again: chosen.get_flag("again"),
        erase: chosen.get_one::<String>("erase").cloned(),
        scale: Some(level),
        ..session.conduct(&interrupt)
    };
    let outcome = experiment.reproduce(level, chosen, &how)?;
    let exit = show(&outcome, json, session)?;
    if !came_to_nothing(&outcome)? {
        return Ok(exit);
    }
    eprintln!(
        "senesce: nothing could be measured here; the findings say why. Do it again where that is not so, with --again (or in the lab: senesce --lab reproduce ...)"
    );
    Ok(ExitCode::RunFailed.into())
}

/// A run that is done, of which no claim could be tested and no value be taken.
fn came_to_nothing(outcome: &Outcome) -> Result<bool, Failure> {
    let findings = &outcome.analysis.findings;
    let is_untested = !findings.is_empty() && findings.iter().all(|finding| finding.verdict == Verdict::NotTestable);
    if outcome.exit_code() != ExitCode::Done || !is_untested {
        return Ok(false);
    }
    let record = Record::open(&outcome.path)?;
    let did_nothing = record.events.iter().all(|event| Common::is_kind(&event.kind));
    Ok(did_nothing && measurements::of(&REGISTRY, &record)?.is_empty())
}

/// Prints a plan.
pub fn print_plan(plan: &Plan, json: bool) -> Result<Exit, Failure> {
    if json {
        println!("{}", serde_json::to_string_pretty(plan).map_err(|error| Failure::usage(error.to_string()))?);
        return Ok(ExitCode::Done.into());
    }
    println!("{} (seed {})", plan.kind, plan.seed.0);
    for (name, value) in &plan.spec {
        println!("  {name} = {}", value.as_str().map_or_else(|| value.to_string(), str::to_string));
    }
    println!("steps:");
    for (number, step) in plan.steps.iter().enumerate() {
        println!("  {:>3}. {} [{}]", number + 1, step.action, step.target);
    }
    println!("writes to its targets {}", plan.written_words(|bytes| senesce_core::Bytes(bytes).to_string()));
    println!("estimated time {}", time_words(plan.estimated_seconds));
    Ok(ExitCode::Done.into())
}

/// Seconds, and from half an hour on also hours.
fn time_words(seconds: f64) -> String {
    match seconds >= 1800.0 {
        true => format!("{seconds:.0} s ({:.1} h)", seconds / 3600.0),
        false => format!("{seconds:.0} s"),
    }
}
