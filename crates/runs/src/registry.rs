//! What there is: experiments, verbs that leave records, doc pages.

use crate::run::{Reproducible, RunKind};
use senesce_core::parameter::suggest;
use senesce_core::{Analysis, Failure, Plan, Record};

/// Everything that can be run and read back.
pub struct Registry {
    /// The published experiments, crate by crate, in the order of `senesce reproduce --list`.
    pub experiments: &'static [&'static [&'static dyn Reproducible]],
    pub verbs: &'static [&'static [&'static dyn RunKind]],
}

/// Doc pages beside those of experiments: name and text.
pub const PAGES: &[(&str, &str)] = &[
    ("aging", include_str!("../docs/guide/aging.md")),
    ("how-to", include_str!("../docs/guide/how-to.md")),
    ("mail-server", include_str!("../docs/tutorials/mail-server.md")),
    ("regression", include_str!("../docs/tutorials/regression.md")),
    ("ci", include_str!("../docs/tutorials/ci.md")),
    ("slow-disk", include_str!("../docs/tutorials/slow-disk.md")),
    ("faq", include_str!("../docs/guide/faq.md")),
    ("troubleshooting", include_str!("../docs/guide/troubleshooting.md")),
    ("glossary", include_str!("../docs/guide/glossary.md")),
    ("security", include_str!("../docs/security.md")),
    ("packages", include_str!("../docs/guide/packages.md")),
    ("statistics", include_str!("../docs/statistics.md")),
    ("demo", include_str!("../docs/verbs/demo.md")),
    ("doctor", include_str!("../docs/verbs/doctor.md")),
    ("age", include_str!("../docs/verbs/age.md")),
    ("age-options", include_str!("../docs/verbs/age-options.md")),
    ("age-record", include_str!("../docs/verbs/age-record.md")),
    ("verify", include_str!("../docs/verbs/verify.md")),
    ("profile", include_str!("../docs/verbs/profile.md")),
    ("profile-format", include_str!("../docs/verbs/profile-format.md")),
    ("layout", include_str!("../docs/verbs/layout.md")),
    ("layout-fields", include_str!("../docs/verbs/layout-fields.md")),
    ("trace", include_str!("../docs/verbs/trace.md")),
    ("diagnose", include_str!("../docs/verbs/diagnose.md")),
    ("diagnose-reference", include_str!("../docs/verbs/diagnose-reference.md")),
    ("bench", include_str!("../docs/verbs/bench.md")),
    ("bench-language", include_str!("../docs/verbs/bench-language.md")),
    ("bench-results", include_str!("../docs/verbs/bench-results.md")),
    ("study", include_str!("../docs/verbs/study.md")),
    ("study-file", include_str!("../docs/verbs/study-file.md")),
    ("study-statistics", include_str!("../docs/verbs/study-statistics.md")),
    ("reproduce", include_str!("../docs/verbs/reproduce.md")),
    ("compare", include_str!("../docs/verbs/compare.md")),
    ("report", include_str!("../docs/verbs/report.md")),
    ("runs", include_str!("../docs/verbs/runs.md")),
    ("runs-history", include_str!("../docs/verbs/runs-history.md")),
    ("runs-import", include_str!("../docs/verbs/runs-import.md")),
    ("import-table", include_str!("../docs/verbs/import-table.md")),
    ("device", include_str!("../docs/verbs/device.md")),
    ("device-models", include_str!("../docs/verbs/device-models.md")),
    ("zoned", include_str!("../docs/verbs/zoned.md")),
    ("zoned-models", include_str!("../docs/verbs/zoned-models.md")),
    ("image", include_str!("../docs/verbs/image.md")),
    ("snapshot", include_str!("../docs/verbs/snapshot.md")),
    ("vm", include_str!("../docs/verbs/vm.md")),
    ("objects", include_str!("../docs/verbs/objects.md")),
    ("tier", include_str!("../docs/verbs/tier.md")),
    ("tier-reference", include_str!("../docs/verbs/tier-reference.md")),
    ("help", include_str!("../docs/verbs/help.md")),
    ("completions", include_str!("../docs/verbs/completions.md")),
];

impl Registry {
    pub fn experiments(&self) -> impl Iterator<Item = &'static dyn Reproducible> {
        self.experiments.iter().flat_map(|list| list.iter().copied())
    }

    pub fn kinds(&self) -> impl Iterator<Item = &'static dyn RunKind> {
        let verbs = self.verbs.iter().flat_map(|list| list.iter().copied());
        verbs.chain(self.experiments().map(|experiment| experiment as &'static dyn RunKind))
    }

    /// The experiment with this id.
    pub fn experiment(&self, id: &str) -> Result<&'static dyn Reproducible, Failure> {
        self.experiments().find(|experiment| experiment.kind() == id).ok_or_else(|| {
            let hint = suggest(id, self.experiments().map(|experiment| experiment.kind()));
            Failure::usage(format!("there is no experiment '{id}'{hint}; `senesce reproduce --list` lists them"))
        })
    }

    /// Who can run a plan and read its record.
    pub fn kind(&self, plan: &Plan) -> Result<&'static dyn RunKind, Failure> {
        self.kinds().find(|known| known.kind() == plan.kind).ok_or_else(|| {
            Failure::usage(format!(
                "'{}' is a kind of run that this version does not know; use the version that wrote it ({})",
                plan.kind, plan.program_version
            ))
        })
    }

    /// Analyses any record by its kind.
    pub fn analyse(&self, record: &Record) -> Result<Analysis, Failure> {
        self.kind(&record.plan)?.analyse(record)
    }

    pub fn pages(&self) -> Vec<&'static str> {
        let verbs = PAGES.iter().map(|(name, _)| *name);
        verbs.chain(self.experiments().map(|experiment| experiment.kind())).collect()
    }

    /// A doc page by name.
    pub fn page(&self, name: &str) -> Result<&'static str, Failure> {
        if let Some((_, text)) = PAGES.iter().find(|(known, _)| *known == name) {
            return Ok(text);
        }
        let of_experiment = self.experiments().find(|experiment| experiment.kind() == name);
        of_experiment.map(|experiment| experiment.page()).ok_or_else(|| {
            let hint = suggest(name, self.pages());
            Failure::usage(format!("there is no page '{name}'{hint}; `senesce help` lists them"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_trusts_is_a_page_and_in_the_list() {
        let registry = Registry { experiments: &[], verbs: &[] };
        assert!(registry.pages().contains(&"security"));
        assert!(registry.page("security").unwrap().starts_with("# Security"));
        assert!(registry.page("securty").unwrap_err().to_string().contains("security"));
    }
}
