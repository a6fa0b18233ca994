//! The scoreboard of all documents as a page and as Markdown.

use crate::claim_tables::{BlockView, claims};
use crate::markdown;
use crate::page::{PageFrame, laid_out, table_markup};
use askama::Template;
use senesce_core::analysis::{Finding, Table, score_lines};

/// Scores and claims, document by document.
pub struct Board {
    pub title: String,
    /// The totals in one sentence.
    pub answer: String,
    /// Definitions of the verdicts.
    pub notes: Vec<String>,
    /// A row per document.
    pub totals: Table,
    /// The statements of the documents by verdict.
    pub summaries: Vec<Table>,
    pub documents: Vec<BoardDocument>,
    /// Their circumstances.
    pub runs: Table,
}

pub struct BoardDocument {
    pub work: String,
    pub findings: Vec<Finding>,
}

#[derive(Template)]
#[template(path = "scoreboard.html")]
struct BoardPage<'a> {
    frame: PageFrame,
    version: &'static str,
    board: &'a Board,
    totals: String,
    /// Name, title and markup.
    summaries: Vec<(&'a str, &'a str, String)>,
    documents: Vec<DocumentView<'a>>,
    runs: String,
}

struct DocumentView<'a> {
    work: &'a str,
    score: Vec<String>,
    blocks: Vec<BlockView<'a>>,
}

pub fn page(board: &Board) -> String {
    let documents = board.documents.iter().map(|document| DocumentView {
        work: &document.work,
        score: score_lines(&document.findings),
        blocks: claims(&document.findings),
    });
    let shown = board.summaries.iter().filter(|table| !table.rows.is_empty());
    laid_out(&BoardPage {
        frame: PageFrame::new(false),
        version: env!("CARGO_PKG_VERSION"),
        board,
        totals: table_markup(&board.totals, ""),
        summaries: shown.map(|table| (table.id.as_str(), table.title.as_str(), table_markup(table, ""))).collect(),
        documents: documents.collect(),
        runs: table_markup(&board.runs, ""),
    })
}

pub fn markdown(board: &Board) -> String {
    let mut text = format!("# {}\n\n{}\n", markdown::escape(&board.title), markdown::escape(&board.answer));
    let titled = |table: &Table| match table.rows.is_empty() {
        true => String::new(),
        false => format!("\n## {}\n\n{}", markdown::escape(&table.title), markdown::table(table)),
    };
    text += &format!("\n{}\n", markdown::table(&board.totals));
    board.notes.iter().for_each(|note| text += &format!("* {}\n", markdown::escape(note)));
    board.summaries.iter().for_each(|table| text += &titled(table));
    for document in &board.documents {
        text += &format!("\n## {}\n", markdown::escape(&document.work));
        for line in score_lines(&document.findings) {
            text += &format!("\n{}\n", markdown::escape(&line));
        }
        text += &markdown::blocks(&document.findings);
    }
    text + &titled(&board.runs)
}
