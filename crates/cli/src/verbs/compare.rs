//! `senesce compare`: runs against a reference, in words.

use crate::Exit;
use crate::display::print_analysis;
use crate::session::Session;
use crate::table::Verb;
use crate::verbs::report::output_failed;
use clap::Args;
use senesce_core::record::write_atomically;
use senesce_core::{Failure, Record};
use senesce_experiments::compare::{Comparison, Options, Row, compare, parse_share};
use senesce_report::junit::{self, Case, Status};
use senesce_report::markdown;
use senesce_stats::Outcome;
use std::path::PathBuf;

/// Compare runs: the environments first, then every metric in words
#[derive(Args)]
pub struct Compare {
    /// Run directories. Without --against the first is the reference of the others
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Reference runs, pooled; the RUNs before it are pooled too
    #[arg(long, num_args = 1.., value_name = "RUN")]
    against: Vec<PathBuf>,
    /// Exit 1 when a metric is significantly worse by more than this share (5% or 0.05)
    #[arg(long, value_name = "SHARE")]
    fail_on_regression: Option<String>,
    /// Differences up to this share never count; the reference's own noise is used where it is larger
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    noise: String,
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
}

impl Verb for Compare {
    const NAME: &'static str = "compare";
    const ABOUT: &'static str = "Compare runs: what differs in their environments, then every metric in words";

    fn run(self, _session: &Session) -> Result<Exit, Failure> {
        let options = Options {
            fail_on_regression: self.fail_on_regression.as_deref().map(parse_share).transpose()?,
            allow_different: self.even_if_different,
            least_noise: parse_share(&self.noise)?,
        };
        let (reference, sample) = match self.against.as_slice() {
            [] => self.runs.split_at(1),
            against => (against, self.runs.as_slice()),
        };
        let open = |paths: &[PathBuf]| paths.iter().map(|path| Record::open(path)).collect::<Result<Vec<_>, _>>();
        let comparison = compare(&open(sample)?, &open(reference)?, &options)?;
        let analysis = comparison.analysis();
        if let Some(file) = &self.markdown {
            write_atomically(file, markdown::render(&analysis).as_bytes())?;
        }
        if let Some(file) = &self.junit {
            write_atomically(file, junit::render("senesce compare", &cases(&comparison)).as_bytes())?;
        }
        print_analysis(&analysis, self.json).map_err(output_failed)?;
        Ok(comparison.exit_code().into())
    }
}

fn cases(comparison: &Comparison) -> Vec<Case> {
    comparison.rows.iter().map(case).collect()
}

fn case(row: &Row) -> Case {
    let judgement = row.judgement.as_ref();
    let words = judgement.map_or_else(|| "described only".into(), |judgement| judgement.outcome.words());
    let status = match judgement.map(|judgement| &judgement.outcome) {
        _ if row.emulated => Status::Skipped("times are not judged under emulation".into()),
        _ if row.regression => Status::Failed(format!("{} is {words}", row.what.metric)),
        None | Some(Outcome::Invalid(_)) => Status::Skipped(words.clone()),
        Some(_) => Status::Passed,
    };
    let ratio = judgement.and_then(|judgement| judgement.ratio);
    let ratio = ratio.map_or_else(String::new, |ratio| {
        format!(", ratio {:.4} (95 % interval {:.4} to {:.4})", ratio.value, ratio.low, ratio.high)
    });
    let p = judgement.and_then(|judgement| judgement.p).map_or_else(String::new, |p| format!(", p {p:.4}"));
    Case {
        class: row.what.metric.clone(),
        name: if row.what.condition.is_empty() { "all".into() } else { row.what.condition_words() },
        status,
        details: format!("{words}{ratio}{p}"),
    }
}
