//! Finds the options that distinguish jobs with the same name.

use super::clones::JoinedClones;
use super::format::Job;
use std::collections::{BTreeMap, BTreeSet};

type Options = BTreeMap<String, String>;

/// Options for start time, random choice and output, which do not change the work of a job.
const NO_CONDITIONS: [&str; 9] = [
    "name",
    "description",
    "stonewall",
    "wait_for_previous",
    "wait_for",
    "new_group",
    "group_reporting",
    "startdelay",
    "randseed",
];

pub(crate) fn conditions<'a>(jobs: &'a [JoinedClones], global: &'a Options) -> Vec<BTreeMap<&'a str, &'a str>> {
    let mut of_name: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for JoinedClones { job, .. } in jobs {
        of_name.entry(&job.name).or_default().push(job);
    }
    let stated: BTreeMap<&str, Vec<&str>> =
        of_name.into_iter().map(|(name, jobs)| (name, differing(&jobs, global))).collect();
    let of = |JoinedClones { job, .. }: &'a JoinedClones| {
        let names = stated.get(job.name.as_str()).into_iter().flatten();
        names.map(|option| (*option, value(job, option, global))).collect::<BTreeMap<_, _>>()
    };
    jobs.iter().map(of).collect()
}

fn differing<'a>(jobs: &[&'a Job], global: &Options) -> Vec<&'a str> {
    let stated: BTreeSet<&'a str> = jobs.iter().flat_map(|job| job.options.keys()).map(String::as_str).collect();
    let is_condition = |option: &str| !NO_CONDITIONS.contains(&option) && !option.starts_with("write_");
    let of = |job: &'a Job, option: &str| value(job, option, global).to_string();
    let differs = |option: &str| jobs.windows(2).any(|two| of(two[0], option) != of(two[1], option));
    stated.into_iter().filter(|option| is_condition(option) && differs(option)).collect()
}

fn value<'a>(job: &'a Job, option: &str, global: &'a Options) -> &'a str {
    job.options.get(option).or(global.get(option)).map_or("default", String::as_str)
}
