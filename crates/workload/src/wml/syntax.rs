//! The syntax tree of a workload file, in the order of the file.

use super::diagnostic::{Span, Spanned};
use super::lexer::TextPart;

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point.
    Real(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A bare word.
    Word(String),
    /// A quoted text.
    Text(Vec<TextPart>),
    /// A variable.
    Variable(String),
}

/// `name=value`, or `name` alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Canonical name.
    pub name: Spanned<&'static str>,
    /// Its value, if one is given.
    pub value: Option<Spanned<Expression>>,
}

/// The attributes of one entity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes {
    /// In the order written; the last of a name counts.
    pub list: Vec<Attribute>,
    /// The entity's keyword, for errors about what is missing.
    pub owner: Span,
}

impl Attributes {
    /// The attribute that counts.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.list.iter().rev().find(|attribute| attribute.name.value == name)
    }
}

/// `$name=value` among the attributes of a composite flowop or of its use; without a value it only declares the name.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalVariable {
    /// Name without the dollar sign.
    pub name: Spanned<String>,
    /// Value or default.
    pub value: Option<Spanned<Expression>>,
}

/// One use of a flowop.
#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// Built-in flowop or composite flowop.
    pub kind: Spanned<String>,
    /// Attributes.
    pub attributes: Attributes,
    /// Local variables handed to a composite flowop.
    pub locals: Vec<LocalVariable>,
}

/// `thread ... { flowop ... }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Attributes.
    pub attributes: Attributes,
    /// The flowops in the order of the loop.
    pub flowops: Vec<Flowop>,
}

/// One line of a table of a tabular random variable.
#[derive(Debug, Clone, PartialEq)]
pub struct TableEntry {
    /// Percent of the samples.
    pub percent: Spanned<Expression>,
    /// Least value.
    pub from: Spanned<Expression>,
    /// Greatest value.
    pub to: Spanned<Expression>,
}

/// What `set` assigns.
#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    /// A constant, or another variable's value.
    Plain(Spanned<Expression>),
    /// `randvar(...)`.
    Random {
        /// Attributes.
        attributes: Attributes,
        /// The table of a tabular variable.
        table: Vec<TableEntry>,
    },
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

/// Which statistics command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsAction {
    /// Start counting anew.
    Clear,
    /// End of the measured time.
    Snap,
}

/// A command of the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `set $name=...`.
    Set {
        /// The variable.
        name: Spanned<String>,
        /// Its value.
        value: Assigned,
    },
    /// `set mode quit ...`.
    SetQuitMode(QuitMode),
    /// `define fileset` or `define file`.
    DefineFileset {
        /// Attributes.
        attributes: Attributes,
        /// Whether it is a single file.
        single: bool,
    },
    /// `define process`.
    DefineProcess {
        /// Attributes.
        attributes: Attributes,
        /// Its threads.
        threads: Vec<Thread>,
    },
    /// `define flowop`: a composite flowop.
    DefineFlowop {
        /// Attributes.
        attributes: Attributes,
        /// Declared local variables.
        locals: Vec<LocalVariable>,
        /// What one pass executes.
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
    /// `quit`.
    Quit,
}
