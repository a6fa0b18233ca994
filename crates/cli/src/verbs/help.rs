//! `senesce help [PAGE]`: documentation pages and manual pages.

mod manual;

use crate::Exit;
use crate::pages;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::Args;
use senesce_core::{ExitCode, Failure};
use std::path::PathBuf;

/// Show the documentation of a verb, an experiment or a topic
#[derive(Args)]
pub(crate) struct Help {
    #[arg(add = clap_complete::ArgValueCompleter::new(crate::arguments::complete_page),
          help = "Verb, experiment or topic [default: list of pages]")]
    page: Option<String>,
    /// Print the manual page in roff
    #[arg(long, help_heading = "Output")]
    man: bool,
    /// Write all manual pages into DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["page", "man"], help_heading = "Output")]
    man_pages: Option<PathBuf>,
}

impl Verb for Help {
    const NAME: &'static str = "help";
    const ABOUT: &'static str = "Show the page of a verb, an experiment or a topic";
    const EXAMPLES: &'static [&'static str] = &["senesce help age", "senesce help frag-intra"];

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        if let Some(directory) = &self.man_pages {
            return manual::write_all(directory);
        }
        match (self.page, self.man) {
            (page, true) => manual::print(page.as_deref())?,
            (None, false) => pages::names().iter().for_each(|page| println!("{page}")),
            (Some(page), false) => println!("{}", pages::without_comments(pages::page(&page)?).trim_end()),
        }
        Ok(ExitCode::Done.into())
    }
}
