//! The words that name a point, `op=write,bs=4096,qd=1,...`, in published values and in records alike.

use senesce_core::Bytes;
use senesce_zoned::job::{Activity, ActorSpec, Job, Span, Zones};
use senesce_zoned::sim::HostPath;
use std::collections::BTreeMap;
use std::time::Duration;

/// A condition taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition(BTreeMap<String, String>);

impl Condition {
    /// Takes `key=value,key=value` apart; `None` when it is words of another kind.
    pub fn parse(text: &str) -> Option<Self> {
        let pairs = text.split(',').map(|pair| pair.split_once('='));
        let pairs = pairs.map(|pair| pair.map(|(key, value)| (key.to_string(), value.to_string())));
        pairs.collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    /// A value as it is written; the empty word when there is none.
    pub fn word(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// A value as number; 0 when there is none.
    pub fn number(&self, key: &str) -> u64 {
        self.word(key).parse().unwrap_or(0)
    }

    /// Whether all these values are as given.
    pub fn is(&self, expected: &[(&str, &str)]) -> bool {
        expected.iter().all(|(key, value)| self.word(key) == *value)
    }
}

/// The words of one point of the study's fio grid.
pub fn grid_key(op: &str, bs: u64, qd: u64, zones: u64, path: &str, lbaf: u64) -> String {
    format!("op={op},bs={bs},qd={qd},zones={zones},path={path},lbaf={lbaf}")
}

/// The job of one point of the study's fio grid: as many workers as zones, each with its depth.
pub fn grid_job(condition: &Condition, time: Duration, ramp: Duration) -> Option<Job> {
    let op: Activity = condition.word("op").parse().ok()?;
    let actor = ActorSpec {
        bs: Bytes(condition.number("bs")),
        qd: condition.number("qd") as u32,
        zones: Zones::Count(condition.number("zones") as u32),
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
