//! Rows of a published table and their conditions.

use crate::selection::Condition;
use senesce_core::published::PublishedValue;

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub published: PublishedValue,
    /// Its conditions with the names of our runs.
    pub condition: Condition,
}

impl Row {
    /// Splits the conditions of a row: `key=value,key=value`, else the first matching template (`{scheme} {host}`), else a
    /// single condition named `condition`.
    pub(crate) fn of(published: PublishedValue, templates: &[String]) -> Self {
        let text = published.condition.as_str();
        let condition = pairs(text)
            .or_else(|| templates.iter().find_map(|template| fill(template, text)))
            .unwrap_or_else(|| Condition::from([("condition".to_string(), text.to_string())]));
        Self { published, condition }
    }

    /// Formats the name as in claims: `METRIC | CONDITION`.
    pub(crate) fn name(&self) -> String {
        format!("{} | {}", self.published.metric, self.published.condition)
    }

    pub fn is_fitted(&self) -> bool {
        self.published.note.split(' ').next_back() == Some("fitted")
    }

    /// Returns its conditions and those from its note: `fitted` (yes or no) and `group`.
    pub fn conditions(&self) -> Condition {
        let mut all = self.condition.clone();
        all.insert("fitted".into(), if self.is_fitted() { "yes" } else { "no" }.into());
        if let Some(rest) = self.published.note.strip_prefix("group:") {
            all.insert("group".into(), rest.split(' ').next().unwrap_or_default().into());
        }
        all
    }
}

fn pairs(condition: &str) -> Option<Condition> {
    let pair = |text: &str| text.split_once('=').map(|(key, word)| (key.trim().to_string(), word.trim().to_string()));
    condition.split(',').map(pair).collect()
}

/// Returns the text at the placeholders of the template; `None` if the rest differs.
fn fill(template: &str, text: &str) -> Option<Condition> {
    let mut found = Condition::new();
    let mut pieces = template.split('{');
    let mut rest = text.strip_prefix(pieces.next()?)?;
    for piece in pieces {
        let (name, after) = piece.split_once('}')?;
        let end = if after.is_empty() { rest.len() } else { rest.find(after)? };
        if end == 0 {
            return None;
        }
        found.insert(name.into(), rest[..end].into());
        rest = &rest[end + after.len()..];
    }
    rest.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(condition: &str, note: &str) -> Row {
        let published = PublishedValue {
            metric: "files".into(),
            condition: condition.into(),
            value: 1.0,
            unit: String::new(),
            source: String::new(),
            note: note.into(),
        };
        let templates = ["sum:{window}:{divisor}:reset", "sum:{window}:{divisor}", "{system}; {files} files"];
        Row::of(published, &templates.map(String::from))
    }

    #[test]
    fn conditions_are_split_by_the_first_matching_form() {
        assert_eq!(row("op=write,qd=1", "").condition["qd"], "1");
        assert_eq!(row("git; 100 files", "").condition["system"], "git");
        assert_eq!(row("git; 100 files", "").condition["files"], "100");
        assert_eq!(row("sum:256:512", "").condition["divisor"], "512");
        assert_eq!(row("sum:256:512:reset", "").condition["divisor"], "512");
        assert_eq!(row("hdd", "").condition["condition"], "hdd");
        assert_eq!(row("; 100 files", "").condition["condition"], "; 100 files", "an empty word does not match");
    }

    #[test]
    fn notes_have_group_and_fit() {
        let text = row("op=write", "group:plateau fitted").conditions();
        assert_eq!((text["group"].as_str(), text["fitted"].as_str()), ("plateau", "yes"));
        assert_eq!(row("op=write", "not fitted to this").conditions()["fitted"], "no");
    }
}
