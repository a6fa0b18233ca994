//! `senesce completions SHELL`.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};

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
        clap_complete::generate(self.shell, &mut crate::command(), "senesce", &mut std::io::stdout().lock());
        Ok(ExitCode::Done.into())
    }
}
