//! Rows of a published table, with their conditions taken apart.

use crate::selection::Condition;
use senesce_core::published::PublishedValue;

/// A row and the conditions it was measured under.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub published: PublishedValue,
    /// Its conditions as a run of ours names them.
    pub condition: Condition,
}

impl Row {
    /// Takes the words of a row apart: by `key=value,key=value`, else by the first template that fits (`{scheme} {host}`),
    /// else they are one condition named `condition`.
    pub fn of(published: PublishedValue, templates: &[String]) -> Self {
        let text = published.condition.as_str();
        let condition = pairs(text)
            .or_else(|| templates.iter().find_map(|template| fill(template, text)))
            .unwrap_or_else(|| Condition::from([("condition".to_string(), text.to_string())]));
        Self { published, condition }
    }

    /// `METRIC | CONDITION`, as claims name it.
    pub fn name(&self) -> String {
        format!("{} | {}", self.published.metric, self.published.condition)
    }

    /// Whether a model was fitted to it, as its note says.
    pub fn is_fitted(&self) -> bool {
        self.published.note.split(' ').next_back() == Some("fitted")
    }

    /// Its conditions with what its note says of fitting: `fitted` (yes or no) and `group`.
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

/// The words in the place of the names in braces; `None` when the rest is not the same.
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
    fn words_are_taken_apart_by_the_first_form_that_fits() {
        assert_eq!(row("op=write,qd=1", "").condition["qd"], "1");
        assert_eq!(row("git; 100 files", "").condition["system"], "git");
        assert_eq!(row("git; 100 files", "").condition["files"], "100");
        assert_eq!(row("sum:256:512", "").condition["divisor"], "512");
        assert_eq!(row("sum:256:512:reset", "").condition["divisor"], "512");
        assert_eq!(row("hdd", "").condition["condition"], "hdd");
        assert_eq!(row("; 100 files", "").condition["condition"], "; 100 files", "an empty word is none");
    }

    #[test]
    fn notes_tell_group_and_fit() {
        let text = row("op=write", "group:plateau fitted").conditions();
        assert_eq!((text["group"].as_str(), text["fitted"].as_str()), ("plateau", "yes"));
        assert_eq!(row("op=write", "not fitted to this").conditions()["fitted"], "no");
    }
}
