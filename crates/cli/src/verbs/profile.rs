//! `senesce profile list | show | capture | import | table`.

use crate::Exit;
use crate::display::{print_analysis, print_table, print_table_within, terminal_width};
use crate::experiment_text::Tables;
use crate::messages;
use crate::output::Output;
use crate::output::output_failed;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, Subcommand};
use senesce_aging::profile::{MOST_CHANGES, import_geriatrix};
use senesce_aging::{
    AgingPlan, CaptureOptions, CapturedProfile, PlanSpec, Profile, Truncate, capture, capture_list, capture_since,
    overview,
};
use senesce_core::output::Format;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Bytes, ExitCode, Failure, Table};
use senesce_exp_aging::age::words;
use senesce_layout::names::shell_word;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

const BEGINNING: &[u8] = b"name =";

/// List, show, capture and import profiles
#[derive(Args)]
pub(crate) struct ProfileVerb {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the built-in profiles
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the histograms of a profile, and its plan for a volume
    Show(Show),
    /// Make a profile from a tree or a list of files, without names
    Capture(Capture),
    /// Make a profile from the three text files of Geriatrix
    Import(Import),
    /// Plan every built-in profile for one volume
    Table {
        /// Size of the volume
        #[arg(long, default_value = "1G", help_heading = "Volume")]
        size: Bytes,
        /// Print a Markdown table
        #[arg(long, conflicts_with = "json", help_heading = "Output")]
        markdown: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Show {
    /// Built-in profile, or a TOML file
    #[arg(add = clap_complete::ArgValueCompleter::new(crate::arguments::complete_profile))]
    profile: String,
    /// Size of a volume to plan for
    #[arg(long, help_heading = "Volume")]
    size: Option<Bytes>,
    /// Fullness [default: the profile's, or 80%]
    #[arg(long, value_name = "SHARE", value_parser = words::share, help_heading = "Volume")]
    fullness: Option<f64>,
    /// Large files: refuse (default), drop, clamp
    #[arg(long, value_name = "HOW", default_value = "refuse", hide_default_value = true, value_parser = words::truncate(), hide_possible_values = true,
          help_heading = "Volume")]
    truncate_sizes: Truncate,
    /// Print the profile as TOML
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    toml: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Capture {
    /// Directory to walk, without the file systems mounted below it
    #[arg(required_unless_present = "from_list", conflicts_with = "from_list")]
    directory: Option<PathBuf>,
    /// Later snapshot of DIRECTORY, to capture rates of change too
    later: Option<PathBuf>,
    /// List of files, from find -printf '%s %T@ %P\n'
    #[arg(long, value_name = "FILE", help_heading = "Profile")]
    from_list: Option<PathBuf>,
    /// Name of the profile
    #[arg(long, default_value = "captured", help_heading = "Profile")]
    name: String,
    /// Maximum operations per file and edge
    #[arg(long, default_value = "100", value_name = "N", help_heading = "Profile")]
    max_cost: f64,
    /// Threads [default: one per processor]
    #[arg(long, value_name = "N", help_heading = "Profile")]
    threads: Option<usize>,
    /// File for the profile [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the profile and its statistics as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Import {
    /// File with the age distribution
    #[arg(value_name = "AGES")]
    age: PathBuf,
    /// File with the size distribution
    #[arg(value_name = "SIZES")]
    size: PathBuf,
    /// File with the directory distribution
    #[arg(value_name = "DIRECTORIES")]
    dir: PathBuf,
    /// Name of the profile
    #[arg(long, default_value = "imported", help_heading = "Profile")]
    name: String,
    /// File for the profile [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Verb for ProfileVerb {
    const NAME: &'static str = "profile";
    const ABOUT: &'static str = "List, show, capture and import aging profiles";
    const EXAMPLES: &'static [&'static str] = &[
        "senesce profile list",
        "senesce profile show agrawal --size 10G",
        "senesce profile capture /home --name home --out home.toml",
    ];

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        match self.action {
            Action::List { json } => print(&overview::list()?, json)?,
            Action::Show(show) => show.run()?,
            Action::Capture(capture) => capture.run()?,
            Action::Import(import) => import.run()?,
            Action::Table { size, json, markdown } => {
                let make =
                    |profile| PlanSpec { truncate: Truncate::Drop, ..PlanSpec::new(profile, size, DEFAULT_SEED) };
                let table = overview::planned(make, || senesce_sys::clock::process_cpu_time().as_secs_f64())?;
                if markdown { print_markdown(&table)? } else { print(&table, json)? }
            }
        }
        Ok(ExitCode::Done.into())
    }
}

impl Show {
    fn run(self) -> Result<(), Failure> {
        let profile = Profile::load(&self.profile)?;
        if self.toml {
            return write(&profile, None, Output::default());
        }
        let plan = self.size.map(|size| {
            let spec = PlanSpec::new(profile.clone(), size, DEFAULT_SEED);
            AgingPlan::new(&PlanSpec { fullness: self.fullness, truncate: self.truncate_sizes, ..spec })
        });
        let analysis = overview::describe(&profile, plan.transpose()?.as_ref());
        print_analysis(&analysis, self.json, Tables::Whole).map_err(output_failed)
    }
}

impl Capture {
    fn run(self) -> Result<(), Failure> {
        self.output.check(self.out.as_deref(), Format::Text, BEGINNING)?;
        let mut options = CaptureOptions { name: self.name, most_per_file: self.max_cost, ..CaptureOptions::default() };
        options.threads = self.threads.unwrap_or(options.threads);
        let is_missing = |path: &&PathBuf| matches!(path.try_exists(), Ok(false));
        if let Some(missing) = self.directory.iter().chain(&self.later).chain(&self.from_list).find(is_missing) {
            return Err(Failure::usage(format!("{} does not exist", missing.display())));
        }
        let captured = match (&self.directory, &self.from_list) {
            (_, Some(list)) => capture_list(list, &options)?,
            (Some(directory), None) => match &self.later {
                Some(later) => capture_since(directory, later, &options)?,
                None => capture(directory, &options)?,
            },
            (None, None) => {
                return Err(Failure::usage("no directory given\nhint: name one, or a list with --from-list"));
            }
        };
        if self.json {
            println!("{}", json!(captured));
        } else {
            announce(&captured).map_err(output_failed)?;
        }
        if !self.json || self.out.is_some() {
            write(&captured.profile, self.out.as_deref(), self.output)?;
        }
        if let Some(file) = self.out.as_deref().filter(|file| *file != Path::new("-")) {
            eprintln!("profile: {}\nhint: senesce age image:old.img,size=1G --profile {}", file.display(), named(file));
        }
        Ok(())
    }
}

/// Returns the word that names the file of a profile, and not a built-in profile.
fn named(file: &Path) -> String {
    let word = file.display().to_string();
    shell_word(&if word.contains('/') || word.ends_with(".toml") { word } else { format!("./{word}") })
}

fn announce(captured: &CapturedProfile) -> std::io::Result<()> {
    let width = messages::width().or_else(terminal_width);
    eprintln!("{} files, {}", captured.files, Bytes(captured.bytes));
    eprintln!("ages: {} by time of birth, {} by last modification", captured.by_birth, captured.by_modification);
    let order = if captured.locality_by_inode { "inode numbers" } else { "births" };
    match captured.profile.locality {
        Some(locality) => eprintln!("temporal locality: {locality:.2}, in the order of {order}"),
        None => eprintln!("temporal locality: not measured"),
    }
    let notes = [
        (captured.unreadable, "directories are unreadable; the profile lacks their files"),
        (captured.vanished, "files disappeared during the walk"),
        (captured.other_file_systems, "mount points were skipped"),
    ];
    for (count, message) in notes.iter().filter(|(count, _)| *count > 0) {
        eprintln!("note: {count} {message}");
    }
    print_table_within(&mut std::io::stderr(), &overview::edge_costs(&captured.edges), width)?;
    let Some(observed) = &captured.changes else { return Ok(()) };
    eprintln!("{}", overview::match_description(observed.told_by));
    for class in observed.classes.iter().filter(|class| class.exceeds_churn()) {
        let message =
            format!("more than {MOST_CHANGES} changes per created file, so all rates are lowered in proportion");
        eprintln!("note: files up to {}: {message}", Bytes(class.bytes));
    }
    print_table_within(&mut std::io::stderr(), &overview::observed_changes(observed), width)
}

impl Import {
    fn run(self) -> Result<(), Failure> {
        let (age, size, dir) = (read(&self.age)?, read(&self.size)?, read(&self.dir)?);
        write(&import_geriatrix(&self.name, &age, &size, &dir)?, self.out.as_deref(), self.output)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    senesce_core::input::text(path).map_err(|error| {
        Failure::usage(format!("cannot read {}: {}", path.display(), senesce_core::failure::errno_message(&error)))
    })
}

fn write(profile: &Profile, path: Option<&Path>, output: Output) -> Result<(), Failure> {
    output.write(path.unwrap_or(Path::new("-")), Format::Text, profile.to_toml().as_bytes())
}

fn print(table: &Table, json: bool) -> Result<(), Failure> {
    if json {
        println!("{}", json!(table));
        return Ok(());
    }
    print_table(&mut crate::output::stdout(), table).map_err(output_failed)
}

fn print_markdown(table: &Table) -> Result<(), Failure> {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let cell = |value: &serde_json::Value| match value {
        serde_json::Value::Number(number) if number.is_f64() => {
            senesce_core::significant(number.as_f64().unwrap_or(f64::NAN))
        }
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut out = crate::output::stdout();
    let mut lines = vec![line(table.columns.clone()), line(table.columns.iter().map(|_| "---".into()).collect())];
    lines.extend(table.rows.iter().map(|row| line(row.iter().map(cell).collect())));
    writeln!(out, "{}", lines.join("\n")).map_err(output_failed)
}
