//! Flowops and composite flowops of a thread.

use super::resolve::AttributeReader;
use super::scope::Scope;
use super::{FilesetSpec, FlowNode, FlowopKind, FlowopSpec, Value, Workload, flowop};
use crate::wml::Diagnostic;
use crate::wml::syntax::{Attributes, Command, Flowop, LocalVariable};
use senesce_core::parameter::suggest;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum descriptor slot of a thread (Filebench: `THREADFLOW_MAXFD`); slots are numbered from 0.
pub(crate) const MAX_SLOT: usize = 128;

/// Maximum nesting of composite flowops.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone)]
pub(crate) struct Composite {
    pub attributes: Attributes,
    pub locals: Vec<LocalVariable>,
    pub flowops: Vec<Flowop>,
}

pub(crate) struct FlowResolver<'a> {
    pub filesets: &'a [FilesetSpec],
    pub composites: &'a BTreeMap<String, Composite>,
}

impl FlowResolver<'_> {
    /// Resolves the flowops of a thread or of one pass; `prefix` is the name of the enclosing composite flowop with a
    /// dot.
    pub(crate) fn nodes(
        &self,
        scope: &Scope<'_>,
        flowops: &[Flowop],
        prefix: &str,
    ) -> Result<Vec<FlowNode>, Diagnostic> {
        flowops.iter().map(|flowop| self.node(scope, flowop, prefix)).collect()
    }

    fn node(&self, scope: &Scope<'_>, flowop: &Flowop, prefix: &str) -> Result<FlowNode, Diagnostic> {
        if let Some(composite) = self.composites.get(&flowop.kind.value) {
            return self.composite(scope, flowop, composite, prefix);
        }
        let Some(kind) = FlowopKind::named(&flowop.kind.value) else {
            let known = flowop::TABLE.iter().map(|entry| entry.name).chain(self.composites.keys().map(String::as_str));
            let names: Vec<&str> = known.collect();
            let hint = suggest(&flowop.kind.value, names.iter().copied());
            let message = format!("unknown flowop '{}'{hint}; choose from {}", flowop.kind.value, names.join(", "));
            return Err(scope.source.mistake(flowop.kind.span, message));
        };
        Ok(FlowNode::Single(Box::new(self.single(scope, flowop, kind, prefix)?)))
    }

    fn composite(
        &self,
        scope: &Scope<'_>,
        flowop: &Flowop,
        composite: &Composite,
        prefix: &str,
    ) -> Result<FlowNode, Diagnostic> {
        let reader = AttributeReader { scope, attributes: &flowop.attributes };
        let name = format!("{prefix}{}", reader.name("composite flowop")?);
        if name.matches('.').count() >= MAX_DEPTH {
            return Err(scope.source.mistake(flowop.kind.span, "composite flowops nest too deep; one uses itself"));
        }
        let mut inner = scope.clone();
        for local in &composite.locals {
            if let Some(value) = &local.value {
                inner.locals.insert(local.name.value.clone(), scope.evaluate(value)?);
            }
        }
        for local in &flowop.locals {
            let declared = composite.locals.iter().any(|declared| declared.name.value == local.name.value);
            if !declared {
                let hint = suggest(&local.name.value, composite.locals.iter().map(|l| l.name.value.as_str()));
                let message = format!("'{}' has no local variable ${}{hint}", flowop.kind.value, local.name.value);
                return Err(scope.source.mistake(local.name.span, message));
            }
            if let Some(value) = &local.value {
                inner.locals.insert(local.name.value.clone(), scope.evaluate(value)?);
            }
        }
        let definition = AttributeReader { scope: &inner, attributes: &composite.attributes };
        let iters = match flowop.attributes.get("iters") {
            Some(_) => reader.value("iters", 1)?,
            None => definition.value("iters", 1)?,
        };
        let inner = self.nodes(&inner, &composite.flowops, &format!("{name}."))?;
        Ok(FlowNode::Composite { name, iters, inner })
    }

    fn single(
        &self,
        scope: &Scope<'_>,
        flowop: &Flowop,
        kind: FlowopKind,
        prefix: &str,
    ) -> Result<FlowopSpec, Diagnostic> {
        let reader = AttributeReader { scope, attributes: &flowop.attributes };
        if let Some(local) = flowop.locals.first() {
            let message = "local variables can only be passed to composite flowops";
            return Err(scope.source.mistake(local.name.span, message));
        }
        let fileset = self.fileset(scope, &reader)?;
        if kind.entry().needs_fileset && fileset.is_none() {
            let message = format!("flowop {} needs filesetname=...", kind.entry().name);
            return Err(scope.source.mistake(flowop.kind.span, message));
        }
        let printed = kind == FlowopKind::Print;
        let spec = FlowopSpec {
            name: format!("{prefix}{}", reader.name("flowop")?),
            kind,
            fileset,
            iosize: reader.value("iosize", 0)?,
            workingset: reader.value("workingset", 0)?,
            random: reader.boolean("random")?,
            dsync: reader.boolean("dsync")?,
            directio: reader.boolean("directio")?,
            noreadahead: reader.boolean("noreadahead")?,
            opennext: reader.boolean("opennext")?,
            indexed: flowop.attributes.get("indexed").map(|_| reader.value("indexed", 0)).transpose()?,
            iters: reader.value("iters", 1)?,
            fd: slot(scope, &reader, "fd")?,
            srcfd: slot(scope, &reader, "srcfd")?,
            target: reader.text("target")?,
            value: if printed { Value::Constant(0) } else { reader.value("value", 0)? },
            text: if printed { reader.text("value")?.unwrap_or_default() } else { String::new() },
            blocking: reader.boolean("blocking")?,
            highwater: reader.constant("highwater", 1)?,
        };
        check(scope, flowop, &spec)?;
        Ok(spec)
    }

    fn fileset(&self, scope: &Scope<'_>, reader: &AttributeReader<'_>) -> Result<Option<usize>, Diagnostic> {
        let Some(name) = reader.text("filesetname")? else { return Ok(None) };
        if let Some(index) = self.filesets.iter().position(|fileset| fileset.name == name) {
            return Ok(Some(index));
        }
        let hint = suggest(&name, self.filesets.iter().map(|fileset| fileset.name.as_str()));
        Err(scope.source.mistake(reader.span("filesetname"), format!("unknown file set '{name}'{hint}")))
    }
}

fn slot(scope: &Scope<'_>, reader: &AttributeReader<'_>, name: &str) -> Result<usize, Diagnostic> {
    match reader.constant(name, 0)? {
        slot if slot <= MAX_SLOT as u64 => Ok(slot as usize),
        slot => {
            Err(scope.source.mistake(reader.span(name), format!("{name} is a slot from 0 to {MAX_SLOT}, not {slot}")))
        }
    }
}

/// Errors that are detectable before the run.
fn check(scope: &Scope<'_>, flowop: &Flowop, spec: &FlowopSpec) -> Result<(), Diagnostic> {
    use FlowopKind as K;
    let zero = Value::Constant(0);
    let needs_size = matches!(spec.kind, K::Read | K::Write | K::AppendFile | K::AppendFileRandom | K::AioWrite)
        && spec.iosize == zero;
    let problem = if needs_size {
        "needs iosize=... above 0"
    } else if spec.kind == K::AioWrite && !spec.random {
        "needs random: asynchronous writes go to random offsets only"
    } else if matches!(spec.kind, K::Wakeup | K::SemaphorePost) && spec.target.is_none() {
        "needs target=..."
    } else if spec.fileset.is_none() && spec.fd == 0 && matches!(spec.kind, K::DeleteFile | K::StatFile) {
        "needs filesetname=... or fd=..."
    } else {
        return Ok(());
    };
    Err(scope.source.mistake(flowop.kind.span, format!("flowop {} {problem}", flowop.kind.value)))
}

/// Checks that every target names a suitable flowop.
pub(crate) fn check_targets(scope: &Scope<'_>, workload: &Workload, commands: &[Command]) -> Result<(), Diagnostic> {
    let mut anywhere = BTreeSet::new();
    let threads = || workload.processes.iter().flat_map(|process| &process.threads);
    for thread in threads() {
        each(&thread.flow, &mut |spec| {
            anywhere.insert((spec.name.clone(), spec.kind));
        });
    }
    for thread in threads() {
        let mut own = BTreeMap::new();
        each(&thread.flow, &mut |spec| {
            own.insert(spec.name.clone(), spec.kind);
        });
        let mut wrong = None;
        each(&thread.flow, &mut |spec| {
            let Some(target) = &spec.target else { return };
            let fits = match spec.kind {
                FlowopKind::Wakeup => anywhere.contains(&(target.clone(), FlowopKind::Block)),
                FlowopKind::SemaphorePost => anywhere.contains(&(target.clone(), FlowopKind::SemaphoreBlock)),
                FlowopKind::AioWait => true,
                _ => own.contains_key(target) || own.keys().any(|name| name.ends_with(&format!(".{target}"))),
            };
            if !fits && wrong.is_none() {
                wrong = Some((spec.name.clone(), target.clone()));
            }
        });
        if let Some((name, target)) = wrong {
            let span = target_span(scope, commands, &target);
            let message = format!("flowop '{name}': '{target}' is not a suitable target flowop");
            return Err(scope.source.mistake(span, message));
        }
    }
    Ok(())
}

fn target_span(scope: &Scope<'_>, commands: &[Command], target: &str) -> crate::wml::diagnostic::Span {
    let uses = commands.iter().flat_map(|command| match command {
        Command::DefineProcess { threads, .. } => threads.iter().flat_map(|thread| &thread.flowops).collect::<Vec<_>>(),
        Command::DefineFlowop { flowops, .. } => flowops.iter().collect(),
        _ => Vec::new(),
    });
    for flowop in uses {
        let reader = AttributeReader { scope, attributes: &flowop.attributes };
        if matches!(reader.text("target"), Ok(Some(found)) if found == target) {
            return reader.span("target");
        }
    }
    Default::default()
}

/// Visits every built-in flowop, including those in composite flowops.
pub(crate) fn each(nodes: &[FlowNode], visit: &mut impl FnMut(&FlowopSpec)) {
    for node in nodes {
        match node {
            FlowNode::Single(spec) => visit(spec),
            FlowNode::Composite { inner, .. } => each(inner, visit),
        }
    }
}
