//! Statements of documents with one verdict, as a table.

use crate::markup::{Markup, Pages};
use senesce_core::MeasuredList;
use senesce_core::analysis::{Finding, Table};

pub struct Statements {
    /// Anchor of the section.
    pub id: String,
    pub title: String,
    /// Maximum number of measured values of a statement.
    pub most: usize,
    pub rows: Vec<Statement>,
}

pub struct Statement {
    /// Short name of the document.
    pub document: String,
    pub experiment: String,
    pub finding: Finding,
}

const COLUMNS: [&str; 6] = ["document", "statement", "published", "rule", "measured", "experiment"];

impl Statement {
    fn sentence(&self) -> String {
        match self.finding.note.as_str() {
            "" => self.finding.claim.clone(),
            note => format!("{} ({note})", self.finding.claim),
        }
    }

    fn cells(&self, markup: Markup, most: usize, pages: &Pages) -> [String; 6] {
        [
            markup.text(&self.document),
            markup.text(&self.sentence()),
            markup.text(&self.finding.published),
            markup.text(&self.finding.rule_text),
            markup.measured(&self.finding, most),
            markup.linked(&self.experiment, pages),
        ]
    }
}

impl Statements {
    /// Returns the rows as plain text.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&self.id, &self.title, &COLUMNS);
        for row in &self.rows {
            let Finding { published, rule_text, measured, .. } = &row.finding;
            let measured = MeasuredList::parse(measured).cut(self.most).to_string();
            table.row((&row.document, row.sentence(), published, rule_text, measured, &row.experiment));
        }
        table
    }

    pub(crate) fn markdown(&self, pages: &Pages) -> String {
        let line = |cells: [String; 6]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(COLUMNS.map(String::from)) + &line(COLUMNS.map(|_| "---".into()));
        self.rows.iter().for_each(|row| text += &line(row.cells(Markup::Markdown, self.most, pages)));
        text
    }

    pub(crate) fn html(&self, pages: &Pages) -> String {
        let head = COLUMNS.map(|column| format!("<th scope=\"col\">{column}</th>")).concat();
        let mut text = format!("<table class=\"sortable\"><thead><tr>{head}</tr></thead><tbody>");
        for row in &self.rows {
            text += &format!("<tr><td>{}</td></tr>", row.cells(Markup::Html, self.most, pages).join("</td><td>"));
        }
        text + "</tbody></table>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements() -> Statements {
        let finding = Finding {
            claim: "It is fast.".into(),
            published: "9 times".into(),
            rule_text: "[rate] is at least 9".into(),
            measured: "fs=a: 1 times; fs=b: 10 times".into(),
            contradicting: 1,
            ..Finding::default()
        };
        let row = Statement { document: "ZNS".into(), experiment: "append".into(), finding };
        Statements { id: "not".into(), title: "Not".into(), most: 1, rows: vec![row] }
    }

    #[test]
    fn rule_is_next_to_the_measured_value() {
        let pages = Pages::from([("append".into(), "append.md".into())]);
        let text = statements().markdown(&pages);
        let row = "| ZNS | It is fast. | 9 times | \\[rate] is at least 9 | **fs=a: 1 times**; and 1 more | \
                   [append](append.md) |";
        assert_eq!(text.lines().nth(2), Some(row));
        let page = statements().html(&pages);
        assert!(page.contains("<td><strong>fs=a: 1 times</strong>; and 1 more</td><td><a href="), "{page}");
    }

    #[test]
    fn plain_table_has_the_same_cells_without_marks() {
        let table = statements().table();
        assert_eq!(table.rows[0][3..], ["[rate] is at least 9", "fs=a: 1 times; and 1 more", "append"]);
    }
}
