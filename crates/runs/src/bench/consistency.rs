//! Checks that the repetitions of a `bench` record match its steps and agree with themselves.

use super::{Bench, Event, Spec};
use senesce_runner::{Common, Contradiction, Recorded, RecordedEvent};

/// Checks that each step is one repetition and that a complete record has the requested number.
pub(crate) fn check(spec: &Spec, recorded: &Recorded<Bench>, is_partial: bool) -> Result<(), Contradiction> {
    let of_step = usize::from(!spec.how.populate_only);
    let asked = if spec.how.populate_only { 1 } else { spec.how.reps };
    let (mut pending, mut done, mut last) = (Vec::new(), 0, 1);
    for (line, entry) in recorded.lines() {
        last = line;
        match entry {
            RecordedEvent::Own(event) => {
                if let Some(problem) = contradiction(event).or_else(|| of_histograms(event, done, recorded)) {
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
        Event::Prepared(_) | Event::KernelWarnings(_) | Event::Members(_) | Event::Ranks(_) => false,
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
        Event::Prepared(_) | Event::KernelWarnings(_) | Event::Members(_) => None,
    }
}

/// Checks that every counted operation has a latency in the stored histograms.
fn of_histograms(event: &Event, done: u64, recorded: &Recorded<Bench>) -> Option<String> {
    let Event::Repetition(one) = event else { return None };
    one.contradiction_of_histograms(|name| recorded.histogram(&format!("{}-{}", done + 1, name.replace('/', "_"))).ok())
}
