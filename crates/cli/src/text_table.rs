//! Formats tables within a width: words are wrapped inside their columns; if that is not enough, each row becomes a list.

use std::io::{self, Write};

/// Spaces between columns, and before the first one.
pub(crate) const GAP: usize = 2;

/// A wider column of words is not narrowed further.
const NARROWEST: usize = 10;

/// Writes a table of at most `limit` characters per line; `None`: unlimited.
pub(crate) fn write(
    out: &mut impl Write,
    heads: &[String],
    rows: &[Vec<String>],
    numeric: &[bool],
    limit: Option<usize>,
) -> io::Result<()> {
    let limit = limit.unwrap_or(usize::MAX);
    match fit(heads, rows, numeric, limit) {
        Some(widths) => {
            write_row(out, heads, numeric, &widths)?;
            rows.iter().try_for_each(|row| write_row(out, row, numeric, &widths))
        }
        None => rows.iter().try_for_each(|row| write_list(out, heads, row, limit)),
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum()
}

/// Computes the width of each column: columns of words shrink, the widest first; numbers do not.
pub(crate) fn fit(heads: &[String], rows: &[Vec<String>], numeric: &[bool], limit: usize) -> Option<Vec<usize>> {
    let cells = |index: usize| rows.iter().filter_map(move |row| row.get(index)).map(|cell| length(cell)).max();
    let natural = |index: usize| cells(index).unwrap_or(0).max(length(&heads[index]));
    let mut widths: Vec<usize> = (0..heads.len()).map(natural).collect();
    let least = |index: usize| match numeric[index] {
        true => heads[index].split(' ').map(length).max().unwrap_or(0).max(cells(index).unwrap_or(0)),
        false => widths[index].min(NARROWEST),
    };
    let least: Vec<usize> = (0..heads.len()).map(least).collect();
    if total(&least) > limit {
        return None;
    }
    while total(&widths) > limit {
        let widest =
            (0..widths.len()).filter(|index| widths[*index] > least[*index]).max_by_key(|index| widths[*index])?;
        widths[widest] -= 1;
    }
    Some(widths)
}

pub(crate) fn write_row(out: &mut impl Write, cells: &[String], numeric: &[bool], widths: &[usize]) -> io::Result<()> {
    let wrapped: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
    let lines = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..lines {
        let mut text = String::new();
        for (index, cell) in wrapped.iter().enumerate() {
            let (part, width) = (cell.get(line).map_or("", String::as_str), widths[index]);
            text += &" ".repeat(GAP);
            text += &if numeric[index] { format!("{part:>width$}") } else { format!("{part:<width$}") };
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn write_list(out: &mut impl Write, heads: &[String], row: &[String], limit: usize) -> io::Result<()> {
    for (head, cell) in heads.iter().zip(row) {
        for (index, line) in wrap(&format!("{head}: {cell}"), limit.saturating_sub(2 * GAP).max(1)).iter().enumerate() {
            writeln!(out, "{}{line}", " ".repeat(if index == 0 { GAP } else { 2 * GAP }))?;
        }
    }
    writeln!(out)
}

/// Breaks text into lines of at most `width` characters; longer words are broken.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    if length(text) <= width || width == 0 {
        return vec![text.to_string()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut rest: Vec<char> = word.chars().collect();
        let line = lines.last_mut().expect("there is one");
        let blank = usize::from(!line.is_empty());
        if length(line) + blank + rest.len() <= width {
            *line += &" ".repeat(blank);
            line.extend(rest);
            continue;
        }
        while rest.len() > width {
            let behind = rest.split_off(width);
            lines.push(rest.into_iter().collect());
            rest = behind;
        }
        lines.push(rest.into_iter().collect());
    }
    lines.retain(|line| !line.is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(limit: Option<usize>) -> String {
        let heads = ["metric", "time of one operation (us)", "verdict"].map(str::to_string);
        let row = |metric: &str, time: &str, verdict: &str| [metric, time, verdict].map(str::to_string).to_vec();
        let rows = [
            row("throughput", "12.50", "better by 12 %, which is more than the margin"),
            row("latency", "1234567", "undecided"),
        ];
        let mut out = Vec::new();
        write(&mut out, &heads, &rows, &[false, true, false], limit).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_line_exceeds_the_limit_and_no_word_is_lost() {
        let whole = text(None);
        assert_eq!(whole.lines().count(), 3);
        let letters = |text: &str| {
            let mut letters: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
            letters.sort_unstable();
            letters
        };
        for limit in 40..120 {
            let narrow = text(Some(limit));
            assert!(narrow.lines().all(|line| line.chars().count() <= limit), "{limit}:\n{narrow}");
            assert_eq!(letters(&narrow), letters(&whole), "{limit}");
        }
    }

    #[test]
    fn rows_become_lists_if_columns_do_not_fit() {
        let narrow = text(Some(30));
        assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
        assert!(narrow.starts_with("  metric: throughput\n"), "{narrow}");
        assert!(narrow.contains("  verdict: undecided\n"), "{narrow}");
    }

    #[test]
    fn words_longer_than_a_line_are_broken() {
        assert_eq!(wrap("a bcdefghi", 4), ["a", "bcde", "fghi"]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
