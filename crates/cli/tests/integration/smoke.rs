//! Tests every experiment at the smoke scale, from plan to report, and verbs that only print.

use crate::common::{json, run, senesce};
use senesce_claims::{ClaimSet, Rule, Selection};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const IN_THE_GUEST: [&str; 7] = [
    "defragmentation-lasts",
    "f2fs-bandwidth",
    "files-or-free-space",
    "kernels",
    "time-scale",
    "vm-selftest",
    "zns-rocksdb",
];

#[test]
#[ignore = "needs loop devices, FUSE, git"]
fn every_experiment_runs_at_the_smoke_scale_and_reports() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let list = json(&run(directory.path(), &["reproduce", "--list", "--json"]));
    let ids = list.as_array().expect("a list").iter().map(|one| one["id"].as_str().expect("id").to_string());
    let ids: Vec<String> = ids.filter(|id| !IN_THE_GUEST.contains(&&**id)).collect();
    assert!(!ids.is_empty());
    let mut failed = Vec::new();
    for id in &ids {
        let plan = run(directory.path(), &["reproduce", id, "--scale", "smoke", "--dry-run"]);
        let output = run(directory.path(), &["reproduce", id, "--scale", "smoke", "--json", "--out", id]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(0) || plan.status.code() != Some(0) {
            failed.push(format!("{id}: {:?} {said}", output.status.code()));
            continue;
        }
        json(&output);
        failed.extend(unmeasured(directory.path(), id));
        let report = run(directory.path(), &["report", id]);
        assert_eq!(report.status.code(), Some(0), "{id}: {}", String::from_utf8_lossy(&report.stderr));
        assert_eq!(run(directory.path(), &["help", id]).status.code(), Some(0), "{id}");
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(crate::common::leftovers(directory.path()), Vec::<String>::new());
}

#[test]
fn doctor_concludes_from_its_checks() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let found = json(&run(directory.path(), &["doctor", "--json"]));
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let checks: Vec<Value> = list(&found["checks"]).iter().map(|check| check["what"].clone()).collect();
    assert!(!list(&found["conclusion"]["ready"]).is_empty(), "{found}");
    for one in list(&found["conclusion"]["not_ready"]) {
        let missing = list(&one["missing"]);
        assert!(!missing.is_empty() && missing.iter().all(|name| checks.contains(name)), "{one}");
    }
}

#[test]
fn refused_kernel_build_makes_no_folder() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cache = directory.path().join("cache");
    let mut build = senesce(directory.path());
    let built = build.args(["vm", "build", "."]).env("XDG_CACHE_HOME", &cache).output().expect("run senesce");
    assert!(!built.status.success() && !cache.exists());
}

#[test]
fn verbs_that_only_print_work_anywhere() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for words in [
        vec!["--help"],
        vec!["--version"],
        vec!["doctor"],
        vec!["doctor", "--json"],
        vec!["reproduce", "--list"],
        vec!["runs", "list"],
        vec!["help"],
        vec!["help", "age"],
        vec!["help", "--man"],
        vec!["help", "--man", "age"],
        vec!["completions", "bash"],
        vec!["age", "image:x.img,size=1G", "--dry-run"],
    ] {
        let output = run(directory.path(), &words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for words in [vec!["help", "agee"], vec!["no-such-verb"], vec!["report", "nowhere"], vec!["reproduce", "no-such"]] {
        assert_eq!(run(directory.path(), &words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 0, "nothing was left");
}

/// Values that claims need and smoke runs lack: experiment, metric, and a run that measures it.
const BEYOND_SMOKE: [(&str, &str, &str); 11] = [
    ("age-convergence", "aging rate", "a file system that is aged"),
    ("aged-fileserver", "throughput, modelled 850-evo", "a quick run: smoke has one drive"),
    ("aged-webserver", "throughput, modelled 850-evo", "a quick run: smoke has one drive"),
    ("compressed-aging", "largest certified factor", "a quick run: a single aging certifies nothing"),
    ("frag-intra", "device requests after mounting", "a file system that works after mounting"),
    ("free-space", "share of free space", "the histogram of free space"),
    ("free-space", "free extents", "a quick run: several profiles and ages"),
    ("object-dirs", "store time", "a quick run: a fill of 1 GiB"),
    ("zns-finish", "padding_mib", "a quick run: two occupancies"),
    ("zns-heavy", "writer_cv", "a quick run: several seconds"),
    ("zns-heavy", "iops", "a quick run: readers next to the writers"),
];

/// Claims that no value of a run can decide, by metric and names of conditions. The rule tests of the claims generate their own
/// values and cannot detect this.
fn unmeasured(directory: &Path, id: &str) -> Option<String> {
    let exported = json(&run(directory, &["report", id, "--format", "json"]));
    let mut measured: BTreeMap<String, Vec<BTreeSet<String>>> = BTreeMap::new();
    for one in exported["runs"][0]["measurements"].as_array().expect("measurements") {
        let words = one["condition"].as_str().expect("condition").split_whitespace();
        let keys = words.filter_map(|word| word.split_once('=')).map(|(key, _)| key.to_string()).collect();
        measured.entry(one["metric"].as_str().expect("metric").into()).or_default().push(keys);
    }
    let is_measured = |metric: &str, keys: &BTreeSet<String>| {
        let beyond = BEYOND_SMOKE.iter().any(|(of, known, _)| (*of, *known) == (id, metric));
        beyond || measured.get(metric).is_some_and(|all| all.iter().any(|there| keys.is_subset(there)))
    };
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/published");
    let text = |name: String| std::fs::read_to_string(published.join(name)).expect("published");
    let set = ClaimSet::parse(&text(format!("{id}.claims.toml")), &text(format!("{id}.csv"))).expect("claims");
    let mut missing = Vec::new();
    for claim in &set.claims {
        for (metric, keys) in named_conditions(&claim.rule) {
            if !is_measured(&metric, &keys) {
                missing.push(format!("{}: [{metric}] under {keys:?}", claim.id));
            }
        }
    }
    (!missing.is_empty()).then(|| format!("{id} measures nothing for {}", missing.join("; ")))
}

fn named_conditions(rule: &Rule) -> Vec<(String, BTreeSet<String>)> {
    let along = match rule {
        Rule::Trend { along, .. } | Rule::Step { along, .. } | Rule::Linear { along, .. } => Some(along.clone()),
        Rule::Rank { systems, .. } => Some(systems.clone()),
        _ => None,
    };
    let keys = |selection: &Selection| selection.when.keys().cloned().chain(along.clone()).collect();
    rule.selections().into_iter().map(|selection| (selection.metric.clone(), keys(selection))).collect()
}
