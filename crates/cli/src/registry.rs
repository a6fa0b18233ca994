//! All experiments, kinds of records and importers.

use senesce_runner::Registry;
use senesce_runs::import::{self, Importer};

pub(crate) const REGISTRY: Registry = Registry {
    experiments: &[
        senesce_exp_aging::EXPERIMENTS,
        senesce_exp_fragmentation::EXPERIMENTS,
        senesce_exp_drive::EXPERIMENTS,
        senesce_exp_objects::EXPERIMENTS,
        senesce_exp_questions::EXPERIMENTS,
        senesce_exp_tier::EXPERIMENTS,
        senesce_exp_zns::EXPERIMENTS,
    ],
    verbs: &[
        senesce_exp_aging::VERBS,
        senesce_exp_zns::VERBS,
        senesce_runs::VERBS,
        senesce_study::VERBS,
        senesce_gate::VERBS,
    ],
};

pub(crate) const IMPORTERS: &[&[&'static dyn Importer]] = &[import::IMPORTERS, senesce_exp_zns::IMPORTERS];

#[cfg(test)]
mod tests {
    use super::REGISTRY;
    use senesce_core::{Level, published};
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn stems(folder: &Path, extension: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn every_experiment_has_its_file_page_and_published_values() {
        let ids: BTreeSet<String> = REGISTRY.experiments().map(|experiment| experiment.kind().to_string()).collect();
        assert_eq!(ids.len(), REGISTRY.experiments().count(), "ids are unique");
        assert_eq!(stems(&root().join("docs/experiments"), "md"), ids);
        assert_eq!(stems(&root().join("data/published"), "csv"), ids);
        let claims = stems(&root().join("data/published"), "toml");
        assert_eq!(claims, ids.iter().map(|id| format!("{id}.claims")).collect());
        let crates = std::fs::read_dir(root().join("crates")).unwrap().flatten().map(|found| found.path());
        let crates = crates.filter(|one| one.file_name().unwrap().to_string_lossy().starts_with("exp-"));
        let files: BTreeSet<String> = crates.flat_map(|one| stems(&one.join("src"), "rs")).collect();
        for experiment in REGISTRY.experiments() {
            let id = experiment.kind();
            assert!(files.contains(&id.replace('-', "_")), "{id} has its own file");
            assert!(experiment.page().starts_with("# "), "{id}: the page begins with its title");
            published::parse(experiment.published()).unwrap_or_else(|error| panic!("{id}: {error}"));
            senesce_claims::ClaimSet::parse(experiment.claims(), experiment.published())
                .unwrap_or_else(|error| panic!("{id}: {error}"));
        }
    }

    #[test]
    fn defaults_of_every_level_can_be_planned() {
        for experiment in REGISTRY.experiments() {
            let command = experiment.arguments(clap::Command::new(experiment.kind()).no_binary_name(true));
            let chosen = command.try_get_matches_from([""; 0]).unwrap();
            for level in [Level::Smoke, Level::Quick, Level::Paper] {
                experiment.plan(level, &chosen).unwrap_or_else(|error| panic!("{}: {error}", experiment.kind()));
            }
        }
    }

    #[test]
    fn verbs_and_experiments_have_different_names() {
        let mut seen = BTreeSet::new();
        for kind in REGISTRY.kinds().map(|kind| kind.kind()) {
            assert!(seen.insert(kind), "{kind} twice");
        }
    }
}
