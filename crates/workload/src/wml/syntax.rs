//! The syntax tree of a workload file, in file order.

use super::diagnostic::{Span, Spanned};
use super::lexer::TextPart;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Integer(i64),
    Real(f64),
    Boolean(bool),
    Word(String),
    Text(Vec<TextPart>),
    Variable(String),
}

/// `name=value`, or `name` only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attribute {
    pub name: Spanned<&'static str>,
    pub value: Option<Spanned<Expression>>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Attributes {
    /// In source order; the last of equal names counts.
    pub list: Vec<Attribute>,
    pub owner: Span,
}

impl Attributes {
    pub(crate) fn get(&self, name: &str) -> Option<&Attribute> {
        self.list.iter().rev().find(|attribute| attribute.name.value == name)
    }
}

/// `$name=value` among the attributes of a composite flowop or of its use; without a value it only declares the name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalVariable {
    /// Name without the dollar sign.
    pub name: Spanned<String>,
    pub value: Option<Spanned<Expression>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flowop {
    pub kind: Spanned<String>,
    pub attributes: Attributes,
    /// Local variables passed to a composite flowop.
    pub locals: Vec<LocalVariable>,
}

/// `thread ... { flowop ... }`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thread {
    pub attributes: Attributes,
    pub flowops: Vec<Flowop>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableEntry {
    pub percent: Spanned<Expression>,
    pub from: Spanned<Expression>,
    pub to: Spanned<Expression>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Assigned {
    /// A constant, or another variable's value.
    Plain(Spanned<Expression>),
    /// `randvar(...)`.
    Random { attributes: Attributes, table: Vec<TableEntry> },
    /// `cvar(...)`.
    Custom(Attributes),
}

/// Reaction of the run if a flowop can obtain no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuitMode {
    /// The run ends and is invalid.
    #[default]
    Timeout,
    /// The thread ends; the run ends with its last thread.
    AllDone,
    /// The first such thread ends the run, which is valid.
    FirstDone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsAction {
    /// Restart counting.
    Clear,
    Snap,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    /// `set $name=...`.
    Set {
        name: Spanned<String>,
        value: Assigned,
    },
    SetQuitMode(QuitMode),
    /// `define fileset` or `define file`.
    DefineFileset {
        attributes: Attributes,
        single: bool,
    },
    DefineProcess {
        attributes: Attributes,
        threads: Vec<Thread>,
    },
    /// `define flowop`: a composite flowop.
    DefineFlowop {
        attributes: Attributes,
        locals: Vec<LocalVariable>,
        flowops: Vec<Flowop>,
    },
    /// `create files` or `create fileset`.
    CreateFiles,
    /// `create process`: threads start here in files for older releases.
    CreateProcesses,
    Shutdown,
    Run(Option<Spanned<Expression>>),
    /// `psrun [period [seconds]]`; a negative period clears the statistics after each.
    PeriodicRun(Option<i64>, Option<i64>),
    Sleep(Spanned<Expression>),
    /// `eventgen rate=...`.
    EventGenerator(Attributes),
    Echo(Vec<TextPart>),
    Usage(Vec<TextPart>),
    System(Vec<TextPart>),
    /// `stats clear` or `stats snap`.
    Stats(StatsAction),
    /// `list ...`, `version`, `debug n`, `enable lathist`, `set mode nousestats`: no effect on measurements.
    Informative(&'static str),
    Quit,
}
