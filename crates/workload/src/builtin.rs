//! The built-in personalities, written from published facts about Filebench's.

use crate::error::WorkloadError;
use crate::model::Workload;
use senesce_core::parameter::suggest;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub struct Personality {
    pub name: &'static str,
    pub summary: &'static str,
    pub text: &'static str,
    /// Variables that `--scale` multiplies: name, value at scale 1 and minimum.
    pub scaled: &'static [(&'static str, u64, u64)],
}

macro_rules! personality {
    ($name:literal, $summary:literal, $scaled:expr) => {
        Personality {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../data/personalities/", $name, ".f")),
            scaled: $scaled,
        }
    };
}

/// Thread memory; a thread needs space for one call of 1 MiB.
const MEMORY: (&str, u64, u64) = ("memsize", 10 << 20, 1 << 20);

/// The minimum number of files is twenty per creating thread: with fewer, creation soon finds no missing file.
pub const PERSONALITIES: &[Personality] = &[
    personality!(
        "fileserver",
        "50 threads: create, write, append, read, delete, stat; 10000 files, 1.2 GiB",
        &[("nfiles", 10_000, 1000), MEMORY]
    ),
    personality!(
        "webserver",
        "100 threads: read 10 files, append to a log; 1000 files",
        &[("nfiles", 1000, 20), MEMORY]
    ),
    personality!(
        "varmail",
        "16 threads: mail with fsync in one directory; 1000 files",
        &[("nfiles", 1000, 320), MEMORY]
    ),
    personality!(
        "webproxy",
        "100 threads: replace one, read five in one directory; 10000 files",
        &[("nfiles", 10_000, 2000)]
    ),
    personality!(
        "videoserver",
        "48 rate-limited readers, 1 writer; 226 files of 10 GiB",
        &[("filesize", 10 << 30, 1 << 20)]
    ),
    personality!(
        "oltp",
        "200 readers, 10 asynchronous writers, 1 log writer, semaphores; 11 files of 10 MiB",
        &[("filesize", 10 << 20, 1 << 20), ("logfilesize", 10 << 20, 1 << 20)]
    ),
];

/// Returns a built-in personality. `scale` multiplies its file sets (1: as published), except for variables in
/// `overrides`.
pub fn builtin(name: &str, scale: f64, overrides: &BTreeMap<String, String>) -> Result<Workload, WorkloadError> {
    let Some(personality) = PERSONALITIES.iter().find(|personality| personality.name == name) else {
        let names: Vec<&str> = PERSONALITIES.iter().map(|personality| personality.name).collect();
        let hint = suggest(name, names.iter().copied());
        return Err(WorkloadError::Usage(format!(
            "unknown built-in workload '{name}'{hint}; choose from {}, or name a workload file",
            names.join(", ")
        )));
    };
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(WorkloadError::Usage(format!("--scale {scale}: expected a number above 0, for example 0.1")));
    }
    let mut variables = overrides.clone();
    for (variable, full, least) in personality.scaled {
        let scaled = ((*full as f64 * scale).round() as u64).max(*least);
        if scale != 1.0 {
            variables.entry((*variable).to_string()).or_insert_with(|| scaled.to_string());
        }
    }
    Workload::parse(&format!("{name}.f"), personality.text, &variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;

    #[test]
    fn personalities_parse_and_scale() {
        for personality in PERSONALITIES {
            let full = builtin(personality.name, 1.0, &BTreeMap::new()).unwrap();
            let small = builtin(personality.name, 0.01, &BTreeMap::new()).unwrap();
            assert!(full.thread_count() >= 16, "{}", personality.name);
            assert_ne!(full.filesets[0], small.filesets[0], "{}", personality.name);
        }
        let set = BTreeMap::from([("nfiles".to_string(), "77".to_string())]);
        let workload = builtin("varmail", 0.5, &set).unwrap();
        assert_eq!(workload.filesets[0].entries, Value::Constant(77));
    }

    #[test]
    fn published_shapes_hold() {
        let threads = |name| builtin(name, 1.0, &BTreeMap::new()).unwrap().thread_count();
        let counts = ["fileserver", "webserver", "varmail", "webproxy", "videoserver", "oltp"].map(threads);
        assert_eq!(counts, [50, 100, 16, 100, 49, 211]);
        let flow = |name| builtin(name, 1.0, &BTreeMap::new()).unwrap().processes[0].threads[0].flow.len();
        assert_eq!([flow("fileserver"), flow("webserver"), flow("varmail")], [11, 31, 13]);
    }

    #[test]
    fn unknown_names_and_variables_get_a_suggestion() {
        let none = BTreeMap::new();
        assert!(builtin("varmial", 1.0, &none).unwrap_err().to_string().contains("did you mean 'varmail'"));
        let set = BTreeMap::from([("nfile".to_string(), "77".to_string())]);
        let error = builtin("varmail", 1.0, &set).unwrap_err();
        assert!(error.to_string().contains("did you mean 'nfiles'"), "{error}");
    }
}
