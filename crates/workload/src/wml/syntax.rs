//! The syntax tree of a workload file, in the order of the file.

use super::diagnostic::{Span, Spanned};
use super::lexer::TextPart;

#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    Integer(i64),
    /// A number with a decimal point.
    Real(f64),
    /// `true` or `false`.
    Boolean(bool),
    Word(String),
    Text(Vec<TextPart>),
    Variable(String),
}

/// `name=value`, or `name` alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    pub name: Spanned<&'static str>,
    pub value: Option<Spanned<Expression>>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    /// In the order written; the last of a name counts.
    pub list: Vec<Attribute>,
    /// The entity's keyword, for errors about what is missing.
    pub owner: Span,
}

impl Attributes {
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.list.iter().rev().find(|attribute| attribute.name.value == name)
    }
}

/// `$name=value` among the attributes of a composite flowop or of its use; without a value it only declares the name.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalVariable {
    /// Name without the dollar sign.
    pub name: Spanned<String>,
    pub value: Option<Spanned<Expression>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// Built-in flowop or composite flowop.
    pub kind: Spanned<String>,
    pub attributes: Attributes,
    /// Local variables handed to a composite flowop.
    pub locals: Vec<LocalVariable>,
}

/// `thread ... { flowop ... }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    pub attributes: Attributes,
    pub flowops: Vec<Flowop>,
}

/// One line of a table of a tabular random variable.
#[derive(Debug, Clone, PartialEq)]
pub struct TableEntry {
    pub percent: Spanned<Expression>,
    pub from: Spanned<Expression>,
    pub to: Spanned<Expression>,
}

/// What `set` assigns.
#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    /// A constant, or another variable's value.
    Plain(Spanned<Expression>),
    /// `randvar(...)`.
    Random { attributes: Attributes, table: Vec<TableEntry> },
    /// `cvar(...)`.
    Custom(Attributes),
}

/// What the run does when a flowop can obtain no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuitMode {
    /// The run ends and counts for nothing.
    #[default]
    Timeout,
    /// The thread ends; the run ends with its last thread.
    AllDone,
    /// The run ends, validly, with the first such thread.
    FirstDone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsAction {
    /// Start counting anew.
    Clear,
    /// End of the measured time.
    Snap,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
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
    /// `create process`: threads start here in files written for older releases.
    CreateProcesses,
    /// `shutdown process` or `shutdown fileset`.
    Shutdown,
    /// `run [seconds]`.
    Run(Option<Spanned<Expression>>),
    /// `psrun [period [seconds]]`; a negative period clears the statistics after each.
    PeriodicRun(Option<i64>, Option<i64>),
    /// `sleep seconds`.
    Sleep(Spanned<Expression>),
    /// `eventgen rate=...`.
    EventGenerator(Attributes),
    /// `echo "text"`.
    Echo(Vec<TextPart>),
    /// `usage "text"`.
    Usage(Vec<TextPart>),
    /// `system "command"`.
    System(Vec<TextPart>),
    /// `stats clear` or `stats snap`.
    Stats(StatsAction),
    /// `list ...`, `version`, `debug n`, `enable lathist`, `set mode nousestats`: no effect on what is measured.
    Informative(&'static str),
    Quit,
}
