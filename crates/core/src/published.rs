//! Published values: `data/published/EXPERIMENT.csv` with the columns metric, condition, value, unit, source, note.

/// One published value.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedValue {
    /// Published quantity.
    pub metric: String,
    /// Condition ("ext4 hdd aged agrawal").
    pub condition: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Paper and section, data set, or table.
    pub source: String,
    /// Note for the reader.
    pub note: String,
}

impl PublishedValue {
    /// Text of the value, such as `719 MiB/s`, with condition, source and note.
    pub fn text(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let note = if self.note.is_empty() { String::new() } else { format!("; {}", self.note) };
        format!("{}{unit} ({}: {}{note})", self.value, self.condition, self.source)
    }
}

/// Text of a metric's values in an embedded file; empty if it has none.
pub fn text_of(text: &str, metric: &str) -> String {
    let values = parse(text).unwrap_or_default().into_iter().filter(|one| one.metric == metric);
    values.map(|one| one.text()).collect::<Vec<_>>().join("; ")
}

/// Error in a published-values file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("published values, line {line}: {problem}")]
pub struct PublishedError {
    /// Line, from 1.
    pub line: usize,
    /// Description.
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
    let mut values: Vec<PublishedValue> = Vec::new();
    let mut seen_header = false;
    for (index, line) in text.lines().enumerate() {
        let error = |problem: String| PublishedError { line: index + 1, problem };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fields = split(line);
        if !seen_header {
            if fields != HEADER {
                return Err(error(format!("the header must be {}", HEADER.join(","))));
            }
            seen_header = true;
            continue;
        }
        let [metric, condition, value, unit, source, note]: [String; 6] =
            fields.try_into().map_err(|found: Vec<String>| error(format!("{} fields instead of 6", found.len())))?;
        let value = value.parse().map_err(|_| error(format!("'{value}' is not a number")))?;
        let above = |field: String, of: fn(&PublishedValue) -> &str| match field == AS_ABOVE {
            true => values.last().map(of).unwrap_or_default().to_string(),
            false => field,
        };
        let (source, note) = (above(source, |value| &value.source), above(note, |value| &value.note));
        if source.is_empty() {
            return Err(error("a published value needs its source".into()));
        }
        values.push(PublishedValue { metric, condition, value, unit, source, note });
    }
    Ok(values)
}

/// Splits one CSV line: double quotes group, two double quotes inside a group are one.
pub fn split(line: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
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
        assert_eq!(text_of(text, "ops"), "1.5 1/s (ext4, hdd: TR 16-105 Fig 3; says \"about\")");
        assert_eq!(text_of(text, "time"), "");
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
