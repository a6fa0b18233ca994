//! Variables and the evaluation of expressions.

use super::TARGET_PLACEHOLDER;
use crate::wml::lexer::TextPart;
use crate::wml::syntax::Expression;
use crate::wml::{Diagnostic, Source, diagnostic::Span, diagnostic::Spanned};
use senesce_core::parameter::suggest;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    Integer(i64),
    Real(f64),
    Boolean(bool),
    Text(String),
    Random(usize),
}

impl Bound {
    /// Returns text for errors and `--check`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Boolean(truth) => truth.to_string(),
            Self::Text(text) => text.clone(),
            Self::Random(_) => "a random variable".into(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Scope<'a> {
    /// The text that errors refer to.
    pub source: &'a Source,
    pub globals: BTreeMap<String, Bound>,
    pub locals: BTreeMap<String, Bound>,
}

impl Scope<'_> {
    pub(crate) fn evaluate(&self, expression: &Spanned<Expression>) -> Result<Bound, Diagnostic> {
        Ok(match &expression.value {
            Expression::Integer(number) => Bound::Integer(*number),
            Expression::Real(number) => Bound::Real(*number),
            Expression::Boolean(truth) => Bound::Boolean(*truth),
            Expression::Word(word) => Bound::Text(word.clone()),
            Expression::Text(parts) => Bound::Text(self.text(parts, expression.span)?),
            Expression::Variable(name) => self.variable(name, expression.span)?,
        })
    }

    /// Returns a variable's value, including internal `${...}` and environment `$(...)` variables.
    pub(crate) fn variable(&self, name: &str, span: Span) -> Result<Bound, Diagnostic> {
        if let Some(internal) = name.strip_suffix('}') {
            return self.internal(internal, span);
        }
        if let Some(environment) = name.strip_suffix(')') {
            return std::env::var(environment)
                .map(Bound::Text)
                .map_err(|_| self.source.mistake(span, format!("the environment has no variable '{environment}'")));
        }
        if let Some(value) = self.locals.get(name).or_else(|| self.globals.get(name)) {
            return Ok(value.clone());
        }
        let hint = suggest(name, self.globals.keys().chain(self.locals.keys()).map(String::as_str));
        Err(self.source.mistake(
            span,
            format!("variable ${name} has no value{hint}; set it in the file or with --set {name}=VALUE"),
        ))
    }

    fn internal(&self, name: &str, span: Span) -> Result<Bound, Diagnostic> {
        let text = match name {
            "script" => self.source.name.to_string(),
            "hostname" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            "date" => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                now.as_secs().to_string()
            }
            _ => {
                let message =
                    format!("unknown internal variable ${{{name}}}: use ${{script}}, ${{hostname}} or ${{date}}");
                return Err(self.source.unsupported(span, message));
            }
        };
        Ok(Bound::Text(text))
    }

    pub(crate) fn text(&self, parts: &[TextPart], span: Span) -> Result<String, Diagnostic> {
        let mut text = String::new();
        for part in parts {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Variable(name) => text.push_str(&self.variable(name, span)?.describe()),
            }
        }
        Ok(text)
    }
}

/// Returns the value of `--set name=value`, parsed as in a workload file.
pub(crate) fn outside_value(text: &str) -> Bound {
    use crate::wml::lexer::{Token, tokenize};
    let tokens = tokenize(&Source::new("--set", text)).unwrap_or_default();
    match tokens.as_slice() {
        [Spanned { value: Token::Integer(number), .. }, _] => Bound::Integer(*number),
        [Spanned { value: Token::Real(number), .. }, _] => Bound::Real(*number),
        [Spanned { value: Token::Word(word), .. }, _] if word == "true" => Bound::Boolean(true),
        [Spanned { value: Token::Word(word), .. }, _] if word == "false" => Bound::Boolean(false),
        _ => Bound::Text(text.to_string()),
    }
}

/// Returns the initial globals: those set from outside, and `$dir` as the target.
pub(crate) fn initial_globals(overrides: &BTreeMap<String, String>) -> BTreeMap<String, Bound> {
    let mut globals: BTreeMap<String, Bound> =
        overrides.iter().map(|(name, value)| (name.clone(), outside_value(value))).collect();
    globals.entry("dir".into()).or_insert_with(|| Bound::Text(TARGET_PLACEHOLDER.into()));
    globals
}
