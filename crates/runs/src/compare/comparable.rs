//! Checks which runs are comparable.

use super::Options;
use super::settings::differences;
use senesce_core::{Failure, Record};
use serde_json::Value;

/// Differences that make runs incomparable: an error, or a caveat if the user insists.
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
        "the runs are not comparable: {}; to compare them anyway use --even-if-different",
        differences.join("; ")
    )))
}

/// Settings in which repetitions may differ; imported runs each have a file of their own.
const OF_REPEATS: [&str; 4] = ["seed: ", "target: ", "source: ", "crc32: "];

/// Returns a caveat for a side whose runs have different plans; their values are still pooled.
pub(super) fn mixed(name: &str, side: &[Record]) -> Option<String> {
    let base = side.first()?;
    let of_repeats = |text: &String| OF_REPEATS.iter().any(|word| text.starts_with(word));
    let differs = |record: &Record| differences(&base.plan, &record.plan).into_iter().find(|text| !of_repeats(text));
    let (record, setting) = side.iter().find_map(|record| Some((record, differs(record)?)))?;
    Some(format!(
        "the runs of the {name} have different plans ({setting}; {} against {}), but are pooled below",
        base.path.display(),
        record.path.display()
    ))
}

fn kind(record: &Record) -> String {
    record.plan.kind.clone()
}

/// Describes whether a benchmark executed its system calls: `bench --null` measures the engine itself. Gates of layouts
/// age on this machine's kernel or in guests.
fn engine(record: &Record) -> String {
    if let Some(gate) = record.plan.spec.get("gate") {
        let is_host = gate.get("host").and_then(toml::Value::as_bool).unwrap_or(false);
        return if is_host { "the machine's kernel".into() } else { "user-mode kernels".into() };
    }
    let null = record.plan.spec.get("how").and_then(|how| how.get("null")).and_then(toml::Value::as_bool);
    let null = null.unwrap_or(false);
    if null { "no system calls".into() } else { "system calls".into() }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::ImportedFile;
    use crate::import::fio::Fio;
    use senesce_core::{Environment, Seed};
    use senesce_runner::{Imported, import};
    use std::path::Path;

    fn record(directory: &Path, name: &str) -> Record {
        let path = directory.join(name);
        let spec = ImportedFile { source: format!("{name}.json"), crc32: "00000000".into() };
        let (events, measurements, caveats) = (Vec::new(), Vec::new(), vec!["a quiet machine".into()]);
        let environment = Environment::default();
        import::<Fio>(&path, Imported { spec, environment, events, measurements, caveats }).unwrap();
        Record::open(&path).unwrap()
    }

    #[test]
    fn gate_in_guests_is_not_compared_with_a_gate_of_the_host() {
        let directory = tempfile::tempdir().unwrap();
        let mut both = ["one", "two"].map(|name| record(directory.path(), name));
        for (record, host) in both.iter_mut().zip([false, true]) {
            let rules = toml::Table::from_iter([("host".to_string(), toml::Value::Boolean(host))]);
            record.plan.spec.insert("gate".into(), toml::Value::Table(rules));
        }
        let [guest, host] = &both;
        assert!(comparable(&[guest, host], &Options::default()).is_err());
        assert!(comparable(&[host, host], &Options::default()).unwrap().is_empty());
        let insisting = Options { allow_different: true, ..Options::default() };
        assert_eq!(comparable(&[guest, host], &insisting).unwrap().len(), 1);
    }

    #[test]
    fn pooled_runs_with_different_plans_give_a_caveat() {
        let directory = tempfile::tempdir().unwrap();
        let mut side = ["one", "two"].map(|name| record(directory.path(), name));
        side[1].plan.seed = Seed(77);
        assert_eq!(mixed("sample", &side), None, "another seed and another file are repetitions");
        side[1].plan.spec.insert("bs".into(), 16.into());
        let found = mixed("sample", &side).unwrap();
        assert!(found.starts_with("the runs of the sample have different plans (bs: (unset) against 16; "), "{found}");
    }
}
