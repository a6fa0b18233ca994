//! Contents of a job file: actors, preparation, faults. [`super::check()`] checks them.

use super::values::{Rate, Span, Zones};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneState};
use crate::hardware::{RingOptions, Submission};
use crate::sim::HostPath;
use senesce_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A job: concurrent actors on one drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Job {
    /// Bytes per logical block that the drive must have. Default: the current format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lbaf: Option<u32>,
    /// Path to the drive.
    #[serde(default, with = "path_word")]
    pub path: HostPath,
    /// How commands reach an NVMe drive.
    #[serde(default, skip_serializing_if = "is_default")]
    pub submission: Submission,
    /// Real drives: use a kernel thread that polls for submissions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poll_submission: bool,
    /// Real drives: poll for completions; the driver needs poll queues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poll_completion: bool,
    /// Time before counting begins, for actors with a time.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub ramp: Span,
    /// What happens when a zone becomes read-only or offline.
    #[serde(default)]
    pub on_lost_zone: OnLostZone,
    /// Steps before the actors start, in order. Default: whatever each actor needs (written zones are reset, read zones
    /// filled).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Vec<Preparation>>,
    /// The actors.
    #[serde(default, rename = "actor")]
    pub actors: Vec<ActorSpec>,
    /// Injected zone failures, on a simulated drive.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Operation that an actor repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Sequential writes.
    Write,
    /// Appends.
    Append,
    /// Random reads of written data.
    #[serde(rename = "randread")]
    RandomRead,
    /// Sequential reads.
    #[serde(rename = "seqread")]
    SequentialRead,
    /// Resets.
    Reset,
    /// Finishes; each zone is reset afterwards.
    Finish,
    /// Explicit open, one write, close, one write, reset.
    OpenClose,
}

impl Activity {
    pub(crate) const WORDS: [(&'static str, Self); 7] = [
        ("write", Self::Write),
        ("append", Self::Append),
        ("randread", Self::RandomRead),
        ("seqread", Self::SequentialRead),
        ("reset", Self::Reset),
        ("finish", Self::Finish),
        ("open-close", Self::OpenClose),
    ];

    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, activity)| *activity == self).map_or("", |(word, _)| word)
    }

    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::RandomRead | Self::SequentialRead)
    }

    pub(crate) fn streams_writes(self) -> bool {
        matches!(self, Self::Write | Self::Append)
    }

    pub fn manages(self) -> bool {
        matches!(self, Self::Reset | Self::Finish | Self::OpenClose)
    }
}

impl FromStr for Activity {
    type Err = ZonedError;

    fn from_str(word: &str) -> Result<Self, ZonedError> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, activity)| *activity).ok_or_else(|| {
            let known = Self::WORDS.map(|(word, _)| word);
            let suggestion = senesce_core::parameter::suggest(word, known);
            ZonedError::Usage(format!("unknown operation '{word}'{suggestion}; choose from {}", known.join(", ")))
        })
    }
}

/// One actor: `jobs` workers with a queue each, which share its zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ActorSpec {
    /// Name in results. Default: the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Operation.
    pub op: Activity,
    /// Bytes per request.
    #[serde(default = "default_request")]
    pub bs: Bytes,
    /// Commands in flight per worker.
    #[serde(default = "one")]
    pub qd: u32,
    /// Zones: `"0..8"`, `"5"`, or a number of zones after those of the previous actors.
    #[serde(default)]
    pub zones: Zones,
    /// Workers; each has its own part of the zones and fills them in sequence. Default: one per zone for reads and
    /// writes of at most 64 zones, otherwise 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Bytes per second of every worker (as fio's `rate`, which is per job). A zone command counts for the zone's capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long it runs, after the ramp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// Commands that each worker counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// When it starts.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub start: Span,
    /// Position in each zone where a writer begins. Default: at the write pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Bytes>,
    /// Reset and finish: fill level of each zone before the command, 0 to 1. Default: zones as they are, each once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// Reset, finish, open-close: time between the end of one round and the next.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub pause: Span,
    /// Processors that workers are pinned to, in order. Default: the next free ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
}

fn default_request() -> Bytes {
    Bytes::kib(4)
}

fn one() -> u32 {
    1
}

impl ActorSpec {
    /// Defaults: 4 KiB, depth 1, one zone.
    pub fn new(op: Activity) -> Self {
        Self {
            name: String::new(),
            op,
            bs: default_request(),
            qd: 1,
            zones: Zones::default(),
            jobs: None,
            rate: None,
            time: None,
            count: None,
            start: Span::default(),
            at: None,
            occupancy: None,
            pause: Span::default(),
            cores: Vec::new(),
        }
    }

    /// Returns the size of a command for the rate limit: its data, or the zone capacity for a zone command.
    pub fn command_bytes(&self, geometry: &Geometry) -> u64 {
        if self.op.manages() { geometry.capacity_bytes() } else { self.bs.0 }
    }

    /// Returns whether the actor uses each zone once and ends by itself.
    pub(crate) fn ends_after_one_pass(&self) -> bool {
        matches!(self.op, Activity::Reset | Activity::Finish) && self.occupancy.is_none()
    }

    /// Parses `op=randread,bs=4k,qd=1,...`: the keys of a job file, separated by commas.
    pub fn parse_words(text: &str) -> Result<Self, ZonedError> {
        let mut table = toml::Table::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                ZonedError::Usage(format!("'{word}' is not KEY=VALUE; write for example op=randread,bs=4k,qd=1"))
            })?;
            let number = ["qd", "jobs", "count"].contains(&key);
            let value = match (value.parse::<i64>(), value.parse::<f64>()) {
                (Ok(whole), _) if number => toml::Value::Integer(whole),
                (_, Ok(real)) if key == "occupancy" => toml::Value::Float(real),
                _ if key == "cores" => toml::Value::Array(cores(value)?),
                _ => toml::Value::String(value.into()),
            };
            table.insert(key.into(), value);
        }
        table
            .try_into()
            .map_err(|error: toml::de::Error| ZonedError::Usage(format!("actor '{text}': {}", error.message())))
    }
}

fn cores(text: &str) -> Result<Vec<toml::Value>, ZonedError> {
    let wrong = |_| ZonedError::Usage(format!("cores '{text}': write numbers with '+' between, for example 0+2"));
    text.split('+').map(|word| word.parse().map(toml::Value::Integer).map_err(wrong)).collect()
}

/// A step before the actors start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Preparation {
    /// Kind of step.
    pub step: PrepareStep,
    /// To which zones.
    pub zones: Zones,
    /// Fill: share of the capacity.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub to: f64,
}

fn whole() -> f64 {
    1.0
}

fn is_whole(share: &f64) -> bool {
    *share == 1.0
}

/// Kinds of preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrepareStep {
    /// Make zones empty.
    Reset,
    /// Reset, then write up to a share of the capacity.
    Fill,
    /// Finish.
    Finish,
    /// Open explicitly.
    Open,
    /// Close.
    Close,
    /// Bring a simulated conventional drive into a steady state.
    Wear,
}

impl PrepareStep {
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Fill => "fill",
            Self::Finish => "finish",
            Self::Open => "open",
            Self::Close => "close",
            Self::Wear => "wear",
        }
    }
}

/// An injected zone failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FaultSpec {
    /// The zone.
    pub zone: u32,
    /// Read-only or offline.
    pub state: ZoneState,
    /// Time after the start of the actors.
    pub at: Span,
}

/// Action when a zone becomes read-only or offline during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLostZone {
    /// Drop and record the zone; the run continues.
    #[default]
    Drop,
    /// The run ends.
    Stop,
}

mod path_word {
    use super::HostPath;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &HostPath, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(path.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HostPath, D::Error> {
        let word = String::deserialize(deserializer)?;
        HostPath::from_name(&word).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "unknown path '{word}'; choose from direct, passthrough, none, mq-deadline"
            ))
        })
    }
}

impl Job {
    pub fn of(actors: Vec<ActorSpec>) -> Self {
        Self {
            lbaf: None,
            path: HostPath::Direct,
            submission: Submission::default(),
            poll_submission: false,
            poll_completion: false,
            ramp: Span::default(),
            on_lost_zone: OnLostZone::Drop,
            prepare: None,
            actors,
            faults: Vec::new(),
        }
    }

    pub(crate) fn rings(&self) -> RingOptions {
        RingOptions {
            submission: self.submission,
            poll_submission: self.poll_submission,
            poll_completion: self.poll_completion,
        }
    }

    pub fn parse(text: &str) -> Result<Self, ZonedError> {
        toml::from_str(text).map_err(|error| ZonedError::Usage(format!("job: {error}")))
    }
}
