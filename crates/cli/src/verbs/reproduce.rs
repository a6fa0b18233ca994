//! `senesce reproduce ID`: runs a published experiment. Its options come from its specification.

mod all;
mod list;

use crate::Exit;
use crate::display::{Rerun, print_plan, show_whole};
use crate::global;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::verb_table::examples;
use clap::{Arg, ArgAction, ArgMatches, Command};
use senesce_core::{ExitCode, Failure, Level, Record, Span, Verdict};
use senesce_runner::{Common, Conduct, Outcome, Reproducible};
use senesce_runs::measurements;
use std::path::PathBuf;

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub fn command() -> Command {
    let root = Command::new("reproduce")
        .about("Run a published experiment and test its claims")
        .arg_required_else_help(true)
        .after_help(examples(&[
            "senesce reproduce --list",
            "sudo senesce reproduce frag-intra --scale smoke",
            "senesce reproduce --all --scale smoke --max-time 10m",
        ]))
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .arg(switch("list", "List the experiments"))
        .arg(switch("claims", "With --list: list all claims with their sources and rules").requires("list"))
        .arg(switch("json", "Print the result as JSON"))
        .arg(switch("dry-run", "With --all: list the experiments that would run").requires("all"))
        .mut_args(|arg| arg.help_heading("Output"))
        .args(all_arguments())
        .disable_help_flag(true)
        .args(global::arguments())
        .subcommand_value_name("EXPERIMENT")
        .subcommand_help_heading("Experiments");
    let of = |experiment: &'static dyn Reproducible| {
        Command::new(experiment.kind()).about(experiment.title()).defer(with_flags)
    };
    root.subcommands(REGISTRY.experiments().map(of))
}

fn scale() -> Arg {
    Arg::new("scale")
        .long("scale")
        .default_value("quick")
        .value_parser(["smoke", "quick", "paper"])
        .hide_possible_values(true)
        .help_heading("Measurement")
        .help("smoke: 10 s; quick: minutes; paper: as published")
}

fn scale_of(chosen: &ArgMatches) -> Result<Level, Failure> {
    chosen.get_one::<String>("scale").map_or(Ok(Level::Quick), |text| Ok(text.parse()?))
}

fn all_arguments() -> [Arg; 3] {
    [
        switch("all", "Run every experiment that fits, the shortest first").conflicts_with("list"),
        scale().requires("all").hide_default_value(true),
        Arg::new("max-time")
            .long("max-time")
            .value_name("TIME")
            .value_parser(clap::value_parser!(Span))
            .requires("all")
            .help("Maximum time, such as 2h; the same command resumes"),
    ]
    .map(|arg| arg.help_heading("Measurement"))
}

/// Adds the experiment's flags to `command`, which is named like an experiment.
fn with_flags(command: Command) -> Command {
    let command = match REGISTRY.experiment(command.get_name()) {
        Ok(experiment) => experiment.arguments(command).mut_args(|arg| arg.help_heading("Parameters")),
        Err(_) => command,
    };
    let command = command
        .arg(scale())
        .arg(switch("again", "Run again in a new directory; --out must be one"))
        .arg(Arg::new("erase").long("erase").value_name("IDENTITY").help("Confirm data loss: path or serial number"))
        .arg(
            Arg::new("out")
                .long("out")
                .short('o')
                .value_name("RUNDIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Run directory [default: senesce-runs/ID-HASH]"),
        )
        .arg(switch("claims", "List its claims with their sources and rules, and run nothing"))
        .arg(switch("dry-run", "Print the plan only"))
        .arg(switch("json", "Print the result as JSON"));
    global::complete(command)
}

pub(crate) fn run(matches: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    if matches.get_flag("list") {
        let json = matches.get_flag("json");
        return if matches.get_flag("claims") {
            list::claims_of(REGISTRY.experiments(), json)
        } else {
            list::experiments(json)
        };
    }
    if matches.get_flag("all") {
        return all::run(matches, session);
    }
    let (id, chosen) =
        matches.subcommand().ok_or_else(|| Failure::usage("no experiment given\nhint: senesce reproduce --list"))?;
    let experiment = REGISTRY.experiment(id)?;
    let level = scale_of(chosen)?;
    let json = chosen.get_flag("json");
    if chosen.get_flag("claims") {
        return list::claims_of([experiment], json);
    }
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
    let exit = show_whole(&outcome, Rerun::of(how.out.as_deref()), json, session)?;
    if !is_untested(&outcome)? {
        return Ok(exit);
    }
    eprintln!(
        "senesce: nothing could be measured on this machine; see the findings\nhint: run it in a guest: senesce --vm reproduce ... --again"
    );
    Ok(ExitCode::RunFailed.into())
}

fn is_untested(outcome: &Outcome) -> Result<bool, Failure> {
    let findings = &outcome.analysis.findings;
    let is_untested = !findings.is_empty() && findings.iter().all(|finding| finding.verdict == Verdict::NotTestable);
    if outcome.exit_code() != ExitCode::Done || !is_untested {
        return Ok(false);
    }
    let record = Record::open(&outcome.path)?;
    let did_nothing = record.events.iter().all(|event| Common::is_kind(&event.kind));
    Ok(did_nothing && measurements::of(&REGISTRY, &record)?.is_empty())
}
