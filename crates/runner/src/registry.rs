//! The registry of experiments and of verbs that leave records.

use crate::{Reproducible, RunKind};
use senesce_core::parameter::suggest;
use senesce_core::{Analysis, Failure, Plan, Record};

pub struct Registry {
    /// The published experiments, crate by crate, in the order of `senesce reproduce --list`.
    pub experiments: &'static [&'static [&'static dyn Reproducible]],
    pub verbs: &'static [&'static [&'static dyn RunKind]],
}

impl Registry {
    pub fn experiments(&self) -> impl Iterator<Item = &'static dyn Reproducible> {
        self.experiments.iter().flat_map(|list| list.iter().copied())
    }

    pub fn kinds(&self) -> impl Iterator<Item = &'static dyn RunKind> {
        let verbs = self.verbs.iter().flat_map(|list| list.iter().copied());
        verbs.chain(self.experiments().map(|experiment| experiment as &'static dyn RunKind))
    }

    pub fn experiment(&self, id: &str) -> Result<&'static dyn Reproducible, Failure> {
        self.experiments().find(|experiment| experiment.kind() == id).ok_or_else(|| {
            let hint = suggest(id, self.experiments().map(|experiment| experiment.kind()));
            Failure::usage(format!("unknown experiment '{id}'{hint}; `senesce reproduce --list` lists them"))
        })
    }

    /// Returns the kind of run that can run a plan and read its record.
    pub fn kind(&self, plan: &Plan) -> Result<&'static dyn RunKind, Failure> {
        self.kinds().find(|known| known.kind() == plan.kind).ok_or_else(|| {
            Failure::usage(format!(
                "'{}' is a kind of run that this version does not know; use the version that wrote it ({})",
                plan.kind, plan.program_version
            ))
        })
    }

    pub fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        self.kind(&record.plan)?.analyse(record)
    }
}
