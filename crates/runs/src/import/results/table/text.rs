//! Rows of lines: CSV, TSV, and columns between blanks.

use super::map::{Column, Map, Separator};
use super::{MOST_ROWS, Row, Rows};
use crate::import::printable;

const KNOWN: [Separator; 4] =
    [Separator::Character(','), Separator::Character('\t'), Separator::Character(';'), Separator::Blanks];

/// Returns the rows below the header with the names of the map; without names, all lines with a number in the value's
/// column.
pub(crate) fn rows(map: &Map, text: &str, extension: &str) -> Result<Rows, String> {
    let names = map.names();
    let (header, separator) = match names.is_empty() {
        true => (None, map.separator.unwrap_or_else(|| by_extension(extension))),
        false => header(map, text, &names)?,
    };
    let mut found = Rows::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if header.as_ref().is_some_and(|(at, _)| index == *at) {
            continue;
        }
        let cells = cells(line, separator).map_err(|problem| format!("line {}: {problem}", index + 1))?;
        let is_below = header.as_ref().is_some_and(|(at, _)| index > *at);
        let get = |column: &Column| match column {
            Column::Text(text) => Some(text.clone()),
            Column::Number(number) => cells.get(*number).cloned(),
            Column::Name(name) => {
                let place = header.as_ref()?.1.iter().position(|cell| cell == name)?;
                cells.get(place).cloned()
            }
        };
        let row = (|| {
            let conditions = map.conditions.iter().map(|(name, column)| Some((name.clone(), get(column)?)));
            Some(Row {
                at: format!("line {}", index + 1),
                name: get(&map.name)?,
                value: get(&map.value).filter(|value| !value.is_empty())?,
                unit: get(&map.unit)?,
                better: map.better.as_ref().map_or(Some(None), |column| get(column).map(Some))?,
                conditions: conditions.collect::<Option<_>>()?,
            })
        })();
        match row {
            Some(_) if found.rows.len() == MOST_ROWS => return Err(format!("it has more than {MOST_ROWS} rows")),
            // Below a header each row has a number; elsewhere text without one is not a row.
            Some(row) if is_below || header.is_none() && row.value.parse::<f64>().is_ok() => found.rows.push(row),
            _ => found.left_out.push(format!("line {} '{}'", index + 1, printable(line.trim()))),
        }
    }
    Ok(found)
}

fn by_extension(extension: &str) -> Separator {
    match extension {
        "csv" => Separator::Character(','),
        "tsv" => Separator::Character('\t'),
        _ => Separator::Blanks,
    }
}

type Header = Option<(usize, Vec<String>)>;

fn header(map: &Map, text: &str, names: &[&str]) -> Result<(Header, Separator), String> {
    let separators = map.separator.map_or(KNOWN.to_vec(), |separator| vec![separator]);
    for (index, line) in text.lines().enumerate() {
        for separator in &separators {
            let Ok(cells) = cells(line, *separator) else { continue };
            if let Some(twice) = names.iter().find(|name| cells.iter().filter(|cell| cell == *name).count() > 1) {
                let twice = printable(twice);
                return Err(format!(
                    "line {}: two columns have the name '{twice}': give the number of one of them",
                    index + 1
                ));
            }
            if names.iter().all(|name| cells.iter().any(|cell| cell == name)) {
                return Ok((Some((index, cells)), *separator));
            }
        }
    }
    Err(format!("no line has the columns {}", printable(&names.join(", "))))
}

/// Splits a line into cells. Between blanks a cell loses brackets and a colon around it.
fn cells(line: &str, separator: Separator) -> Result<Vec<String>, String> {
    let Separator::Character(separator) = separator else {
        let plain = |word: &str| word.trim_start_matches('(').trim_end_matches([')', ',', ':', ';']).to_string();
        return Ok(line.split_whitespace().map(plain).collect());
    };
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // Two quotes within quotes are one (RFC 4180).
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            _ if letter == separator && !is_quoted => cells.push(std::mem::take(&mut cell).trim().to_string()),
            _ => cell.push(letter),
        }
    }
    cells.push(cell.trim().to_string());
    if is_quoted { Err("a quote is not closed".into()) } else { Ok(cells) }
}
