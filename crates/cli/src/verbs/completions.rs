//! `senesce completions SHELL`.

use crate::Exit;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use clap_complete::env::Shells;
use senesce_core::{ExitCode, Failure};

pub const VARIABLE: &str = "COMPLETE";

/// Print shell completions
#[derive(Args)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

impl Verb for Completions {
    const NAME: &'static str = "completions";
    const ABOUT: &'static str = "Print completions for bash, zsh, fish, elvish or powershell";
    const EXAMPLES: &'static [&'static str] = &["senesce completions bash"];

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell).ok_or_else(|| Failure::usage("unknown shell"))?;
        let mut out = std::io::stdout().lock();
        shell.write_registration(VARIABLE, "senesce", "senesce", "senesce", &mut out).map_err(output_failed)?;
        Ok(ExitCode::Done.into())
    }
}
