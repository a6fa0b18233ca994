//! Converts syntax tree and variables to a [`Workload`].

use super::resolve_flow::{Composite, FlowResolver};
use super::scope::{Bound, Scope, initial_globals};
use super::{FilesetSpec, ProcessSpec, RunLength, Step, ThreadSpec, Value, Workload, random_definition};
use crate::error::WorkloadError;
use crate::wml::diagnostic::{Span, Spanned};
use crate::wml::syntax::*;
use crate::wml::{Diagnostic, Source};
use senesce_core::parameter::suggest;
use std::collections::{BTreeMap, BTreeSet};

type Resolved<T> = Result<T, Diagnostic>;

/// Resolves a whole file. Definitions see the final values of the file's `set` commands, as in Filebench, where attributes are
/// bound at the start of the run.
pub(crate) fn resolve(
    source: &Source,
    commands: &[Command],
    overrides: &BTreeMap<String, String>,
) -> Result<Workload, WorkloadError> {
    check_overrides(source, overrides)?;
    let scope = Scope { source, globals: initial_globals(overrides), locals: BTreeMap::new() };
    let fixed: BTreeSet<String> = scope.globals.keys().cloned().collect();
    let workload = Workload {
        name: source.name.to_string(),
        filesets: Vec::new(),
        randoms: Vec::new(),
        processes: Vec::new(),
        event_rate: None,
        quit_mode: QuitMode::default(),
        steps: Vec::new(),
        run: RunLength::default(),
        variables: BTreeMap::new(),
    };
    let mut resolver = Resolver { scope, fixed, workload, composites: BTreeMap::new() };
    let last = resolver.script(commands)?;
    resolver.definitions(&commands[..last])?;
    Ok(resolver.finish())
}

fn check_overrides(source: &Source, overrides: &BTreeMap<String, String>) -> Result<(), WorkloadError> {
    let mut known: BTreeSet<String> = crate::wml::lexer::tokenize(source)?
        .into_iter()
        .filter_map(|token| match token.value {
            crate::wml::lexer::Token::Variable(name) => Some(name),
            _ => None,
        })
        .collect();
    known.insert("dir".into());
    for name in overrides.keys() {
        if !known.contains(name) {
            let hint = suggest(name, known.iter().map(String::as_str));
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(WorkloadError::Usage(format!(
                "--set {name}: workload {} has no variable '{name}'{hint}; it has: {}",
                source.name,
                names.join(", ")
            )));
        }
    }
    Ok(())
}

struct Resolver<'a> {
    scope: Scope<'a>,
    /// Variables set from outside, which the file does not change.
    fixed: BTreeSet<String>,
    workload: Workload,
    composites: BTreeMap<String, Composite>,
}

impl Resolver<'_> {
    /// Runs the first pass: variables and the order of commands. Returns the number of effective commands: those up to
    /// the run.
    fn script(&mut self, commands: &[Command]) -> Resolved<usize> {
        let mut started = false;
        let mut counting = false;
        let mut slept = 0;
        for (index, command) in commands.iter().enumerate() {
            match command {
                Command::Set { name, value } => self.set(name, value)?,
                Command::SetQuitMode(mode) => self.workload.quit_mode = *mode,
                Command::CreateFiles => self.workload.steps.push(Step::CreateFiles),
                Command::CreateProcesses => (started, counting) = (true, true),
                Command::Run(time) => {
                    self.workload.run.seconds = self.seconds(time.as_ref())?;
                    return Ok(index);
                }
                Command::PeriodicRun(period, time) => {
                    self.workload.run.interval = Some(period.unwrap_or(10).unsigned_abs().max(1));
                    self.workload.run.seconds = time.filter(|seconds| *seconds > 0).map(|seconds| seconds as u64);
                    return Ok(index);
                }
                Command::Sleep(time) => {
                    let seconds = self.seconds(Some(time))?.unwrap_or(0);
                    if counting {
                        slept += seconds;
                    } else if !started {
                        self.workload.steps.push(Step::Sleep(seconds));
                    }
                }
                Command::Stats(StatsAction::Clear) if started => {
                    self.workload.run.warm_up += std::mem::take(&mut slept);
                }
                Command::Stats(StatsAction::Snap) => counting = false,
                Command::Echo(parts) => {
                    let text = self.scope.text(parts, Span::default())?;
                    self.workload.steps.push(Step::Echo(text));
                }
                Command::System(parts) if !started => {
                    let text = self.scope.text(parts, Span::default())?;
                    self.workload.steps.push(Step::System(text));
                }
                Command::Quit => {
                    self.workload.run.seconds = (slept > 0).then_some(slept);
                    return Ok(index);
                }
                _ => {}
            }
        }
        self.workload.run.seconds = (slept > 0).then_some(slept);
        Ok(commands.len())
    }

    fn seconds(&self, time: Option<&Spanned<Expression>>) -> Resolved<Option<u64>> {
        let Some(time) = time else { return Ok(None) };
        match self.scope.evaluate(time)? {
            Bound::Integer(seconds) if seconds >= 0 => Ok((seconds > 0).then_some(seconds as u64)),
            other => Err(self.scope.source.mistake(time.span, format!("expected seconds, found {}", other.describe()))),
        }
    }

    fn set(&mut self, name: &Spanned<String>, value: &Assigned) -> Resolved<()> {
        if self.fixed.contains(&name.value) {
            return Ok(());
        }
        let bound = match value {
            Assigned::Plain(expression) => self.scope.evaluate(expression)?,
            Assigned::Random { attributes, table } => {
                let variable = random_definition::random(&self.scope, &name.value, attributes, table)?;
                self.random(variable)
            }
            Assigned::Custom(attributes) => {
                let variable = random_definition::custom(&self.scope, &name.value, attributes)?;
                self.random(variable)
            }
        };
        self.scope.globals.insert(name.value.clone(), bound);
        Ok(())
    }

    fn random(&mut self, variable: super::RandomVariable) -> Bound {
        self.workload.randoms.push(variable);
        Bound::Random(self.workload.randoms.len() - 1)
    }

    fn definitions(&mut self, commands: &[Command]) -> Resolved<()> {
        for command in commands {
            match command {
                Command::DefineFileset { attributes, single } => {
                    let fileset = self.fileset(attributes, *single)?;
                    self.workload.filesets.push(fileset);
                }
                Command::DefineFlowop { attributes, locals, flowops } => {
                    let name = AttributeReader { scope: &self.scope, attributes }.name("composite flowop")?;
                    let composite =
                        Composite { attributes: attributes.clone(), locals: locals.clone(), flowops: flowops.clone() };
                    self.composites.insert(name, composite);
                }
                Command::EventGenerator(attributes) => {
                    let reader = AttributeReader { scope: &self.scope, attributes };
                    self.workload.event_rate = Some(reader.constant("rate", 0)?);
                }
                _ => {}
            }
        }
        for command in commands {
            if let Command::DefineProcess { attributes, threads } = command {
                let process = self.process(attributes, threads)?;
                self.workload.processes.push(process);
            }
        }
        super::resolve_flow::check_targets(&self.scope, &self.workload, commands)
    }

    fn fileset(&self, attributes: &Attributes, single: bool) -> Resolved<FilesetSpec> {
        let reader = AttributeReader { scope: &self.scope, attributes };
        let name = reader.name(if single { "file" } else { "fileset" })?;
        if self.workload.filesets.iter().any(|other| other.name == name) {
            return Err(self.scope.source.mistake(attributes.owner, format!("file set '{name}' is defined twice")));
        }
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Err(self.scope.source.mistake(attributes.owner, format!("'{name}' is not a valid directory name")));
        }
        let Some(path) = reader.text("path")? else {
            return Err(self.scope.source.mistake(attributes.owner, format!("file set '{name}' has no path=...")));
        };
        let constant = Value::Constant;
        let prealloc_percent = match attributes.get("prealloc") {
            None => 0,
            Some(attribute) if attribute.value.is_none() => 100,
            Some(_) => reader.percent("prealloc")?,
        };
        let spec = FilesetSpec {
            path,
            entries: if single { constant(1) } else { reader.value("entries", 0)? },
            size: reader.value("size", 0)?,
            dirwidth: if single { constant(10) } else { reader.value("dirwidth", 0)? },
            dirdepth: reader.random_only("dirdepthrv")?,
            dirgamma: if single { 0 } else { reader.constant("dirgamma", 1500)? },
            leafdirs: reader.value("leafdirs", 0)?,
            prealloc_percent,
            prealloc: prealloc_percent > 0,
            reuse: reader.boolean("reuse")?,
            trusttree: reader.boolean("trusttree")?,
            readonly: reader.boolean("readonly")?,
            writeonly: reader.boolean("writeonly")?,
            cached: reader.boolean("cached")?,
            name,
        };
        if spec.readonly && spec.writeonly {
            return Err(self.scope.source.mistake(attributes.owner, "readonly and writeonly exclude each other"));
        }
        let narrow = matches!(spec.dirwidth, Value::Constant(width) if width < 2);
        if narrow && spec.dirdepth.is_none() && !matches!(spec.entries, Value::Constant(0 | 1)) {
            return Err(self.scope.source.mistake(
                attributes.owner,
                format!(
                    "file set '{}' needs dirwidth=N of at least 2: the depth of its tree is ln(entries)/ln(dirwidth)",
                    spec.name
                ),
            ));
        }
        Ok(spec)
    }

    fn process(&mut self, attributes: &Attributes, threads: &[Thread]) -> Resolved<ProcessSpec> {
        let reader = AttributeReader { scope: &self.scope, attributes };
        let (name, instances) = (reader.name("process")?, reader.constant("instances", 1)?);
        let nice = reader.integer("nice", 0)?;
        let threads = threads.iter().map(|thread| self.thread(thread)).collect::<Resolved<_>>()?;
        Ok(ProcessSpec { name, instances, nice, threads })
    }

    fn thread(&self, thread: &Thread) -> Resolved<ThreadSpec> {
        let reader = AttributeReader { scope: &self.scope, attributes: &thread.attributes };
        let flow = FlowResolver { filesets: &self.workload.filesets, composites: &self.composites };
        Ok(ThreadSpec {
            name: reader.name("thread")?,
            instances: reader.constant("instances", 1)?,
            memsize: reader.constant("memsize", 0)?,
            io_priority: u8::try_from(reader.constant("ioprio", 8)?).ok().filter(|priority| *priority < 8),
            flow: flow.nodes(&self.scope, &thread.flowops, "")?,
        })
    }

    fn finish(mut self) -> Workload {
        if !self.workload.steps.contains(&Step::CreateFiles) {
            self.workload.steps.push(Step::CreateFiles);
        }
        self.workload.variables =
            self.scope.globals.iter().map(|(name, value)| (name.clone(), value.describe())).collect();
        self.workload
    }
}

pub(crate) struct AttributeReader<'a> {
    pub scope: &'a Scope<'a>,
    pub attributes: &'a Attributes,
}

impl AttributeReader<'_> {
    fn mistake<T>(&self, span: Span, message: String) -> Resolved<T> {
        Err(self.scope.source.mistake(span, message))
    }

    fn bound(&self, name: &str) -> Resolved<Option<(Bound, Span)>> {
        let Some(attribute) = self.attributes.get(name) else { return Ok(None) };
        match &attribute.value {
            Some(expression) => Ok(Some((self.scope.evaluate(expression)?, expression.span))),
            None => Ok(Some((Bound::Boolean(true), attribute.name.span))),
        }
    }

    /// Returns `name=`, which is required.
    pub(crate) fn name(&self, entity: &str) -> Resolved<String> {
        match self.text("name")? {
            Some(name) => Ok(name),
            None => self.mistake(self.attributes.owner, format!("this {entity} needs name=...")),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Resolved<Option<String>> {
        match self.bound(name)? {
            Some((Bound::Random(_), span)) => self.mistake(span, format!("{name} cannot be random")),
            other => Ok(other.map(|(bound, _)| bound.describe())),
        }
    }

    pub(crate) fn value(&self, name: &str, default: u64) -> Resolved<Value> {
        match self.bound(name)? {
            None => Ok(Value::Constant(default)),
            Some((Bound::Integer(number), _)) if number >= 0 => Ok(Value::Constant(number as u64)),
            Some((Bound::Real(number), _)) if number >= 0.0 => Ok(Value::Constant(number as u64)),
            Some((Bound::Boolean(truth), _)) => Ok(Value::Constant(u64::from(truth))),
            Some((Bound::Random(index), _)) => Ok(Value::Random(index)),
            Some((other, span)) => {
                self.mistake(span, format!("{name} is a number from 0 upwards, not {}", other.describe()))
            }
        }
    }

    pub(crate) fn constant(&self, name: &str, default: u64) -> Resolved<u64> {
        match self.value(name, default)? {
            Value::Constant(number) => Ok(number),
            Value::Random(_) => self.mistake(self.span(name), format!("{name} cannot be random")),
        }
    }

    pub(crate) fn integer(&self, name: &str, default: i64) -> Resolved<i64> {
        match self.bound(name)? {
            None => Ok(default),
            Some((Bound::Integer(number), _)) => Ok(number),
            Some((other, span)) => self.mistake(span, format!("{name} is a whole number, not {}", other.describe())),
        }
    }

    fn percent(&self, name: &str) -> Resolved<u64> {
        match self.constant(name, 0)? {
            percent @ 0..=100 => {
                Ok(if matches!(self.bound(name)?, Some((Bound::Boolean(true), _))) { 100 } else { percent })
            }
            other => self.mistake(self.span(name), format!("{name} is a percentage from 0 to 100, not {other}")),
        }
    }

    /// Returns a boolean; the attribute without value means true.
    pub(crate) fn boolean(&self, name: &str) -> Resolved<bool> {
        match self.bound(name)? {
            None => Ok(false),
            Some((Bound::Boolean(truth), _)) => Ok(truth),
            Some((Bound::Integer(number), _)) => Ok(number != 0),
            Some((other, span)) => self.mistake(span, format!("{name} is true or false, not {}", other.describe())),
        }
    }

    fn random_only(&self, name: &str) -> Resolved<Option<usize>> {
        match self.bound(name)? {
            None => Ok(None),
            Some((Bound::Random(index), _)) => Ok(Some(index)),
            Some((_, span)) => self.mistake(span, format!("{name} must be a random variable")),
        }
    }

    /// Returns the location of an attribute, or of its owner.
    pub(crate) fn span(&self, name: &str) -> Span {
        let attribute = self.attributes.get(name);
        attribute.map_or(self.attributes.owner, |attribute| {
            attribute.value.as_ref().map_or(attribute.name.span, |value| value.span)
        })
    }
}
