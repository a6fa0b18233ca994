//! Tests the command line: names of runs, suggestions, completions, help, manual and version.

use crate::common::{json, run, senesce, temporary_directory};
use std::path::Path;
use std::process::{Command, Output};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn two_runs(folder: &Path) -> Vec<String> {
    for seed in ["1", "2"] {
        let words = ["zoned", "measure", "sim:zn540", "--op", "write", "--time", "1ms", "--seed", seed];
        printed(&run(folder, &words));
    }
    let list = json(&run(folder, &["runs", "list", "--json"]));
    list.as_array().expect("a list").iter().map(|one| one["run"].as_str().expect("run").to_string()).collect()
}

#[test]
fn runs_are_named_by_path_time_or_hash() {
    let directory = temporary_directory();
    let runs = two_runs(directory.path());
    assert_eq!(runs.len(), 2);
    let by_path = json(&run(directory.path(), &["report", &runs[0], "--format", "json"]));
    let hash = runs[0].rsplit_once('-').expect("a hash").1;
    assert_eq!(json(&run(directory.path(), &["report", &hash[..6], "--format", "json"])), by_path);
    let both = json(&run(directory.path(), &["report", &runs[0], &runs[1], "--format", "json"]));
    assert_eq!(both["runs"][0], by_path["runs"][0]);
    assert_eq!(both["runs"].as_array().map(Vec::len), Some(2));
    let reports = printed(&run(directory.path(), &["report", &runs[0], "latest"]));
    assert_eq!(reports.lines().count(), 2, "{reports}");
    let several = run(directory.path(), &["report", "zoned"]);
    assert_eq!(several.status.code(), Some(2));
    assert!(said(&several).contains("several runs begin with this"), "{}", said(&several));
    let one_file = run(directory.path(), &["report", &runs[0], &runs[1], "--out", "x.html"]);
    assert_eq!((one_file.status.code(), directory.path().join("x.html").exists()), (Some(2), false));
}

#[test]
fn unknown_verbs_suggest_the_nearest_or_the_new_name() {
    let directory = temporary_directory();
    let ended = run(directory.path(), &["-q", "lyout", "."]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(said(&ended).contains("did you mean 'layout'?"), "{}", said(&ended));
    let renamed = run(directory.path(), &["zns", "sim:zn540"]);
    assert_eq!(renamed.status.code(), Some(2));
    assert!(said(&renamed).contains("unknown verb `zns`: use `zoned measure`"), "{}", said(&renamed));
    let page = run(directory.path(), &["help", "--man", "lyout"]);
    assert!(said(&page).contains("did you mean 'layout'?"), "{}", said(&page));
    let inner = run(directory.path(), &["vm", "statsu"]);
    assert!(said(&inner).contains("'status'"), "{}", said(&inner));
}

#[test]
fn a_fullness_may_be_a_percentage() {
    let directory = temporary_directory();
    let planned = |fullness: &str| {
        let words = ["age", "memory:1G", "--dry-run", "--json", "--fullness", fullness];
        json(&run(directory.path(), &words))["spec"]["fullness"].as_f64()
    };
    assert_eq!((planned("80%"), planned("0.8")), (Some(0.8), Some(0.8)));
    assert_eq!(
        run(directory.path(), &["age", "--plan-only", "--size", "1G", "--fullness", "full"]).status.code(),
        Some(2)
    );
}

#[test]
fn help_has_groups_and_the_version_its_commit() {
    let directory = temporary_directory();
    let help = printed(&run(directory.path(), &["--help"]));
    for word in ["Start:", "Age:", "Look:", "Measure:", "Compare:", "Guests:", "\n  demo ", "Options:", "Examples:"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert!(!help.contains('\u{1b}'), "no colours in a pipe");
    let version = printed(&run(directory.path(), &["--version"]));
    assert!(version.starts_with("senesce 0.") && version.trim().ends_with("MPI)"), "{version}");
}

#[test]
fn every_verb_has_a_manual_page_of_its_name() {
    let directory = temporary_directory();
    printed(&run(directory.path(), &["help", "--man-pages", "man"]));
    let page = |name: &str| std::fs::read_to_string(directory.path().join(format!("man/{name}.1"))).expect(name);
    let root = page("senesce");
    for verb in ["age", "compare", "demo", "snapshot"] {
        let name = format!("senesce-{verb}");
        assert!(root.contains(&format!("senesce\\-{}\\fR(1)", verb.replace('-', "\\-"))), "{verb}");
        assert!(page(&name).contains(".SH NAME"), "{verb}");
    }
    assert!(page("senesce-vm-run").contains("senesce vm run"));
    assert_eq!(printed(&run(directory.path(), &["help", "--man", "age"])), page("senesce-age"));
}

/// Completions of a shell for the word after `words`.
fn completed(folder: &Path, words: &[&str]) -> Vec<String> {
    let index = words.len().to_string();
    let mut command = senesce(folder);
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index).env("_CLAP_IFS", "\n");
    let output = command.env("_CLAP_COMPLETE_COMP_TYPE", "9").arg("--").arg("senesce").args(words).output();
    printed(&output.expect("run")).lines().map(str::to_string).collect()
}

#[test]
fn completions_list_existing_items() {
    let directory = temporary_directory();
    let runs = two_runs(directory.path());
    assert_eq!(completed(directory.path(), &["prof"]), ["profile"]);
    assert_eq!(completed(directory.path(), &["age", "--profile", "wang"]), ["wang_os", "wang_lanl"]);
    assert_eq!(completed(directory.path(), &["age", "--fs", "x"]), ["xfs"]);
    assert_eq!(completed(directory.path(), &["reproduce", "mail"]), ["mail-aging"]);
    assert_eq!(completed(directory.path(), &["report", "lat"]), ["latest"]);
    assert_eq!(completed(directory.path(), &["report", "senesce-runs/z"]), runs);
    assert_eq!(completed(directory.path(), &["help", "gloss"]), ["glossary"]);
}

fn shell_completes(shell: &str, script: &str) {
    let directory = temporary_directory();
    let registration = printed(&run(directory.path(), &["completions", shell]));
    std::fs::write(directory.path().join("registration"), registration).expect("write");
    let program = Path::new(assert_cmd::cargo::cargo_bin!("senesce")).parent().expect("folder").to_path_buf();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new(shell).args(["-c", script]).current_dir(directory.path()).env("PATH", path).output();
    let found = printed(&output.expect(shell));
    assert_eq!(found.trim(), "latest", "{shell}");
}

#[test]
fn bash_completes() {
    let script = "source ./registration; COMP_WORDS=(senesce report lat); COMP_CWORD=2; COMP_TYPE=9; \
                  _clap_complete_senesce senesce lat report; echo \"${COMPREPLY[@]}\"";
    shell_completes("bash", script);
}

#[test]
#[ignore = "needs fish"]
fn fish_completes() {
    shell_completes("fish", "source ./registration; complete -C 'senesce report lat'");
}

/// compadd and _describe replace the parts of zsh's completion that need a terminal.
#[test]
#[ignore = "needs zsh"]
fn zsh_completes() {
    let script = "compdef() { : }; _describe() { local name=${@[-1]}; print -l ${(P)name} }; \
                  words=(senesce report lat); CURRENT=3; source ./registration; _clap_dynamic_completer_senesce";
    shell_completes("zsh", script);
}

#[test]
fn demo_shows_a_report_anywhere() {
    let directory = temporary_directory();
    let text = printed(&run(directory.path(), &["demo", "--on", "simulator"]));
    let report = text.lines().last().and_then(|line| line.strip_prefix("report: ")).expect("a report");
    let html = std::fs::read_to_string(directory.path().join(report)).expect("the report");
    assert!(html.starts_with("<!doctype html>"));
}

/// For directories with any name: output outside of a terminal has neither colours nor control characters.
#[test]
fn warnings_and_refusals_have_no_control_characters() {
    // On the root file system, which causes a warning.
    let directory = tempfile::tempdir().unwrap();
    let name = "a\u{1b}]0;title\u{7}\u{9b}31m\u{8}";
    std::fs::create_dir(directory.path().join(name)).unwrap();
    std::fs::write(directory.path().join(name).join("thesis"), "precious").unwrap();
    for words in [vec!["bench", name, "fileserver"], vec!["age", name, "--size", "1G"], vec!["report", name]] {
        let output = run(directory.path(), &words);
        assert!(!output.status.success(), "{words:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.chars().any(|sign| sign.is_control() && sign != '\n'), "{said:?}");
        assert!(said.contains("title"), "{said:?}");
    }
}
