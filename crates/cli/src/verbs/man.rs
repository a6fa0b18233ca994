//! `senesce man`: the manual page.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};

/// Print the manual page in roff
#[derive(Args)]
pub struct Man {
    /// The verb to describe; without it, senesce itself
    verb: Option<String>,
}

impl Verb for Man {
    const NAME: &'static str = "man";
    const ABOUT: &'static str = "Print the manual page in roff (senesce man | man -l -)";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let root = crate::command();
        let command = match &self.verb {
            None => root,
            Some(name) => root
                .get_subcommands()
                .find(|command| command.get_name() == name)
                .cloned()
                .ok_or_else(|| Failure::usage(format!("there is no verb '{name}'; `senesce --help` lists them")))?,
        };
        clap_mangen::Man::new(command)
            .render(&mut std::io::stdout().lock())
            .map_err(crate::verbs::report::output_failed)?;
        Ok(ExitCode::Done.into())
    }
}
