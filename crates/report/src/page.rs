//! The report page: an analysis and the facts of its record.

use crate::answer;
use crate::claim_tables::{BlockView, claims};
use crate::data;
use crate::markup::{Markup, Pages};
use crate::number;
use crate::svg::{self, Format, paint};
use askama::Template;
use senesce_core::analysis::{Analysis, Better, Figure, Table, score_lines};
use senesce_core::plan::Plan;
use senesce_core::record::Record;
use senesce_core::text::visible;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Maximum rows of a data table on the page; the others are in the CSV files.
const SHOWN_ROWS: usize = 400;

/// Number of caveats that are visible before a reader opens the others.
const FIRST_CAVEATS: usize = 3;

pub const SCRIPT: &str = include_str!("../templates/script.js");

pub fn render_html(analysis: &Analysis, record: &Record) -> String {
    render_record(analysis, record, false)
}

/// Renders a record as a page of a site; with `back`, the page links to the site's index.
pub(crate) fn render_record(analysis: &Analysis, record: &Record, back: bool) -> String {
    let (leading, figures) = parted(analysis);
    let page = RecordPage {
        frame: PageFrame::new(back),
        title: if analysis.title.is_empty() { record.plan.kind.clone() } else { analysis.title.clone() },
        kind: record.plan.kind.clone(),
        answer: answer::answer(analysis),
        score: score_lines(&analysis.findings),
        summary: paragraphs(answer::method(analysis)),
        partial: record.is_partial(),
        caveats: &analysis.caveats[..analysis.caveats.len().min(FIRST_CAVEATS)],
        more_caveats: analysis.caveats.get(FIRST_CAVEATS..).unwrap_or_default(),
        facts: facts(record),
        work: answer::common_work(&analysis.findings),
        findings: claims(&analysis.findings, &Pages::new()),
        leading,
        figures,
        answers: tables(analysis, "", |table| table.leads),
        tables: tables(analysis, "", |table| !table.leads),
        environment: environment(record),
        steps: grouped_steps(&record.plan),
        settings: settings(&record.plan),
        plan: &record.plan,
        written: record.plan.written_words(|bytes| number::size(bytes as f64)),
    };
    laid_out(&page)
}

/// Renders an analysis of several runs as one HTML file with searchable tables.
pub fn render_page(analysis: &Analysis) -> String {
    laid_out(&SeveralPage {
        frame: PageFrame::new(false),
        title: analysis.title.clone(),
        version: env!("CARGO_PKG_VERSION"),
        summary: paragraphs(&analysis.summary),
        caveats: &analysis.caveats,
        figures: figures(analysis),
        tables: tables(analysis, " searchable", |_| true),
    })
}

/// Renders a page. HTML escaping leaves control characters, so they are escaped here.
pub(crate) fn laid_out(page: &impl Template) -> String {
    let text = page.render().unwrap_or_else(|error| {
        format!("<!doctype html><title>senesce</title><p>The report could not be laid out: {error}")
    });
    visible(&text).into_owned()
}

fn figures(analysis: &Analysis) -> Vec<FigureView<'_>> {
    analysis.figures.iter().enumerate().map(|(index, figure)| FigureView::of(index, figure)).collect()
}

/// Splits the figures into those before and those after the claims. Without claims all figures stay together.
fn parted(analysis: &Analysis) -> (Vec<FigureView<'_>>, Vec<FigureView<'_>>) {
    if analysis.findings.is_empty() {
        return (Vec::new(), figures(analysis));
    }
    let first = analysis.leading_figures();
    let is_leading = |figure: &&Figure| first.iter().any(|one| one.id == figure.id);
    let (leading, others): (Vec<&Figure>, Vec<&Figure>) = analysis.figures.iter().partition(is_leading);
    let count = leading.len();
    let mut views: Vec<FigureView<'_>> =
        leading.into_iter().chain(others).enumerate().map(|(index, figure)| FigureView::of(index, figure)).collect();
    let others = views.split_off(count);
    (views, others)
}

fn tables<'a>(analysis: &'a Analysis, classes: &str, shown: impl Fn(&Table) -> bool) -> Vec<TableView<'a>> {
    let shown = analysis.tables.iter().filter(|table| shown(table));
    shown.enumerate().map(|(index, table)| TableView::of(index, table, classes)).collect()
}

/// Common parts of all pages: style, script, and the hash that allows only this script.
pub(crate) struct PageFrame {
    pub style: String,
    pub script: &'static str,
    pub script_hash: String,
    pub back: bool,
}

impl PageFrame {
    pub(crate) fn new(back: bool) -> Self {
        Self {
            style: format!("{}{}{}", paint::properties(), include_str!("../templates/style.css"), paint::rules()),
            script: SCRIPT,
            script_hash: format!("sha256-{}", base64(&Sha256::digest(SCRIPT))),
            back,
        }
    }
}

/// Encodes bytes as base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= part.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[derive(Template)]
#[template(path = "page.html")]
struct SeveralPage<'a> {
    frame: PageFrame,
    title: String,
    version: &'static str,
    summary: Vec<String>,
    caveats: &'a [String],
    figures: Vec<FigureView<'a>>,
    tables: Vec<TableView<'a>>,
}

#[derive(Template)]
#[template(path = "report.html")]
struct RecordPage<'a> {
    frame: PageFrame,
    title: String,
    kind: String,
    answer: Option<String>,
    score: Vec<String>,
    summary: Vec<String>,
    partial: bool,
    caveats: &'a [String],
    more_caveats: &'a [String],
    facts: Vec<(String, String)>,
    /// The work of all statements.
    work: Option<&'a str>,
    findings: Vec<BlockView<'a>>,
    leading: Vec<FigureView<'a>>,
    figures: Vec<FigureView<'a>>,
    answers: Vec<TableView<'a>>,
    tables: Vec<TableView<'a>>,
    environment: Vec<(String, Vec<(String, String)>)>,
    steps: Vec<StepView>,
    settings: Vec<(String, String)>,
    plan: &'a Plan,
    written: String,
}

fn settings(plan: &Plan) -> Vec<(String, String)> {
    let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    plan.spec.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

struct FigureView<'a> {
    number: usize,
    figure: &'a Figure,
    better: &'static str,
    arrow: &'static str,
    wide: String,
    narrow: String,
    data: String,
    left_out: usize,
}

struct TableView<'a> {
    number: usize,
    table: &'a Table,
    markup: String,
    left_out: usize,
}

struct StepView {
    action: String,
    target: String,
    times: usize,
}

impl<'a> FigureView<'a> {
    fn of(index: usize, figure: &'a Figure) -> Self {
        let data = data::of_figure(figure);
        let (better, arrow) = match figure.better {
            Better::Higher => ("higher is better", "↑"),
            Better::Lower => ("lower is better", "↓"),
            Better::Neither => ("a description: neither direction is better", "↔"),
        };
        Self {
            number: index + 1,
            figure,
            better,
            arrow,
            wide: svg::draw(figure, Format::WIDE, ""),
            narrow: svg::draw(figure, Format::NARROW, ""),
            left_out: data.rows.len().saturating_sub(SHOWN_ROWS),
            data: table_markup(&data, ""),
        }
    }
}

impl<'a> TableView<'a> {
    fn of(index: usize, table: &'a Table, classes: &str) -> Self {
        Self {
            number: index + 1,
            table,
            markup: table_markup(table, classes),
            left_out: table.rows.len().saturating_sub(SHOWN_ROWS),
        }
    }
}

fn paragraphs(text: &str) -> Vec<String> {
    text.split("\n\n").map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

fn facts(record: &Record) -> Vec<(String, String)> {
    let known = |name: &str| record.environment.0.get(name).map(plain).filter(|text| !text.is_empty());
    let mut facts = vec![("seed".to_string(), record.plan.seed.0.to_string())];
    facts.extend(record.plan.scale.map(|scale| ("scale".to_string(), scale.name().to_string())));
    let guests = record.plan.guest_kernels();
    let kernel = if guests.is_empty() { "kernel" } else { "host kernel" };
    facts.extend((!guests.is_empty()).then(|| ("guest kernel".to_string(), guests.join(", "))));
    for (name, fact) in [(kernel, "kernel.release"), ("processor", "cpu.model")] {
        facts.extend(known(fact).map(|text| (name.to_string(), text)));
    }
    facts.push(("senesce".into(), record.plan.program_version.clone()));
    facts
}

/// Groups facts by the first part of their name.
fn environment(record: &Record) -> Vec<(String, Vec<(String, String)>)> {
    let mut groups: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for (name, value) in &record.environment.0 {
        let (group, rest) = name.split_once('.').unwrap_or(("other", name));
        let fact = (rest.to_string(), plain(value));
        match groups.iter_mut().find(|(known, _)| known == group) {
            Some((_, facts)) => facts.push(fact),
            None => groups.push((group.to_string(), vec![fact])),
        }
    }
    groups
}

/// Lists the steps of a plan; consecutive equal steps are one entry.
fn grouped_steps(plan: &Plan) -> Vec<StepView> {
    let mut steps: Vec<StepView> = Vec::new();
    for step in &plan.steps {
        match steps.last_mut() {
            Some(last) if last.action == step.action && last.target == step.target => last.times += 1,
            _ => steps.push(StepView { action: step.action.clone(), target: step.target.clone(), times: 1 }),
        }
    }
    steps
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Renders a table. Columns of numbers are right-aligned.
pub(crate) fn table_markup(table: &Table, classes: &str) -> String {
    linked_table_markup(table, classes, &Pages::new())
}

/// Renders a table whose columns of experiments link to pages.
pub(crate) fn linked_table_markup(table: &Table, classes: &str, pages: &Pages) -> String {
    let numeric: Vec<bool> = (0..table.columns.len()).map(|column| is_numeric(table, column)).collect();
    let class = |column: usize| if numeric[column] { " class=\"num\"" } else { "" };
    let mut text = format!("<table class=\"sortable{classes}\"><thead><tr>");
    for (column, head) in table.columns.iter().enumerate() {
        let _ = write!(text, "<th scope=\"col\"{}>{}</th>", class(column), svg::escape(head));
    }
    text += "</tr></thead><tbody>";
    for row in table.rows.iter().take(SHOWN_ROWS) {
        text += "<tr>";
        for (column, cell) in row.iter().enumerate().take(numeric.len()) {
            let value = cell.as_f64().map_or_else(String::new, |value| format!(" data-v=\"{value}\""));
            let content = Markup::Html.cell(&table.columns[column], &shown(cell), pages);
            let class = if is_quantity(cell) { " class=\"quantity\"" } else { class(column) };
            let _ = write!(text, "<td{class}{value}>{content}</td>");
        }
        text += "</tr>";
    }
    text + "</tbody></table>"
}

fn is_numeric(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_null()).peekable();
    cells.peek().is_some() && cells.all(Value::is_number)
}

/// Returns whether a text has only numbers and short units, such as `+1.5 % to +2 %` or `4 KiB`. It does not break.
fn is_quantity(cell: &Value) -> bool {
    const LONGEST_UNIT: usize = 3;
    let is_number = |word: &str| word.replace('\u{2212}', "-").parse::<f64>().is_ok();
    let words: Vec<&str> = cell.as_str().into_iter().flat_map(str::split_whitespace).collect();
    words.first().is_some_and(|word| is_number(word))
        && words.iter().all(|word| is_number(word) || word.chars().count() <= LONGEST_UNIT)
}

fn shown(cell: &Value) -> String {
    match cell {
        Value::Null => "–".into(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Number(digits) => digits.as_f64().map_or_else(|| digits.to_string(), number::value),
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_rfc() {
        // RFC 4648, section 10.
        for (text, letters) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), letters);
        }
    }

    #[test]
    fn quantities_do_not_break_and_words_do() {
        for (text, expected) in [
            ("+1.5 %", true),
            ("\u{2212}1.5 % to +2 %", true),
            ("4 KiB", true),
            ("too wide", false),
            ("3 agings failed", false),
            ("", false),
        ] {
            assert_eq!(is_quantity(&Value::from(text)), expected, "{text}");
        }
        assert!(!is_quantity(&Value::from(1.5)), "its column decides");
        let mut table = Table::new("gate", "Gate", &["B/A - 1"]);
        table.row(("+1.5 %",));
        assert!(table_markup(&table, "").contains("<td class=\"quantity\">+1.5 %</td>"));
    }

    #[test]
    fn page_of_agings_in_guests_shows_their_kernels() {
        let directory = tempfile::tempdir().unwrap();
        let mut environment = senesce_core::Environment::default();
        environment.put("kernel.release", "6.18.0-host");
        let shown = |plan: &Plan, name: &str| {
            drop(senesce_core::RunDirectory::open(&directory.path().join(name), plan, &environment).unwrap());
            let facts = facts(&Record::open(&directory.path().join(name)).unwrap());
            facts.into_iter().filter(|(name, _)| name.contains("kernel")).collect::<Vec<_>>()
        };
        let fact = |name: &str, value: &str| (name.to_string(), value.to_string());
        let mut plan = Plan::default_of("gate", senesce_core::Seed(1));
        assert_eq!(shown(&plan, "host"), [fact("kernel", "6.18.0-host")]);
        plan.spec.insert("kernel".into(), "6.12.95-uml".into());
        assert_eq!(shown(&plan, "guest"), [fact("guest kernel", "6.12.95-uml"), fact("host kernel", "6.18.0-host")]);
    }

    #[test]
    fn script_contains_no_closing_tag() {
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--") && visible(SCRIPT) == SCRIPT);
    }
}
