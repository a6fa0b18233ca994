//! The condition of a point, `op=write,bs=4096,qd=1,...`, in published values and in records.

use super::GridSpec;
use super::drives::{Drives, zones};
use super::measure::Point;
use senesce_core::{Bytes, Failure, published};
use senesce_zoned::job::{Activity, ActorSpec, Job, Span};
use senesce_zoned::sim::HostPath;
use senesce_zoned::survey::Survey;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition(BTreeMap<String, String>);

impl Condition {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let pairs = text.split(',').map(|pair| pair.split_once('='));
        let pairs = pairs.map(|pair| pair.map(|(key, value)| (key.to_string(), value.to_string())));
        pairs.collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    pub(crate) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    pub(crate) fn word(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// Returns the value of `key` as a number; 0 if missing.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.word(key).parse().unwrap_or(0)
    }

    pub(crate) fn is(&self, expected: &[(&str, &str)]) -> bool {
        expected.iter().all(|(key, value)| self.word(key) == *value)
    }
}

/// Returns the condition of one point of the study's fio grid.
pub(crate) fn grid_key(op: &str, bs: u64, qd: u64, zones: u64, path: &str, lbaf: u64) -> String {
    format!("op={op},bs={bs},qd={qd},zones={zones},path={path},lbaf={lbaf}")
}

/// Returns the job of one point of the study's fio grid: one worker per zone, each with its own queue depth.
pub(crate) fn grid_job(condition: &Condition, drive: &Survey, time: Duration, ramp: Duration) -> Option<Job> {
    let op: Activity = condition.word("op").parse().ok()?;
    let count = condition.number("zones") as u32;
    let actor = ActorSpec {
        bs: Bytes(condition.number("bs")),
        qd: condition.number("qd") as u32,
        zones: zones(drive, 0, count),
        jobs: Some(count),
        time: Some(Span(time)),
        ..ActorSpec::new(op)
    };
    Some(Job {
        lbaf: Some(condition.number("lbaf") as u32),
        path: HostPath::from_name(condition.word("path"))?,
        ramp: Span(ramp),
        ..Job::of(vec![actor])
    })
}

/// Returns the distinct conditions of a published fio grid, in order.
pub(crate) fn grid_keys(text: &str, keep: impl Fn(&Condition) -> bool) -> Result<Vec<String>, Failure> {
    let values = published::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    let mut keys: Vec<String> = Vec::new();
    for value in values {
        let Some(condition) = Condition::parse(&value.condition) else { continue };
        if keep(&condition) && keys.last() != Some(&value.condition) && !keys.contains(&value.condition) {
            keys.push(value.condition);
        }
    }
    Ok(keys)
}

/// Returns one job per condition of the fio grid. Blocks of 4 KiB become the drive's block size if it has no such
/// format.
pub(crate) fn grid_points(keys: &[String], spec: &GridSpec, drives: &Drives) -> Vec<Point> {
    let (drive, time, ramp) = (&drives.zoned, spec.time.0, spec.ramp.0);
    let sizes = drive.block_sizes();
    let own = |key: &str| match sizes.contains(&4096) {
        true => key.to_string(),
        false => key.replace("lbaf=4096", &format!("lbaf={}", drive.geometry.block_bytes)),
    };
    let mut points: Vec<Point> = Vec::new();
    for key in keys.iter().map(|key| own(key)) {
        let Some(condition) = Condition::parse(&key) else { continue };
        if points.iter().any(|point| point.key == key) {
            continue;
        }
        points.extend(grid_job(&condition, drive, time, ramp).map(|job| Point::new(key, &*drive.name, job)));
    }
    points
}
