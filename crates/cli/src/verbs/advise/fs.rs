//! `senesce advise fs`.

use crate::Exit;
use crate::display::print_table;
use crate::output::Output;
use crate::session::Session;
use crate::verbs::carry::show_record;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::failure::errno_message;
use senesce_core::output::Format;
use senesce_core::{Bytes, ExitCode, Failure, RunDirectory, Seed, Span};
use senesce_runs::run::{Conduct, Run, State, conduct};
use senesce_study::advise::{self, Asked, PURPOSES, Purpose};
use senesce_study::{Study, StudySpec};
use senesce_volume::FileSystem;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Fs {
    /// What the volume is for
    #[arg(long = "for", value_name = "PURPOSE", value_parser = clap::builder::PossibleValuesParser::new(PURPOSES.map(|one| one.name)))]
    purpose: String,
    /// Measure on this drive instead of images on loop devices
    #[arg(long, value_name = "DEV")]
    on: Option<PathBuf>,
    /// Time of all runs; making the images comes on top, once
    #[arg(long, value_name = "TIME", default_value = "1h")]
    budget: Span,
    /// Candidates, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "FS,FS",
        help = "Candidates, separated by commas [default: what this machine can make and mount]"
    )]
    candidates: Vec<String>,
    /// Size of each image
    #[arg(long, default_value = "1G")]
    size: Bytes,
    /// Where the study is written
    #[arg(long, value_name = "FILE", help = "Where the study is written [default: advise-PURPOSE.toml]")]
    study: Option<PathBuf>,
    /// Run directory
    #[arg(long, short, value_name = "RUNDIR", help = "Run directory [default: senesce-runs/study-HASH]")]
    out: Option<PathBuf>,
    /// Allow the run the loss of what is on the drive: repeats its path or serial number
    #[arg(long, value_name = "IDENTITY")]
    erase: Option<String>,
    /// Write and show the study and stop
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

impl Fs {
    pub fn run(self, session: &Session) -> Result<Exit, Failure> {
        let purpose = Purpose::named(&self.purpose).ok_or_else(|| Failure::usage("name a purpose"))?;
        if let (Some((program, package)), false) = (purpose.missing(), self.dry_run) {
            let words = format!("{} is measured with {program}: apt-get install {package}", purpose.name);
            return Err(Failure::new(ExitCode::Missing, words));
        }
        let file_systems = if self.candidates.is_empty() { possible() } else { self.candidates.clone() };
        if file_systems.len() < 2 {
            return Err(Failure::usage(format!(
                "there is nothing to choose between: this machine can make and mount {}; install xfsprogs or btrfs-progs, or name --candidates",
                if file_systems.is_empty() { "no file system".into() } else { file_systems.join(", ") }
            )));
        }
        let (size, budget, device) = (self.size, self.budget, self.on.clone());
        let text = advise::study(&Asked { purpose, file_systems, size, budget, device });
        let file = self.study.clone().unwrap_or_else(|| format!("advise-{}.toml", purpose.name).into());
        let spec = StudySpec::parse(&file.to_string_lossy(), &text)?;
        if let (Some(out), false) = (&self.out, self.dry_run) {
            RunDirectory::check(out)?;
        }
        self.keep(&file, &text)?;
        if !purpose.note.is_empty() {
            eprintln!("note: {}", purpose.note);
        }
        eprintln!("{}:\n\n{text}", file.display());
        let seed = Seed(spec.seed);
        if self.dry_run {
            return crate::verbs::reproduce::print_plan(&Study::plan(&spec, seed)?, self.json);
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
            said.iter().for_each(|words| println!("{words}"));
            for table in [ranking, pairs].iter().filter(|table| !table.rows.is_empty()) {
                println!("\n{}", table.title);
                print_table(&mut crate::output::stdout(), table).map_err(output_failed)?;
            }
        }
        if outcome.state == State::WasDone {
            eprintln!("measured before; this is the result of {}", outcome.path.display());
        }
        Ok(show_record(&outcome))
    }

    /// Writes the study; one that is there and was changed is the user's, and stays.
    fn keep(&self, file: &Path, text: &str) -> Result<(), Failure> {
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
        if !is_file || self.output.replaces() {
            return self.output.write(file, Format::Text, text.as_bytes());
        }
        match std::fs::read(file) {
            Ok(found) if found == text.as_bytes() => Ok(()),
            Ok(_) => Err(Failure::new(
                ExitCode::Refused,
                format!(
                    "{0} is there and is another study; run it with `senesce study {0}`, name another file with --study, or allow \
                     its loss with --force",
                    file.display()
                ),
            )),
            Err(error) => Err(Failure::usage(format!("read {}: {}", file.display(), errno_message(&error)))),
        }
    }
}

/// What this machine can make and mount.
fn possible() -> Vec<String> {
    let is_possible = |one: &FileSystem| one.is_supported() && one.mkfs_version().is_ok();
    FileSystem::ALL.into_iter().filter(is_possible).map(|one| one.name().to_string()).collect()
}
