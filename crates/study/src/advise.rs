//! Which file system for a purpose: a study that asks that, and its answer as a ranking.

use senesce_core::{Bytes, Span, Table};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// What a volume is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    /// Its word on the command line.
    pub name: &'static str,
    /// The workload's lines in the study.
    workload: &'static str,
    /// The profile after which the volume is aged.
    profile: &'static str,
    /// What stands for what, where the workload is not the purpose itself; empty: it is.
    pub note: &'static str,
}

/// All purposes.
pub const PURPOSES: [Purpose; 5] = [
    Purpose { name: "mail", workload: "personality = \"varmail\"", profile: "wang_os", note: "" },
    Purpose { name: "web", workload: "personality = \"webserver\"", profile: "agrawal", note: "" },
    Purpose {
        name: "build",
        workload: "personality = \"fileserver\"",
        profile: "pramod",
        note: "a build is measured by the personality fileserver: whole files are made, read, appended and deleted; nothing is compiled",
    },
    Purpose {
        name: "database",
        workload: "personality = \"oltp\"",
        profile: "wang_os",
        note: "a database is measured by the personality oltp: synchronous writes and random reads in few files",
    },
    Purpose {
        name: "objects",
        workload: "personality = \"webproxy\"",
        profile: "meyer",
        note: "an object store is measured by the personality webproxy: small files are made, read and deleted in one directory",
    },
];

impl Purpose {
    /// The purpose of this name.
    pub fn named(name: &str) -> Option<Self> {
        PURPOSES.into_iter().find(|one| one.name == name)
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What the volume is for.
    pub purpose: Purpose,
    /// The candidates.
    pub file_systems: Vec<String>,
    /// Size of every image.
    pub size: Bytes,
    /// Time of all runs.
    pub budget: Span,
    /// Drive on which it is measured; none: images on loop devices.
    pub device: Option<PathBuf>,
}

/// Seconds of one run: a tenth of an even share of the budget, so that each cell has ten repetitions at least.
fn seconds(asked: &Asked) -> f64 {
    let cells = (asked.file_systems.len() * 2).max(1) as f64;
    (asked.budget.0.as_secs_f64() / (cells * 10.0)).clamp(0.5, 10.0)
}

/// The study in TOML.
pub fn study(asked: &Asked) -> String {
    let Purpose { name, workload, profile, .. } = asked.purpose;
    let (size, budget, seconds) = (asked.size.0, asked.budget, seconds(asked));
    let mut text = format!(
        "# Which file system for {name}? Written by senesce advise fs; change it and run it with senesce study.\n\
         name = \"Which file system for {name}?\"\nsize = {size}\nuntil_decided = true\nmax_time = \"{budget}\"\n"
    );
    if let Some(device) = &asked.device {
        let _ = writeln!(text, "device = {}", toml::Value::String(device.to_string_lossy().into_owned()));
    }
    for kind in &asked.file_systems {
        let _ = write!(text, "\n[[file_system]]\nkind = \"{kind}\"\n");
    }
    let _ = write!(
        text,
        "\n[[state]]\nkind = \"fresh\"\n\n[[state]]\nkind = \"aged\"\nprofile = \"{profile}\"\nfullness = 0.7\noverwrites = 3\n\
         truncate = \"clamp\"\n\n[[workload]]\n{workload}\nscale = 0.2\nseconds = {seconds:.1}\n"
    );
    text
}

/// The groups of file systems under each metric and state, the best first.
pub fn ranking(result: &Value) -> Table {
    let mut table =
        Table::new("ranking", "Ranking: = could not be told apart, > is better", &["state", "metric", "ranking"]);
    for group in rows(result, "groups") {
        table.row(vec![group["state"].clone(), group["metric"].clone(), group["words"].clone()]);
    }
    table
}

/// Every pair with its interval, and what it would take to decide it where it is not.
pub fn pairs(result: &Value) -> Table {
    let columns = ["state", "metric", "pair", "ratio", "from", "to", "verdict", "to decide it"];
    let mut table = Table::new("pairs", "Pairs, the first over the second", &columns);
    for pair in rows(result, "pairs") {
        let text = |name: &str| pair[name].as_str().unwrap_or_default().to_string();
        table.row(vec![
            pair["state"].clone(),
            pair["metric"].clone(),
            json!(format!("{} / {}", text("a"), text("b"))),
            pair["ratio"].clone(),
            pair["low"].clone(),
            pair["high"].clone(),
            pair["verdict"].clone(),
            needed(pair).map_or(Value::Null, |words| json!(words)),
        ]);
    }
    table
}

/// Of a pair that is undecided: how many repetitions a cell would decide it, as far as that is known.
fn needed(pair: &Value) -> Option<String> {
    if pair["verdict"] != "undecided" {
        return None;
    }
    Some(match pair["repetitions_needed"].as_u64() {
        Some(count) => format!("about {count} repetitions a cell"),
        None => "not known".into(),
    })
}

fn rows<'a>(result: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    result[name].as_array().into_iter().flatten()
}

/// The answer in a sentence, and what is left to decide in another.
pub fn sentences(result: &Value) -> Vec<String> {
    let mut said: Vec<String> = result["answer"].as_str().map(str::to_string).into_iter().collect();
    let open = rows(result, "pairs").filter(|pair| pair["verdict"] == "undecided");
    let (open, most) =
        open.fold((0, 0), |(open, most), pair| (open + 1, most.max(pair["repetitions_needed"].as_u64().unwrap_or(0))));
    if open > 0 {
        let repetitions =
            if most > 0 { format!(", which takes about {most} repetitions a cell") } else { String::new() };
        said.push(format!("{open} comparisons are undecided{repetitions}: give a larger --budget."));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StudySpec;

    fn asked(purpose: Purpose, budget: &str) -> Asked {
        let file_systems = vec!["ext4".into(), "xfs".into()];
        Asked { purpose, file_systems, size: Bytes::gib(1), budget: budget.parse().unwrap(), device: None }
    }

    #[test]
    fn every_purpose_has_a_study_that_can_be_planned() {
        for purpose in PURPOSES {
            let text = study(&asked(purpose, "1h"));
            let spec = StudySpec::parse("advise", &text).unwrap_or_else(|failure| panic!("{failure}:\n{text}"));
            assert!(spec.until_decided && spec.file_system.len() == 2 && spec.state.len() == 2, "{text}");
        }
    }

    #[test]
    fn runs_are_as_long_as_the_budget_allows() {
        let of = |budget| seconds(&asked(PURPOSES[0], budget));
        assert_eq!((of("10s"), of("1m"), of("1h")), (0.5, 1.5, 10.0));
    }

    #[test]
    fn what_is_undecided_says_what_it_would_take() {
        let pair = |verdict: &str, needed: Value| {
            json!({"state": "aged", "metric": "throughput", "a": "ext4", "b": "xfs", "ratio": 1.1, "low": 1.0, "high": 1.2,
                "verdict": verdict, "repetitions_needed": needed})
        };
        let result = json!({"answer": "ext4 is best.", "groups": [], "pairs":
            [pair("better", Value::Null), pair("undecided", json!(40)), pair("undecided", Value::Null)]});
        let cells: Vec<Value> = pairs(&result).rows.iter().map(|row| row[7].clone()).collect();
        assert_eq!(cells, [Value::Null, json!("about 40 repetitions a cell"), json!("not known")]);
        let said = sentences(&result);
        assert!(said[0] == "ext4 is best." && said[1].starts_with("2 comparisons are undecided"), "{said:?}");
    }
}
