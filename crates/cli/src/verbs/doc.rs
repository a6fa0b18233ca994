//! `senesce doc NAME`: the doc page of an experiment or a verb.

use crate::Exit;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};

/// Show the documentation of an experiment or a verb
#[derive(Args)]
pub struct Doc {
    /// Experiment or verb; without it, the list of pages
    #[arg(add = clap_complete::ArgValueCompleter::new(crate::arguments::complete_page))]
    name: Option<String>,
}

impl Verb for Doc {
    const NAME: &'static str = "doc";
    const ABOUT: &'static str = "Show the documentation page of an experiment or a verb";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let Some(name) = self.name else {
            for page in REGISTRY.pages() {
                println!("{page}");
            }
            return Ok(ExitCode::Done.into());
        };
        println!("{}", REGISTRY.page(&name)?.trim_end());
        Ok(ExitCode::Done.into())
    }
}
