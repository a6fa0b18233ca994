//! `senesce runs`: the run directories there are; names the newest, labels and removes them.

use crate::Exit;
use crate::arguments::{self, newest, run_paths};
use crate::display::print_table;
use crate::session::{Session, runs_directory};
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use senesce_core::{Bytes, ExitCode, Failure, Record, Table};
use senesce_runs::tidy::{self, Removable};
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

/// List runs, name the newest, label and remove them
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Runs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    list: List,
}

#[derive(Args)]
struct List {
    /// Where to look
    #[arg(help = "Where to look [default: ./senesce-runs]")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Remove runs with all that is in their directories; never follows links
    Rm(Remove),
    /// Print the path of the run to which something was written last
    Latest {
        /// Where to look
        #[arg(help = "Where to look [default: ./senesce-runs]")]
        directory: Option<PathBuf>,
    },
    /// Give finished or interrupted runs a label, as --label does when running
    Label {
        /// The label; an empty one takes it away
        text: String,
        /// Run directories
        #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
              add = ArgValueCompleter::new(arguments::complete_run))]
        runs: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct Remove {
    /// Run directories
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Verb for Runs {
    const NAME: &'static str = "runs";
    const ABOUT: &'static str = "List run directories, name the newest, label and remove them";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        match self.what {
            None => self.list.print(),
            Some(What::Rm(remove)) => remove.run(),
            Some(What::Latest { directory }) => {
                println!("{}", newest(&directory.unwrap_or_else(runs_directory)).map_err(Failure::usage)?.display());
                Ok(ExitCode::Done.into())
            }
            Some(What::Label { text, runs }) => {
                tidy::label(&runs, text.trim())?;
                Ok(ExitCode::Done.into())
            }
        }
    }
}

impl List {
    fn print(self) -> Result<Exit, Failure> {
        if let Some(named) = self.directory.as_ref().filter(|named| !named.is_dir()) {
            return Err(Failure::usage(format!("{} is no directory; name one that holds runs", named.display())));
        }
        let directory = self.directory.unwrap_or_else(runs_directory);
        let table = listed(&directory);
        if self.json {
            let list: Vec<_> = table
                .rows
                .iter()
                .map(|row| json!({"run": row[0], "kind": row[1], "seed": row[2], "state": row[3], "events": row[4], "command": row[5]}))
                .collect();
            println!("{}", serde_json::Value::Array(list));
        } else if table.rows.is_empty() {
            eprintln!("no runs in {}; runs are kept there or where --out says", directory.display());
        } else {
            print_table(&mut crate::output::stdout(), &table).map_err(output_failed)?;
        }
        Ok(ExitCode::Done.into())
    }
}

fn listed(directory: &Path) -> Table {
    let mut table = Table::new("runs", "", &["run", "kind", "seed", "state", "events", "command"]);
    for path in run_paths(directory) {
        let name = path.display().to_string();
        table.row(match Record::open(&path) {
            Ok(record) => vec![
                json!(name),
                json!(record.plan.kind),
                json!(record.plan.seed.0),
                json!(if record.is_partial() { "partial" } else { "complete" }),
                json!(record.events.len()),
                json!(record.plan.command),
            ],
            Err(error) => {
                vec![json!(name), json!(null), json!(null), json!(error.to_string()), json!(0), json!("")]
            }
        });
    }
    table
}

impl Remove {
    /// All are looked at before the first one goes.
    fn run(self) -> Result<Exit, Failure> {
        let mut names = self.runs;
        names.sort();
        names.dedup();
        let runs = names.iter().map(|run| Removable::claim(run)).collect::<Result<Vec<_>, Failure>>()?;
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

fn agreed(runs: &[Removable]) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(ExitCode::Refused, "nobody can be asked here; to remove the runs unasked say --yes"));
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
        .map_err(|error| Failure::new(ExitCode::RunFailed, format!("read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
