//! What there is: experiments, verbs that leave records, doc pages.

use crate::zns::Zns;
use senesce_core::parameter::suggest;
use senesce_core::{Analysis, Experiment, Failure, Record, RunKind};

/// The published experiments, in the order of `senesce experiments`.
#[rustfmt::skip]
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &crate::age_convergence::AgeConvergence,
    &crate::free_space::FreeSpaceExperiment,
    &crate::aged_fileserver::EXPERIMENT,
    &crate::aged_webserver::EXPERIMENT,
    &crate::frag_intra::FragIntra,
    &crate::frag_inter::FragInter,
    &crate::copy_order::CopyOrder,
    &crate::git_aging::GitAging,
    &crate::mail_aging::MailAging,
    &crate::lab_selftest::LabSelftest,
    &crate::f2fs_bandwidth::F2fsBandwidth,
    &crate::zns_rocksdb::ZnsRocksdb,
    &crate::object_dirs::ObjectDirs,
    &crate::chunk_size::ChunkSize,
    &crate::io_scheduler::IoScheduler,
    &crate::vcs_scaling::VcsScaling,
    &crate::file_ops::FileOps,
    &crate::append::Append,
    &crate::random_write::RandomWrite,
    &crate::coldness::Coldness,
    &crate::tier_sweep::TierSweep,
    &crate::tier_fileserver::TierFileserver,
    &Zns(crate::zns_request_size::ZnsRequestSize),
    &Zns(crate::zns_intra_zone::ZnsIntraZone),
    &Zns(crate::zns_inter_zone::ZnsInterZone),
    &Zns(crate::zns_bandwidth::ZnsBandwidth),
    &Zns(crate::zns_reset::ZnsReset),
    &Zns(crate::zns_finish::ZnsFinish),
    &Zns(crate::zns_open_close::ZnsOpenClose),
    &Zns(crate::zns_read_interference::ZnsReadInterference),
    &Zns(crate::zns_heavy::ZnsHeavy),
    &Zns(crate::zns_reset_interference::ZnsResetInterference),
];

/// The verbs that leave run directories.
#[rustfmt::skip]
pub const VERBS: &[&dyn RunKind] = &[
    &crate::verbs::age::Age,
    &crate::verbs::bench::Bench,
    &crate::import::fio::Fio,
    &crate::verbs::trace::BlockTraceRun,
    &crate::verbs::zns::Zns,
    &crate::import::zns_study::ZnsStudyImport,
    &crate::study::Study,
];

/// Doc pages of verbs: name and text.
pub const PAGES: &[(&str, &str)] = &[
    ("advise", include_str!("../../../docs/verbs/advise.md")),
    ("objects", include_str!("../../../docs/verbs/objects.md")),
    ("bench", include_str!("../../../docs/verbs/bench.md")),
    ("device", include_str!("../../../docs/verbs/device.md")),
    ("age", include_str!("../../../docs/verbs/age.md")),
    ("verify", include_str!("../../../docs/verbs/verify.md")),
    ("layout", include_str!("../../../docs/verbs/layout.md")),
    ("reproduce", include_str!("../../../docs/verbs/reproduce.md")),
    ("report", include_str!("../../../docs/verbs/report.md")),
    ("compare", include_str!("../../../docs/verbs/compare.md")),
    ("export", include_str!("../../../docs/verbs/export.md")),
    ("import", include_str!("../../../docs/verbs/import.md")),
    ("bundle", include_str!("../../../docs/verbs/bundle.md")),
    ("lab", include_str!("../../../docs/verbs/lab.md")),
    ("zns", include_str!("../../../docs/verbs/zns.md")),
    ("zones", include_str!("../../../docs/verbs/zones.md")),
    ("study", include_str!("../../../docs/verbs/study.md")),
    ("tier", include_str!("../../../docs/verbs/tier.md")),
    ("profile", include_str!("../../../docs/verbs/profile.md")),
    ("image", include_str!("../../../docs/verbs/image.md")),
    ("trace", include_str!("../../../docs/verbs/trace.md")),
    ("snapshot", include_str!("../../../docs/verbs/snapshot.md")),
    ("rollback", include_str!("../../../docs/verbs/rollback.md")),
    ("run-and-rollback", include_str!("../../../docs/verbs/run-and-rollback.md")),
];

/// The experiment with this id.
pub fn experiment(id: &str) -> Result<&'static dyn Experiment, Failure> {
    EXPERIMENTS.iter().copied().find(|experiment| experiment.kind() == id).ok_or_else(|| {
        let hint = suggest(id, EXPERIMENTS.iter().map(|experiment| experiment.kind()));
        Failure::usage(format!("there is no experiment '{id}'{hint}; `senesce experiments` lists them"))
    })
}

/// Analyses any record by its kind.
pub fn analyse(record: &Record) -> Result<Analysis, Failure> {
    let mut analysis = kind(record)?.analyse(record)?;
    analysis.caveats.splice(0..0, record.environment.caveats());
    Ok(analysis)
}

/// Who can read a record.
pub fn kind(record: &Record) -> Result<&'static dyn RunKind, Failure> {
    let kind = record.plan.kind.as_str();
    let experiments = EXPERIMENTS.iter().map(|experiment| *experiment as &'static dyn RunKind);
    VERBS.iter().copied().chain(experiments).find(|known| known.kind() == kind).ok_or_else(|| {
        Failure::usage(format!(
            "{} holds a run of kind '{kind}', which this version does not know; use the version that wrote it ({})",
            record.path.display(),
            record.plan.program_version
        ))
    })
}

/// The names of all doc pages.
pub fn pages() -> Vec<&'static str> {
    let verbs = PAGES.iter().map(|(name, _)| *name);
    verbs.chain(EXPERIMENTS.iter().map(|experiment| experiment.kind())).collect()
}

/// A doc page by name.
pub fn page(name: &str) -> Result<&'static str, Failure> {
    if let Some((_, text)) = PAGES.iter().find(|(known, _)| *known == name) {
        return Ok(text);
    }
    EXPERIMENTS.iter().find(|experiment| experiment.kind() == name).map(|experiment| experiment.doc()).ok_or_else(
        || Failure::usage(format!("there is no page '{name}'{}; `senesce doc` lists them", suggest(name, pages()))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Level, Settings, published};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    fn stems(folder: &str, extension: &str) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let entries = std::fs::read_dir(&root).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn every_experiment_has_its_file_page_and_published_values() {
        let ids: BTreeSet<String> = EXPERIMENTS.iter().map(|experiment| experiment.kind().to_string()).collect();
        assert_eq!(ids.len(), EXPERIMENTS.len(), "ids are unique");
        assert_eq!(stems("docs/experiments", "md"), ids);
        assert_eq!(stems("data/published", "csv"), ids);
        let files = stems("crates/experiments/src", "rs");
        for experiment in EXPERIMENTS {
            let id = experiment.kind();
            assert!(files.contains(&id.replace('-', "_")), "{id} has its own file");
            assert!(experiment.doc().starts_with("# "), "{id}: the page begins with its title");
            published::parse(experiment.published()).unwrap_or_else(|error| panic!("{id}: {error}"));
        }
    }

    #[test]
    fn the_defaults_of_every_level_are_valid() {
        for experiment in EXPERIMENTS {
            for parameter in experiment.parameters() {
                for value in parameter.defaults {
                    senesce_core::parameter::check(parameter, value)
                        .unwrap_or_else(|error| panic!("{}: {error}", experiment.kind()));
                }
            }
            Settings::resolve(experiment.parameters(), Level::Smoke, &BTreeMap::new()).unwrap();
        }
    }

    #[test]
    fn verbs_and_experiments_do_not_share_names() {
        let mut seen = BTreeSet::new();
        for kind in VERBS.iter().map(|verb| verb.kind()).chain(EXPERIMENTS.iter().map(|experiment| experiment.kind())) {
            assert!(seen.insert(kind), "{kind} twice");
        }
    }
}
