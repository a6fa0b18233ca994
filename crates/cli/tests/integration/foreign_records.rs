//! Tests records of other users: the target of a link in them is in no page, table, list or archive.

use crate::common::{ends, run_line, succeeds, temporary_directory};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const SECRET: &str = "root:$y$j9T$secret";

fn shows_secret(folder: &Path, line: &str) -> bool {
    let ended = run_line(folder, line);
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    let made = ["page.html", "archive.zip", "site/run.html", "site/index.html", "all.csv", "courses.html"];
    let made = made.iter().filter_map(|name| fs::read(folder.join(name)).ok());
    let found = holds(&ended.stdout) || holds(&ended.stderr) || made.into_iter().any(|bytes| holds(&bytes));
    for name in ["page.html", "archive.zip", "all.csv", "courses.html"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir_all(folder.join("site"));
    found
}

const READERS: &[&str] = &[
    "report run -o page.html",
    "report run --format text",
    "report runs --site site",
    "report run --format zip -o archive.zip",
    "report run --format json",
    "report run --format csv -o all.csv",
    "compare run own --even-if-different",
    "runs list .",
    "runs label x run",
    "runs history . --html courses.html --csv all.csv",
    "device simulate ssd:fast24 run",
];

#[test]
fn links_in_a_record_are_not_followed() {
    let directory = temporary_directory();
    let folder = directory.path();
    for name in ["run", "own"] {
        run_line(folder, &format!("zoned measure sim:zn540 --op write --time 1ms --out {name}"));
        assert!(folder.join(name).join("summary.json").exists());
    }
    for name in ["plan.toml", "env.json", "events.jsonl", "summary.json", "format", "trace.blocks"] {
        let (file, kept) = (folder.join("run").join(name), folder.join("secret"));
        let whole = fs::read_to_string(&file).ok();
        // The file must be valid here: a record that contains the secret.
        let text = match (&whole, name) {
            (Some(text), "plan.toml") => text.replacen("command = \"", &format!("command = \"{SECRET} "), 1),
            (Some(text), "env.json") => text.replacen('{', &format!("{{\"run.label\": \"{SECRET}\","), 1),
            _ => format!("{SECRET}\n"),
        };
        let _ = fs::remove_file(&file);
        fs::write(&kept, text).unwrap();
        symlink("../secret", &file).unwrap();
        for line in READERS {
            assert!(!shows_secret(folder, line), "{name}: {line}");
        }
        assert!(file.is_symlink(), "{name} was not replaced");
        fs::remove_file(&file).unwrap();
        whole.iter().for_each(|text| fs::write(&file, text).unwrap());
    }
    // It is a record again.
    succeeds(folder, "report run -o page.html");
}

#[test]
fn run_behind_a_link_opens_by_path_but_is_not_listed() {
    let directory = temporary_directory();
    let folder = directory.path();
    fs::create_dir_all(folder.join("elsewhere")).unwrap();
    fs::create_dir_all(folder.join("senesce-runs")).unwrap();
    run_line(folder, "zoned measure sim:zn540 --op write --time 1ms --out elsewhere/run");
    symlink("../elsewhere/run", folder.join("senesce-runs/zoned-measure-1f2e3d4c")).unwrap();
    for format in ["text", "csv"] {
        succeeds(folder, &format!("report senesce-runs/zoned-measure-1f2e3d4c --format {format}"));
    }
    for line in ["report latest --format text", "report 1f2e3 --format text", "runs latest"] {
        ends(folder, line, 2);
    }
}
