//! Tests the command line: names of runs, suggestions, completions, help, manual and version.

use crate::common::{ends, json_of, printed, run, senesce, stderr, succeeds, temporary_directory};
use std::path::Path;
use std::process::Command;

fn two_runs(folder: &Path) -> Vec<String> {
    for seed in ["1", "2"] {
        succeeds(folder, &format!("zoned measure sim:zn540 --op write --time 1ms --seed {seed}"));
    }
    let list = json_of(folder, "runs list --json");
    list.as_array().expect("a list").iter().map(|one| one["run"].as_str().expect("run").to_string()).collect()
}

#[test]
fn runs_are_named_by_path_time_or_hash() {
    let directory = temporary_directory();
    let [one, other] = &two_runs(directory.path())[..] else { panic!("two runs") };
    let exported = |runs: &str| json_of(directory.path(), &format!("report {runs} --format json"));
    let by_path = exported(one);
    let hash = one.rsplit_once('-').expect("a hash").1;
    assert_eq!(exported(&hash[..6]), by_path);
    let both = exported(&format!("{one} {other}"));
    assert_eq!(both["runs"][0], by_path["runs"][0]);
    assert_eq!(both["runs"].as_array().map(Vec::len), Some(2));
    let reports = printed(directory.path(), &format!("report {one} latest"));
    assert_eq!(reports.lines().count(), 2, "{reports}");
    // Several runs begin with this.
    ends(directory.path(), "report zoned", 2);
    ends(directory.path(), &format!("report {one} {other} --out x.html"), 2);
    assert!(!directory.path().join("x.html").exists());
}

#[test]
fn unknown_verbs_suggest_the_nearest_or_the_new_name() {
    let directory = temporary_directory();
    for (line, suggested) in [
        ("-q lyout .", "layout"),
        ("zns sim:zn540", "zoned measure"),
        ("help --man lyout", "layout"),
        ("vm lits", "list"),
    ] {
        let ended = ends(directory.path(), line, 2);
        assert!(stderr(&ended).contains(suggested), "{}", stderr(&ended));
    }
}

#[test]
fn a_fullness_may_be_a_percentage() {
    let directory = temporary_directory();
    let planned = |fullness: &str| {
        let line = format!("age memory:1G --dry-run --json --fullness {fullness}");
        json_of(directory.path(), &line)["spec"]["fullness"].as_f64()
    };
    assert_eq!((planned("80%"), planned("0.8")), (Some(0.8), Some(0.8)));
    ends(directory.path(), "age --plan-only --size 1G --fullness full", 2);
}

#[test]
fn help_has_groups_and_the_version_its_commit() {
    let directory = temporary_directory();
    let help = printed(directory.path(), "--help");
    for word in ["Start:", "Age:", "Look:", "Measure:", "Compare:", "Guests:", "\n  demo ", "Options:", "Examples:"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert!(!help.contains('\u{1b}'), "no colours in a pipe");
    let version = printed(directory.path(), "--version");
    assert!(version.starts_with("senesce 0.") && version.trim().ends_with("MPI)"), "{version}");
}

#[test]
fn every_verb_has_a_manual_page_of_its_name() {
    let directory = temporary_directory();
    succeeds(directory.path(), "help --man-pages man");
    let page = |name: &str| std::fs::read_to_string(directory.path().join(format!("man/{name}.1"))).expect(name);
    let root = page("senesce");
    for verb in ["age", "compare", "demo", "snapshot"] {
        let name = format!("senesce-{verb}");
        assert!(root.contains(&format!("senesce\\-{}\\fR(1)", verb.replace('-', "\\-"))), "{verb}");
        assert!(page(&name).contains(".SH NAME"), "{verb}");
    }
    assert!(page("senesce-vm-run").contains("senesce vm run"));
    assert_eq!(printed(directory.path(), "help --man age"), page("senesce-age"));
}

/// Completions of a shell for the last of these words.
fn completed(folder: &Path, line: &str) -> Vec<String> {
    let words = crate::common::words(line);
    let mut command = senesce(folder);
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").args(["--", "senesce"]).args(words);
    let output = crate::common::ended(command.output().expect("run"), line, 0);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

#[test]
fn completions_list_existing_items() {
    let directory = temporary_directory();
    let runs = two_runs(directory.path());
    for (line, expected) in [
        ("prof", "profile"),
        ("age --profile wang", "wang_os wang_lanl"),
        ("age --fs x", "xfs"),
        ("reproduce mail", "mail-aging"),
        ("report lat", "latest"),
        ("report senesce-runs/z", &runs.join(" ")),
        ("help gloss", "glossary"),
    ] {
        assert_eq!(completed(directory.path(), line).join(" "), expected, "{line}");
    }
}

fn shell_completes(shell: &str, script: &str) {
    let directory = temporary_directory();
    let registration = printed(directory.path(), &format!("completions {shell}"));
    std::fs::write(directory.path().join("registration"), registration).expect("write");
    let program = Path::new(assert_cmd::cargo::cargo_bin!("senesce")).parent().expect("folder").to_path_buf();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new(shell).args(["-c", script]).current_dir(directory.path()).env("PATH", path).output();
    assert_eq!(String::from_utf8_lossy(&output.expect(shell).stdout).trim(), "latest", "{shell}");
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
    for what in ["simulator", "directory"] {
        let directory = temporary_directory();
        let text = printed(directory.path(), &format!("demo --on {what}"));
        let report = text.lines().last().and_then(|line| line.strip_prefix("report: ")).expect("a report");
        let html = std::fs::read_to_string(directory.path().join(report)).expect("the report");
        assert!(html.starts_with("<!doctype html>"));
    }
}

/// In a user-mode kernel, or with little memory.
#[test]
#[ignore = "needs loop devices"]
fn small_demo_has_space_for_its_files() {
    let directory = temporary_directory();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("senesce"));
    let output = command
        .current_dir(directory.path())
        .env("SENESCE_VM", "uml")
        .args(["demo", "--on", "image"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("128M"));
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
