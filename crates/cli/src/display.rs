//! Prints analyses as text for a terminal.

use crate::Exit;
use crate::experiment_text::{self, TEXT_WIDTH, Tables};
use crate::messages::wrapped;
use crate::output::output_failed;
use crate::session::Session;
use crate::text_table::wrap;
use senesce_core::analysis::{Finding, Verdict};
use senesce_core::heartbeat::LostTime;
use senesce_core::machine::guest_accelerator;
use senesce_core::resume::continue_with;
use senesce_core::text::visible_line;
use senesce_core::{Analysis, ExitCode, Failure, Plan, RunDirectory, Table, number_of, significant};
use senesce_runner::{Outcome, State, group_by_reason};
use senesce_volume::guest::columns;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

pub(crate) fn print_analysis(analysis: &Analysis, json: bool, tables: Tables) -> io::Result<()> {
    let mut out = crate::output::stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, &analysis.result)?;
        return writeln!(out);
    }
    if !analysis.findings.is_empty() {
        return experiment_text::write(&mut out, analysis, tables);
    }
    write_analysis(&mut out, analysis, terminal_width())
}

/// Writes an analysis without claims. `width`: that of a terminal.
fn write_analysis(out: &mut impl Write, analysis: &Analysis, width: Option<usize>) -> io::Result<()> {
    writeln!(out, "{}", wrapped(&format!("{}\n{}", analysis.title, analysis.summary), width, 0))?;
    for caveat in &analysis.caveats {
        writeln!(out, "{}", wrapped(&format!("note: {caveat}"), width, 0))?;
    }
    for table in &analysis.tables {
        writeln!(out, "\n{}", wrapped(&table.title, width, 0))?;
        print_table_within(out, table, width)?;
    }
    Ok(())
}

/// How the user gets another result than that of a complete run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rerun {
    /// `--again`.
    Again,
    /// Another `--out`, which every verb with a record has.
    OtherDirectory,
    /// Limits, for a run that was resumed: it stays in its directory.
    NewLimits,
}

impl Rerun {
    /// Returns the method of a verb with `--again`, which does not replace a run in `out`.
    pub(crate) fn of(out: Option<&Path>) -> Self {
        if out.is_some() { Self::OtherDirectory } else { Self::Again }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Again => "--again runs it again",
            Self::OtherDirectory => "another --out runs it again",
            Self::NewLimits => "a new limit continues it, such as --overwrites",
        }
    }
}

/// Prints all tables.
pub(crate) fn show_whole(outcome: &Outcome, rerun: Rerun, json: bool, session: &Session) -> Result<Exit, Failure> {
    begin_result(outcome, rerun, session);
    print_analysis(&outcome.analysis, json, Tables::Named).map_err(output_failed)?;
    Ok(show_record(outcome))
}

/// Prints the answer first, then the first table. The report has the rest; JSON is complete.
pub(crate) fn show_brief(outcome: &Outcome, rerun: Rerun, json: bool, session: &Session) -> Result<Exit, Failure> {
    begin_result(outcome, rerun, session);
    match json {
        true => print_analysis(&outcome.analysis, true, Tables::Named),
        false => write_brief(&mut crate::output::stdout(), &outcome.analysis, terminal_width()),
    }
    .map_err(output_failed)?;
    Ok(show_record(outcome))
}

pub(crate) fn begin_result(outcome: &Outcome, rerun: Rerun, session: &Session) {
    session.clear();
    if outcome.state == State::WasDone {
        eprintln!("already done: result of {}\nhint: {}", outcome.path.display(), rerun.hint());
    }
}

fn write_brief(out: &mut impl Write, analysis: &Analysis, limit: Option<usize>) -> io::Result<()> {
    let width = limit.unwrap_or(TEXT_WIDTH);
    // The answer is a paragraph of its own before the others.
    let (answer, details) = match analysis.summary.split_once("\n\n") {
        Some((answer, details)) => (Some(answer), details),
        None => (None, analysis.summary.as_str()),
    };
    let mut paragraphs: Vec<String> = answer.into_iter().map(str::to_string).collect();
    paragraphs.push(analysis.title.clone());
    paragraphs.extend(details.lines().filter(|line| !line.is_empty()).map(str::to_string));
    paragraphs.extend(analysis.caveats.iter().map(|caveat| format!("note: {caveat}")));
    paragraphs.extend(verdict_counts(analysis));
    for paragraph in paragraphs {
        write_lines(out, &paragraph, width)?;
    }
    if let Some(table) = analysis.tables.first() {
        writeln!(out)?;
        write_lines(out, &table.title, width)?;
        print_table_within(out, table, limit)?;
    }
    Ok(())
}

fn write_lines(out: &mut impl Write, text: &str, width: usize) -> io::Result<()> {
    wrap(&visible_line(text), width).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Counts the claims by verdict, with the names of those that have one: `claims: 1 not supported (rmse), 2 not
/// testable here`; `None` if every testable claim is supported.
fn verdict_counts(analysis: &Analysis) -> Option<String> {
    let is_expected = |verdict| matches!(verdict, Verdict::NotTestable | Verdict::Supported);
    if analysis.findings.iter().all(|finding| is_expected(finding.verdict)) {
        return None;
    }
    let mut by_verdict: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    analysis.findings.iter().for_each(|finding| by_verdict.entry(finding.verdict.text()).or_default().push(finding));
    let words = by_verdict.iter().map(|(verdict, findings)| {
        let testable = findings.iter().filter(|finding| finding.verdict != Verdict::NotTestable);
        let names: Vec<&str> = testable.map(|finding| finding.id.as_str()).filter(|id| !id.is_empty()).collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        format!("{} {verdict}{names}", findings.len())
    });
    Some(format!("claims: {}", words.collect::<Vec<_>>().join(", ")))
}

/// Counts the failed steps by reason, as `2 steps: no space`; the most frequent reason first. If each reason was `shown`
/// when its step failed, those of a single step are left out.
fn failed_steps(reasons: &[(String, usize)], shown: bool) -> Vec<String> {
    let groups = group_by_reason(reasons.iter().map(|(reason, steps)| (reason.as_str(), *steps)));
    let mut groups: Vec<(usize, &str)> =
        groups.into_iter().map(|(reason, steps)| (steps.iter().sum(), reason)).collect();
    groups.retain(|(steps, _)| !shown || *steps > 1);
    groups.sort_by_key(|(steps, _)| std::cmp::Reverse(*steps));
    let words =
        |(steps, reason): (usize, &str)| format!("{}: {}", number_of(steps, "step"), reason.replace('\n', "; "));
    groups.into_iter().map(words).collect()
}

/// Maximum number of printed reasons; the record has all.
const MOST_REASONS: usize = 3;

pub(crate) fn show_record(outcome: &Outcome) -> Exit {
    let path = outcome.path.display();
    match outcome.state {
        State::Interrupted => eprintln!("senesce: {}", outcome.interrupted_words()),
        State::Failed(count) => {
            eprintln!("senesce: {} failed; the record {path} is kept", number_of(count, "step"));
            for words in failed_steps(&outcome.reasons, outcome.reasons_shown).iter().take(MOST_REASONS) {
                eprintln!("  {}", visible_line(words));
            }
            if outcome.reasons.iter().any(|(reason, _)| LostTime::is_reason(reason)) {
                eprintln!("hint: stop other load first if it was the cause");
            }
            eprintln!("hint: only the failed steps are repeated\nhint: {}", continue_with(&outcome.continued_by));
        }
        State::Done | State::WasDone => eprintln!("record: {path}   report: senesce report {path}"),
    }
    show_owner(outcome);
    outcome.exit_code().into()
}

/// Shows the user who called sudo(8) how to own the new run.
pub(crate) fn show_owner(outcome: &Outcome) {
    if outcome.state == State::Done
        && let Some(remedy) = RunDirectory::remedy_for_caller(&outcome.path)
    {
        eprintln!("hint: {remedy}");
    }
}

pub(crate) fn print_plan(plan: &Plan, json: bool) -> Result<Exit, Failure> {
    if json {
        println!("{}", serde_json::to_string_pretty(plan).map_err(|error| Failure::usage(error.to_string()))?);
        return Ok(ExitCode::Done.into());
    }
    let width = terminal_width();
    println!("{} (seed {})", plan.kind, plan.seed.0);
    for (name, value) in &plan.spec {
        let line = format!("  {name} = {}", value.as_str().map_or_else(|| value.to_string(), str::to_string));
        println!("{}", wrapped(&line, width, 2));
    }
    println!("steps:");
    for (number, step) in plan.steps.iter().enumerate() {
        println!("{}", wrapped(&format!("  {:>3}. {} [{}]", number + 1, step.action, step.target), width, 5));
    }
    for note in &plan.notes {
        let note = visible_line(&format!("note: {note}")).into_owned();
        wrap(&note, width.unwrap_or(TEXT_WIDTH)).iter().for_each(|line| println!("{line}"));
    }
    println!("writes to its targets {}", plan.written_words(|bytes| senesce_core::Bytes(bytes).to_string()));
    println!("estimated time {}", time_words(plan.estimated_seconds));
    Ok(ExitCode::Done.into())
}

/// Formats seconds, and from half an hour also hours.
fn time_words(seconds: f64) -> String {
    match seconds >= 1800.0 {
        true => format!("{seconds:.0} s ({:.1} h)", seconds / 3600.0),
        false => format!("{seconds:.0} s"),
    }
}

/// Prints a table with right-aligned numbers, limited to the width of a terminal; pipes and files have no limit.
pub(crate) fn print_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    print_table_within(out, table, terminal_width())
}

pub(crate) fn print_table_within(out: &mut impl Write, table: &Table, limit: Option<usize>) -> io::Result<()> {
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let is_numeric = |index: usize| table.rows.iter().any(|row| row.get(index).is_some_and(Value::is_number));
    let numeric: Vec<bool> = (0..table.columns.len()).map(is_numeric).collect();
    crate::text_table::write(out, &table.columns, &rows, &numeric, limit)
}

/// Columns of the terminal, also of the host of this guest, or of `COLUMNS`; `None` if standard output is not a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let of_host = || guest_accelerator().and_then(|_| columns());
    said.or_else(asked).or_else(of_host).filter(|width| *width > 0)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => visible_line(text).into_owned(),
        Value::Number(number) if number.is_f64() => significant(number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failed_steps_are_counted_by_reason() {
        let reasons =
            [("no space\nhint: free some".to_string(), 1), ("lost 0.067 s".into(), 1), ("lost 1 s".into(), 2)];
        assert_eq!(failed_steps(&reasons, false), ["3 steps: lost 0.067 s", "1 step: no space; hint: free some"]);
        assert_eq!(failed_steps(&reasons, true), ["3 steps: lost 0.067 s"], "the other was shown");
    }

    #[test]
    fn brief_result_begins_with_the_answer_and_has_one_table() {
        let mut first = Table::new("cost", "Cost", &["drive", "s"]);
        first.row(("disk", 1.5));
        let second = Table::new("layout", "Layout", &["measure", "value"]);
        let analysis = Analysis {
            title: "the title".into(),
            summary: format!("The {}answer.\n\nThe details.", "long ".repeat(40)),
            caveats: vec!["a caveat".into()],
            tables: vec![first, second],
            ..Analysis::default()
        };
        let mut out = Vec::new();
        write_brief(&mut out, &analysis, None).unwrap();
        let text = String::from_utf8(out).unwrap();
        let place = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} is missing in {text}"));
        let order = ["The long", "answer.", "the title", "The details.", "note: a caveat", "Cost"].map(place);
        assert!(order.is_sorted() && order[0] == 0, "{text}");
        assert!(!text.contains("Layout") && text.lines().all(|line| line.chars().count() <= TEXT_WIDTH), "{text}");
    }

    #[test]
    fn claims_are_counted_unless_all_are_supported() {
        let counts = |verdicts: &[Verdict]| {
            let finding = |verdict: &Verdict| Finding { verdict: *verdict, ..Finding::default() };
            let findings = verdicts.iter().map(finding).collect();
            verdict_counts(&Analysis { findings, ..Analysis::default() }).is_some()
        };
        assert!(!counts(&[Verdict::Supported, Verdict::Supported]));
        assert!(!counts(&[Verdict::Supported, Verdict::NotTestable]));
        assert!(counts(&[Verdict::Supported, Verdict::NotSupported]));
        assert!(counts(&[Verdict::Undecided]));
    }

    /// Returns the cells of a study of two file systems in two states.
    fn study() -> Analysis {
        let columns = "workload,file system,state,metric,unit,images,values,mean,95 % from,to,median,variation (%),ratio,\
                       interval,verdict,flags";
        let columns: Vec<&str> = columns.split(',').collect();
        let mut cells = Table::new("cells", &"Cells against the first state ".repeat(4), &columns);
        let undecided = "undecided: 10.0 % detectable, no number of repetitions is enough";
        for (number, fs) in [(12345.6, "ext4"), (12340.1, "ext4 without journal")] {
            for (factor, state, verdict) in [(1.0, "fresh", "reference"), (1.01, "aged", undecided)] {
                let mean = number * factor;
                let interval = format!("{:.3} to {:.3} (98.8 %)", factor - 0.04, factor + 0.04);
                let words = ["varmail", fs, state, "throughput", "operations/s"].map(|word| json!(word));
                let numbers = [1.0, 10.0, mean, mean - 400.0, mean + 400.0, mean - 1.5, factor * 4.321, factor];
                let numbers = numbers.map(|number| json!(number));
                cells.row([&words[..], &numbers, &[json!(interval), json!(verdict), json!("")]].concat());
            }
        }
        Analysis { summary: "The answer. ".repeat(20), tables: vec![cells], ..Analysis::default() }
    }

    #[test]
    fn result_of_a_study_is_readable_at_80_columns() {
        let mut out = Vec::new();
        write_analysis(&mut out, &study(), Some(80)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.matches("varmail").count(), 1, "{text}");
        assert!(!text.contains("file system: ext4"), "no list:\n{text}");
        assert!(text.lines().any(|line| line.contains("ext4 without journal  aged")), "{text}");
        assert!(text.lines().count() < 40, "{text}");
    }
}
