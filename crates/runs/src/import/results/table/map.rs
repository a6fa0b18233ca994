//! `name=COL,value=COL,unit=COL`: the meaning of the columns of a table.

use crate::import::printable;

pub(crate) const EXAMPLE: &str = "write --map \"name=benchmark,value=time,unit='ms'\": each COL is the name of a column, its number \
                           from 1, a path in JSON (results[].mean), or a text in single quotes that holds for all rows";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    Text(String),
    Number(usize),
    /// In the header of a table; a path in JSON.
    Name(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Map {
    pub name: Column,
    pub value: Column,
    pub unit: Column,
    pub better: Option<Column>,
    pub conditions: Vec<(String, Column)>,
    rows: Vec<String>,
    /// None: by the extension of the file and by its header.
    pub separator: Option<Separator>,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    Character(char),
    Blanks,
}

const MOST_COLUMNS: usize = 32;
const MOST_NUMBER: usize = 10_000;

impl Map {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut name, mut value, mut unit, mut better) = (None, None, None, None);
        let (mut conditions, mut rows, mut separator) = (Vec::new(), Vec::new(), None);
        let pairs = pairs(text)?;
        if pairs.len() > MOST_COLUMNS {
            return Err(format!("it has more than {MOST_COLUMNS} columns"));
        }
        for (key, word) in &pairs {
            if pairs.iter().filter(|(other, _)| other == key).count() > 1 {
                return Err(format!("it has '{}' twice", printable(key)));
            }
            match *key {
                "name" => name = Some(column(word)?),
                "value" => value = Some(column(word)?),
                "unit" => unit = Some(column(word)?),
                "better" if ["higher", "lower"].contains(word) => better = Some(Column::Text((*word).to_string())),
                "better" => better = Some(column(word)?),
                "rows" => rows = word.trim_matches('\'').split('|').map(str::to_string).collect(),
                "separator" => separator = Some(separator_of(word)?),
                other => conditions.push((printable(other), column(word)?)),
            }
        }
        let needed = |what: &str| format!("it has no {what}=COL");
        Ok(Self {
            name: name.ok_or_else(|| needed("name"))?,
            value: value.ok_or_else(|| needed("value"))?,
            unit: unit.ok_or_else(|| needed("unit"))?,
            better,
            conditions,
            rows,
            separator,
            text: printable(text),
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn keeps(&self, name: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| row == name.trim())
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        let of_conditions = self.conditions.iter().map(|(_, column)| column);
        [&self.name, &self.value, &self.unit].into_iter().chain(&self.better).chain(of_conditions)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        fn name(column: &Column) -> Option<&str> {
            match column {
                Column::Name(name) => Some(name),
                _ => None,
            }
        }
        self.columns().filter_map(name).collect()
    }
}

/// Splits `key=word` between commas, except commas in quotes.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let (mut pairs, mut from, mut is_quoted) = (Vec::new(), 0, false);
    let ends = text.char_indices().filter(|(_, letter)| {
        is_quoted ^= *letter == '\'';
        *letter == ',' && !is_quoted
    });
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([text.len()]).collect();
    if is_quoted {
        return Err("a quote is not closed".into());
    }
    for end in ends {
        let pair = text[from..end].split_once('=').map(|(key, word)| (key.trim(), word.trim()));
        let pair = pair.filter(|(key, word)| !key.is_empty() && !word.is_empty());
        pairs.push(pair.ok_or_else(|| format!("'{}' is not KEY=COL", printable(&text[from..end])))?);
        from = end + 1;
    }
    Ok(pairs)
}

fn column(word: &str) -> Result<Column, String> {
    if let Some(text) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Ok(Column::Text(text.into()));
    }
    match word.parse::<usize>() {
        Ok(number) if (1..=MOST_NUMBER).contains(&number) => Ok(Column::Number(number - 1)),
        Ok(number) => Err(format!("column {number}: columns count from 1 to {MOST_NUMBER}")),
        Err(_) => Ok(Column::Name(word.into())),
    }
}

fn separator_of(word: &str) -> Result<Separator, String> {
    Ok(match word {
        "comma" => Separator::Character(','),
        "tab" => Separator::Character('\t'),
        "semicolon" => Separator::Character(';'),
        "blanks" => Separator::Blanks,
        _ => return Err(format!("separator is '{}', not comma, tab, semicolon or blanks", printable(word))),
    })
}
