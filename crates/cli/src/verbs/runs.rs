//! `senesce runs list|history|import|label|latest|repeat|rm`.

mod history;
mod import;
mod repeat;

use crate::Exit;
use crate::arguments::{self, Eligible, newest, run_paths};
use crate::display::print_table;
use crate::output::output_failed;
use crate::registry::REGISTRY;
use crate::session::{Session, runs_directory};
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use history::History;
use import::Import;
use repeat::Repeat;
use senesce_core::record::RecordError;
use senesce_core::{Bytes, ExitCode, Failure, IoFailure, Record, Table};
use senesce_runs::history::{State, damage, each_record};
use senesce_runs::tidy::{self, RemovableRun};
use serde_json::json;
use std::io::{BufRead, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

/// Recorded runs
#[derive(Args)]
pub(crate) struct Runs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the runs in a directory
    List(List),
    /// Print the path of the newest run
    Latest {
        /// Directory to search [default: ./senesce-runs]
        directory: Option<PathBuf>,
    },
    /// Show runs by date, their metrics and changes of level
    History(History),
    /// Convert results of another program into a run
    Import(Import),
    /// Run the plan of a record again
    Repeat(Repeat),
    /// Label runs, as --label does
    Label {
        /// Label; an empty one removes it
        text: String,
        /// Run directories
        #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
              add = ArgValueCompleter::new(arguments::complete_run))]
        runs: Vec<PathBuf>,
    },
    /// Remove runs with their directories; never follows links
    Rm(Remove),
}

#[derive(Args)]
struct List {
    /// Directory to search [default: ./senesce-runs]
    directory: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Remove {
    /// Run directories
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// Remove without asking
    #[arg(long, short, help_heading = "Output")]
    yes: bool,
}

impl Verb for Runs {
    const NAME: &'static str = "runs";
    const ABOUT: &'static str = "List, label, import, repeat and remove recorded runs";
    const EXAMPLES: &'static [&'static str] =
        &["senesce runs list", "senesce runs history --trend", "senesce runs label main latest"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::List(list) => list.print(),
            Action::History(history) => history.run(session),
            Action::Import(import) => import.run(),
            Action::Repeat(repeat) => repeat.run(session),
            Action::Rm(remove) => remove.run(),
            Action::Latest { directory } => {
                let newest = newest(&directory.unwrap_or_else(runs_directory), Eligible::ANY);
                println!("{}", newest.map_err(Failure::usage)?.display());
                Ok(ExitCode::Done.into())
            }
            Action::Label { text, runs } => {
                tidy::label(&runs, text.trim())?;
                Ok(ExitCode::Done.into())
            }
        }
    }
}

impl List {
    fn print(self) -> Result<Exit, Failure> {
        if let Some(named) = self.directory.as_ref().filter(|named| !named.is_dir()) {
            return Err(Failure::usage(format!("{} is not a directory", named.display())));
        }
        let directory = self.directory.unwrap_or_else(runs_directory);
        let error = std::fs::read_dir(&directory).err();
        if let Some(denied) = error.filter(|error| error.kind() == ErrorKind::PermissionDenied) {
            return Err(RecordError::from(IoFailure::new("list", directory, denied)).into());
        }
        let table = listed(&directory);
        if self.json {
            let list: Vec<_> = table
                .rows
                .iter()
                .map(|row| {
                    json!({
                        "run": row[0], "kind": row[1], "seed": row[2], "state": row[3], "events": row[4], "vm": row[5],
                        "command": row[6],
                    })
                })
                .collect();
            println!("{}", serde_json::Value::Array(list));
        } else if table.rows.is_empty() {
            eprintln!("no runs in {}\nhint: runs are stored there or in the directory of --out", directory.display());
        } else {
            print_table(&mut crate::output::stdout(), &table).map_err(output_failed)?;
        }
        Ok(ExitCode::Done.into())
    }
}

/// State of a run that reports refuse; they print the reason.
const DAMAGED: &str = "damaged";

fn state(record: &Record) -> String {
    match damage(&REGISTRY, record) {
        Some((State::Unreadable, why)) => why,
        Some(_) => DAMAGED.into(),
        None if record.is_partial() => "partial".into(),
        None => "complete".into(),
    }
}

fn listed(directory: &Path) -> Table {
    let mut table = Table::new("runs", "", &["run", "kind", "seed", "state", "events", "vm", "command"]);
    let rows = each_record(&run_paths(directory), |path, opened| {
        let name = path.display().to_string();
        match opened {
            Ok(record) => vec![
                json!(name),
                json!(record.plan.kind),
                json!(record.plan.seed.0),
                json!(state(&record)),
                json!(record.events.len()),
                json!(record.environment.accelerator()),
                json!(record.plan.command),
            ],
            Err(error) => {
                let state = if error.is_damage() { DAMAGED.into() } else { error.to_string() };
                vec![json!(name), json!(null), json!(null), json!(state), json!(0), json!(null), json!("")]
            }
        }
    });
    rows.into_iter().for_each(|row| table.row(row));
    table
}

impl Remove {
    fn run(self) -> Result<Exit, Failure> {
        let mut names = self.runs;
        names.sort();
        names.dedup();
        let runs = names.iter().map(|run| RemovableRun::claim(run)).collect::<Result<Vec<_>, Failure>>()?;
        if !self.yes && !agreed(&runs)? {
            eprintln!("nothing was removed");
            return Ok(ExitCode::Negative.into());
        }
        for run in runs {
            let path = run.path().to_path_buf();
            run.remove()?;
            println!("removed {}", path.display());
        }
        Ok(ExitCode::Done.into())
    }
}

fn agreed(runs: &[RemovableRun]) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            ExitCode::Refused,
            "cannot ask for confirmation: standard input is not a terminal\nhint: confirm with --yes",
        ));
    }
    for run in runs {
        eprintln!("{}  {}", run.path().display(), run.size());
    }
    let total = Bytes(runs.iter().map(|run| run.size().0).sum());
    eprintln!(
        "remove {} with {total}? [y/N]",
        if runs.len() == 1 { "this run".into() } else { format!("these {} runs", runs.len()) }
    );
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(ExitCode::RunFailed, format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Environment, Plan, RunDirectory, Seed};

    #[test]
    fn list_shows_runs_of_guests() {
        let directory = tempfile::tempdir().unwrap();
        for (name, accelerator) in [("guest", Some("uml")), ("host", None)] {
            let mut facts = Environment::default();
            accelerator.into_iter().for_each(|word| facts.put("vm.accelerator", word));
            let plan = Plan::default_of("bench", Seed(1));
            let mut run = RunDirectory::open(&directory.path().join(name), &plan, &facts).unwrap();
            run.append("interrupted", &()).unwrap();
        }
        let table = listed(directory.path());
        let column = table.columns.iter().position(|column| column == "vm").unwrap();
        let found: Vec<_> = table.rows.iter().map(|row| row[column].clone()).collect();
        assert_eq!(found, [json!("uml"), json!(null)]);
    }
}
