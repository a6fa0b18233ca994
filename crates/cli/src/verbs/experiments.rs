//! `senesce experiments`: what can be reproduced.

use crate::Exit;
use crate::display::print_table;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure, Table};
use senesce_experiments::registry::EXPERIMENTS;
use serde_json::json;

/// List the published experiments that can be reproduced
#[derive(Args)]
pub struct Experiments {
    /// Print JSON, with every parameter and its defaults
    #[arg(long)]
    json: bool,
}

impl Verb for Experiments {
    const NAME: &'static str = "experiments";
    const ABOUT: &'static str = "List the published experiments that can be reproduced";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        if self.json {
            let list: Vec<_> = EXPERIMENTS
                .iter()
                .map(|experiment| {
                    let parameters: Vec<_> = experiment
                        .parameters()
                        .iter()
                        .map(|p| json!({"name": p.name, "help": p.help, "smoke": p.defaults[0], "quick": p.defaults[1], "paper": p.defaults[2]}))
                        .collect();
                    json!({"id": experiment.kind(), "title": experiment.title(), "parameters": parameters})
                })
                .collect();
            println!("{}", serde_json::Value::Array(list));
            return Ok(ExitCode::Done.into());
        }
        let mut table = Table::new("experiments", "", &["id", "what it shows"]);
        for experiment in EXPERIMENTS {
            table.row(vec![json!(experiment.kind()), json!(experiment.title())]);
        }
        print_table(&mut std::io::stdout().lock(), &table).map_err(crate::verbs::report::output_failed)?;
        println!("\n`senesce doc ID` explains one, `senesce reproduce ID --scale quick` runs it.");
        Ok(ExitCode::Done.into())
    }
}
