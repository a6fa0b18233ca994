//! Compares docs/architecture.md with the code: its drawing with `cargo metadata`, its walk with the sources.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/architecture.md")).expect("the page")
}

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.output().expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let short = |name: &Value| name.as_str().and_then(|name| name.strip_prefix("senesce-")).map(str::to_string);
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let of = |package: &Value| {
        let used = package["dependencies"].as_array().expect("dependencies").iter();
        let mut used: Vec<String> =
            used.filter(|one| one["kind"].is_null()).filter_map(|one| short(&one["name"])).collect();
        used.sort();
        Some((short(&package["name"])?, used))
    };
    packages.filter_map(of).filter(|(name, _)| name != "benches").collect()
}

fn drawing() -> Vec<String> {
    let page = page();
    let rest = page.split_once("```text\n").expect("the drawing").1;
    rest.split_once("```").expect("its end").0.lines().map(str::to_string).collect()
}

#[test]
fn crates_depend_only_on_lower_layers_of_the_diagram() {
    let used = dependencies();
    let drawn = drawing();
    let rows = drawn.iter().filter_map(|line| line.trim().strip_prefix('│')?.split_once('│'));
    let floors: Vec<Vec<&str>> = rows.map(|(names, _)| names.split_whitespace().collect()).collect();
    let floor = |name: &str| {
        floors.iter().position(|names| names.contains(&name)).unwrap_or_else(|| panic!("{name} is not drawn"))
    };
    assert_eq!(floors.iter().flatten().count(), used.len(), "every crate is drawn once");
    for (name, used) in &used {
        for other in used {
            assert!(floor(other) > floor(name), "{name} uses {other}");
        }
    }
}

#[test]
fn functions_of_the_walkthrough_exist() {
    let page = page();
    let walk = page.split_once("## One parameter").expect("the walk").1;
    let mut steps = 0;
    for line in walk.lines().filter(|line| line.starts_with("| ") && line.contains(".rs")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, function, file] = cells[..] else { panic!("{line}") };
        let source = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let begin = format!("fn {function}");
        let is_there = source.match_indices(&begin).any(|(at, _)| source[at + begin.len()..].starts_with(['(', '<']));
        assert!(is_there, "{file} has no function {function}");
        steps += 1;
    }
    assert!(steps >= 10, "{steps} steps");
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|kind| kind == "rs") => found.push(path),
            false => {}
        }
    }
}

/// In crates/aging: plan, planner, measure; each uses only the ones before it.
#[test]
fn modules_of_aging_have_no_cycle() {
    for (module, later) in [("plan", &["planner", "measure"][..]), ("planner", &["measure"])] {
        let mut files = Vec::new();
        sources(&root().join("crates/aging/src").join(module), &mut files);
        assert!(files.len() > 3, "{module}: {} files", files.len());
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source");
            let used: Vec<_> = later.iter().filter(|later| text.contains(&format!("crate::{later}::"))).collect();
            assert!(used.is_empty(), "{}: {used:?}", file.display());
        }
    }
}

fn typed_as_published(text: &str) -> Vec<String> {
    let mut typed = Vec::new();
    for (at, _) in text.match_indices("published") {
        let Some(value) = text[at + "published".len()..].strip_prefix([':', '(']) else { continue };
        let value = value.trim_start();
        let value = value.strip_prefix("Some(").unwrap_or(value);
        let value = value.strip_prefix("format!(").unwrap_or(value).trim_start();
        let literal = value.strip_prefix('"').and_then(|rest| rest.split('"').next());
        typed.extend(literal.filter(|literal| literal.contains(|one: char| one.is_ascii_digit())).map(str::to_string));
    }
    typed
}

/// Published values come from data/published, so literals in the code that name them have no digits.
#[test]
fn published_numbers_are_not_in_the_code() {
    for planted in [
        r#"Finding { published: "7 to 9 MiB/s".into(), ..found }"#,
        r#"published: format!("{} of 12", 3)"#,
        r#"published: Some("-0.93".into())"#,
        r#"finding.published("0.67")"#,
    ] {
        assert_eq!(typed_as_published(planted).len(), 1, "{planted}");
    }
    let mut files = Vec::new();
    let crates = std::fs::read_dir(root().join("crates")).expect("crates").flatten();
    crates.for_each(|entry| sources(&entry.path().join("src"), &mut files));
    assert!(files.len() > 100, "{} files", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        let (code, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        let typed = typed_as_published(code);
        assert!(typed.is_empty(), "{}: {typed:?}", file.display());
    }
}
