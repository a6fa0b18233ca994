//! Which runs compare.

use super::Options;
use senesce_core::{Failure, Record};
use serde_json::Value;
use std::collections::BTreeSet;

/// What makes runs incomparable: refused, or a caveat where the user insists.
pub(super) fn comparable(records: &[&Record], options: &Options) -> Result<Vec<String>, Failure> {
    let base = records[records.len() - 1];
    let mut differences = Vec::new();
    for record in records {
        for (what, of) in [("kind", kind as fn(&Record) -> String), ("target class", target_class), ("engine", engine)]
        {
            let (ours, theirs) = (of(record), of(base));
            if ours != theirs {
                differences.push(format!(
                    "{what}: {ours} ({}) against {theirs} ({})",
                    record.path.display(),
                    base.path.display()
                ));
            }
        }
    }
    differences.sort();
    differences.dedup();
    if differences.is_empty() || options.allow_different {
        return Ok(differences.into_iter().map(|text| format!("compared although they differ in {text}")).collect());
    }
    Err(Failure::usage(format!(
        "the runs are not comparable: {}; to compare them anyway say --even-if-different",
        differences.join("; ")
    )))
}

/// Refuses a run that is named twice on a side: with itself it agrees exactly, and would count as two.
pub(super) fn each_once(side: &[Record]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for record in side {
        // What was read just now is there; if not, its name has to do.
        let place = record.path.canonicalize().unwrap_or_else(|_| record.path.clone());
        if !seen.insert(place) {
            let name = record.path.display();
            return Err(Failure::usage(format!("run {name} is named twice on one side; name it once")));
        }
    }
    Ok(())
}

fn kind(record: &Record) -> String {
    record.plan.kind.clone()
}

/// Whether a benchmark executed its system calls: `bench --null` measures the engine itself.
fn engine(record: &Record) -> String {
    let null = record.plan.spec.get("how").and_then(|how| how.get("null")).and_then(toml::Value::as_bool);
    let null = null.unwrap_or(false);
    if null { "no system calls".into() } else { "system calls".into() }
}

/// Memory, image, device or directory, from the name of the target.
fn target_class(record: &Record) -> String {
    let fact = |name: &str| record.environment.0.get(name).and_then(Value::as_str).unwrap_or_default();
    let name = fact("target.name");
    let in_memory = fact("image.in_memory") == "true";
    match name {
        "" => "-".into(),
        name if name.starts_with("memory:") || in_memory => "image in memory".into(),
        name if name.starts_with("image:") => "image file".into(),
        name if name.starts_with("/dev/") => "device".into(),
        _ => "directory".into(),
    }
}
