//! A workload compiled to one flat list of operations per kind of thread.

use crate::model::{FlowNode, FlowopKind, FlowopSpec, Value, Workload};
use rustix::fs::OFlags;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// A flowop, executed `iters` times.
    Flowop(Box<Flowop>),
    /// Start of `iters` passes over the operations up to the matching end.
    Begin {
        iters: Value,
        end: usize,
    },
    End {
        begin: usize,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Flowop {
    pub spec: FlowopSpec,
    pub local: usize,
    /// Position among all flowops by name.
    pub global: usize,
    pub open_flags: OFlags,
    pub target: Target,
    /// Whether it counts in operations per second.
    pub counted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    None,
    Block(usize),
    Semaphores(String),
    /// The counters of this flowop of the same thread.
    Own(usize),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub process: String,
    pub thread: String,
    pub instances: u64,
    pub memsize: u64,
    pub nice: i64,
    /// Best-effort I/O priority.
    pub io_priority: Option<u8>,
    pub operations: Vec<Operation>,
    pub flowops: usize,
    pub asynchronous: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Programs {
    /// One per thread of every process definition.
    pub list: Vec<Program>,
    /// Name and kind of flowops, in order of appearance.
    pub flowops: Vec<(String, FlowopKind)>,
    pub blocks: Vec<String>,
}

impl Programs {
    pub(crate) fn compile(workload: &Workload) -> Self {
        let mut programs = Self::default();
        let threads =
            || workload.processes.iter().flat_map(|process| process.threads.iter().map(move |t| (process, t)));
        for (_, thread) in threads() {
            crate::model::resolve_flow::each(&thread.flow, &mut |spec| programs.name(spec));
        }
        for (process, thread) in threads() {
            let mut builder =
                Builder { workload, programs: &programs, operations: Vec::new(), locals: BTreeMap::new() };
            builder.nodes(&thread.flow);
            let (operations, flowops) = builder.finish();
            let asynchronous = operations
                .iter()
                .any(|operation| matches!(operation, Operation::Flowop(f) if f.spec.kind == FlowopKind::AioWrite));
            programs.list.push(Program {
                process: process.name.clone(),
                thread: thread.name.clone(),
                instances: process.instances * thread.instances,
                memsize: thread.memsize,
                nice: process.nice,
                io_priority: thread.io_priority,
                operations,
                flowops,
                asynchronous,
            });
        }
        programs
    }

    fn name(&mut self, spec: &FlowopSpec) {
        if self.results_of(spec).is_none() {
            let is_taken = self.flowops.iter().any(|(name, _)| *name == spec.name);
            let name = if is_taken { distinct_name(spec) } else { spec.name.clone() };
            self.flowops.push((name, spec.kind));
        }
        if spec.kind == FlowopKind::Block && !self.blocks.contains(&spec.name) {
            self.blocks.push(spec.name.clone());
        }
    }

    /// Returns the result row of a flowop: flowops with equal name and kind share one.
    fn results_of(&self, spec: &FlowopSpec) -> Option<usize> {
        let is_it = |name: &str, kind| kind == spec.kind && (name == spec.name || name == distinct_name(spec));
        self.flowops.iter().position(|(name, kind)| is_it(name, *kind))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Flowop> {
        self.list.iter().flat_map(|program| program.flowops())
    }
}

impl Program {
    pub(crate) fn flowops(&self) -> impl Iterator<Item = &Flowop> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Flowop(flowop) => Some(&**flowop),
            _ => None,
        })
    }
}

/// Returns the name of a flowop's results if flowops of its name differ in kind.
fn distinct_name(spec: &FlowopSpec) -> String {
    format!("{} ({})", spec.name, spec.kind.entry().name)
}

struct Builder<'a> {
    workload: &'a Workload,
    programs: &'a Programs,
    operations: Vec<Operation>,
    locals: BTreeMap<String, usize>,
}

impl Builder<'_> {
    fn nodes(&mut self, nodes: &[FlowNode]) {
        for node in nodes {
            match node {
                FlowNode::Single(spec) => self.flowop(spec),
                FlowNode::Composite { iters, inner, .. } => {
                    let begin = self.operations.len();
                    self.operations.push(Operation::Begin { iters: *iters, end: 0 });
                    self.nodes(inner);
                    let end = self.operations.len();
                    self.operations.push(Operation::End { begin });
                    self.operations[begin] = Operation::Begin { iters: *iters, end };
                }
            }
        }
    }

    fn flowop(&mut self, spec: &FlowopSpec) {
        let local = self.locals.len();
        let mut key = spec.name.clone();
        while self.locals.contains_key(&key) {
            key.push('\'');
        }
        self.locals.insert(key, local);
        let global = self.programs.results_of(spec).unwrap_or(0);
        self.operations.push(Operation::Flowop(Box::new(Flowop {
            spec: spec.clone(),
            local,
            global,
            open_flags: self.open_flags(spec),
            target: Target::None,
            counted: spec.kind.entry().counted,
        })));
    }

    fn open_flags(&self, spec: &FlowopSpec) -> OFlags {
        let fileset = spec.fileset.map(|index| &self.workload.filesets[index]);
        let mut flags = match fileset {
            Some(fileset) if fileset.readonly => OFlags::RDONLY,
            Some(fileset) if fileset.writeonly => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        flags |= OFlags::CLOEXEC;
        flags.set(OFlags::SYNC, spec.dsync);
        flags.set(OFlags::DIRECT, spec.directio);
        flags
    }

    /// Resolves targets last, when every name of the thread is known.
    fn finish(mut self) -> (Vec<Operation>, usize) {
        let count = self.locals.len();
        for operation in &mut self.operations {
            let Operation::Flowop(flowop) = operation else { continue };
            let Some(name) = flowop.spec.target.clone() else { continue };
            flowop.target = match flowop.spec.kind {
                FlowopKind::Wakeup => {
                    self.programs.blocks.iter().position(|block| *block == name).map_or(Target::None, Target::Block)
                }
                FlowopKind::SemaphorePost => Target::Semaphores(name),
                _ => own(&self.locals, &name).map_or(Target::None, Target::Own),
            };
        }
        (self.operations, count)
    }
}

/// Finds a flowop of the same thread by its name, or by its name within a composite flowop.
fn own(locals: &BTreeMap<String, usize>, name: &str) -> Option<usize> {
    let inner = format!(".{name}");
    locals.get(name).or_else(|| locals.iter().find(|(key, _)| key.ends_with(&inner)).map(|(_, index)| index)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_flowops_become_loops_in_a_flat_program() {
        let text = "
            define fileset name=set, path=$dir, entries=10, dirwidth=5, prealloc
            define flowop name=inner, $times { flowop statfile name=stat, filesetname=set, iters=$times }
            define flowop name=outer, iters=3 {
                flowop inner name=in1, iters=2, $times=4
                flowop openfile name=open, filesetname=set, fd=1
            }
            define process name=p { thread name=t { flowop outer name=out flowop closefile name=close, fd=1 } }";
        let workload = Workload::parse("c.f", text, &BTreeMap::new()).unwrap();
        let programs = Programs::compile(&workload);
        let program = &programs.list[0];
        let shape: Vec<String> = program
            .operations
            .iter()
            .map(|operation| match operation {
                Operation::Flowop(f) => f.spec.name.clone(),
                Operation::Begin { iters: Value::Constant(iters), end } => format!("{iters}x to {end}"),
                Operation::Begin { .. } => "random".into(),
                Operation::End { begin } => format!("end of {begin}"),
            })
            .collect();
        assert_eq!(shape, ["3x to 5", "2x to 3", "out.in1.stat", "end of 1", "out.open", "end of 0", "close"]);
        let Operation::Flowop(stat) = &program.operations[2] else { panic!() };
        assert_eq!(stat.spec.iters, Value::Constant(4));
        assert_eq!(program.flowops, 3);
    }
}
