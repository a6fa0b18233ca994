//! `senesce compare`: compares runs with a reference, in words.

use crate::Exit;
use crate::arguments;
use crate::display::print_analysis;
use crate::experiment_text::Tables;
use crate::output::Output;
use crate::output::output_failed;
use crate::registry::REGISTRY;
use crate::session::Session;
use crate::verb_table::Verb;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use senesce_core::output::Format;
use senesce_core::{Failure, Record, Span, significant};
use senesce_report::junit::{self, Case, Status};
use senesce_report::{ktap, markdown};
use senesce_runner::Conduct;
use senesce_runs::compare::{Comparison, Options, Row, WhenUndecided, compare, compare_until_decided, parse_share};
use senesce_runs::decided::confidence_text;
use senesce_stats::gate::Gate;
use std::path::{Path, PathBuf};

/// Compare runs: the environments first, then every metric in words
#[derive(Args)]
pub(crate) struct Compare {
    /// Run directories; without --against the first is the reference
    #[arg(required = true, value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run))]
    runs: Vec<PathBuf>,
    /// Reference runs; the runs of a side are pooled
    #[arg(long, num_args = 1.., value_name = "RUN", value_parser = arguments::run(),
          add = ArgValueCompleter::new(arguments::complete_run), help_heading = "Comparison")]
    against: Vec<PathBuf>,
    /// Assumed difference of two equal runs, such as 2%
    #[arg(long, value_name = "SHARE", help_heading = "Comparison")]
    noise: Option<String>,
    /// Compare runs of different kinds, targets or engines
    #[arg(long, help_heading = "Comparison")]
    even_if_different: bool,
    /// Maximum loss of a metric, such as 5%
    #[arg(long, value_name = "SHARE", help_heading = "Gate")]
    fail_on_regression: Option<String>,
    /// Inconclusive gate: fail or pass
    #[arg(
        long,
        value_enum,
        value_name = "VERDICT",
        hide_possible_values = true,
        requires = "fail_on_regression",
        help_heading = "Gate"
    )]
    undecided: Option<UndecidedWord>,
    /// Run both plans in turn until the comparison is decided
    #[arg(long, requires_all = ["max_time", "out"], conflicts_with = "against")]
    until_decided: bool,
    /// Maximum time of these runs, such as 1h
    #[arg(long, value_name = "TIME", requires = "until_decided")]
    max_time: Option<Span>,
    /// Confirm data loss: path or serial number
    #[arg(long, value_name = "IDENTITY", requires = "until_decided", help_heading = "Measurement")]
    erase: Option<String>,
    /// Directory of these runs; the same command resumes
    #[arg(long, short, value_name = "DIR", requires = "until_decided", help_heading = "Measurement")]
    out: Option<PathBuf>,
    /// Write Markdown to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    markdown: Option<PathBuf>,
    /// Write JUnit XML to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    junit: Option<PathBuf>,
    /// Write KTAP to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    ktap: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
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
        print_analysis(&comparison.brief_analysis(), self.json, Tables::Whole).map_err(output_failed)?;
        Ok(comparison.exit_code().into())
    }
}

impl Compare {
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

    /// Runs both plans again, alternating.
    fn measured(
        &self,
        options: &Options,
        out: &Path,
        max_time: Span,
        session: &Session,
    ) -> Result<Comparison, Failure> {
        let [reference, sample] = self.runs.as_slice() else {
            return Err(Failure::usage("cannot use --until-decided with this number of runs\nhint: give two runs"));
        };
        let (reference, sample) = (Record::open(reference)?.plan, Record::open(sample)?.plan);
        let interrupt = session.interrupt()?;
        let how = Conduct { runs: out.into(), erase: self.erase.clone(), ..session.conduct(&interrupt) };
        let found = compare_until_decided(&REGISTRY, [&reference, &sample], options, out, max_time.0, &how);
        session.clear();
        found
    }
}

/// The exit code of the gate when the result is inconclusive.
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
    // A file without a test would look like a success.
    let all = !comparison.rows.iter().any(Row::needs_verdict);
    let shown = comparison.rows.iter().filter(|row| all || row.needs_verdict());
    shown.map(|row| case(&of(row), &comparison.words(row), comparison.options.undecided)).collect()
}

fn case(row: &Row, message: &str, undecided: WhenUndecided) -> Case {
    let status = match (row.gate, undecided) {
        _ if row.described.is_some() => Status::Skipped(message.to_string()),
        (Some(Gate::Fail), _) | (Some(Gate::Undecided), WhenUndecided::Fail) => {
            Status::Failed(format!("{}: {message}", row.what.metric))
        }
        (Some(Gate::Undecided), WhenUndecided::CannotTell) => Status::Skipped(message.to_string()),
        _ => Status::Passed,
    };
    let interval = row.decision.as_ref().and_then(|decision| decision.interval);
    let interval = interval.map_or_else(String::new, |interval| {
        let confidence = confidence_text(interval.confidence);
        let ends = interval.ends_text(significant);
        format!(", ratio {} ({confidence} % interval {ends})", significant(interval.value))
    });
    Case {
        class: row.what.metric.clone(),
        name: if row.what.condition.is_empty() { "all".into() } else { row.what.condition_text() },
        status,
        details: format!("{message}{interval}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Better, Measurement};

    #[test]
    fn tests_are_metrics_that_need_a_verdict() {
        let row = |primary, described| {
            let what = Measurement::new("time", "s", Better::Lower, 1.0).unwrap();
            let what = if primary { what.primary() } else { what };
            let (sample, reference) = (Vec::new(), Vec::new());
            Row { what, sample, reference, runs: [1, 1], between_runs: 0.0, decision: None, described, gate: None }
        };
        let comparison = Comparison {
            sample: vec!["run".into()],
            reference: vec!["base".into()],
            environment: Vec::new(),
            settings: Vec::new(),
            rows: vec![row(true, None), row(true, Some("emulated")), row(false, Some("secondary"))],
            caveats: Vec::new(),
            margin: 0.02,
            shares_runs: false,
            options: Options::default(),
        };
        let skipped: Vec<bool> =
            cases(&comparison).iter().map(|case| matches!(case.status, Status::Skipped(_))).collect();
        assert_eq!(skipped, [false, true]);
    }
}
