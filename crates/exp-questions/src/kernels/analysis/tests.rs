use super::super::Kernels;
use super::super::variant::Variant;
use super::*;
use senesce_core::Level;
use senesce_runner::Experiment;

fn spec() -> Spec {
    Spec { kernels: vec!["6.1".into(), "6.12".into(), "7.2".into()], ..Kernels::defaults(Level::Quick) }
}

fn aged(kernel: &str, seed: u32, sham: bool, value: f64) -> AgedStep {
    let step = Step { kernel: kernel.into(), fs: Variant::Ext4, profile: "agrawal".into(), rate: 0.0, seed, sham };
    let value = value * (1.0 + 0.002 * f64::from(seed * 7 % 5));
    let aged = json!({
        "files": 100, "extents": 200, "discontinuities": (1000.0 * value) as u64, "free_extents": (1000.0 * value) as u64,
        "mean_free_bytes": 1.0, "free_histogram": [], "disk_seconds": value, "ssd_seconds": value,
        "append_extents": value, "metadata_bytes": 1, "operations": 1, "requests": 1, "written_bytes": 1,
        "flushes": 0, "commits": null, "digest": format!("{seed} {value}"), "mount_options": "rw",
    });
    AgedStep { step, aged: serde_json::from_value(aged).expect("an aging") }
}

fn agings(values: [f64; 3]) -> Vec<AgedStep> {
    let kernels = ["6.1.1-uml-a", "6.12.1-uml-b", "7.2.1-uml-c"];
    let of = |seed| {
        let plain = kernels.iter().zip(values).map(move |(kernel, value)| aged(kernel, seed, false, value));
        plain.chain([aged(kernels[0], seed, true, values[0] * 1.001)])
    };
    (0..6).flat_map(of).collect()
}

fn words(values: [f64; 3]) -> Vec<String> {
    let result = analyse(&spec(), &agings(values)).result;
    let all = result["comparisons"].as_array().expect("a list").clone();
    let disk = all.iter().filter(|one| one["metric"] == "disk read (s)");
    disk.map(|one| one["verdict"].as_str().expect("a word").to_string()).collect()
}

#[test]
fn change_is_found_in_its_step_and_over_all_kernels() {
    assert_eq!(words([1.0, 1.001, 1.4]), ["equivalent", "worse", "worse"]);
    assert_eq!(words([1.0, 0.7, 0.701]), ["better", "equivalent", "better"]);
}

#[test]
fn equal_layouts_are_identical_and_shams_do_not_alarm() {
    assert_eq!(words([1.0, 1.0, 1.0]), ["identical"; 3]);
    let result = analyse(&spec(), &agings([1.0, 1.0, 1.4])).result;
    let controls = result["controls"].as_array().expect("a list");
    assert!(!controls.is_empty() && controls.iter().all(|one| one["verdict"] == "equivalent"), "{controls:?}");
}

#[test]
fn kernel_names_of_a_series_do_not_match_longer_numbers() {
    let found = kernels(&spec(), &agings([1.0; 3]));
    assert_eq!(found, ["6.1.1-uml-a", "6.12.1-uml-b", "7.2.1-uml-c"]);
}

#[test]
fn missing_agings_give_no_verdict() {
    let few: Vec<AgedStep> = agings([1.0, 1.0, 1.4]).into_iter().filter(|one| one.step.seed == 0).collect();
    let result = analyse(&spec(), &few).result;
    let all = result["comparisons"].as_array().expect("a list");
    assert!(all.iter().all(|one| one["verdict"] == "not-testable" || one["verdict"] == "identical"), "{all:?}");
    assert!(analyse(&spec(), &[]).result["kernels"].as_array().is_some_and(Vec::is_empty));
}
