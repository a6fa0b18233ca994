//! `senesce compare`: runs against a reference, in words.

use crate::Exit;
use crate::arguments;
use crate::display::print_analysis;
use crate::output::Output;
use crate::output::output_failed;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use senesce_core::output::Format;
use senesce_core::{Failure, Plan, Record, Span};
use senesce_report::junit::{self, Case, Status};
use senesce_report::{ktap, markdown};
use senesce_runner::Conduct;
use senesce_runs::compare::{Comparison, Options, Row, WhenUndecided, compare, compare_until_decided, parse_share};
use senesce_stats::gate::Gate;
use senesce_stats::verdict::Decision;
use std::path::{Path, PathBuf};

/// Compare runs: the environments first, then every metric in words
#[derive(Args)]
pub struct Compare {
    /// Run directories. Without --against the first is the reference of the others
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// Reference runs, pooled; the RUNs before it are pooled too
    #[arg(long, num_args = 1.., value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    against: Vec<PathBuf>,
    /// Gate: no judged metric may lose this share (5% or 0.05); exit 1 when one does
    #[arg(long, value_name = "SHARE")]
    fail_on_regression: Option<String>,
    /// What to do when the result is inconclusive [default: exit 125, skipped in JUnit and KTAP]
    #[arg(long, value_enum, requires = "fail_on_regression")]
    undecided: Option<UndecidedWord>,
    /// By how much two single runs of the same thing are assumed to differ (2%, times in a virtual machine 20%); several runs of each
    /// side measure it
    #[arg(long, value_name = "SHARE")]
    noise: Option<String>,
    /// Run the plans of both runs again, in turn, until every judged metric (or the gate) is decided
    #[arg(long, requires_all = ["max_time", "out"], conflicts_with = "against")]
    until_decided: bool,
    /// Time after which that ends undecided, such as 1h
    #[arg(long, value_name = "TIME", requires = "until_decided")]
    max_time: Option<Span>,
    /// Directory of the runs that --until-decided makes; the same command goes on with them
    #[arg(long, short, value_name = "DIR", requires = "until_decided")]
    out: Option<PathBuf>,
    /// Allow these runs the loss of what is on their target: repeats the path or serial number
    #[arg(long, value_name = "IDENTITY", requires = "until_decided")]
    erase: Option<String>,
    /// Compare although kind, target class or engine differ
    #[arg(long)]
    even_if_different: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write Markdown to this file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write KTAP to this file
    #[arg(long, value_name = "FILE")]
    ktap: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Verb for Compare {
    const NAME: &'static str = "compare";
    const ABOUT: &'static str = "Compare runs, or gate on a regression";
    const EXAMPLES: &'static [&'static str] =
        &["senesce compare BASE RUN", "senesce compare RUN --against BASE --fail-on-regression 5%"];

    fn run(self, session: &Session) -> Result<Exit, Failure> {
        let options = Options {
            fail_on_regression: self.fail_on_regression.as_deref().map(parse_share).transpose()?,
            allow_different: self.even_if_different,
            undecided: self.undecided.map_or(WhenUndecided::CannotTell, WhenUndecided::from),
            noise: self.noise.as_deref().map(parse_share).transpose()?,
        };
        let comparison = match (&self.out, self.max_time) {
            (Some(out), Some(max_time)) => {
                self.check_outputs(b"# sample-0001")?;
                self.measured(&options, out, max_time, session)?
            }
            _ => self.recorded(&options)?,
        };
        let analysis = comparison.analysis();
        let page = markdown::render(&analysis);
        self.check_outputs(page.as_bytes())?;
        if let Some(file) = &self.markdown {
            self.output.write(file, Format::Text, page.as_bytes())?;
        }
        if let Some(file) = &self.junit {
            let text = junit::render("senesce compare", &cases(&comparison));
            self.output.write(file, Format::Xml, text.as_bytes())?;
        }
        if let Some(file) = &self.ktap {
            self.output.write(file, Format::Text, ktap::render(&cases(&comparison)).as_bytes())?;
        }
        print_analysis(&analysis, self.json).map_err(output_failed)?;
        Ok(comparison.exit_code().into())
    }
}

impl Compare {
    /// Before anything is run or written.
    fn check_outputs(&self, page: &[u8]) -> Result<(), Failure> {
        let page = (self.markdown.as_deref(), Format::Text, page);
        let ktap = (self.ktap.as_deref(), Format::Text, &b"KTAP version 1"[..]);
        self.output.check_all(&[page, (self.junit.as_deref(), Format::Xml, b""), ktap])
    }

    fn recorded(&self, options: &Options) -> Result<Comparison, Failure> {
        let (reference, sample) = match self.against.as_slice() {
            [] => self.runs.split_at(1),
            against => (against, self.runs.as_slice()),
        };
        let open = |paths: &[PathBuf]| paths.iter().map(|path| Record::open(path)).collect::<Result<Vec<_>, _>>();
        compare(&REGISTRY, &open(sample)?, &open(reference)?, options)
    }

    /// Their plans, run again in turn.
    fn measured(
        &self,
        options: &Options,
        out: &Path,
        max_time: Span,
        session: &Session,
    ) -> Result<Comparison, Failure> {
        let [reference, sample] = self.runs.as_slice() else {
            return Err(Failure::usage("--until-decided runs two plans again: name two runs"));
        };
        let (reference, sample) = (Plan::of_run(reference)?, Plan::of_run(sample)?);
        let interrupt = session.interrupt()?;
        let how = Conduct { runs: out.into(), erase: self.erase.clone(), ..session.conduct(&interrupt) };
        let found = compare_until_decided(&REGISTRY, [&reference, &sample], options, out, max_time.0, &how);
        session.clear();
        found
    }
}

/// What the gate does when it cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UndecidedWord {
    /// Exit 1
    Fail,
    /// Exit 0
    Pass,
}

impl From<UndecidedWord> for WhenUndecided {
    fn from(word: UndecidedWord) -> Self {
        match word {
            UndecidedWord::Fail => Self::Fail,
            UndecidedWord::Pass => Self::Pass,
        }
    }
}

fn cases(comparison: &Comparison) -> Vec<Case> {
    let cannot_pass = comparison.shares_runs;
    let of = |row: &Row| match row.gate {
        Some(Gate::Pass) if cannot_pass => Row { gate: Some(Gate::Undecided), ..row.clone() },
        _ => row.clone(),
    };
    comparison.rows.iter().map(|row| case(&of(row), comparison.options.undecided)).collect()
}

fn case(row: &Row, undecided: WhenUndecided) -> Case {
    let message = match (row.described, &row.decision) {
        (Some(why), _) => why.to_string(),
        (None, decision) => decision.as_ref().map_or_else(String::new, Decision::text),
    };
    let status = match (row.gate, undecided) {
        _ if row.described.is_some() => Status::Skipped(message.clone()),
        (Some(Gate::Fail), _) | (Some(Gate::Undecided), WhenUndecided::Fail) => {
            Status::Failed(format!("{}: {message}", row.what.metric))
        }
        (Some(Gate::Undecided), WhenUndecided::CannotTell) => Status::Skipped(message.clone()),
        _ => Status::Passed,
    };
    let interval = row.decision.as_ref().and_then(|decision| decision.interval);
    let interval = interval.map_or_else(String::new, |interval| {
        let confidence = interval.confidence * 100.0;
        format!(
            ", ratio {:.4} ({confidence:.1} % interval {:.4} to {:.4})",
            interval.value, interval.low, interval.high
        )
    });
    Case {
        class: row.what.metric.clone(),
        name: if row.what.condition.is_empty() { "all".into() } else { row.what.condition_text() },
        status,
        details: format!("{message}{interval}"),
    }
}
