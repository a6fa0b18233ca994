//! Prints the analysis of an experiment as text: the answer, the score, the leading figures as values, then the claims.

use crate::display::{print_table, terminal_width};
use crate::text_table::wrap;
use senesce_core::analysis::{Analysis, Axis, Figure, FigureKind, Finding, Mark, Series, Table, score_lines};
use senesce_core::text::visible_line;
use senesce_report::answer::{self, Block};
use senesce_report::data;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Width of text if standard output is not a terminal.
pub(crate) const TEXT_WIDTH: usize = 80;

/// Notes before the figures; the others follow the claims.
const FIRST_NOTES: usize = 3;

/// Longer tables of a figure are reduced to the ends of their series.
const FIGURE_ROWS: usize = 12;

/// How tables are printed after the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tables {
    Whole,
    /// Only their titles.
    Named,
}

pub(crate) fn write(out: &mut impl Write, analysis: &Analysis, tables: Tables) -> io::Result<()> {
    let width = terminal_width().unwrap_or(TEXT_WIDTH);
    head(out, analysis, width)?;
    for figure in analysis.leading_figures() {
        write_figure(out, figure, width)?;
    }
    claims(out, &analysis.findings, width)?;
    if analysis.caveats.len() > FIRST_NOTES {
        writeln!(out)?;
        notes(out, &analysis.caveats[FIRST_NOTES..], width)?;
    }
    match tables {
        Tables::Whole => analysis.tables.iter().try_for_each(|table| {
            writeln!(out)?;
            lines(out, &table.title, 0, width)?;
            print_table(out, table)
        }),
        Tables::Named => named(out, analysis, width),
    }
}

fn head(out: &mut impl Write, analysis: &Analysis, width: usize) -> io::Result<()> {
    lines(out, &analysis.title, 0, width)?;
    writeln!(out)?;
    for line in answer::answer(analysis).into_iter().chain(score_lines(&analysis.findings)) {
        lines(out, &line, 0, width)?;
    }
    writeln!(out)?;
    for paragraph in answer::method(analysis).lines().filter(|line| !line.is_empty()) {
        lines(out, paragraph, 0, width)?;
    }
    notes(out, &analysis.caveats[..analysis.caveats.len().min(FIRST_NOTES)], width)
}

fn notes(out: &mut impl Write, caveats: &[String], width: usize) -> io::Result<()> {
    caveats.iter().try_for_each(|caveat| lines(out, &format!("note: {caveat}"), 0, width))
}

pub(crate) fn lines(out: &mut impl Write, text: &str, indent: usize, width: usize) -> io::Result<()> {
    hanging(out, text, (indent, indent), width)
}

/// Writes wrapped lines with one indent for the first and another for the following ones.
fn hanging(out: &mut impl Write, text: &str, (first, next): (usize, usize), width: usize) -> io::Result<()> {
    let room = width.saturating_sub(first.max(next)).max(1);
    for (index, line) in wrap(&visible_line(text), room).iter().enumerate() {
        writeln!(out, "{}{line}", " ".repeat(if index == 0 { first } else { next }))?;
    }
    Ok(())
}

fn named(out: &mut impl Write, analysis: &Analysis, width: usize) -> io::Result<()> {
    let titles: Vec<&str> = analysis.tables.iter().map(|table| table.title.as_str()).collect();
    if titles.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    lines(out, &format!("Tables in the report: {}", titles.join("; ")), 0, width)
}

fn claims(out: &mut impl Write, findings: &[Finding], width: usize) -> io::Result<()> {
    if let Some(work) = answer::common_work(findings) {
        writeln!(out)?;
        lines(out, &format!("Claims from {work}"), 0, width)?;
    }
    blocks(out, findings, width)
}

pub(crate) fn blocks(out: &mut impl Write, findings: &[Finding], width: usize) -> io::Result<()> {
    answer::blocks(findings).iter().try_for_each(|block| write_block(out, block, width))
}

fn write_block(out: &mut impl Write, block: &Block<'_>, width: usize) -> io::Result<()> {
    writeln!(out)?;
    lines(out, &block.title, 0, width)?;
    for group in &block.groups {
        if !group.source.is_empty() {
            lines(out, &format!("[{}]", group.source), 2, width)?;
        }
        for finding in &group.findings {
            write_finding(out, finding, block.shows_verdicts, width)?;
        }
    }
    Ok(())
}

fn write_finding(out: &mut impl Write, finding: &Finding, shows_verdict: bool, width: usize) -> io::Result<()> {
    let claim = finding.claim.trim_end_matches('.');
    let claim = match shows_verdict {
        true => format!("{}: {claim}", finding.verdict.text()),
        false => format!("- {claim}"),
    };
    hanging(out, &claim, (2, 4), width)?;
    for (name, text) in [("published", &finding.published), ("measured", &finding.measured)] {
        if !text.is_empty() {
            hanging(out, &format!("{name}: {text}"), (6, 8), width)?;
        }
    }
    if finding.note.is_empty() { Ok(()) } else { lines(out, &finding.note, 6, width) }
}

fn write_figure(out: &mut impl Write, figure: &Figure, width: usize) -> io::Result<()> {
    let Some(table) = as_table(figure, width) else { return Ok(()) };
    writeln!(out)?;
    lines(out, &format!("Figure: {}", figure.title), 0, width)?;
    if let Some((_, y)) = axes(figure).filter(|_| !figure.device.is_empty()) {
        lines(out, &format!("{}; {}", y.label, figure.device), 2, width)?;
    }
    print_table(out, &table)
}

/// Tabulates the values of a figure, or the ends of its series if they are too many. Maps of cells have none.
fn as_table(figure: &Figure, width: usize) -> Option<Table> {
    let (x, y) = axes(figure)?;
    let series: Vec<&Series> = figure.series().iter().filter(|one| !one.points.is_empty()).collect();
    let whole = marked(data::of_figure(figure), &series);
    let (heads, rows): (usize, usize) =
        (whole.columns.iter().map(|head| head.len().min(14) + 2).sum(), whole.rows.len());
    if rows <= FIGURE_ROWS && heads <= width {
        return Some(whole);
    }
    let mut ends = Table::new("ends", "", &["series", "from", "to", "first", "last"]);
    (ends.columns[1], ends.columns[2]) = (format!("{} from", x.label), "to".into());
    ends.columns[3] = format!("{} first", y.label);
    for one in &series {
        let (first, last) = (one.points[0], one.points[one.points.len() - 1]);
        ends.row((name(one), place(x, first.0), place(x, last.0), first.1, last.1));
    }
    (!series.is_empty()).then_some(ends)
}

fn place(x: &Axis, at: f64) -> Value {
    x.categories.get(at.round().max(0.0) as usize).map_or_else(|| json!(at), |name| json!(name))
}

fn name(series: &Series) -> String {
    match series.mark {
        Mark::Published if !series.name.contains("published") => format!("{} (published)", series.name),
        _ => series.name.clone(),
    }
}

/// Marks published series as such in the headings of a table.
fn marked(mut table: Table, series: &[&Series]) -> Table {
    for head in &mut table.columns {
        if let Some(one) = series.iter().find(|one| one.name == *head) {
            *head = name(one);
        }
    }
    table
}

fn axes(figure: &Figure) -> Option<(&Axis, &Axis)> {
    match &figure.kind {
        FigureKind::Lines { x, y, .. }
        | FigureKind::Scatter { x, y, .. }
        | FigureKind::Bars { x, y, .. }
        | FigureKind::Steps { x, y, .. } => Some((x, y)),
        FigureKind::Cells { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Better;
    use senesce_core::analysis::Verdict;

    fn text(analysis: &Analysis) -> String {
        let mut out = Vec::new();
        write(&mut out, analysis, Tables::Named).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn analysis() -> Analysis {
        let finding = |claim: &str, verdict, reason: &str| Finding {
            claim: claim.into(),
            work: "A, B, 2016".into(),
            place: "Figure 1".into(),
            source: "A, B, 2016, Figure 1".into(),
            stated: true,
            published: "30 times".into(),
            measured: "1.5 times (one value)".into(),
            verdict,
            reason: reason.into(),
            ..Finding::default()
        };
        let points = |factor: f64| (0..20).map(|at| (f64::from(at), factor * f64::from(at))).collect::<Vec<_>>();
        let lines = FigureKind::Lines {
            x: Axis::linear("round"),
            y: Axis::linear("cost (s/GiB)"),
            series: vec![
                Series::new("ext4", Mark::Measured, points(1.0)),
                Series::new("ext4 of the paper", Mark::Published, points(2.0)),
            ],
        };
        Analysis {
            title: "Aging".into(),
            summary: "Age costs ext4 half.\n\nHow it was measured.".into(),
            figures: vec![Figure {
                id: "cost".into(),
                title: "Cost over rounds".into(),
                caption: String::new(),
                device: "modelled disk drive".into(),
                better: Better::Lower,
                kind: lines,
            }],
            findings: vec![
                finding("It ages.", Verdict::Undecided, "too few values"),
                finding("It ages much.", Verdict::Undecided, "too few values"),
                finding("It is slow.", Verdict::NotSupported, ""),
            ],
            caveats: (1..=5).map(|number| format!("caveat {number}")).collect(),
            ..Analysis::default()
        }
    }

    #[test]
    fn answer_score_figure_and_decided_claims_come_in_this_order() {
        let text = text(&analysis());
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} is missing in\n{text}"));
        let order = [
            "Age costs ext4 half.",
            "3 statements of the paper: 1 not supported, 2 undecided",
            "How it was measured.",
            "note: caveat 3",
            "Figure: Cost over rounds",
            "ext4 of the paper (published)",
            "Decided",
            "not supported: It is slow",
            "Undecided: too few values",
            "note: caveat 4",
        ]
        .map(at);
        assert!(order.is_sorted(), "{order:?}\n{text}");
        assert_eq!(text.matches("too few values").count(), 1, "{text}");
        assert_eq!(text.matches("A, B, 2016").count(), 1, "{text}");
        assert_eq!(text.matches("1.5 times (one value)").count(), 3, "{text}");
        let before = text.lines().take_while(|line| !line.starts_with("Figure")).count();
        assert!(before < 24 && text.lines().all(|line| line.chars().count() <= TEXT_WIDTH), "{text}");
    }

    #[test]
    fn long_series_are_reduced_to_their_ends() {
        let table = as_table(&analysis().figures[0], TEXT_WIDTH).unwrap();
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[1][4], json!(38.0));
    }
}
