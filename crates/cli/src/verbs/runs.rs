//! `senesce runs`: the run directories there are.

use crate::Exit;
use crate::arguments::run_paths;
use crate::display::print_table;
use crate::session::{Session, runs_directory};
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::{ExitCode, Failure, Record, Table};
use serde_json::json;
use std::path::PathBuf;

/// List runs
#[derive(Args)]
pub struct Runs {
    /// Where to look
    #[arg(help = "Where to look [default: ./senesce-runs]")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Runs {
    const NAME: &'static str = "runs";
    const ABOUT: &'static str = "List run directories with their state";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        if let Some(named) = self.directory.as_ref().filter(|named| !named.is_dir()) {
            return Err(Failure::usage(format!("{} is no directory; name one that holds runs", named.display())));
        }
        let directory = self.directory.unwrap_or_else(runs_directory);
        let mut table = Table::new("runs", "", &["run", "kind", "seed", "state", "events", "command"]);
        for path in run_paths(&directory) {
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
