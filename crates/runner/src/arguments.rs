//! Flags of experiments, made from their specifications: one definition feeds help, parsing, checks and the record.

use crate::{Experiment, ParameterDescription};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Failure, Level, Seed};
use serde_json::{Map, Value};

const LEVELS: [Level; 3] = [Level::Smoke, Level::Quick, Level::Paper];

/// Adds to `command` a flag for every parameter of the experiment, `--seed`, and `--set NAME=VALUE` for any of them.
pub(crate) fn arguments<R: Experiment>(command: Command) -> Command {
    let defaults = LEVELS.map(|level| written::<R>(level));
    // The doc comment of the specification is for readers of the code.
    let about = command.get_about().cloned().unwrap_or_default();
    let command = R::Spec::augment_args_for_update(command).about(about).long_about(None);
    let command = command.next_help_heading("Parameters");
    let names: Vec<String> = command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
    let command = names.iter().fold(command, |command, name| {
        let Some(text) = default_text(&defaults, name) else { return command };
        command.mut_arg(name, |argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            argument.help(format!("{help} [{text}]")).help_heading("Parameters")
        })
    });
    command
        .arg(
            Arg::new("seed")
                .long("seed")
                // A plan (TOML) cannot store larger integers.
                .value_parser(clap::value_parser!(u64).range(..=i64::MAX as u64))
                .help_heading("Parameters")
                .help(format!("root seed of all random choices [default: {}]", DEFAULT_SEED.0)),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Set a parameter; the same as --NAME VALUE"),
        )
}

pub(crate) fn described<R: Experiment>() -> Vec<ParameterDescription> {
    let defaults = LEVELS.map(|level| written::<R>(level));
    let command = R::Spec::augment_args_for_update(Command::new(R::KIND));
    let describe = |argument: &Arg| {
        let name = argument.get_id().as_str();
        Some(ParameterDescription {
            name: argument.get_long()?.into(),
            help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
            defaults: defaults.each_ref().map(|values| value_of(values, name).map_or(String::new(), text)),
        })
    };
    command.get_arguments().filter_map(describe).collect()
}

/// Returns the specification at `level` with the user's values, and the seed.
pub(crate) fn read_arguments<R: Experiment>(level: Level, chosen: &ArgMatches) -> Result<(R::Spec, Seed), Failure> {
    let mut spec = R::defaults(level);
    let mut seed = DEFAULT_SEED.0;
    let mut update = |matches: &ArgMatches| -> Result<(), Failure> {
        spec.update_from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
        if let Some(given) = matches.get_one::<u64>("seed") {
            seed = *given;
        }
        Ok(())
    };
    let pairs: Vec<_> = chosen.get_many::<String>("set").into_iter().flatten().map(|pair| as_flag(pair)).collect();
    let pairs = pairs.into_iter().collect::<Result<Vec<String>, Failure>>();
    let command = arguments::<R>(Command::new(R::KIND).no_binary_name(true));
    let set = command.try_get_matches_from(pairs?).map_err(|error| Failure::usage(plain(&error.to_string())))?;
    update(&set)?;
    update(chosen)?;
    Ok((spec, Seed(seed)))
}

fn as_flag(pair: &str) -> Result<String, Failure> {
    match pair.contains('=') {
        true => Ok(format!("--{pair}")),
        false => Err(Failure::usage(format!("--set {pair}: write NAME=VALUE, for example --set seed=7"))),
    }
}

/// Returns clap's error without its heading.
fn plain(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split("\n\nUsage").next().unwrap_or(text).split("\n\nFor more").next().unwrap_or(text).trim().to_string()
}

fn written<R: Experiment>(level: Level) -> Map<String, Value> {
    match serde_json::to_value(R::defaults(level)) {
        Ok(Value::Object(values)) => values,
        _ => Map::new(),
    }
}

/// Returns `default: 4` if all levels agree, else the default of each.
fn default_text(defaults: &[Map<String, Value>; 3], name: &str) -> Option<String> {
    let [smoke, quick, paper] = defaults.each_ref().map(|values| value_of(values, name));
    let (smoke, quick, paper) = (smoke?, quick?, paper?);
    Some(match smoke == quick && quick == paper {
        true => format!("default: {}", text(quick)),
        false => format!("smoke: {}; quick: {}; paper: {}", text(smoke), text(quick), text(paper)),
    })
}

/// Returns a default by the name of its field, which may be in kebab case in the record.
fn value_of<'a>(values: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    values.get(name).or_else(|| values.get(&name.replace('_', "-")))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Null => "none".into(),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or_else(String::new, |real| real.to_string()),
        other => other.to_string(),
    }
}
