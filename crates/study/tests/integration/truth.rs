//! Studies with a known answer, measured on this machine: controls without a difference, and a known change.

use crate::open::{study, temporary_directory};

const LIKE: &str = r#"
name = "like against like"
size = "256M"
file_system = [{ kind = "ext4", name = "a" }, { kind = "ext4", name = "b" }]
workload = [{ ready = "fsync-log", scale = 0.1 }, { ready = "container-layers", scale = 0.3 }]
[[state]]
kind = "fresh"
[[state]]
kind = "aged"
profile = "wang_os"
fullness = 0.5
overwrites = 1.0
truncate = "drop"
"#;

/// Of twenty such studies three may give a verdict; of three, one.
#[test]
#[ignore = "long: ten minutes; needs loop devices"]
fn equal_file_systems_get_no_verdict() {
    let mut alarms = 0;
    for seed in 1..=3 {
        let directory = temporary_directory();
        let outcome = study(&format!("seed = {seed}\n{LIKE}"), directory.path(), None).expect("it runs");
        let result = &outcome.analysis.result;
        let pairs = result["pairs"].as_array().expect("pairs");
        for pair in pairs {
            println!("seed {seed}: {} {} {} {}", pair["workload"], pair["state"], pair["ratio"], pair["verdict"]);
        }
        println!("estimated {} s, took {} s", result["estimated_seconds"], result["took_seconds"]);
        alarms += u32::from(pairs.iter().any(|pair| pair["verdict"] == "better" || pair["verdict"] == "worse"));
    }
    assert!(alarms <= 1, "{alarms} of 3");
}

const EXTENTS: &str = r#"
name = "do extents matter to an old ext4"
size = "1G"
images = 3
models = ["st500dm002"]
file_system = [{ kind = "ext4" }, { kind = "ext4", name = "without extents", mkfs = "-O ^extents,^64bit" }]
workload = [{ cold_read = true }]
[[state]]
kind = "aged"
profile = "wang_lanl"
fullness = 0.5
overwrites = 2.0
truncate = "drop"
data = "write"
"#;

/// Maps of single blocks must be read one by one, where an extent is a few bytes in the inode.
#[test]
#[ignore = "long: minutes; needs loop devices"]
fn ext4_without_extents_is_slower() {
    let directory = temporary_directory();
    let outcome = study(EXTENTS, directory.path(), None).expect("it runs");
    let pairs = outcome.analysis.result["pairs"].as_array().expect("pairs").clone();
    for pair in &pairs {
        println!("{} {} [{}, {}] {}", pair["workload"], pair["ratio"], pair["low"], pair["high"], pair["verdict"]);
    }
    println!("{}", outcome.analysis.result["answer"]);
    let verdict = |metric: &str| pairs.iter().find(|pair| pair["metric"] == metric).expect(metric)["verdict"].clone();
    assert_eq!(verdict("cold read time, modelled st500dm002"), "better");
    assert_ne!(verdict("cold read time"), "worse");
}
