//! What a job file says: actors, preparation, faults. Plain data; [`super::check()`] judges it.

use super::values::{Rate, Span, Zones};
use crate::error::ZonedError;
use crate::geometry::{Geometry, ZoneState};
use crate::hardware::{RingOptions, Submission};
use crate::sim::HostPath;
use senesce_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A job: actors that work on one drive at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Job {
    /// Bytes per logical block the drive must have; not given: as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lbaf: Option<u32>,
    /// The way to the drive.
    #[serde(default, with = "path_word")]
    pub path: HostPath,
    /// On an NVMe drive: how commands reach it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub submission: Submission,
    /// On a real drive: a kernel thread looks for submissions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poll_submission: bool,
    /// On a real drive: completions are polled for; the driver needs poll queues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poll_completion: bool,
    /// Time before counting begins, for actors that run for a time.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub ramp: Span,
    /// What happens when a zone becomes read-only or offline.
    #[serde(default)]
    pub on_lost_zone: OnLostZone,
    /// Steps before the actors start, in order. Not given: what each actor needs (written zones are reset, read zones
    /// filled).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Vec<Preparation>>,
    /// The actors.
    #[serde(default, rename = "actor")]
    pub actors: Vec<ActorSpec>,
    /// Zones that fail by order, on a simulated drive.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What an actor does over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Sequential writes.
    Write,
    /// Appends.
    Append,
    /// Reads of random written places.
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
    pub const WORDS: [(&'static str, Self); 7] = [
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

    pub fn reads(self) -> bool {
        matches!(self, Self::RandomRead | Self::SequentialRead)
    }

    pub fn streams_writes(self) -> bool {
        matches!(self, Self::Write | Self::Append)
    }

    /// Whether it runs zone commands one at a time.
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
            ZonedError::Usage(format!("there is no operation '{word}'{suggestion}; there are {}", known.join(", ")))
        })
    }
}

/// One actor: `jobs` workers with a queue each, which share its zones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ActorSpec {
    /// Its name in results; not given: the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it does.
    pub op: Activity,
    /// Bytes per request.
    #[serde(default = "default_request")]
    pub bs: Bytes,
    /// Commands in flight per worker.
    #[serde(default = "one")]
    pub qd: u32,
    /// Its zones: `"0..8"`, `"5"`, or a number of zones that come after those of the actors before it.
    #[serde(default)]
    pub zones: Zones,
    /// Workers; each has its own part of the zones and fills them one after the other. Not given: one per zone for reads
    /// and writes of at most 64 zones, else 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Bytes per second of every worker (as fio's `rate`, which is per job). A zone command counts for the zone's capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long it runs, after the ramp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// How many commands each worker counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// When it starts.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub start: Span,
    /// Where a writer begins in each zone; not given: at the write pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Bytes>,
    /// Reset and finish: how full each zone is made before, 0 to 1. Not given: zones as they are, each once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// Reset, finish, open-close: time between the end of one round and the next.
    #[serde(default, skip_serializing_if = "Span::is_zero")]
    pub pause: Span,
    /// Processors its workers are pinned to, in order; not given: the next free ones.
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
    /// An actor with defaults: 4 KiB, depth 1, one zone.
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

    /// What a command counts for against the rate: its data, or of a zone command the capacity of its zone.
    pub fn command_bytes(&self, geometry: &Geometry) -> u64 {
        if self.op.manages() { geometry.capacity_bytes() } else { self.bs.0 }
    }

    /// Whether it takes each zone as it is, once, and so ends by itself.
    pub fn goes_once(&self) -> bool {
        matches!(self.op, Activity::Reset | Activity::Finish) && self.occupancy.is_none()
    }

    /// Reads `op=randread,bs=4k,qd=1,...`: the keys of a job file, separated by commas.
    ///
    /// # Errors
    /// [`ZonedError::Usage`] with the word that is no KEY=VALUE, or the key that is unknown or has a wrong value.
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
    /// What is done.
    pub step: PrepareStep,
    /// To which zones.
    pub zones: Zones,
    /// Fill: to which share of the capacity.
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
    /// Bring a simulated conventional drive into the state of long use.
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

/// A zone that fails by order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FaultSpec {
    /// The zone.
    pub zone: u32,
    /// Read-only or offline.
    pub state: ZoneState,
    /// When, after the actors start.
    pub at: Span,
}

/// What happens when a zone becomes read-only or offline in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLostZone {
    /// The zone is dropped and recorded, the run goes on.
    #[default]
    Drop,
    /// The run ends.
    Stop,
}

mod path_word {
    use super::HostPath;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(path: &HostPath, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(path.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HostPath, D::Error> {
        let word = String::deserialize(deserializer)?;
        HostPath::from_name(&word).ok_or_else(|| {
            serde::de::Error::custom(format!("'{word}' is no path; there are direct, passthrough, none, mq-deadline"))
        })
    }
}

impl Job {
    /// A job of these actors with default preparation.
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

    /// How the rings of a real drive are set up.
    pub fn rings(&self) -> RingOptions {
        RingOptions {
            submission: self.submission,
            poll_submission: self.poll_submission,
            poll_completion: self.poll_completion,
        }
    }

    /// Reads a job file.
    ///
    /// # Errors
    /// [`ZonedError::Usage`] with line and key.
    pub fn parse(text: &str) -> Result<Self, ZonedError> {
        toml::from_str(text).map_err(|error| ZonedError::Usage(format!("job: {error}")))
    }
}
