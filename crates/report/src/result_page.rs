//! The results of an experiment as Markdown, from a committed summary.

use crate::{answer, bundle, markdown, render_svg};
use senesce_core::Analysis;
use senesce_core::analysis::score_lines;

/// A page with the drawings that it shows.
pub struct ResultPage {
    pub text: String,
    /// File names and SVG documents.
    pub drawings: Vec<(String, String)>,
}

/// Builds the page of an experiment. `circumstances` describes its run in one line; `head` is a paragraph of Markdown
/// with links.
pub fn page(experiment: &str, head: &str, circumstances: &str, analysis: &Analysis) -> ResultPage {
    let mut text = format!("# Results: {experiment}\n\n{head}\n");
    for paragraph in answer::answer(analysis).into_iter().chain(score_lines(&analysis.findings)) {
        text += &format!("\n{}\n", markdown::escape(&paragraph));
    }
    text += &format!("\n{}\n", markdown::escape(answer::method(analysis)));
    for note in std::iter::once(circumstances).chain(analysis.caveats.iter().map(String::as_str)) {
        text += &format!("\n> {}\n", markdown::escape(note));
    }
    let mut drawings = Vec::new();
    for figure in &analysis.figures {
        let name = format!("{experiment}-{}.svg", bundle::file_name(&figure.id));
        text += &format!("\n![{}]({name})\n\n{}\n", markdown::escape(&figure.title), markdown::escape(&figure.caption));
        drawings.push((name, render_svg(figure)));
    }
    if !analysis.findings.is_empty() {
        text += &markdown::claims(&analysis.findings);
    }
    for table in &analysis.tables {
        text += &format!("\n## {}\n\n{}", markdown::escape(&table.title), markdown::table(table));
    }
    ResultPage { text, drawings }
}
