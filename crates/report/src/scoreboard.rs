//! The scoreboard of all documents as a page and as Markdown.

use crate::claim_tables::{BlockView, claims};
use crate::markdown;
use crate::markup::Pages;
use crate::page::{PageFrame, laid_out, linked_table_markup, table_markup};
use crate::statements::Statements;
use askama::Template;
use senesce_core::analysis::{Finding, Table, score_lines};

/// Scores and claims, document by document.
pub struct Board {
    pub title: String,
    /// The totals in one sentence.
    pub answer: String,
    /// The results of a document in a row.
    pub overview: Table,
    /// Definitions of the verdicts.
    pub notes: Vec<String>,
    /// A row per document.
    pub totals: Table,
    /// The decided statements of the documents by verdict.
    pub statements: Vec<Statements>,
    /// The other statements.
    pub open: Table,
    pub documents: Vec<BoardDocument>,
    /// Their circumstances.
    pub runs: Table,
    /// Pages to which the names of experiments link.
    pub pages: Pages,
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
    overview: String,
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
        blocks: claims(&document.findings, &board.pages),
    });
    let decided = board.statements.iter().filter(|one| !one.rows.is_empty());
    let mut summaries: Vec<(&str, &str, String)> =
        decided.map(|one| (one.id.as_str(), one.title.as_str(), one.html(&board.pages))).collect();
    if !board.open.rows.is_empty() {
        summaries.push((board.open.id.as_str(), board.open.title.as_str(), table_markup(&board.open, "")));
    }
    laid_out(&BoardPage {
        frame: PageFrame::new(false),
        version: env!("CARGO_PKG_VERSION"),
        board,
        overview: linked_table_markup(&board.overview, "", &board.pages),
        totals: table_markup(&board.totals, ""),
        summaries,
        documents: documents.collect(),
        runs: linked_table_markup(&board.runs, "", &board.pages),
    })
}

pub fn markdown(board: &Board) -> String {
    let pages = &board.pages;
    let mut text = format!("# {}\n\n{}\n", markdown::escape(&board.title), markdown::escape(&board.answer));
    let titled = |title: &str, is_empty: bool, table: String| match is_empty {
        true => String::new(),
        false => format!("\n## {}\n\n{table}", markdown::escape(title)),
    };
    let table = |table: &Table| titled(&table.title, table.rows.is_empty(), markdown::linked_table(table, pages));
    text += &format!("\n{}", markdown::linked_table(&board.overview, pages));
    text += &format!("\n{}\n", markdown::table(&board.totals));
    board.notes.iter().for_each(|note| text += &format!("* {}\n", markdown::escape(note)));
    for one in &board.statements {
        text += &titled(&one.title, one.rows.is_empty(), one.markdown(pages));
    }
    text += &table(&board.open);
    for document in &board.documents {
        text += &format!("\n## {}\n", markdown::escape(&document.work));
        for line in score_lines(&document.findings) {
            text += &format!("\n{}\n", markdown::escape(&line));
        }
        text += &markdown::blocks(&document.findings, pages);
    }
    text + &table(&board.runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Verdict;

    fn board() -> Board {
        let table = |id: &str, columns: &[&str], row: &[&str]| {
            let mut table = Table::new(id, id, columns);
            table.row(row);
            table
        };
        let finding = Finding {
            claim: "It is fast.".into(),
            verdict: Verdict::Supported,
            measured: "10 times".into(),
            note: "append at quick".into(),
            ..Finding::default()
        };
        Board {
            title: "Board".into(),
            answer: "One.".into(),
            overview: table("overview", &["document", "by experiment"], &["ZNS", "append 1 of 1"]),
            notes: Vec::new(),
            totals: table("scores", &["document"], &["ZNS"]),
            statements: Vec::new(),
            open: Table::new("open", "Open", &["document"]),
            documents: vec![BoardDocument { work: "W".into(), findings: vec![finding] }],
            runs: table("runs", &["experiment", "run"], &["append", "append-1"]),
            pages: Pages::from([("append".into(), "append.md".into())]),
        }
    }

    #[test]
    fn experiments_link_to_their_pages_in_all_tables() {
        for (text, link) in
            [(markdown(&board()), "[append](append.md)"), (page(&board()), "<a href=\"append.md\">append</a>")]
        {
            for after in [" 1 of 1", " at quick"] {
                assert!(text.contains(&format!("{link}{after}")), "{after} in {text}");
            }
            assert_eq!(text.matches(link).count(), 3, "overview, claim and run: {text}");
        }
    }

    #[test]
    fn overview_comes_before_scores() {
        let text = markdown(&board());
        assert!(text.find("by experiment") < text.find("| document |\n"), "{text}");
    }
}
