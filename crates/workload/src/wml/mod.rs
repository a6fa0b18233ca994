//! Front end of the Filebench workload model language (WML), release 1.5-alpha3: lexer, syntax tree, parser, and errors with
//! file, line, column and caret.

pub mod attributes;
pub mod diagnostic;
pub mod lexer;
pub mod parser;
pub mod syntax;

pub use diagnostic::{Diagnostic, DiagnosticKind, Source};
pub use parser::parse;
