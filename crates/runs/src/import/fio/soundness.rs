//! Reasons why the numbers of a job do not count or need a caveat.

use super::clones::{JoinedClones, MOST, join, reported};
use super::format::{Direction, Options, Output, SYNC};
use senesce_core::failure::errno_message;

/// The same as for senesce's own workloads.
const TOLERANCE: f64 = 1.2;
/// Beyond this it cannot be a group of several jobs with the options of the first.
const IMPOSSIBLE: f64 = 10.0;

/// A caveat, and whether the numbers still count.
type Caveat = (String, bool);

/// Caveats of contradictions between the numbers of a job and its options.
pub fn contradictions(joined: &JoinedClones, global: &Options) -> Vec<Caveat> {
    in_flight(joined, global).into_iter().chain(lacking(joined, global)).collect()
}

/// Returns the problem of the first job whose throughput and latency no drive could reach.
pub fn impossible(output: &Output) -> Option<String> {
    let (jobs, _) = join(output);
    let of = |joined: &JoinedClones| in_flight(joined, &output.options).filter(|(_, counts)| !counts);
    jobs.iter().filter(|joined| joined.job.error == 0).find_map(of).map(|(message, _)| message)
}

/// Checks the requests in flight, which follow from throughput and latency (Little, Operations Research 9:3, 1961),
/// against the limit of the options.
fn in_flight(joined: &JoinedClones, global: &Options) -> Option<Caveat> {
    let job = &joined.job;
    if job.options.is_empty() && global.is_empty() {
        return None;
    }
    let clones = job.number(global, "numjobs")?.max(joined.clones as f64);
    let of = |direction: &Direction| Some(direction.iops * direction.total_mean_ns? / 1e9);
    let measured = job.all().map(of).sum::<Option<f64>>()?;
    let allowed = job.number(global, "iodepth")? * clones;
    let (fits, is_impossible) = (measured <= TOLERANCE * allowed, measured > IMPOSSIBLE * allowed);
    let effect = if is_impossible { "its numbers do not count" } else { "several jobs in one group?" };
    let limit = format!("requests in flight, iodepth x numjobs allows {allowed}: {effect}");
    let message = format!("job '{}': throughput x latency is {measured:.1} {limit}", job.name);
    (!fits).then_some((message, !is_impossible))
}

/// Returns a caveat if a job does not have `numjobs` clones.
fn lacking(JoinedClones { job, clones, entries }: &JoinedClones, global: &Options) -> Option<Caveat> {
    let (name, wanted) = (&job.name, job.number(global, "numjobs")? as usize);
    let is_grouped = job.option(global, "group_reporting").is_some();
    let (problem, counts) = match (reported(job), *entries) {
        // Jobs with the same name and options have a multiple of them.
        (_, 2..) if is_grouped || clones.checked_rem(wanted) == Some(0) => return None,
        (_, 2..) => ("it is incomplete, and its numbers do not count", false),
        (Some(2..), _) => {
            let words = "jobs that were reported as one (group_reporting), with the options of one of them";
            return (*clones > wanted).then(|| (format!("job '{name}': the sum of {clones} {words}"), true));
        }
        _ if wanted == 1 || is_grouped => return None,
        (Some(_), _) => ("the others are missing, and its numbers do not count", false),
        (None, _) => ("a group that was reported as one, or the others are missing", true),
    };
    Some((format!("job '{name}': numjobs is {wanted}, and the file holds {entries}: {problem}"), counts))
}

/// Caveats of failures that fio reports.
pub fn failures(JoinedClones { job, clones, .. }: &JoinedClones) -> Vec<Caveat> {
    let clones = if *clones > 1 { format!(" ({clones} clones)") } else { String::new() };
    let fails = |problem: String| (format!("job '{}'{clones} {problem}: its numbers do not count", job.name), false);
    if job.error != 0 {
        let number = i32::try_from(job.error).unwrap_or(0).saturating_abs();
        let words = errno_message(&std::io::Error::from_raw_os_error(number));
        return vec![fails(format!("ended with error {} ({words})", job.error))];
    }
    let count = Some(job.failed_operations).filter(|count| *count > 0);
    let failed = count.map(|count| fails(format!("has errors: {count} operations failed (total_err)")));
    let steady = job.not_steady.as_ref();
    let unsteady = steady.map(|criterion| fails(format!("is not steady: fio did not attain {criterion}")));
    let idle = job.all().next().is_none();
    let idle = idle.then(|| (format!("job '{}'{clones} did no reads, writes or trims", job.name), true));
    [failed, unsteady, idle].into_iter().flatten().collect()
}

/// Caveats for I/O shorter than the resolution of fio's clock, and for missing or unusual latencies.
pub fn of_direction(job: &str, direction: &Direction, counts: bool) -> Option<String> {
    let (name, operations) = (direction.name, direction.operations);
    let few = |samples: &f64| *samples > 0.0 && *samples < MOST * operations;
    let message = match direction.samples.filter(few) {
        _ if direction.runtime_ms == 0.0 => "it took less than a millisecond: its numbers do not count".into(),
        _ if !counts || name == SYNC => return None,
        Some(samples) => format!("its latencies are those of {samples} of {operations} operations"),
        None if direction.percentiles_of_total => {
            "the percentiles are those of total latencies (lat_percentiles)".into()
        }
        None if direction.latency_mean_ns.is_none() => {
            "fio measured no completion latencies (gtod_reduce or disable_clat)".into()
        }
        None => return None,
    };
    Some(format!("job '{job}' ({name}): {message}"))
}
