//! The documentation pages in the program.

use crate::registry::REGISTRY;
use senesce_core::Failure;
use senesce_core::parameter::suggest;

/// Name and text of the pages other than those of experiments.
const PAGES: &[(&str, &str)] = &[
    ("aging", include_str!("../docs/guide/aging.md")),
    ("choosing", include_str!("../docs/guide/choosing.md")),
    ("how-to", include_str!("../docs/guide/how-to.md")),
    ("mail-server", include_str!("../docs/tutorials/mail-server.md")),
    ("regression", include_str!("../docs/tutorials/regression.md")),
    ("allocator-patch", include_str!("../docs/tutorials/allocator-patch.md")),
    ("ci", include_str!("../docs/tutorials/ci.md")),
    ("slow-disk", include_str!("../docs/tutorials/slow-disk.md")),
    ("faq", include_str!("../docs/guide/faq.md")),
    ("records", include_str!("../docs/guide/records.md")),
    ("troubleshooting", include_str!("../docs/guide/troubleshooting.md")),
    ("glossary", include_str!("../docs/guide/glossary.md")),
    ("security", include_str!("../docs/security.md")),
    ("validity", include_str!("../docs/validity.md")),
    ("packages", include_str!("../docs/guide/packages.md")),
    ("statistics", include_str!("../docs/statistics.md")),
    ("claims", include_str!("../docs/claims.md")),
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
    ("gate", include_str!("../docs/verbs/gate.md")),
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

pub(crate) fn names() -> Vec<&'static str> {
    let pages = PAGES.iter().map(|(name, _)| *name);
    pages.chain(REGISTRY.experiments().map(|experiment| experiment.kind())).collect()
}

pub(crate) fn page(name: &str) -> Result<&'static str, Failure> {
    if let Some((_, text)) = PAGES.iter().find(|(known, _)| *known == name) {
        return Ok(text);
    }
    let of_experiment = REGISTRY.experiments().find(|experiment| experiment.kind() == name);
    of_experiment.map(|experiment| experiment.page()).ok_or_else(|| {
        let hint = suggest(name, names());
        Failure::usage(format!("unknown page '{name}'{hint}; `senesce help` lists the pages"))
    })
}

/// Removes HTML comments, each of which takes whole lines.
pub(crate) fn without_comments(page: &str) -> String {
    let mut kept = String::new();
    let mut is_comment = false;
    for line in page.lines() {
        let begins = line.starts_with("<!--");
        // The comment stood between two empty lines, of which one remains.
        let is_extra = line.is_empty() && kept.ends_with("\n\n");
        if !is_comment && !begins && !is_extra {
            kept.push_str(line);
            kept.push('\n');
        }
        is_comment = (is_comment || begins) && !line.trim_end().ends_with("-->");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::ExitCode;

    #[test]
    fn comments_are_omitted_from_pages() {
        let page = "a\n\n<!-- setup: b\nc -->\n\n    d\n\n<!-- e -->\n    f\n";
        assert_eq!(without_comments(page), "a\n\n    d\n\n    f\n");
        let shown: String = PAGES.iter().map(|(_, page)| without_comments(page)).collect();
        assert!(!shown.contains("<!--") && !shown.contains("-->"));
    }

    #[test]
    fn every_page_of_the_guide_the_tutorials_and_the_verbs_is_known() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for folder in ["guide", "tutorials", "verbs"] {
            for entry in std::fs::read_dir(docs.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(PAGES.contains(&(name, &text)), "{}", path.display());
            }
        }
    }

    #[test]
    fn pages_that_others_link_to_are_known() {
        let is_linked = |name: &str| PAGES.iter().any(|(_, text)| text.contains(&format!("](../{name}.md")));
        for name in ["security", "validity", "statistics", "claims"] {
            assert!(is_linked(name) && page(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn pages_are_listed_and_found_by_name() {
        assert!(names().contains(&"security"));
        assert!(page("security").unwrap().starts_with("# Security"));
        let failure = page("securty").unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Usage);
        assert!(failure.to_string().contains("security"), "{failure}");
    }
}
