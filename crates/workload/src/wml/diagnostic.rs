//! Errors with a location in a workload file.

use std::fmt;
use std::sync::Arc;

/// Byte offsets in a source text, end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    pub(crate) fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub name: Arc<str>,
    pub text: Arc<str>,
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    pub(crate) fn error(&self, kind: DiagnosticKind, span: Span, message: impl Into<String>) -> Diagnostic {
        let start = floor_boundary(&self.text, span.start);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |position| position + 1);
        let line_text = self.text[line_start..].lines().next().unwrap_or("");
        let column = self.text[line_start..start].chars().count() + 1;
        let end = floor_boundary(&self.text, span.end.max(start)).min(line_start + line_text.len()).max(start);
        Diagnostic {
            kind,
            file: self.name.to_string(),
            line: before.matches('\n').count() + 1,
            column,
            width: self.text[start..end].chars().count().max(1),
            line_text: line_text.to_string(),
            message: message.into(),
        }
    }

    /// Creates an error in the workload file at `span`.
    pub(crate) fn mistake(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.error(DiagnosticKind::Mistake, span, message)
    }

    /// Creates an error for a construct that this program does not support.
    pub(crate) fn unsupported(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.error(DiagnosticKind::Unsupported, span, message)
    }
}

fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticKind {
    Mistake,
    Unsupported,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub kind: DiagnosticKind,
    pub file: String,
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub width: usize,
    pub line_text: String,
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DiagnosticKind::Mistake => "error",
            DiagnosticKind::Unsupported => "not supported",
        };
        writeln!(formatter, "{}:{}:{}: {kind}: {}", self.file, self.line, self.column, self.message)?;
        let margin = self.line.to_string().len();
        writeln!(formatter, " {} | {}", self.line, self.line_text.replace('\t', " "))?;
        write!(formatter, " {:margin$} | {:indent$}{}", "", "", "^".repeat(self.width), indent = self.column - 1)
    }
}

impl std::error::Error for Diagnostic {}
