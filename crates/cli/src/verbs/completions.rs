//! `senesce completions SHELL`.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use std::io::Write;

/// Print shell completions
#[derive(Args)]
pub struct Completions {
    /// Shell
    shell: clap_complete::Shell,
}

impl Verb for Completions {
    const NAME: &'static str = "completions";
    const ABOUT: &'static str = "Print completions for bash, zsh, fish, elvish or powershell";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        // Written to memory first: the generator panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "senesce", &mut script);
        std::io::stdout().lock().write_all(&script).map_err(crate::verbs::report::output_failed)?;
        Ok(ExitCode::Done.into())
    }
}
