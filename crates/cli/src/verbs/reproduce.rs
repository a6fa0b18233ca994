//! `senesce reproduce ID`: runs a published experiment. Flags are made from its declared parameters.

use crate::Exit;
use crate::display::print_analysis;
use crate::session::{Session, runs_directory};
use crate::verbs::report::output_failed;
use clap::{Arg, ArgAction, ArgMatches, Command};
use senesce_core::parameter::COMMON;
use senesce_core::{ExitCode, Experiment, Failure, Level, Parameter, ParameterKind, Plan, Settings};
use senesce_experiments::conduct::{Conduct, conduct};
use senesce_experiments::registry::EXPERIMENTS;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The clap command with one subcommand per experiment.
pub fn command() -> Command {
    let root = Command::new("reproduce")
        .about("Run a published experiment and compare with its published values")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand_value_name("EXPERIMENT")
        .subcommand_help_heading("Experiments");
    EXPERIMENTS.iter().fold(root, |root, experiment| root.subcommand(experiment_command(*experiment)))
}

fn experiment_command(experiment: &'static dyn Experiment) -> Command {
    let base = Command::new(experiment.kind())
        .about(experiment.title())
        .arg(
            Arg::new("scale")
                .long("scale")
                .default_value("quick")
                .value_parser(["smoke", "quick", "paper"])
                .help("smoke: at most 10 s; quick: minutes; paper: as published, where the machine has room"),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Set a parameter; the same as --NAME VALUE"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("RUNDIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Run directory [default: senesce-runs/ID-HASH, so the same command continues or reprints]"),
        )
        .arg(Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Print the plan and stop"))
        .arg(Arg::new("again").long("again").action(ArgAction::SetTrue).help("Run anew although it was run before"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the result as JSON"));
    experiment.parameters().iter().chain(COMMON).fold(base, |command, parameter| command.arg(argument(parameter)))
}

fn argument(parameter: &'static Parameter) -> Arg {
    let [smoke, quick, paper] = parameter.defaults;
    let help = if smoke == quick && quick == paper {
        format!("{} [default: {quick}]", parameter.help)
    } else {
        format!("{} [smoke: {smoke}; quick: {quick}; paper: {paper}]", parameter.help)
    };
    let argument = Arg::new(parameter.name).long(parameter.name).help(help).help_heading("Parameters");
    match parameter.kind {
        ParameterKind::Flag => argument.num_args(0..=1).default_missing_value("true").require_equals(true),
        // A list may be given in one word or by repeating the flag.
        ParameterKind::Text | ParameterKind::Choices(_) => argument.value_name("VALUE").action(ArgAction::Append),
        _ => argument.value_name("VALUE"),
    }
}

/// Runs the chosen experiment.
pub fn run(matches: &ArgMatches, session: &Session) -> Result<Exit, Failure> {
    let (id, chosen) = matches.subcommand().ok_or_else(|| Failure::usage("name an experiment"))?;
    let experiment = *EXPERIMENTS
        .iter()
        .find(|experiment| experiment.kind() == id)
        .ok_or_else(|| Failure::usage(format!("there is no experiment '{id}'; `senesce experiments` lists them")))?;
    let settings = settings(experiment, chosen)?;
    let json = chosen.get_flag("json");
    let plan = experiment.plan(&settings)?;
    if chosen.get_flag("dry-run") {
        return print_plan(&plan, json);
    }
    let request = Conduct {
        out: chosen.get_one::<PathBuf>("out").cloned(),
        runs: runs_directory(),
        again: chosen.get_flag("again"),
        progress: session.progress(),
        interrupt: &session.interrupt()?,
    };
    let outcome = conduct(experiment, &settings, plan, &request)?;
    session.clear();
    if outcome.was_finished {
        eprintln!("already done; this is the result of {} (run anew with --again)", outcome.path.display());
    }
    print_analysis(&outcome.analysis, json).map_err(output_failed)?;
    eprintln!("record: {path}   report: senesce report {path}", path = outcome.path.display());
    Ok(ExitCode::Done.into())
}

fn settings(experiment: &dyn Experiment, chosen: &ArgMatches) -> Result<Settings, Failure> {
    let level: Level = chosen.get_one::<String>("scale").map_or(Ok(Level::Quick), |text| text.parse())?;
    let mut overrides = BTreeMap::new();
    for pair in chosen.get_many::<String>("set").into_iter().flatten() {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--set {pair}: write NAME=VALUE, for example --set seed=7")))?;
        overrides.insert(name.to_string(), value.to_string());
    }
    for parameter in experiment.parameters().iter().chain(COMMON) {
        if let Some(values) = chosen.get_many::<String>(parameter.name) {
            overrides.insert(parameter.name.to_string(), values.cloned().collect::<Vec<_>>().join(","));
        }
    }
    Ok(Settings::resolve(experiment.parameters(), level, &overrides)?)
}

/// Prints a plan.
pub fn print_plan(plan: &Plan, json: bool) -> Result<Exit, Failure> {
    if json {
        println!("{}", serde_json::to_string_pretty(plan).map_err(|error| Failure::usage(error.to_string()))?);
        return Ok(ExitCode::Done.into());
    }
    println!("{} (seed {})", plan.kind, plan.seed.0);
    for (name, value) in &plan.settings {
        println!("  {name} = {value}");
    }
    println!("steps:");
    for (number, step) in plan.steps.iter().enumerate() {
        println!("  {:>3}. {} [{}]", number + 1, step.action, step.target);
    }
    println!("writes at most {}", senesce_core::Bytes(plan.bytes_to_write));
    println!("estimated time {:.0} s", plan.estimated_seconds);
    Ok(ExitCode::Done.into())
}
