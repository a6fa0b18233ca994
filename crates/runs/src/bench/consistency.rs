//! Checks that the repetitions of a `bench` record match its steps and agree with themselves.

use super::{Bench, Event, Spec};
use senesce_core::Failure;
use senesce_runner::{Common, Contradiction, Recorded, RecordedEvent};
use std::cell::Cell;

/// Checks that each step is one repetition and that a complete record has the requested number.
pub(crate) fn check(spec: &Spec, recorded: &Recorded<Bench>, is_partial: bool) -> Result<(), Contradiction> {
    let of_step = usize::from(!spec.how.populate_only);
    let asked = if spec.how.populate_only { 1 } else { spec.how.reps };
    let (mut pending, mut done, mut last) = (Vec::new(), 0, 1);
    for (line, entry) in recorded.lines() {
        last = line;
        match entry {
            RecordedEvent::Own(event) => {
                if let Some(problem) = contradiction(event) {
                    return Err(Contradiction::new(line, problem));
                }
                pending.extend(is_repetition(event).then_some(line));
            }
            RecordedEvent::Common(Common::Done(step)) => {
                if pending.len() != of_step {
                    let problem = format!("step {} recorded {} repetitions instead of one", step.step, pending.len());
                    return Err(Contradiction::new(line, problem));
                }
                pending.clear();
                done += 1;
            }
            RecordedEvent::Common(_) => {}
        }
    }
    if let Some(line) = pending.first() {
        return Err(Contradiction::new(*line, "the repetition belongs to a step that is not complete"));
    }
    if done > asked || !is_partial && done < asked {
        let problem = format!("{done} repetitions are complete, but {asked} were requested");
        return Err(Contradiction::new(last, problem));
    }
    Ok(())
}

fn is_repetition(event: &Event) -> bool {
    match event {
        Event::Repetition(one) => !one.interrupted,
        Event::ColdRead(one) => !one.read.interrupted,
        Event::FileOps(_) | Event::Calls(_) => true,
        Event::Target(_) | Event::Prepared(_) | Event::KernelWarnings(_) | Event::Members(_) | Event::Ranks(_) => false,
    }
}

fn contradiction(event: &Event) -> Option<String> {
    match event {
        Event::Repetition(one) => one.contradiction(),
        Event::ColdRead(one) => one.read.contradiction(),
        Event::FileOps(one) => one.contradiction(),
        Event::Calls(one) => one.contradiction(),
        Event::Ranks(rows) => {
            rows.ranks.iter().find_map(|row| Some(format!("rank {}: {}", row.rank, row.result.contradiction()?)))
        }
        Event::Target(_) | Event::Prepared(_) | Event::KernelWarnings(_) | Event::Members(_) => None,
    }
}

/// Checks that every counted operation has a latency in the stored histograms.
pub(crate) fn check_histograms(recorded: &Recorded<Bench>) -> Result<Option<Contradiction>, Failure> {
    let mut step = 1_u64;
    for (line, entry) in recorded.lines() {
        match entry {
            RecordedEvent::Own(event) => {
                if let Some(problem) = of_histograms(event, step, recorded)? {
                    return Ok(Some(Contradiction::new(line, problem)));
                }
            }
            RecordedEvent::Common(Common::Done(_)) => step += 1,
            RecordedEvent::Common(_) => {}
        }
    }
    Ok(None)
}

fn of_histograms(event: &Event, step: u64, recorded: &Recorded<Bench>) -> Result<Option<String>, Failure> {
    let Event::Repetition(one) = event else { return Ok(None) };
    let failed = Cell::new(None);
    let stored = |name: &str| {
        let read = recorded.histogram_if_valid(&format!("{step}-{}", name.replace('/', "_")));
        read.unwrap_or_else(|failure| {
            failed.set(Some(failure));
            None
        })
    };
    let problem = one.contradiction_of_histograms(stored);
    failed.into_inner().map_or(Ok(problem), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Environment, Plan, Record, RunDirectory, Seed};
    use senesce_workload::{FlowopResult, Repetition};
    use serde_json::json;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_a_missing_or_invalid_histogram_contradicts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        drop(RunDirectory::open(&path, &Plan::default_of("bench", Seed(1)), &Environment::default()).unwrap());
        let recorded = Recorded::<Bench>::of(&Record::open(&path).unwrap()).unwrap();
        let flowop: FlowopResult = serde_json::from_value(json!({
            "kind": "Read", "count": 1, "bytes": 1, "ops_per_second": 1.0, "mb_per_second": 1.0, "mean_us": 1.0,
            "min_us": 1.0, "p50_us": 1.0, "p90_us": 1.0, "p99_us": 1.0, "p999_us": 1.0, "p9999_us": 1.0, "max_us": 1.0,
        }))
        .unwrap();
        let one = Repetition { valid: true, flowops: vec![("read".into(), flowop)], ..Repetition::default() };
        let event = Event::Repetition(Box::new(one));
        let found = || of_histograms(&event, 1, &recorded);
        assert!(found().unwrap().is_some(), "it is missing");
        let file = path.join("histograms/1-read.hdr");
        std::fs::write(&file, "text").unwrap();
        assert!(found().unwrap().is_some(), "it is invalid");
        std::fs::remove_file(&file).unwrap();
        // Also root cannot open a socket (ENXIO).
        let _socket = UnixListener::bind(&file).unwrap();
        assert!(found().is_err());
    }
}
