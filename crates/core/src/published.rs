//! Published values: `data/published/EXPERIMENT.csv` with the columns metric, condition, value, unit, source, note.

/// A line of the file.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct PublishedValue {
    /// Published quantity.
    pub metric: String,
    /// Condition ("ext4 hdd aged agrawal").
    pub condition: String,
    /// The number as published, in `unit`.
    pub value: f64,
    /// Unit of `value`, as in measurements ("operations/s", "s").
    pub unit: String,
    /// Paper and section, data set, or table.
    pub source: String,
    /// Note for the reader.
    pub note: String,
}

/// Error in a published-values file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("published values, line {line}: {problem}")]
pub struct PublishedError {
    /// Line, from 1.
    pub line: usize,
    /// Description of the error.
    pub problem: String,
}

const HEADER: [&str; 6] = ["metric", "condition", "value", "unit", "source", "note"];

/// Repeats the source or note of the previous line.
const AS_ABOVE: &str = "as above";

/// Parses the file's text. Lines that begin with `#` are comments; fields may be quoted with `"`; a source or note `as above`
/// repeats that of the previous line.
///
/// # Errors
/// A wrong header, or the first line without six fields, a number or a source.
pub fn parse(text: &str) -> Result<Vec<PublishedValue>, PublishedError> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let at = |place: Option<&csv::Position>, problem: String| {
        let line = place.map_or(1, |place| place.line() as usize);
        PublishedError { line, problem }
    };
    let wrong = |error: csv::Error| at(error.position(), error.to_string());
    let header = reader.headers().map_err(wrong)?.clone();
    if !header.is_empty() && header != HEADER[..] {
        return Err(at(header.position(), format!("the header must be {}", HEADER.join(","))));
    }
    let mut values: Vec<PublishedValue> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let mut value: PublishedValue = record.deserialize(Some(&header)).map_err(wrong)?;
        let above = |field: &mut String, of: fn(&PublishedValue) -> &str| {
            if field == AS_ABOVE {
                *field = values.last().map(of).unwrap_or_default().into();
            }
        };
        above(&mut value.source, |value| &value.source);
        above(&mut value.note, |value| &value.note);
        if value.source.is_empty() {
            return Err(at(record.position(), "a published value needs its source".into()));
        }
        values.push(value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quotes_and_comments() {
        let text = "# from a paper\nmetric,condition,value,unit,source,note\nops,\"ext4, hdd\",1.5,1/s,TR 16-105 Fig 3,\"says \"\"about\"\"\"\n";
        let values = parse(text).unwrap();
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].condition, "ext4, hdd");
        assert_eq!(values[0].note, "says \"about\"");
    }

    #[test]
    fn a_missing_source_is_an_error() {
        let text = "metric,condition,value,unit,source,note\nops,x,1,1/s,,\n";
        assert_eq!(parse(text).unwrap_err().line, 2);
        assert_eq!(parse(&text.replace(",1/s,,", ",1/s,as above,")).unwrap_err().line, 2, "nothing is above");
    }

    #[test]
    fn source_and_note_may_repeat_the_previous_line() {
        let text = "metric,condition,value,unit,source,note\nops,x,1,1/s,\"TR 16, 105\",disk\nops,y,2,1/s,as above,\nops,z,3,1/s,as above,as above\n";
        let found = parse(text).unwrap();
        assert!(found.iter().all(|value| value.source == "TR 16, 105"));
        assert_eq!(found.iter().map(|value| value.note.as_str()).collect::<Vec<_>>(), ["disk", "", ""]);
    }
}
