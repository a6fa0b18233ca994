//! What `bench` would do, before anything is touched, and where a run that was begun goes on.

use crate::study::matrix::OWN_MEMORY;
use crate::study::subject::memory_of_threads;
use crate::verbs::bench::{Ranks, Request, Subject};
use senesce_core::{Bytes, Event, Failure, Plan, RunDirectory};
use senesce_workload::Options;
use senesce_workload::micro::WriteMode;

/// The name that a subject has in plan, record and result.
pub fn subject_name(subject: &Subject) -> String {
    match subject {
        Subject::Workload(workload, _) => workload.name.clone(),
        Subject::FileOps(_) => "file-ops".into(),
        Subject::Calls(options) => match options.mode {
            WriteMode::Append => "append".into(),
            WriteMode::RandomWrite => "random-write".into(),
        },
        Subject::ColdRead(_) => "cold-read".into(),
    }
}

/// The plan of a request: what it would do, before anything is touched.
pub fn plan(request: &Request) -> Result<Plan, Failure> {
    check_memory(request)?;
    let name = subject_name(&request.subject);
    let mut settings = request.settings.clone();
    settings.insert("target".into(), request.target.to_string());
    settings.insert("workload".into(), name.clone());
    if let Some(ranks) = request.ranks {
        settings.insert("ranks".into(), ranks.count.to_string());
        settings.insert("file-sets".into(), if ranks.shared { "shared" } else { "own" }.into());
    }
    let mut plan = Plan::new("bench", request.seed, settings);
    let target = request.target.to_string();
    if let Subject::Workload(workload, options) = &request.subject {
        let filesets = senesce_workload::draw(workload, options)?;
        let bytes: u64 = filesets.iter().map(|fileset| fileset.existing_bytes).sum();
        let (writers, on_each) = match request.ranks {
            Some(Ranks { count, shared: false }) => (count, format!(" on each of {count} ranks")),
            _ => (1, String::new()),
        };
        plan.bytes_to_write = bytes * request.repetitions * u64::from(writers);
        for fileset in filesets {
            let words = format!(
                "write file set {} ({} files, {}){on_each}",
                fileset.name,
                fileset.existing_files,
                Bytes(fileset.existing_bytes)
            );
            plan.step(words, target.clone());
        }
        plan.estimated_seconds = request.repetitions as f64 * workload.run.seconds.unwrap_or(60) as f64;
        if let Some(senesce_workload::Length::Time(time)) = options.length {
            plan.estimated_seconds = request.repetitions as f64 * time.as_secs_f64();
        }
    }
    if let Subject::Calls(options) = &request.subject {
        plan.bytes_to_write = options.bytes_to_write().0.saturating_mul(request.repetitions);
    }
    let together = request.ranks.map_or(String::new(), |ranks| format!(" on {} ranks at the same time", ranks.count));
    plan.step(format!("run {name} {} time(s){together}", request.repetitions), target);
    Ok(plan)
}

/// The kernel kills what needs more than its limit, without a word.
fn check_memory(request: &Request) -> Result<(), Failure> {
    let threads = match &request.subject {
        Subject::Workload(workload, _) => memory_of_threads(workload),
        _ => 0,
    };
    let least = Bytes(threads.saturating_add(OWN_MEMORY.0));
    match request.limits.memory {
        Some(limit) if limit < least => Err(Failure::usage(format!(
            "--memory {limit} is less than the {least} that the threads of the workload and the program take; raise it, or give \
             the threads less, such as --set memsize=1m for a personality"
        ))),
        _ => Ok(()),
    }
}

/// The measurements among the events of a run: an interrupted one only while none was made behind it.
pub fn measurements<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Event> {
    let mut found: Vec<&Event> = Vec::new();
    for event in events.iter().filter(|event| event.kind == kind) {
        found.pop_if(|last| is_interrupted(last));
        found.push(event);
    }
    found
}

fn is_interrupted(measurement: &Event) -> bool {
    measurement.data["interrupted"] == true
}

/// Whether a run ended before it was done, and was not continued.
pub fn ends_interrupted(events: &[Event]) -> bool {
    let steps = ["interrupted", "prepared", "repetition", "measured"];
    let last = events.iter().rev().find(|event| steps.contains(&event.kind.as_str()));
    last.is_some_and(|last| last.kind == "interrupted" || is_interrupted(last))
}

/// Repetitions that earlier parts of a run measured to their end, by their event.
pub fn repetitions_done(directory: &RunDirectory, event: &str) -> u64 {
    let found = measurements(directory.earlier_events(), event);
    found.into_iter().filter(|measurement| !is_interrupted(measurement)).count() as u64
}

/// The options of a repetition, from 0: the first has the seed of the run, every other one its own.
pub fn of_repetition(options: Options, number: u64) -> Options {
    let seed = if number == 0 { options.seed } else { options.seed.child(&format!("repetition/{number}")) };
    Options { seed, ..options }
}
