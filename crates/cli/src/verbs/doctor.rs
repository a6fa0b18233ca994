//! `senesce doctor`: what this machine can do, and how to get the rest.

use crate::Exit;
use crate::session::Session;
use crate::table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use senesce_experiments::doctor::{State, examine};
use serde_json::json;

/// Say what works on this machine and how to get what does not
#[derive(Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Verb for Doctor {
    const NAME: &'static str = "doctor";
    const ABOUT: &'static str = "Say what works on this machine and how to get what does not";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let checks = examine();
        if self.json {
            let list: Vec<_> = checks
                .iter()
                .map(|check| json!({"what": check.what, "needed_for": check.needed_for, "ok": check.state == State::Works, "found": check.found, "remedy": check.remedy}))
                .collect();
            println!("{}", serde_json::Value::Array(list));
            return Ok(ExitCode::Done.into());
        }
        for check in &checks {
            let mark = if check.state == State::Works { "ok     " } else { "missing" };
            println!("{mark}  {:<22} {:<34} {}", check.what, check.found, check.needed_for);
            if check.state == State::Missing {
                println!("         {:<22} -> {}", "", check.remedy);
            }
        }
        Ok(ExitCode::Done.into())
    }
}
