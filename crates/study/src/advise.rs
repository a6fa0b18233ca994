//! `advise`: generates a study of the file systems for a purpose and ranks them by its result.

use crate::adaptive::MOST;
use crate::answer::{needed_text, verdicts_text};
use crate::entries::WorkloadSpec;
use crate::ready::ReadyWorkload;
use senesce_core::{Bytes, Rows, Span, Table, number_of};
use senesce_stats::verdict::{MARGIN, at_margin};
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    pub name: &'static str,
    workload: StandIn,
    profile: &'static str,
    /// Explains a workload that only approximates the purpose; empty otherwise.
    pub note: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StandIn {
    Personality(&'static str),
    Ready(&'static str),
}

pub const PURPOSES: [Purpose; 5] = [
    Purpose { name: "mail", workload: StandIn::Personality("varmail"), profile: "wang_os", note: "" },
    Purpose { name: "web", workload: StandIn::Personality("webserver"), profile: "agrawal", note: "" },
    Purpose {
        name: "build",
        workload: StandIn::Ready("build"),
        profile: "pramod",
        note: "a build is represented by 80 C files with 960 headers, which are unpacked, compiled and linked; the \
               measured time includes that of the compiler",
    },
    Purpose {
        name: "database",
        workload: StandIn::Ready("database"),
        profile: "wang_os",
        note: "a database is represented by SQLite: durable transactions of ten rows, and reads by an index",
    },
    Purpose {
        name: "objects",
        workload: StandIn::Ready("objects"),
        profile: "meyer",
        note: "an object store is represented by files of 512 B to 64 KiB in 256 directories: written durably, read \
               completely, deleted",
    },
];

impl Purpose {
    pub fn named(name: &str) -> Option<Self> {
        PURPOSES.into_iter().find(|one| one.name == name)
    }

    /// Returns a program that the workload needs and that is not installed, and its package.
    pub fn missing(&self) -> Option<(&'static str, &'static str)> {
        self.workload.ready()?.missing()
    }
}

impl StandIn {
    fn ready(self) -> Option<ReadyWorkload> {
        match self {
            Self::Personality(_) => None,
            Self::Ready(name) => {
                let ready = name.to_string();
                ReadyWorkload::of(&WorkloadSpec { ready, ..WorkloadSpec::default() }).ok().flatten()
            }
        }
    }

    /// Returns the lines of the workload in the study, for runs of `seconds`. A fixed piece of work is scaled to that
    /// time.
    fn lines(self, seconds: f64) -> String {
        match self {
            Self::Personality(name) => format!("personality = \"{name}\"\nscale = 0.2\nseconds = {seconds:.1}\n"),
            Self::Ready(name) => {
                let at_one = self.ready().map_or(seconds, |ready| ready.needs().1);
                format!("ready = \"{name}\"\nscale = {:.1}\n", (seconds / at_one).clamp(0.1, 1.0))
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct AdviceRequest {
    pub purpose: Purpose,
    pub file_systems: Vec<String>,
    pub size: Bytes,
    pub budget: Span,
    /// Drive to measure; `None`: images on loop devices.
    pub device: Option<PathBuf>,
}

/// Returns the seconds of one run: a tenth of an even share of the budget, so that each cell has at least ten
/// repetitions.
fn seconds(asked: &AdviceRequest) -> f64 {
    let cells = (asked.file_systems.len() * 2).max(1) as f64;
    (asked.budget.0.as_secs_f64() / (cells * 10.0)).clamp(0.5, 10.0)
}

pub fn study(asked: &AdviceRequest) -> String {
    let Purpose { name, workload, profile, .. } = asked.purpose;
    let (size, budget, workload) = (asked.size.0, asked.budget, workload.lines(seconds(asked)));
    let mut text = format!(
        "# senesce-advise: which file system for {name}? Change it and run it with senesce study.\n\
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
         truncate = \"clamp\"\n\n[[workload]]\n{workload}"
    );
    text
}

pub fn ranking(result: &Value) -> Table {
    Rows::of(rows(result, "groups"))
        .column("state", |group| group["state"].clone())
        .column("metric", |group| group["metric"].clone())
        .column("ranking", |group| group["words"].clone())
        .table("ranking", "Ranking: = not distinguishable, > is better")
}

pub fn pairs(result: &Value) -> Table {
    let columns = ["state", "metric", "pair", "ratio", "from", "to", "verdict", "needed per side"];
    let title = format!("Pairs, the first over the second {}", verdicts_text());
    let mut table = Table::new("pairs", &title, &columns);
    for pair in rows(result, "pairs") {
        let text = |name: &str| pair[name].as_str().unwrap_or_default().to_string();
        table.row((
            pair["state"].clone(),
            pair["metric"].clone(),
            format!("{} / {}", text("a"), text("b")),
            pair["ratio"].clone(),
            pair["low"].clone(),
            pair["high"].clone(),
            pair["verdict"].clone(),
            needed(pair).map(amount),
        ));
    }
    table
}

/// Formats the number that decides a pair.
fn amount((units, needed): NeededRepetitions) -> String {
    match needed {
        Some(needed) if needed > u64::from(MOST) => format!("more than {MOST} {units}"),
        Some(needed) => format!("{needed} {units}"),
        None => format!("no number of {units}"),
    }
}

fn would_decide(open: &[NeededRepetitions]) -> String {
    match is_beyond(open) {
        true => format!(
            "more than {MOST} repetitions of a cell, the maximum, would be needed to decide{}",
            at_margin(MARGIN)
        ),
        false => needed_text(open.iter().copied()),
    }
}

fn is_beyond(open: &[NeededRepetitions]) -> bool {
    open.iter().all(|(_, needed)| needed.is_some()) && open.iter().any(|(_, needed)| *needed > Some(u64::from(MOST)))
}

type NeededRepetitions<'a> = (&'a str, Option<u64>);

fn needed(pair: &Value) -> Option<NeededRepetitions<'_>> {
    let units = pair["counted"].as_str().unwrap_or("repetitions");
    (pair["verdict"] == "undecided").then(|| (units, pair["repetitions_needed"].as_u64()))
}

fn rows<'a>(result: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    result[name].as_array().into_iter().flatten()
}

pub fn sentences(result: &Value) -> Vec<String> {
    let mut said: Vec<String> = result["answer"].as_str().map(str::to_string).into_iter().collect();
    let open: Vec<NeededRepetitions> = rows(result, "pairs").filter_map(needed).collect();
    if !open.is_empty() {
        let advice = match open.iter().all(|(_, needed)| needed.is_some()) {
            true if is_beyond(&open) => {
                ", whatever the budget; reduce the variation of values: use longer workloads in the study, or measure \
                 on a quieter machine"
            }
            true => "; give a larger --max-time",
            false => ", whatever the budget",
        };
        said.push(format!("Undecided: {}; {}{advice}.", number_of(open.len(), "comparison"), would_decide(&open)));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StudySpec;
    use serde_json::json;

    fn request(purpose: Purpose, budget: &str) -> AdviceRequest {
        let file_systems = vec!["ext4".into(), "xfs".into()];
        AdviceRequest { purpose, file_systems, size: Bytes::gib(1), budget: budget.parse().unwrap(), device: None }
    }

    #[test]
    fn every_purpose_has_a_study_that_can_be_planned() {
        for purpose in PURPOSES {
            let text = study(&request(purpose, "1h"));
            let spec = StudySpec::parse("advise", &text).unwrap_or_else(|failure| panic!("{failure}:\n{text}"));
            assert!(spec.until_decided && spec.file_system.len() == 2 && spec.state.len() == 2, "{text}");
        }
    }

    #[test]
    fn runs_are_as_long_as_the_budget_allows() {
        let of = |budget| seconds(&request(PURPOSES[0], budget));
        assert_eq!((of("10s"), of("1m"), of("1h")), (0.5, 1.5, 10.0));
    }

    #[test]
    fn undecided_pairs_state_required_repetitions() {
        let pair = |verdict: &str, needed: Value| {
            json!({"state": "aged", "metric": "throughput", "a": "ext4", "b": "xfs", "ratio": 1.1, "low": 1.0, "high": 1.2,
                "verdict": verdict, "repetitions_needed": needed})
        };
        let result = json!({"answer": "ext4 is best.", "groups": [], "pairs":
            [pair("better", Value::Null), pair("undecided", json!(40)), pair("undecided", Value::Null)]});
        let cells: Vec<Value> = pairs(&result).rows.iter().map(|row| row[7].clone()).collect();
        assert_eq!(cells, [Value::Null, json!("40 repetitions"), json!("no number of repetitions")]);
        assert_eq!((sentences(&result).len(), &*sentences(&result)[0]), (2, "ext4 is best."));
        let counted = |counted: &str, needed: u64| json!({"verdict": "undecided", "counted": counted, "repetitions_needed": needed});
        let result = json!({"answer": "a.", "pairs": [counted("images", 8), counted("repetitions", 30)]});
        assert!(sentences(&result)[1].contains("8 images and 30 repetitions of a cell"), "{:?}", sentences(&result));
    }

    #[test]
    fn unreachable_repetitions_do_not_suggest_a_larger_budget() {
        let said = |needed: u64| {
            let pair = json!({"verdict": "undecided", "counted": "repetitions", "repetitions_needed": needed});
            sentences(&json!({"answer": "a.", "pairs": [pair]})).remove(1)
        };
        assert!(said(400).contains("--max-time"), "{}", said(400));
        assert!(!said(401).contains("--max-time") && said(401).contains("longer workloads"), "{}", said(401));
    }

    #[test]
    fn build_and_database_studies_use_ready_workloads() {
        let text = |name: &str, budget: &str| study(&request(Purpose::named(name).unwrap(), budget));
        assert!(text("build", "1h").contains("ready = \"build\"\nscale = 1.0"), "{}", text("build", "1h"));
        assert!(text("database", "10s").contains("ready = \"database\"\nscale = 0.1"), "{}", text("database", "10s"));
        assert!(text("objects", "1h").contains("ready = \"objects\""));
    }
}
