//! Members of a run, and the check that all were started alike.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Information about a rank that joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the program, including features.
    pub version: String,
    /// Everything that must be equal: the arguments and their effects.
    pub arguments: String,
    pub host: String,
    /// Process id there.
    pub process: u32,
}

impl Hello {
    pub fn of_this_process(version: impl Into<String>, arguments: impl Into<String>) -> Self {
        let name = rustix::system::uname();
        Self {
            version: version.into(),
            arguments: arguments.into(),
            host: name.nodename().to_string_lossy().into_owned(),
            process: std::process::id(),
        }
    }
}

impl Hello {
    pub(crate) fn member(self, rank: u32) -> Member {
        Member { rank, host: self.host, process: self.process }
    }
}

/// A rank, as known to the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Rank number.
    pub rank: u32,
    /// Name of its machine.
    pub host: String,
    /// Process id there.
    pub process: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// A rank without messages for this time counts as dead. Living ranks send five times as often.
    pub silence: Duration,
    pub join: Duration,
    /// Time after an end until working ranks are aborted.
    pub grace: Duration,
    /// Maximum interval between two checks for messages.
    pub nap: Duration,
}

impl Default for Timing {
    /// Returns timeouts with which all ranks end less than ten seconds after a death.
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(5),
            join: Duration::from_secs(60),
            grace: Duration::from_secs(3),
            nap: Duration::from_millis(2),
        }
    }
}

/// Returns the first difference between rank 0 and another.
pub(crate) fn difference(all: &[Hello]) -> Option<String> {
    let first = all.first()?;
    let other = |what: fn(&Hello) -> &str| {
        let rank = all.iter().position(|hello| what(hello) != what(first))?;
        Some((rank, what(first), what(&all[rank]), &all[rank].host))
    };
    if let Some((rank, ours, theirs, host)) = other(|hello| &hello.version) {
        return Some(format!("rank 0 on {} is senesce {ours}, rank {rank} on {host} is senesce {theirs}", first.host));
    }
    let (rank, ours, theirs, host) = other(|hello| &hello.arguments)?;
    Some(format!("rank 0 on {} has the arguments '{ours}', rank {rank} on {host} has '{theirs}'", first.host))
}
