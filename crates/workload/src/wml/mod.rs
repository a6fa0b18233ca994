//! Front end of the Filebench workload model language (WML), release 1.5-alpha3: lexer, syntax tree, parser, and errors with
//! file, line, column and caret.

pub(crate) mod attributes;
pub(crate) mod diagnostic;
pub(crate) mod lexer;
pub(crate) mod parser;
pub(crate) mod syntax;

pub(crate) use diagnostic::{Diagnostic, Source};
pub(crate) use parser::parse;
