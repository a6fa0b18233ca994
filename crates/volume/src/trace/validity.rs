//! Why a trace is not to be believed, and the form of it that may be used.

use super::packed::BlockTrace;
use crate::error::TargetError;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;

/// A reason why a trace is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case", deny_unknown_fields)]
pub enum Problem {
    /// The kernel's buffers could not take events.
    Lost {
        /// How many.
        events: u64,
    },
    /// Events could not be read.
    Undecoded {
        /// How many.
        events: u64,
    },
    /// Another number of events arrived than the kernel says were read.
    Uncounted {
        /// Read according to the kernel.
        kernel: u64,
        /// Found in its pages.
        found: u64,
    },
    /// Somebody changed the recording while it ran.
    Changed {
        /// Which setting.
        setting: String,
        /// What was set.
        wanted: String,
        /// What it was at the end.
        found: String,
    },
    /// Trace and device differ.
    Disagrees {
        /// In what: `reads`, `read_bytes` ...
        quantity: String,
        /// Completed according to the trace.
        trace: u64,
        /// Completed according to the device's counters.
        device: u64,
    },
    /// Requests were completed that were never issued.
    Unmatched {
        /// How many.
        completions: u64,
        /// How many may have been in flight when the recording began.
        in_flight: u64,
    },
    /// Requests were issued that were never completed.
    Unfinished {
        /// How many.
        requests: u64,
        /// How many may have been in flight when the recording ended.
        in_flight: u64,
    },
    /// Requests were completed whose issue a foreign recording does not have.
    Unissued {
        /// How many.
        completions: u64,
    },
    /// Requests were issued whose completion a foreign recording does not have.
    Uncompleted {
        /// How many.
        requests: u64,
    },
    /// Requests ended with an error.
    Failed {
        /// How many.
        requests: u64,
    },
    /// There is no second account to compare with.
    Unwitnessed {
        /// Why.
        reason: String,
    },
}

impl Display for Problem {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { events } => write!(out, "the kernel's buffers lost {events} events"),
            Self::Undecoded { events } => write!(out, "{events} events could not be read"),
            Self::Uncounted { kernel, found } => {
                write!(out, "the kernel counted {kernel} events that were read, its pages held {found}")
            }
            Self::Changed { setting, wanted, found } => {
                write!(out, "somebody changed {setting} of the recording from '{wanted}' to '{found}'")
            }
            Self::Disagrees { quantity, trace, device } => {
                write!(out, "{quantity}: {trace} according to the trace, {device} according to the device's counters")
            }
            Self::Unmatched { completions, in_flight } => write!(
                out,
                "{completions} requests were completed whose issue is missing, {in_flight} were in flight at the start"
            ),
            Self::Unfinished { requests, in_flight } => write!(
                out,
                "{requests} requests were issued whose completion is missing, {in_flight} were in flight at the end"
            ),
            Self::Unissued { completions } => write!(
                out,
                "{completions} requests are completed that were never issued in it: recorded from a moment on in which the device \
                 was busy, or not complete"
            ),
            Self::Uncompleted { requests } => write!(
                out,
                "{requests} requests are issued that were never completed in it: recorded until a moment in which the device was \
                 busy, or not complete"
            ),
            Self::Failed { requests } => write!(out, "{requests} requests ended with an error"),
            Self::Unwitnessed { reason } => write!(out, "nothing to compare the trace with: {reason}"),
        }
    }
}

/// A trace in which no request is known to be missing. Scores, modelled times and restores are made of this alone.
#[derive(Debug, Clone, Copy)]
pub struct ValidTrace<'a>(&'a BlockTrace);

impl Deref for ValidTrace<'_> {
    type Target = BlockTrace;

    fn deref(&self) -> &BlockTrace {
        self.0
    }
}

impl BlockTrace {
    /// The trace for all uses that need every request.
    ///
    /// # Errors
    ///
    /// [`TargetError::InvalidTrace`] names all reasons why it is not valid.
    pub fn valid(&self) -> Result<ValidTrace<'_>, TargetError> {
        match self.problems() {
            [] => Ok(ValidTrace(self)),
            problems => Err(TargetError::InvalidTrace {
                device: self.device().into(),
                problems: problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "),
            }),
        }
    }

    /// Whether no request is known to be missing.
    pub fn is_valid(&self) -> bool {
        self.problems().is_empty()
    }
}
