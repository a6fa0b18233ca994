//! Merges the clones of a job (`numjobs`) into one job, as `group_reporting` does.

use super::format::{Direction, Job, MOST_JOBS, Options, Output, SYNC};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct JoinedClones {
    pub job: Job,
    pub clones: usize,
    pub entries: usize,
}

/// One job ran no longer than its longest direction and this share (fraction) of it, unless it ran its directions one
/// after the other.
const ALONE: f64 = 0.05;
/// A runtime above this multiple of all directions in sequence needs more than one job.
const TWO: f64 = 1.5;

impl JoinedClones {
    pub fn of_clients(output: &Output) -> Option<Self> {
        Some(Self { job: output.all_clients.clone()?, clones: output.jobs.len(), entries: 1 })
    }
}

/// Returns the number of jobs that are reported as one, if known. `job_runtime` adds up over the clones of a group,
/// `runtime` of a direction is that of the longest (fio, stat.c, `sum_thread_stats`).
pub fn reported(job: &Job) -> Option<usize> {
    let times = || job.directions.iter().map(|direction| direction.runtime_ms);
    let (longest, all) = (times().fold(0.0, f64::max), times().sum::<f64>());
    let runtime = job.runtime_ms.filter(|runtime| *runtime > 0.0 && longest > 0.0)?;
    let jobs = runtime / longest;
    match jobs <= 1.0 + ALONE {
        true => Some(1),
        false => (runtime >= TWO * all && jobs <= MOST_JOBS).then_some(jobs.round() as usize),
    }
}

/// Minimum share of operations whose latencies may stand for all.
pub const MOST: f64 = 0.9;

/// Joins jobs of the same name, group and options, which ran at the same time, in order. Also returns the caveats.
pub fn join(output: &Output) -> (Vec<JoinedClones>, Vec<String>) {
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    for job in &output.jobs {
        let same = |one: &&Job| {
            job.group.is_some() && (&one.name, one.group, &one.options) == (&job.name, job.group, &job.options)
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(job),
            None => groups.push(vec![job]),
        }
    }
    let mut caveats = Vec::new();
    let joined = groups.iter().filter_map(|group| joined(group, &output.options, &mut caveats)).collect();
    (joined, caveats)
}

fn joined(group: &[&Job], global: &Options, caveats: &mut Vec<String>) -> Option<JoinedClones> {
    let mut job = (*group.first()?).clone();
    let wanted = job.number(global, "numjobs").unwrap_or(1.0) as usize;
    let clones = match (reported(&job), group.len()) {
        (Some(count @ 2..), 1) => count.max(wanted),
        (_, entries) => entries,
    };
    if let [_, _, ..] = group {
        job.error = group.iter().map(|one| one.error).find(|error| *error != 0).unwrap_or(0);
        job.failed_operations = group.iter().map(|one| one.failed_operations).fold(0, u64::saturating_add);
        job.not_steady = group.iter().find_map(|one| one.not_steady.clone());
        let mut names: Vec<&str> = Vec::new();
        let parts = || group.iter().flat_map(|one| one.all());
        parts().for_each(|part| {
            if !names.contains(&part.name) {
                names.push(part.name)
            }
        });
        (job.directions, job.sync) = (Vec::new(), None);
        for name in names {
            let parts: Vec<&Direction> = parts().filter(|direction| direction.name == name).collect();
            let Some(sum) = sum(&parts) else { continue };
            if sum.percentiles.is_empty() && parts.iter().any(|part| !part.percentiles.is_empty()) {
                caveats.push(format!(
                    "job '{}' ({name}): measured without percentiles, because those of {} clones cannot be combined; \
                     run fio with --group_reporting or --output-format=json+",
                    job.name,
                    parts.len()
                ));
            }
            if name == SYNC { job.sync = Some(sum) } else { job.directions.push(sum) }
        }
    }
    Some(JoinedClones { job, clones, entries: group.len() })
}

/// Returns the sum of concurrent directions, `None` without any. Operations and bytes add up over the longest runtime
/// (fio, stat.c, `sum_thread_stats`), means are weighted by operations.
pub fn sum(parts: &[&Direction]) -> Option<Direction> {
    let [first, others @ ..] = parts else { return None };
    if others.is_empty() {
        return Some((*first).clone());
    }
    let runtime_ms = parts.iter().map(|part| part.runtime_ms).fold(0.0, f64::max);
    let share = |part: &Direction| if runtime_ms > 0.0 { part.runtime_ms / runtime_ms } else { 1.0 };
    let rate = |of: fn(&Direction) -> f64| parts.iter().map(|part| of(part) * share(part)).sum();
    let operations: f64 = parts.iter().map(|part| part.operations).sum();
    let mean = |of: fn(&Direction) -> Option<f64>| {
        let sum: f64 = parts.iter().map(|part| Some(of(part)? * part.operations)).sum::<Option<f64>>()?;
        if operations > 0.0 { Some(sum / operations) } else { of(first) }
    };
    let bins = bins(parts);
    Some(Direction {
        name: first.name,
        operations,
        bytes: parts.iter().map(|part| part.bytes).sum(),
        samples: parts.iter().map(|part| part.samples).sum(),
        bandwidth: rate(|part| part.bandwidth),
        iops: rate(|part| part.iops),
        runtime_ms,
        latency_mean_ns: mean(|part| part.latency_mean_ns),
        total_mean_ns: mean(|part| part.total_mean_ns),
        percentiles: first.percentiles.iter().filter_map(|(percent, _)| percentile(&bins, *percent)).collect(),
        // The bins are those of completion latencies.
        percentiles_of_total: false,
        bins,
    })
}

/// Returns the merged distribution. Empty if a part has no bins, or bins for only a few of its operations: it would weigh
/// too little.
fn bins(parts: &[&Direction]) -> Vec<(u64, u64)> {
    let mut all: BTreeMap<u64, u64> = BTreeMap::new();
    let is_whole = |part: &&Direction| part.bins.iter().map(|bin| bin.1 as f64).sum::<f64>() >= MOST * part.operations;
    if parts.iter().all(|part| !part.bins.is_empty() && is_whole(part)) {
        for (latency, count) in parts.iter().flat_map(|part| &part.bins) {
            let sum = all.entry(*latency).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    all.into_iter().collect()
}

fn percentile(bins: &[(u64, u64)], percent: f64) -> Option<(f64, f64)> {
    let wanted = percent / 100.0 * bins.iter().map(|bin| bin.1 as f64).sum::<f64>();
    let mut seen = 0.0;
    let found = bins.iter().find(|bin| {
        seen += bin.1 as f64;
        seen >= wanted
    })?;
    Some((percent, found.0 as f64))
}

#[cfg(test)]
mod tests {
    use super::super::format::parse;
    use super::*;

    fn job(group: u32, iops: f64, clat: &str) -> String {
        format!(
            r#"{{"jobname":"a","groupid":{group},"job options":{{"numjobs":"2"}},"read":{{"total_ios":{iops},"io_bytes":4096,
            "bw_bytes":4096,"iops":{iops},"runtime":1000,"clat_ns":{{{clat}}}}}}}"#
        )
    }

    fn joined_of(jobs: &[String]) -> (Vec<JoinedClones>, Vec<String>) {
        join(&parse(&format!(r#"{{"fio version":"fio-3.33","jobs":[{}]}}"#, jobs.join(","))).unwrap())
    }

    #[test]
    fn percentiles_of_clones_are_combined_only_from_bins() {
        let bins = [
            r#""mean":10,"percentile":{"50.0":10},"bins":{"10":3}"#,
            r#""mean":50,"percentile":{"50.0":50},"bins":{"50":1}"#,
        ];
        let (all, caveats) = joined_of(&[job(0, 3.0, bins[0]), job(0, 1.0, bins[1])]);
        let sum = &all[0].job.directions[0];
        assert_eq!(
            (sum.latency_mean_ns, &*sum.percentiles, &*sum.bins),
            (Some(20.0), &[(50.0, 10.0)][..], &[(10, 3), (50, 1)][..])
        );
        assert!(caveats.is_empty());

        let plain = r#""mean":10,"percentile":{"50.0":10}"#;
        let (all, caveats) = joined_of(&[job(0, 3.0, plain), job(0, 1.0, plain)]);
        assert!(all[0].job.directions[0].percentiles.is_empty());
        assert!(caveats[0].contains("job 'a' (read): measured without percentiles"), "{caveats:?}");
    }

    #[test]
    fn a_clone_with_few_latencies_gives_no_percentiles_of_all() {
        let of = |ns: u64, count: u64| {
            job(0, 1000.0, &format!(r#""mean":{ns},"percentile":{{"50.0":{ns}}},"bins":{{"{ns}":{count}}}"#))
        };
        let (all, caveats) = joined_of(&[of(50, 1000), of(900, 1)]);
        assert!(all[0].job.directions[0].percentiles.is_empty());
        assert!(caveats[0].contains("measured without percentiles"), "{caveats:?}");
    }

    #[test]
    fn zone_commands_of_clones_add_up() {
        let reset = job(0, 3.0, r#""mean":10"#).replace(r#""read""#, r#""ZNS Reset""#);
        let (all, _) = joined_of(&[reset.clone(), reset]);
        let found: Vec<_> = all[0].job.directions.iter().map(|one| (one.name, one.iops)).collect();
        assert_eq!(found, [("zone reset", 6.0)]);
    }

    #[test]
    fn consecutive_groups_stay_separate() {
        let (all, _) = joined_of(&[job(0, 3.0, ""), job(1, 1.0, "")]);
        assert_eq!(all.iter().map(|one| one.clones).collect::<Vec<_>>(), [1, 1]);
    }
}
