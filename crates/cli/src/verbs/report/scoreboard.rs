//! `senesce report --scoreboard [DIR...]`.

mod addresses;
mod overview;

use super::FormatWord;
use crate::display::terminal_width;
use crate::experiment_text::{self, TEXT_WIDTH};
use crate::output::{Output, output_failed, stdout};
use crate::registry::REGISTRY;
use crate::session::runs_directory;
use senesce_claims::Work;
use senesce_core::analysis::{Finding, Score, Verdict, score_lines};
use senesce_core::output::{self, Format};
use senesce_core::{Analysis, Failure, Rows, Table, number_of};
use senesce_report::scoreboard::{self as page, Board, BoardDocument};
use senesce_report::statements::{Statement, Statements};
use senesce_report::{Pages, result_page};
use senesce_runs::scoreboard::{Document, ExperimentResult, Scoreboard, ScoreboardEntry, scoreboard};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const HEADS: [&str; 9] = [
    "document",
    "claims",
    "supported",
    "not supported",
    "model agrees",
    "model differs",
    "undecided",
    "not testable",
    "not run",
];

const DEFINITIONS: [&str; 5] = [
    "Supported: the whole interval of the measured value is within the rule of the claim, which is fixed before the run (senesce help claims).",
    "Not supported: the whole interval is outside the rule. One condition outside is enough. \
     Claims that are not supported come first; Markdown and HTML print them in bold.",
    "Model agrees, model differs: a simulator was compared with values that it was fitted to or takes as input. This tests the simulator, not \
     the claim. Values of simulated and modelled drives are not measurements of a drive.",
    "Undecided: the interval crosses a bound of the rule.",
    "Not testable: this machine, senesce, or this run cannot test it. Not run: no run of the experiment is recorded.",
];

pub(super) fn write(
    directories: &[PathBuf],
    format: Option<FormatWord>,
    out: Option<&Path>,
    output: Output,
) -> Result<(), Failure> {
    let found = read(directories)?;
    let pages = addresses::of_files(&found, out);
    let document = |format, text: String| output.write(out.unwrap_or(Path::new("-")), format, text.as_bytes());
    match format.unwrap_or(FormatWord::Text) {
        FormatWord::Json => document(Format::Json, found.to_text()),
        FormatWord::Html => document(Format::Html, page::page(&board(&found, pages))),
        FormatWord::Markdown => document(Format::Text, page::markdown(&board(&found, pages))),
        FormatWord::Text if out.is_none() => text(&mut stdout(), &board(&found, pages)).map_err(output_failed),
        FormatWord::Text => {
            let mut words = Vec::new();
            text(&mut words, &board(&found, pages)).map_err(output_failed)?;
            document(Format::Text, String::from_utf8_lossy(&words).into_owned())
        }
        FormatWord::Csv | FormatWord::Figures | FormatWord::Zip => {
            Err(Failure::usage("a scoreboard is written as text, html, markdown or json"))
        }
    }
}

fn read(directories: &[PathBuf]) -> Result<Scoreboard, Failure> {
    let own = [runs_directory()];
    let below: &[PathBuf] = match directories {
        [] if own[0].is_dir() => &own,
        named => named,
    };
    scoreboard(&REGISTRY, below)
}

/// Writes the scoreboard and the results of each experiment as Markdown with drawings.
pub(super) fn write_site(directories: &[PathBuf], directory: &Path, output: Output) -> Result<(), Failure> {
    let found = read(directories)?;
    let index = directory.join("scoreboard.md");
    let mut files = vec![(index.clone(), Format::Text, page::markdown(&board(&found, addresses::of_site(&found))))];
    for result in &found.results {
        let result_page::ResultPage { text, drawings } = result_page(&found, result);
        files.push((directory.join(format!("{}.md", result.experiment)), Format::Text, text));
        files.extend(drawings.into_iter().map(|(name, drawing)| (directory.join(name), Format::Svg, drawing)));
    }
    let planned: Vec<_> = files.iter().map(|(file, format, text)| (Some(&**file), *format, text.as_bytes())).collect();
    output.check_below(directory, &planned)?;
    output::directory(directory)?;
    files.iter().try_for_each(|(file, format, text)| output.write(file, *format, text.as_bytes()))?;
    super::print_written(&index);
    Ok(())
}

fn result_page(found: &Scoreboard, result: &ExperimentResult) -> result_page::ResultPage {
    let ExperimentResult { experiment, run, analysis } = result;
    let scale = run.scale.map_or(String::new(), |scale| format!(" --scale {}", scale.name()));
    let head = format!(
        "`senesce reproduce {experiment}{scale}`. `senesce help {experiment}` explains the method; the [scoreboard](scoreboard.md) has the \
         results of all experiments."
    );
    let fact = |name: &str, value: Option<String>| value.map(|value| format!("{name}{value}"));
    let circumstances = [
        fact("run of ", run.date.as_ref().map(|date| date.replace('T', " ").replace('Z', " UTC"))),
        fact("", run.processors.map(|count| number_of(count as usize, "processor"))),
        fact("", run.processor.clone()),
        fact("Linux ", run.kernel.clone()),
        fact("load ", run.load.map(|load| load.to_string())),
        fact("senesce ", run.version.clone()),
        fact("commit ", run.commit.clone()),
        fact("seed ", run.seed.map(|seed| seed.to_string())),
    ];
    let analysis = Analysis { findings: found.findings_of(experiment), ..analysis.clone() };
    let circumstances: Vec<String> = circumstances.into_iter().flatten().collect();
    result_page::page(experiment, &head, &circumstances.join(", "), &analysis)
}

fn board(found: &Scoreboard, pages: Pages) -> Board {
    let main: Vec<&Document> = found.documents.iter().filter(|document| document.is_main()).collect();
    let sum = |stated: bool| {
        let of = main.iter().flat_map(|document| &document.entries).map(|entry| &entry.finding);
        Score::of(of.filter(|finding| finding.stated == stated).map(|finding| finding.verdict))
    };
    let mut notes = DEFINITIONS.map(str::to_string).to_vec();
    let added = sum(false);
    notes.push(format!(
        "Added (rows \"added\"): {} claims of senesce about these documents: {}.",
        added.claims(),
        added.words()
    ));
    notes.push(overview::NOTE.into());
    notes.extend(found.unread.iter().map(|reason| format!("not read: {reason}")));
    let document = |document: &Document| BoardDocument { work: heading(document), findings: document.findings() };
    Board {
        title: "Scoreboard of the published claims".into(),
        answer: answer(&sum(true), main.len()),
        overview: overview::table(&main),
        notes,
        totals: totals(&found.documents),
        statements: vec![
            decided(&main, Verdict::NotSupported, ("not-supported", "Statements that are not supported"), MOST_VALUES),
            decided(&main, Verdict::Supported, ("supported", "Statements that are supported"), 1),
        ],
        open: open(&main),
        documents: found.documents.iter().map(document).collect(),
        runs: runs(found),
        pages,
    }
}

fn heading(document: &Document) -> String {
    let citation = document.work.citation();
    if document.is_main() { format!("{}: {citation}", document.work.short()) } else { citation.into() }
}

/// Summarises the score: `82 of 268 statements of 5 documents are decided: 61 supported, 21 not supported. ...`
fn answer(stated: &Score, documents: usize) -> String {
    let count = |verdict| stated.count(verdict);
    let (supported, not) = (count(Verdict::Supported), count(Verdict::NotSupported));
    let of_model = count(Verdict::ModelAgrees) + count(Verdict::ModelDiffers);
    let [undecided, untestable, not_run] = [Verdict::Undecided, Verdict::NotTestable, Verdict::NotRun].map(count);
    format!(
        "{} of {} of {} are decided: {supported} supported, {not} not supported. {of_model} test only a \
         model. {} are open: {undecided} undecided, {untestable} not testable here, {not_run} not run.",
        supported + not,
        number_of(stated.claims(), "statement"),
        number_of(documents, "document"),
        undecided + untestable + not_run,
    )
}

/// Returns the statements of the documents, with their names.
fn stated<'a>(documents: &[&'a Document]) -> impl Iterator<Item = (Work, &'a ScoreboardEntry)> {
    let all = documents.iter().flat_map(|document| document.entries.iter().map(|entry| (document.work, entry)));
    all.filter(|(_, entry)| entry.finding.stated).collect::<Vec<_>>().into_iter()
}

/// Measured values of a statement that is not supported.
const MOST_VALUES: usize = 3;

fn decided(documents: &[&Document], verdict: Verdict, (id, title): (&str, &str), most: usize) -> Statements {
    let with_verdict = stated(documents).filter(|(_, entry)| entry.finding.verdict == verdict);
    let rows = with_verdict.map(|(work, entry)| Statement {
        document: work.short().into(),
        experiment: entry.experiment.into(),
        finding: entry.finding.clone(),
    });
    Statements { id: id.into(), title: title.into(), most, rows: rows.collect() }
}

/// Counts the statements without a verdict, by document and reason.
fn open(documents: &[&Document]) -> Table {
    let mut counts: Vec<((Work, Verdict, &str), usize)> = Vec::new();
    for (work, entry) in stated(documents) {
        let Finding { verdict, reason, .. } = &entry.finding;
        let key = (work, *verdict, reason.as_str());
        match counts.iter_mut().find(|(known, _)| *known == key) {
            _ if verdict.is_decided() || verdict.is_of_model() => {}
            Some((_, count)) => *count += 1,
            None => counts.push((key, 1)),
        }
    }
    Rows::of(&counts)
        .column("document", |((work, ..), _)| work.short())
        .column("statements", |(_, count)| count)
        .column("verdict", |((_, verdict, _), _)| verdict.text())
        .column("reason, or the command that tests them", |((_, _, reason), _)| reason)
        .table("open", "Open statements")
}

fn runs(found: &Scoreboard) -> Table {
    Rows::of(&found.used_runs())
        .column("experiment", |(experiment, _)| experiment)
        .column("run", |(_, run)| &run.name)
        .column("scale", |(_, run)| run.scale.map(|scale| scale.name()))
        .column("date", |(_, run)| &run.date)
        .column("kernel", |(_, run)| &run.kernel)
        .column("processor", |(_, run)| &run.processor)
        .column("load", |(_, run)| run.load)
        .column("version", |(_, run)| &run.version)
        .column("commit", |(_, run)| &run.commit)
        .column("seed", |(_, run)| run.seed.map(|seed| seed.to_string()))
        .table("runs", "Runs")
}

/// Tabulates the statements of each document, then one row for what senesce adds to it; other works are one document.
fn totals(documents: &[Document]) -> Table {
    let mut table = Table::new("scores", "", &HEADS);
    for document in documents.iter().filter(|document| document.is_main()) {
        table.rows.push(row(document.work.short().into(), document.score(true)));
        table.rows.push(row("  added".into(), document.score(false)));
    }
    let others = documents.iter().filter(|document| !document.is_main());
    let verdicts = others.flat_map(|document| document.entries.iter().map(|entry| entry.finding.verdict));
    table.rows.push(row("other works".into(), Score::of(verdicts)));
    table
}

fn row(name: String, score: Score) -> Vec<Value> {
    let of = |verdict| json!(score.count(verdict));
    vec![
        json!(name),
        json!(score.claims()),
        of(Verdict::Supported),
        of(Verdict::NotSupported),
        of(Verdict::ModelAgrees),
        of(Verdict::ModelDiffers),
        of(Verdict::Undecided),
        of(Verdict::NotTestable),
        of(Verdict::NotRun),
    ]
}

/// Formats a total: `Geriatrix: 71 claims, 10 supported, 61 not run`.
fn total(columns: &[String], row: &[Value]) -> String {
    let counts = columns.iter().zip(row).skip(1).filter(|(column, count)| **count != json!(0) || *column == "claims");
    let words: Vec<String> = counts.map(|(column, count)| format!("{count} {column}")).collect();
    format!("{}: {}", word(&row[0]).trim_start(), words.join(", "))
}

/// Formats a row: `ZNS: Appends scale. published: 2; measured: 1`. The first `named` cells have no label.
fn labelled(columns: &[String], row: &[Value], named: usize) -> String {
    let others = columns.iter().zip(row).skip(named).filter(|(_, cell)| **cell != json!(""));
    let cells: Vec<String> = others.map(|(column, cell)| format!("{column}: {}", word(cell))).collect();
    let names: Vec<String> = row.iter().take(named).map(word).collect();
    // A single cell is a name; the last of several may be a sentence.
    let colon = if named == 1 { ":" } else { "" };
    format!("{}{colon} {}", names.join(": "), cells.join("; "))
}

fn word(cell: &Value) -> String {
    cell.as_str().map_or_else(|| cell.to_string(), str::to_string)
}

fn rows(out: &mut impl Write, table: &Table, named: usize, width: usize) -> io::Result<()> {
    table.rows.iter().try_for_each(|row| experiment_text::lines(out, &labelled(&table.columns, row, named), 2, width))
}

fn text(out: &mut impl Write, board: &Board) -> io::Result<()> {
    let width = terminal_width().unwrap_or(TEXT_WIDTH);
    experiment_text::lines(out, &board.title, 0, width)?;
    writeln!(out)?;
    experiment_text::lines(out, &board.answer, 0, width)?;
    board.notes.iter().try_for_each(|note| experiment_text::lines(out, note, 0, width))?;
    writeln!(out)?;
    rows(out, &board.overview, 1, width)?;
    writeln!(out)?;
    // The table is wider than 80 columns.
    for row in &board.totals.rows {
        let indent = if word(&row[0]).starts_with(' ') { 4 } else { 2 };
        experiment_text::lines(out, &total(&board.totals.columns, row), indent, width)?;
    }
    let decided = board.statements.iter().map(Statements::table);
    for table in decided.chain([board.open.clone()]).filter(|table| !table.rows.is_empty()) {
        writeln!(out)?;
        experiment_text::lines(out, &format!("# {}", table.title), 0, width)?;
        rows(out, &table, 2, width)?;
    }
    for document in &board.documents {
        writeln!(out)?;
        experiment_text::lines(out, &format!("# {}", document.work), 0, width)?;
        for line in score_lines(&document.findings) {
            experiment_text::lines(out, &line, 0, width)?;
        }
        experiment_text::blocks(out, &document.findings, width)?;
    }
    Ok(())
}
