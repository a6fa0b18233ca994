//! Formats tables within a width. A column that is equal in all rows is named once, words are wrapped inside their columns, and
//! wide tables are split; if that is not enough, each row becomes a list.

mod part;

use part::Part;
use senesce_core::text::words;
use std::io::{self, Write};

/// Spaces between columns, and before the first one.
pub(crate) const GAP: usize = 2;

/// Writes a table of at most `limit` characters per line; `None`: unlimited.
pub(crate) fn write(
    out: &mut impl Write,
    heads: &[String],
    rows: &[Vec<String>],
    numeric: &[bool],
    limit: Option<usize>,
) -> io::Result<()> {
    let (whole, limit) = (Part::of(heads, rows, numeric), limit.unwrap_or(usize::MAX));
    if let Some(widths) = whole.unwrapped(limit) {
        return whole.write(out, &widths);
    }
    let (part, constants) = whole.without_constants();
    if !constants.is_empty() {
        let words = format!("in all rows: {}", constants.join("; "));
        for line in wrap(&words, limit.saturating_sub(GAP).max(1)) {
            writeln!(out, "{}{line}", " ".repeat(GAP))?;
        }
    }
    let Some(parts) = part.split(limit) else {
        return part.rows.iter().try_for_each(|row| write_list(out, &part.heads, row, limit));
    };
    for (number, (part, widths)) in parts.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        part.write(out, widths)?;
    }
    Ok(())
}

/// Returns the columns that a text takes. Colours (ECMA-48, SGR) take none.
pub(crate) fn length(text: &str) -> usize {
    let (mut count, mut characters) = (0, text.chars());
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                let _ = characters.find(char::is_ascii_alphabetic);
            }
            _ => count += 1,
        }
    }
    count
}

/// Computes the width of each column within the limit, if that is possible.
pub(crate) fn fit(heads: &[String], rows: &[Vec<String>], numeric: &[bool], limit: usize) -> Option<Vec<usize>> {
    Part::of(heads, rows, numeric).fit(limit)
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

/// Breaks text into lines of at most `width` characters, not between a number and its unit; longer words are broken.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    if length(text) <= width || width == 0 {
        return vec![text.to_string()];
    }
    let mut lines = vec![String::new()];
    for word in words(text, |word| length(word) <= width) {
        let mut rest: Vec<char> = word.chars().collect();
        let line = lines.last_mut().expect("there is one");
        let blank = usize::from(!line.is_empty());
        if length(line) + blank + length(word) <= width {
            *line += &" ".repeat(blank);
            line.extend(rest);
            continue;
        }
        while length(word) > width && rest.len() > width {
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
        let narrow = text(Some(22));
        assert!(narrow.lines().all(|line| line.chars().count() <= 22), "{narrow}");
        assert!(narrow.starts_with("  metric: throughput\n"), "{narrow}");
        assert!(narrow.contains("  verdict: undecided\n"), "{narrow}");
    }

    #[test]
    fn parts_of_a_table_follow_each_other() {
        let narrow = text(Some(26));
        assert!(narrow.lines().all(|line| line.chars().count() <= 26), "{narrow}");
        let (first, second) = narrow.split_once("\n\n").unwrap();
        assert!(first.starts_with("  metric") && second.starts_with("  metric"), "{narrow}");
        assert!(first.contains("1234567") && second.contains("undecided"), "{narrow}");
    }

    #[test]
    fn common_values_are_named_once() {
        let heads = ["run", "kind", "seed"].map(str::to_string);
        let row = |run: &str| [run, "bench", "42"].map(str::to_string).to_vec();
        let mut out = Vec::new();
        write(&mut out, &heads, &[row("one"), row("two")], &[false, false, true], Some(16)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines, ["in all rows:", "kind: bench;", "seed: 42", "run", "one", "two"]);
    }

    #[test]
    fn words_longer_than_a_line_are_broken() {
        assert_eq!(wrap("a bcdefghi", 4), ["a", "bcde", "fghi"]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("\u{1b}[33m WARN\u{1b}[0m two", 8), ["\u{1b}[33m WARN\u{1b}[0m", "two"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn number_and_percent_sign_stay_together() {
        assert_eq!(wrap("slower by 2.0 % than before", 14), ["slower by", "2.0 % than", "before"]);
        assert_eq!(wrap("slower by 2.0 %", 3), ["slo", "wer", "by", "2.0", "%"], "too narrow");
        let heads = ["run", "change"].map(str::to_string);
        let row = ["senesce-runs/bench-1f64194b", "+123456.1 %"].map(str::to_string).to_vec();
        let mut out = Vec::new();
        write(&mut out, &heads, &[row], &[false, false], Some(41)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("+123456.1 %"), "{text}");
    }
}
