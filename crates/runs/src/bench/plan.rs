//! The plan of `bench`, made before any change.

use super::spec::{Ranks, Spec, Subject};
use super::{Bench, ranks};
use crate::thread_memory::{OWN_MEMORY, memory_of_threads};
use senesce_core::{Bytes, Failure, Plan, Seed};
use senesce_runner::{Planned, new_plan};
use senesce_workload::{Length, Options};

/// Returns the repetitions, from 0. Fails with a usage error for an unknown or invalid workload, too little memory for
/// its threads, or a workload that ranks cannot run.
pub(crate) fn steps(spec: &Spec, seed: Seed) -> Result<Vec<Planned<u64>>, Failure> {
    let subject = spec.subject(seed)?;
    check_memory(spec, &subject)?;
    if spec.ranks.is_some() {
        ranks::accept_spec(spec, &subject)?;
    }
    let mut bytes = Spec::bytes_of_calls(&subject);
    let mut seconds = 0.0;
    if let Subject::Workload(workload, options) = &subject {
        let filesets = senesce_workload::draw(workload, options)?;
        let writers = spec.ranks.filter(|ranks| !ranks.shared).map_or(1, |ranks| ranks.count);
        bytes = Bytes(filesets.iter().map(|set| set.existing_bytes).sum::<u64>() * u64::from(writers));
        seconds = match options.length {
            Some(Length::Time(time)) => time.as_secs_f64(),
            _ => workload.run.seconds.unwrap_or(60) as f64,
        };
    }
    let name = spec.name(&subject);
    let together = spec.ranks.map_or(String::new(), |ranks| format!(" on {} ranks at the same time", ranks.count));
    let count = if spec.how.populate_only { 1 } else { spec.how.reps };
    let planned = |number: u64| {
        let text = format!("run {name}{together}, repetition {}", number + 1);
        Planned::new(number, text, spec.target.to_string()).costing(bytes, seconds)
    };
    Ok((0..count).map(planned).collect())
}

pub(crate) fn describe(spec: &Spec, seed: Seed) -> Result<Plan, Failure> {
    let mut plan = new_plan::<Bench>(spec, seed)?;
    let subject = spec.subject(seed)?;
    let target = spec.target.to_string();
    if let Subject::Workload(workload, options) = &subject {
        let on_each = match spec.ranks {
            Some(Ranks { count, shared: false }) => format!(" on each of {count} ranks"),
            _ => String::new(),
        };
        for set in senesce_workload::draw(workload, options)? {
            let (name, files, bytes) = (&set.name, set.existing_files, Bytes(set.existing_bytes));
            plan.step(format!("write file set {name} ({files} files, {bytes}){on_each}"), target.clone());
        }
    }
    let together = spec.ranks.map_or(String::new(), |ranks| format!(" on {} ranks at the same time", ranks.count));
    plan.step(format!("run {} {} time(s){together}", spec.name(&subject), spec.how.reps), target);
    for planned in steps(spec, seed)? {
        plan.bytes_to_write = plan.bytes_to_write.saturating_add(planned.bytes_to_write.0);
        plan.estimated_seconds += planned.seconds;
    }
    Ok(plan)
}

/// Checks that the memory suffices for the threads. Without this check the kernel would kill the process without a
/// message.
fn check_memory(spec: &Spec, subject: &Subject) -> Result<(), Failure> {
    let threads = match subject {
        Subject::Workload(workload, _) => memory_of_threads(workload),
        _ => 0,
    };
    let least = Bytes(threads.saturating_add(OWN_MEMORY.0));
    match spec.limits().memory {
        Some(limit) if limit < least => Err(Failure::usage(format!(
            "--memory {limit} is less than the {least} that the threads of the workload and the program need; raise \
             it, or reduce the memory of the threads, for example with --set memsize=1m for a personality"
        ))),
        _ => Ok(()),
    }
}

/// Returns the options of a repetition, from 0: the first has the seed of the run, every other one its own.
pub(crate) fn of_repetition(options: Options, number: u64) -> Options {
    let seed = if number == 0 { options.seed } else { options.seed.child(&format!("repetition/{number}")) };
    Options { seed, ..options }
}
