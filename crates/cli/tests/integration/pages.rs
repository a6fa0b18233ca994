//! Every documented command runs as written: the shell blocks of the README, the guide, the tutorials and the verb pages, in order, one folder a page.
//!
//! A shell block is a fenced `sh` block, or an indented block with a line that begins with `senesce` or `sudo`. Comments in the page steer it:
//! `<!-- setup: COMMANDS -->` runs commands that the reader does not see, `<!-- not run: REASON -->` skips the next block,
//! `<!-- not run (WORD, WORD): REASON -->` skips its lines with these words, and `<!-- exit: N -->` states its exit code, 0 by default.
//! Without SENESCE_WHOLE_PAGES, long commands run at a smaller scale.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, PartialEq)]
struct Block {
    line: usize,
    text: String,
    exit: i32,
    skipped: Option<String>,
}

#[derive(Default)]
struct Parser {
    blocks: Vec<Block>,
    exit: i32,
    skipped: Option<String>,
    left_out: Vec<String>,
}

impl Parser {
    fn add(&mut self, line: usize, text: &[&str]) {
        let (exit, skipped) = (std::mem::take(&mut self.exit), self.skipped.take());
        let left_out = std::mem::take(&mut self.left_out);
        let is_kept = |line: &&&str| !left_out.iter().any(|word| line.contains(word));
        let is_used = |word: &String| text.iter().any(|line| line.contains(word.as_str()));
        assert!(left_out.iter().all(is_used), "line {line}: a word of {left_out:?} is in no line");
        let text = text.iter().filter(is_kept).copied().collect::<Vec<_>>().join("\n");
        assert!(!text.is_empty(), "line {line}: nothing is left of the block");
        self.blocks.push(Block { line, text, exit, skipped });
    }

    fn comment(&mut self, line: usize, comment: &str) {
        if let Some(commands) = comment.strip_prefix("setup:") {
            self.blocks.push(Block { line, text: commands.trim().into(), exit: 0, skipped: None });
        } else if let Some((words, _)) = comment.strip_prefix("not run (").and_then(|rest| rest.split_once("):")) {
            self.left_out = words.split(", ").map(str::to_string).collect();
        } else if let Some(reason) = comment.strip_prefix("not run:") {
            self.skipped = Some(reason.trim().into());
        } else if let Some(code) = comment.strip_prefix("exit:") {
            self.exit = code.trim().parse().expect("an exit code");
        }
    }
}

fn is_command(line: &str) -> bool {
    ["senesce ", "sudo ", "senesce\t"].iter().any(|begin| line.trim_start().starts_with(begin))
}

fn blocks(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let mut parser = Parser::default();
    let mut at = 0;
    while at < lines.len() {
        let begin = at;
        let rest = &lines[at..];
        if let Some(comment) = lines[at].strip_prefix("<!--") {
            let count = 1 + rest.iter().position(|line| line.ends_with("-->")).expect("the end of a comment");
            let text = [comment].iter().chain(&rest[1..count]).copied().collect::<Vec<_>>().join("\n");
            parser.comment(begin + 1, text.trim_end_matches("-->").trim());
            at += count;
        } else if lines[at].starts_with("```") {
            let count = 1 + rest[1..].iter().position(|line| line.starts_with("```")).expect("the end of a block");
            if lines[at] == "```sh" {
                parser.add(begin + 2, &rest[1..count]);
            }
            at += count + 1;
        } else if lines[at].starts_with("    ") {
            let count = rest.iter().position(|line| !line.starts_with("    ")).unwrap_or(rest.len());
            if rest[..count].iter().any(|line| is_command(line)) {
                let text: Vec<&str> = rest[..count].iter().map(|line| &line[4..]).collect();
                parser.add(begin + 1, &text);
            }
            at += count;
        } else {
            at += 1;
        }
    }
    parser.blocks
}

/// Puts a `senesce` into the folder that runs the program under test, with long commands scaled down, and a `sudo` for root.
fn wrappers(folder: &Path) {
    let program = assert_cmd::cargo::cargo_bin!("senesce").display().to_string();
    let is_whole = std::env::var_os("SENESCE_WHOLE_PAGES").is_some();
    let (scale, fewer) = if is_whole { ("", "") } else { (SMALLER, FEWER) };
    let scripts = [
        (
            "senesce",
            format!(
                "#!/bin/bash\nwords=()\nfor word; do\n{scale}\nwords+=(\"$word\"); done\n{fewer}\nexec {program} \"${{words[@]}}\"\n"
            ),
        ),
        ("sudo", "#!/bin/sh\nexec \"$@\"\n".to_string()),
    ];
    for (name, script) in scripts {
        fs::write(folder.join(name), script).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

const SMALLER: &str = r#"case $word in quick | paper) word=smoke ;; *size=[14]G) word=${word%?G}512M ;; memory:[14]G) word=memory:512M ;; esac"#;

const FEWER: &str = r#"case " ${words[*]} " in *" help "* | *" --overwrites "* | *" --resume "* | *" --compress"*) ;; *" age "*) words+=(--overwrites 1) ;; esac"#;

const SECONDS_PER_BLOCK: &str = "600";

fn run(block: &Block, folder: &Path) -> Result<(), String> {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args([SECONDS_PER_BLOCK, "bash", "-euc", &block.text])
        .current_dir(folder.join("work"))
        .env("PATH", &path)
        .env("ROOT", root())
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("SENESCE_TEST_IGNORES_STEAL", "1")
        .output()
        .map_err(|error| error.to_string())?;
    // The tutorials print the gate's exit code: equal sides are not a regression.
    let is_false_alarm = output.stdout.split(|byte| *byte == b'\n').any(|line| line.ends_with(b"exit code 1"));
    if output.status.code() == Some(block.exit) && !is_false_alarm {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{}\n{}\n{}{}", output.status, block.text, text(&output.stdout), text(&output.stderr)))
}

fn play(page: &Path) -> Result<usize, String> {
    let folder = tempfile::tempdir().unwrap();
    ["bin", "work"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
    wrappers(&folder.path().join("bin"));
    let blocks = blocks(&fs::read_to_string(page).expect("a page"));
    let run_blocks: Vec<&Block> = blocks.iter().filter(|block| block.skipped.is_none()).collect();
    let failures: Vec<String> = run_blocks
        .iter()
        .filter_map(|block| Some(format!("{}:{}: {}", page.display(), block.line, run(block, folder.path()).err()?)))
        .collect();
    if failures.is_empty() { Ok(run_blocks.len()) } else { Err(failures.join("\n")) }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages(folder: &str) -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

fn all_run(pages: &[PathBuf], least_blocks: usize) {
    let results: Vec<_> = pages.iter().map(|page| play(page)).collect();
    let failures: Vec<&str> = results.iter().filter_map(|result| result.as_ref().err()).map(String::as_str).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let count: usize = results.iter().flatten().sum();
    assert!(count >= least_blocks, "{count} blocks ran");
}

#[test]
#[ignore = "needs root, loop devices"]
fn commands_of_the_readme_and_the_guide_run() {
    let mut all = pages("docs/guide");
    all.push(root().join("README.md"));
    all_run(&all, 5);
}

#[test]
#[ignore = "long: runs every command of the tutorials; needs root, loop devices"]
fn commands_of_the_tutorials_run() {
    all_run(&pages("docs/tutorials"), 14);
}

#[test]
#[ignore = "long: runs every command of the verb pages; needs root, loop devices"]
fn commands_of_the_verb_pages_run() {
    all_run(&pages("docs/verbs"), 45);
}

#[test]
fn only_shell_blocks_run() {
    let page = "a\n```sh\nls\npwd\n```\n```toml\nx = 1\n```\n    output\n\n<!-- exit: 3 -->\n\n    senesce x\n<!-- not run: a drive -->\n    sudo y\n";
    let block = |line, text: &str, exit, skipped: Option<&str>| Block {
        line,
        text: text.into(),
        exit,
        skipped: skipped.map(Into::into),
    };
    assert_eq!(
        blocks(page),
        [block(3, "ls\npwd", 0, None), block(13, "senesce x", 3, None), block(15, "sudo y", 0, Some("a drive"))]
    );
}

#[test]
fn lines_with_named_words_are_omitted() {
    let page = "<!-- not run (/dev/sdb): needs a disk -->\n    senesce layout /dev/sdb\n    senesce layout x\n";
    assert_eq!(blocks(page)[0].text, "senesce layout x");
}

#[test]
fn setup_comments_run() {
    assert_eq!(blocks("<!-- setup: touch a\ntouch b -->\n")[0].text, "touch a\ntouch b");
}
