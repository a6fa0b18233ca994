//! The tutorials, played as a reader would: every `sh` block of a page, in order, in one folder.

use std::path::Path;
use std::process::Command;

/// The blocks between ```` ```sh ```` and ```` ``` ````.
fn blocks(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in page.lines() {
        match (line, &mut open) {
            ("```sh", _) => open = Some(Vec::new()),
            ("```", Some(lines)) => {
                found.push(lines.join("\n"));
                open = None;
            }
            (line, Some(lines)) => lines.push(line),
            _ => {}
        }
    }
    found
}

fn play(name: &str, least_blocks: usize) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials").join(format!("{name}.md"));
    let blocks = blocks(&std::fs::read_to_string(page).expect("the page"));
    assert!(blocks.len() >= least_blocks, "{name}: {} blocks", blocks.len());
    // On a disk: a file system in memory does not tell where its data lie.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = Path::new(assert_cmd::cargo::cargo_bin!("senesce")).parent().expect("folder").to_path_buf();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    for block in blocks {
        let mut shell = Command::new("sh");
        shell.args(["-euc", &block]).current_dir(directory.path()).env("PATH", &path);
        let output = shell.env("XDG_CACHE_HOME", directory.path().join(".cache")).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}:\n{block}\n{said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!printed.lines().any(|line| line.ends_with("exit code 1")), "equal sides are no regression: {printed}");
    }
}

#[test]
fn the_slow_disk_can_be_looked_after() {
    play("slow-disk", 3);
}

#[test]
#[ignore = "long: plays a tutorial of a minute; needs loop devices"]
fn a_mail_server_can_be_chosen_for() {
    play("mail-server", 4);
}

#[test]
#[ignore = "long: plays a tutorial of a minute; needs loop devices"]
fn a_regression_can_be_gated() {
    play("regression", 3);
}

#[test]
#[ignore = "long: plays a tutorial of minutes; needs loop devices"]
fn every_change_can_be_gated() {
    play("ci", 3);
}

#[test]
fn only_shell_blocks_are_played() {
    assert_eq!(blocks("a\n```sh\nls\npwd\n```\n```toml\nx = 1\n```\n    indented\n"), ["ls\npwd"]);
}
