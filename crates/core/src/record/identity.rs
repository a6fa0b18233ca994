//! The event that identifies a run: its random identity, and the checksums of `plan.toml` and `env.json`.

use super::error::{RecordError, io_error};
use super::files::{ENVIRONMENT, PLAN};
use crate::machine;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Kind of the event. It is the first of a record, and the last one counts.
pub(super) const KIND: &str = "identity";

/// Digits of an identity: 128 bits in hexadecimal.
const DIGITS: usize = 32;

/// CRC-32 (IEEE) in hexadecimal, as in the lines of `events.jsonl`: it detects accidents, and other programs can compute it.
pub(super) type Sum = String;

pub(super) fn sum(bytes: &[u8]) -> Sum {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Checksums of the files as they are.
#[derive(Debug, Clone)]
pub(super) struct FileSums {
    pub plan: Sum,
    pub environment: Sum,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// 128 random bits.
    pub run: String,
    pub plan: Sum,
    /// While the file is replaced, the sums of the old and the new one: a killed run leaves either of them.
    pub environment: Vec<Sum>,
}

impl Identity {
    /// Draws the identity of a new run.
    ///
    /// # Errors
    /// As getrandom(2).
    pub(super) fn draw(files: FileSums, path: &Path) -> Result<Self, RecordError> {
        let run = random().map_err(io_error("draw a random identity for", path))?;
        Ok(Self { run, plan: files.plan, environment: vec![files.environment] })
    }

    /// Checks that the files are those that senesce wrote.
    ///
    /// # Errors
    /// [`RecordError::Altered`] with the first file that is not.
    pub(super) fn check(&self, files: &FileSums, path: &Path) -> Result<(), RecordError> {
        let altered = |name: &str| Err(RecordError::Altered { path: path.join(name) });
        match () {
            () if self.plan != files.plan => altered(PLAN),
            () if !self.environment.contains(&files.environment) => altered(ENVIRONMENT),
            () => Ok(()),
        }
    }
}

/// Returns 128 random bits in hexadecimal. In a guest they come from its host: in virtual time those of the guest repeat, and each
/// use of them can change its layouts.
fn random() -> io::Result<String> {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let mut hasher = blake3::Hasher::new();
    match std::env::var(machine::GUEST_RANDOM) {
        Ok(of_host) => hasher.update(of_host.as_bytes()),
        Err(_) => hasher.update(&own_random()?),
    };
    // A guest may start several runs.
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    hasher.update(&since_epoch.as_nanos().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    hasher.update(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    Ok(hasher.finalize().to_hex()[..DIGITS].to_string())
}

fn own_random() -> io::Result<[u8; DIGITS / 2]> {
    let mut bytes = [0u8; DIGITS / 2];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        length if length == bytes.len() => Ok(bytes),
        _ => Err(io::Error::other("too few random bytes")),
    }
}

/// Returns a value for [`machine::GUEST_RANDOM`] of a new guest.
///
/// # Errors
/// As getrandom(2).
pub fn random_for_guest() -> io::Result<String> {
    random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_its_own_identity() {
        let names = [0, 1, 2].map(|_| random().unwrap());
        assert!(names.iter().all(|name| name.len() == DIGITS && name.bytes().all(|digit| digit.is_ascii_hexdigit())));
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    }
}
