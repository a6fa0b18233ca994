//! `senesce study --for PURPOSE`.

use crate::Exit;
use crate::display::{print_plan, print_table, show_record, terminal_width};
use crate::messages::wrapped;
use crate::output::output_failed;
use crate::session::Session;
use clap::Args;
use senesce_core::failure::errno_message;
use senesce_core::output::Format;
use senesce_core::{Bytes, ExitCode, Failure, RunDirectory, Seed, Span};
use senesce_runner::{Conduct, Run, State, conduct};
use senesce_study::advise::{self, AdviceRequest, PURPOSES, Purpose};
use senesce_study::{Study, StudySpec};
use senesce_volume::FileSystem;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of a study that senesce writes for a purpose.
#[derive(Args)]
pub(crate) struct Advice {
    /// mail, web, build, database or objects
    #[arg(long = "for", value_name = "PURPOSE", help_heading = "Comparison for a purpose", hide_possible_values = true,
          value_parser = clap::builder::PossibleValuesParser::new(PURPOSES.map(|one| one.name)))]
    pub purpose: Option<String>,
    /// Drive to measure on [default: images]
    #[arg(long, value_name = "DEV", requires = "purpose", help_heading = "Comparison for a purpose")]
    on: Option<PathBuf>,
    /// File systems, separated by commas [default: all here]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "FS",
        requires = "purpose",
        help_heading = "Comparison for a purpose"
    )]
    candidates: Vec<String>,
    /// Size of each image [default: 1G]
    #[arg(long, requires = "purpose", help_heading = "Comparison for a purpose")]
    size: Option<Bytes>,
    /// File for the study [default: study-PURPOSE.toml]
    #[arg(long, value_name = "FILE", requires = "purpose", help_heading = "Comparison for a purpose")]
    save: Option<PathBuf>,
}

impl super::Study {
    pub(crate) fn advise(self, session: &Session) -> Result<Exit, Failure> {
        let purpose = self.advice.purpose.as_deref().and_then(Purpose::named);
        let purpose = purpose.ok_or_else(|| Failure::usage("unknown purpose"))?;
        if let (Some((program, package)), false) = (purpose.missing(), self.dry_run) {
            let words = format!("{} needs {program}\nhint: apt-get install {package}", purpose.name);
            return Err(Failure::new(ExitCode::Missing, words));
        }
        let file_systems = if self.advice.candidates.is_empty() { possible() } else { self.advice.candidates.clone() };
        if file_systems.len() < 2 {
            return Err(Failure::usage(format!(
                "a comparison needs two file systems, and this machine can make and mount {}\nhint: install xfsprogs or btrfs-progs",
                if file_systems.is_empty() { "no file system".into() } else { file_systems.join(", ") }
            )));
        }
        let size = self.advice.size.unwrap_or(Bytes::gib(1));
        let (budget, device) = (self.max_time.unwrap_or(Span(Duration::from_secs(3600))), self.advice.on.clone());
        let text = advise::study(&AdviceRequest { purpose, file_systems, size, budget, device });
        let file = self.advice.save.clone().unwrap_or_else(|| format!("study-{}.toml", purpose.name).into());
        let spec = StudySpec::parse(&file.to_string_lossy(), &text)?;
        if let (Some(out), false) = (&self.out, self.dry_run) {
            RunDirectory::check(out)?;
        }
        if self.is_to_be_written(&file, &text)? && !self.dry_run {
            self.output.write(&file, Format::Text, text.as_bytes())?;
        }
        if !purpose.note.is_empty() {
            eprintln!("note: {}", purpose.note);
        }
        eprintln!("{}:\n\n{text}", file.display());
        let seed = Seed(spec.seed);
        if self.dry_run {
            return print_plan(&Study::plan(&spec, seed)?, self.json);
        }
        let interrupt = session.interrupt()?;
        let how = Conduct { out: self.out, erase: self.erase, ..session.conduct(&interrupt) };
        let outcome = conduct::<Study>(&spec, seed, &how)?;
        session.clear();
        let result = &outcome.analysis.result;
        let (ranking, pairs, said) = (advise::ranking(result), advise::pairs(result), advise::sentences(result));
        if self.json {
            let note = (!purpose.note.is_empty()).then_some(purpose.note);
            println!(
                "{:#}",
                json!({"for": purpose.name, "note": note, "study": file, "run": outcome.path, "answer": said,
                "groups": result["groups"], "pairs": result["pairs"]})
            );
        } else {
            let width = terminal_width();
            said.iter().for_each(|words| println!("{}", wrapped(words, width, 0)));
            for table in [ranking, pairs].iter().filter(|table| !table.rows.is_empty()) {
                println!("\n{}", wrapped(&table.title, width, 0));
                print_table(&mut crate::output::stdout(), table).map_err(output_failed)?;
            }
        }
        if outcome.state == State::WasDone {
            eprintln!("already done: result of {}", outcome.path.display());
        }
        Ok(show_record(&outcome))
    }

    /// Returns whether the file lacks the study; refuses one that holds something else.
    fn is_to_be_written(&self, file: &Path, text: &str) -> Result<bool, Failure> {
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
        if !is_file || self.output.replaces() {
            self.output.check(Some(file), Format::Text, text.as_bytes())?;
            return Ok(true);
        }
        match std::fs::read(file) {
            Ok(found) if found == text.as_bytes() => Ok(false),
            Ok(_) => Err(Failure::new(
                ExitCode::Refused,
                format!(
                    "{0} exists and contains another study\n\
                     hint: run it with `senesce study {0}`, or choose --save FILE or --force",
                    file.display()
                ),
            )),
            Err(error) => Err(Failure::usage(format!("cannot read {}: {}", file.display(), errno_message(&error)))),
        }
    }
}

fn possible() -> Vec<String> {
    let is_possible = |one: &FileSystem| one.is_supported() && one.mkfs_version().is_ok();
    FileSystem::ALL.into_iter().filter(is_possible).map(|one| one.name().to_string()).collect()
}
