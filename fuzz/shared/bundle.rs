//! A bundle of a run directory that somebody else made: every name in the archive stays inside, and the sums are those of the
//! files.

use super::page::analysis;
use senesce_core::analysis::Table;
use senesce_core::{Environment, Plan, Record, RunDirectory, Seed};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The files of a finished run.
fn sound(path: &Path) {
    let plan = Plan::of_spec("age", Seed(1), &BTreeMap::from([("size", "1G")])).expect("a plan");
    let mut run = RunDirectory::open(path, &plan, &Environment::default()).expect("a run directory");
    run.append("sample", &json!({ "operations": 1 })).expect("an event");
    run.finish(&json!({ "operations": 1 })).expect("a summary");
}

/// Does what `bytes` say to a run directory: parts separated by zero bytes, the first sign says what, the others are content.
/// Says whether a bundle could be made of it.
pub fn exercise(room: &Path, bytes: &[u8]) -> bool {
    let path = room.join("run");
    let _ = fs::remove_dir_all(&path);
    sound(&path);
    for part in bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty()) {
        damage(&path, part[0], &part[1..]);
    }
    let Ok(record) = Record::open(&path) else { return false };
    let words: Vec<String> = vec![record.plan.command.clone(), record.plan.kind.clone()];
    let mut archive = Cursor::new(Vec::new());
    let table = Table::new("measurements", "", &["metric", "value"]);
    match senesce_report::bundle::write(&record, &analysis(&words), &table, &mut archive) {
        Ok(()) => look_at(archive.into_inner()),
        Err(error) => {
            drop(error.to_string());
            return false;
        }
    }
    true
}

fn damage(path: &Path, how: u8, content: &[u8]) {
    let files = ["plan.toml", "env.json", "events.jsonl", "summary.json"];
    let file = path.join(files[usize::from(how) % files.len()]);
    let name = std::ffi::OsStr::from_bytes(content);
    // A name of one part, so that the room is not left by what sets the scene.
    let is_name = !content.is_empty() && content.len() < 200 && !content.contains(&b'/') && name != "." && name != "..";
    match how / 64 {
        0 => drop(fs::write(file, content)),
        1 => {
            let mut whole = fs::read(&file).unwrap_or_default();
            for pair in content.chunks_exact(2) {
                if let Some(byte) = whole.get_mut(usize::from(pair[0]) % 200) {
                    *byte = pair[1];
                }
            }
            let _ = fs::write(file, whole);
        }
        2 if is_name => drop(fs::write(path.join(name), "planted")),
        3 if is_name => drop(std::os::unix::fs::symlink("/proc/self/environ", path.join(name))),
        _ => {}
    }
}

fn look_at(bytes: Vec<u8>) {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("an archive");
    let names: Vec<String> = archive.file_names().map(|name| name.expect("text").into_owned()).collect();
    let read = |archive: &mut zip::ZipArchive<Cursor<Vec<u8>>>, name: &str| {
        let mut content = Vec::new();
        archive.by_name(name).expect("a file").read_to_end(&mut content).expect("its content");
        content
    };
    let sums = String::from_utf8(read(&mut archive, "SHA256SUMS")).expect("text");
    assert_eq!(sums.lines().count() + 1, names.len(), "one line for every other file");
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").expect("a sum and a name");
        let inside = Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        assert!(inside && !name.contains('\\'), "{name} leads out");
        let own: String = Sha256::digest(read(&mut archive, name)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(own, sum, "{name}");
    }
}
