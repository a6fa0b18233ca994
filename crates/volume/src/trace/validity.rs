//! Validity of a trace, and the type that proves it.

use super::packed::BlockTrace;
use crate::error::TargetError;
use senesce_core::number_of;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;

/// A reason why a trace is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case", deny_unknown_fields)]
pub enum Problem {
    /// The kernel's buffers were full.
    Lost { events: u64 },
    /// Events could not be read.
    Undecoded { events: u64 },
    /// The number of events differs from the kernel's count.
    Uncounted {
        /// Read according to the kernel.
        kernel: u64,
        /// Found in its pages.
        found: u64,
    },
    /// Another program changed the recording while it ran.
    Changed {
        setting: String,
        /// The intended value.
        wanted: String,
        /// The value at the end.
        found: String,
    },
    /// Trace and device differ.
    Disagrees {
        /// The counter: `reads`, `read_bytes` ...
        quantity: String,
        /// Completed according to the trace.
        trace: u64,
        /// Completed according to the device's counters.
        device: u64,
    },
    /// Requests were completed that were never issued.
    Unmatched {
        completions: u64,
        /// Requests that may have been in flight when the recording began.
        in_flight: u64,
    },
    /// Requests were issued that were never completed.
    Unfinished {
        requests: u64,
        /// Requests that may have been in flight when the recording ended.
        in_flight: u64,
    },
    /// Requests were completed whose issue a foreign recording lacks.
    Unissued { completions: u64 },
    /// Requests were issued whose completion a foreign recording lacks.
    Uncompleted { requests: u64 },
    /// Requests ended with an error.
    Failed { requests: u64 },
    /// The trace could not be cross-checked.
    Unwitnessed { reason: String },
}

impl Display for Problem {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { events } => write!(out, "the kernel's buffers lost {}", number_of(*events, "event")),
            Self::Undecoded { events } => write!(out, "{} could not be read", number_of(*events, "event")),
            Self::Uncounted { kernel, found } => {
                write!(out, "the kernel counted {kernel} events that were read, but its pages contained {found}")
            }
            Self::Changed { setting, wanted, found } => {
                write!(out, "another program changed {setting} of the recording from '{wanted}' to '{found}'")
            }
            Self::Disagrees { quantity, trace, device } => {
                write!(out, "{quantity}: {trace} according to the trace, {device} according to the device's counters")
            }
            Self::Unmatched { completions, in_flight } => write!(
                out,
                "{completions} completed requests have no issue, but only {in_flight} were in flight at the start"
            ),
            Self::Unfinished { requests, in_flight } => write!(
                out,
                "{requests} issued requests have no completion, but only {in_flight} were in flight at the end"
            ),
            Self::Unissued { completions } => write!(
                out,
                "{completions} completed requests have no issue: the device was busy at the start, or the trace is \
                 incomplete"
            ),
            Self::Uncompleted { requests } => write!(
                out,
                "{requests} issued requests have no completion: the device was busy at the end, or the trace is \
                 incomplete"
            ),
            Self::Failed { requests } => write!(out, "{} ended with an error", number_of(*requests, "request")),
            Self::Unwitnessed { reason } => write!(out, "the trace could not be cross-checked: {reason}"),
        }
    }
}

/// A trace without known losses. Scores, modelled times and restores accept no other.
#[derive(Debug, Clone, Copy)]
pub struct ValidTrace<'a>(&'a BlockTrace);

impl Deref for ValidTrace<'_> {
    type Target = BlockTrace;

    fn deref(&self) -> &BlockTrace {
        self.0
    }
}

impl BlockTrace {
    pub fn valid(&self) -> Result<ValidTrace<'_>, TargetError> {
        match self.problems() {
            [] => Ok(ValidTrace(self)),
            problems => Err(TargetError::InvalidTrace {
                device: self.device().into(),
                problems: problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "),
            }),
        }
    }

    pub fn is_valid(&self) -> bool {
        self.problems().is_empty()
    }
}
