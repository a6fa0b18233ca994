//! Rows of JSON: one document, or one on each line. A path names objects by their keys: `results[].mean`; `[]` stands
//! for each element of an array, `*` for each value of an object, and a number for an element.

use super::map::{Column, Map};
use super::{MOST_ROWS, Row, Rows};
use crate::import::printable;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Element(usize),
    Each,
    EachKey,
}

/// A value at the end of a path, with the choice for each `[]` and `*` on the way.
struct LocatedValue<'a> {
    value: &'a Value,
    way: Vec<String>,
}

/// Returns one row for each value that the path matches. Errors name the line of invalid JSON, and missing labels.
pub(crate) fn rows(map: &Map, text: &str) -> Result<Rows, String> {
    let mut found = Rows::default();
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for (index, document) in documents.enumerate() {
        let document = document.map_err(|error| format!("it is not JSON: {error}"))?;
        of_document(map, &document, index + 1, &mut found)?;
    }
    Ok(found)
}

fn of_document(map: &Map, document: &Value, number: usize, found: &mut Rows) -> Result<(), String> {
    let steps = |path: &str| steps(path, document.is_array());
    let Column::Name(path) = &map.value else {
        return Err("value is a path in JSON: write its keys, for example results[].mean".into());
    };
    let wanted = steps(path);
    let mut places = Vec::new();
    walk(document, &wanted, Vec::new(), &mut places);
    if places.is_empty() {
        found.left_out.push(format!("document {number} without {}", printable(path)));
    }
    for (index, place) in places.into_iter().enumerate() {
        let at = format!("document {number}, row {}", index + 1);
        let label = |column: &Column| match column {
            Column::Text(text) => Ok(text.clone()),
            Column::Number(number) => Err(format!("column {} is not a path in JSON", number + 1)),
            Column::Name(path) => {
                let steps = steps(path);
                let missing = || format!("{at}: it has no {}", printable(path));
                label(document, &steps, shared(&steps, &wanted, &place.way)).ok_or_else(missing)
            }
        };
        let value = match place.value {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_string(),
            Value::Null => {
                found.left_out.push(format!("{at}: {} is null", printable(path)));
                continue;
            }
            other => {
                return Err(format!("{at}: {} is '{}', not a number", printable(path), printable(&other.to_string())));
            }
        };
        if found.rows.len() == MOST_ROWS {
            return Err(format!("it has more than {MOST_ROWS} rows"));
        }
        found.rows.push(Row {
            name: label(&map.name)?,
            value,
            unit: label(&map.unit)?,
            better: map.better.as_ref().map(label).transpose()?,
            conditions: map
                .conditions
                .iter()
                .map(|(name, column)| Ok((name.clone(), label(column)?)))
                .collect::<Result<_, String>>()?,
            at,
        });
    }
    Ok(())
}

/// Parses `a.b[].c.*.2`; if the document is an array, its rows are implied.
fn steps(path: &str, is_array: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let key = part.trim_end_matches("[]");
        match key {
            "" => {}
            "*" => steps.push(Step::EachKey),
            _ => steps.push(key.parse().map_or_else(|_| Step::Key(key.into()), Step::Element)),
        }
        steps.extend((0..(part.len() - key.len()) / 2).map(|_| Step::Each));
    }
    if is_array && !matches!(steps.first(), Some(Step::Each | Step::Element(_))) {
        steps.insert(0, Step::Each);
    }
    steps
}

/// Returns the choices of `[]` and `*` in the common part of two paths, which are those of the value's path.
fn shared<'a>(steps: &[Step], of_value: &[Step], way: &'a [String]) -> &'a [String] {
    let same = steps.iter().zip(of_value).take_while(|(one, other)| one == other);
    let chosen = same.filter(|(step, _)| matches!(step, Step::Each | Step::EachKey)).count();
    &way[..chosen.min(way.len())]
}

fn walk<'a>(value: &'a Value, steps: &[Step], way: Vec<String>, places: &mut Vec<LocatedValue<'a>>) {
    // One more than the limit, so that too many are noticed.
    if places.len() > MOST_ROWS {
        return;
    }
    let Some((step, rest)) = steps.split_first() else {
        places.push(LocatedValue { value, way });
        return;
    };
    let with = |word: String| way.iter().cloned().chain([word]).collect::<Vec<_>>();
    match (step, value) {
        (Step::Each, Value::Array(all)) => {
            all.iter().enumerate().for_each(|(index, one)| walk(one, rest, with(index.to_string()), places));
        }
        (Step::EachKey, Value::Object(all)) => {
            all.iter().for_each(|(key, one)| walk(one, rest, with(key.clone()), places));
        }
        _ => {
            if let Some(next) = next(value, step) {
                walk(next, rest, way, places);
            }
        }
    }
}

fn next<'a>(value: &'a Value, step: &Step) -> Option<&'a Value> {
    match step {
        Step::Key(key) => value.get(key),
        // A key may be a number too.
        Step::Element(index) => value.get(index).or_else(|| value.get(index.to_string())),
        Step::Each | Step::EachKey => None,
    }
}

/// Returns the text at the end of a path with chosen `[]` and `*`; for a final `*` the key itself.
fn label(document: &Value, steps: &[Step], way: &[String]) -> Option<String> {
    let (mut value, mut way, mut key) = (document, way.iter(), None);
    for step in steps {
        key = None;
        value = match step {
            Step::Each => value.get(way.next()?.parse::<usize>().ok()?)?,
            Step::EachKey => {
                let word = way.next()?;
                key = Some(word);
                value.get(word)?
            }
            other => next(value, other)?,
        };
    }
    match (key, value) {
        (Some(key), _) => Some(key.clone()),
        (None, Value::String(text)) => Some(text.clone()),
        (None, Value::Number(number)) => Some(number.to_string()),
        (None, Value::Bool(flag)) => Some(flag.to_string()),
        _ => None,
    }
}
