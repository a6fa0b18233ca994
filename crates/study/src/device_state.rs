//! Preparation of the device below an image before a run: drives remember earlier writes.

use rand::Rng;
use senesce_core::failure::errno_message;
use senesce_core::{Bytes, ExitCode, Failure, Seed};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The state of a device, in order of cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceState {
    /// As restoring the image leaves it.
    #[default]
    AsIs,
    /// Free space is discarded (FITRIM).
    Discard,
    /// Every block is rewritten with its content, so that none is unwritten.
    FullRewrite,
    /// A full rewrite, then random block writes of this many times the capacity, each with the block's content.
    Precondition(f64),
}

impl TryFrom<String> for DeviceState {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!(
                "device_state '{text}': write \"as-is\", \"discard\", \"full-rewrite\" or \"precondition N\" (N times \
                 the size)"
            )
        };
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["as-is"] => Ok(Self::AsIs),
            ["discard"] => Ok(Self::Discard),
            ["full-rewrite"] => Ok(Self::FullRewrite),
            ["precondition", times] => {
                let times: f64 = times.parse().map_err(|_| wrong())?;
                if (0.0..=1000.0).contains(&times) { Ok(Self::Precondition(times)) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }
}

impl From<DeviceState> for String {
    fn from(state: DeviceState) -> Self {
        match state {
            DeviceState::AsIs => "as-is".into(),
            DeviceState::Discard => "discard".into(),
            DeviceState::FullRewrite => "full-rewrite".into(),
            DeviceState::Precondition(times) => format!("precondition {times}"),
        }
    }
}

/// Bytes of a write of preconditioning, and of a rewrite.
const SMALL: u64 = 4096;
const LARGE: u64 = 1 << 20;

impl DeviceState {
    /// Returns the bytes written to bring a device of `size` into this state.
    pub(crate) fn bytes_written(self, size: Bytes) -> f64 {
        match self {
            Self::AsIs | Self::Discard => 0.0,
            Self::FullRewrite => size.0 as f64,
            Self::Precondition(times) => size.0 as f64 * (1.0 + times),
        }
    }

    /// Performs the writes on an image that is not in use, without changing its content.
    pub(crate) fn prepare(self, image: &Path, seed: Seed) -> Result<(), Failure> {
        let times = match self {
            Self::AsIs | Self::Discard => return Ok(()),
            Self::FullRewrite => 0.0,
            Self::Precondition(times) => times,
        };
        rewrite(image, times, seed).map_err(|error| {
            let message = errno_message(&error);
            Failure::new(ExitCode::RunFailed, format!("rewrite the blocks of {}: {message}", image.display()))
        })
    }
}

fn rewrite(image: &Path, times: f64, seed: Seed) -> std::io::Result<()> {
    let file = File::options().read(true).write(true).open(image)?;
    let size = file.metadata()?.len();
    let mut buffer = vec![0; LARGE as usize];
    let mut again = |start: u64, length: u64| {
        let part = &mut buffer[..length as usize];
        file.read_exact_at(part, start)?;
        file.write_all_at(part, start)
    };
    for start in (0..size).step_by(LARGE as usize) {
        again(start, LARGE.min(size - start))?;
    }
    let mut rng = seed.stream("study/precondition");
    let blocks = size / SMALL;
    for _ in 0..(blocks as f64 * times) as u64 {
        let block = (u128::from(rng.next_u64()) * u128::from(blocks)) >> 64;
        again(block as u64 * SMALL, SMALL)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn device_states_round_trip() {
        for text in ["as-is", "discard", "full-rewrite", "precondition 2", "precondition 0.5"] {
            assert_eq!(String::from(DeviceState::try_from(text.to_string()).unwrap()), text);
        }
        for text in ["", "fresh", "precondition", "precondition -1", "precondition x"] {
            assert!(DeviceState::try_from(text.to_string()).unwrap_err().contains("full-rewrite"), "{text}");
        }
    }

    #[test]
    fn a_rewrite_fills_the_holes_and_keeps_the_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 << 20).unwrap();
        file.as_file().write_all_at(b"senesce", (1 << 20) + 17).unwrap();
        let before = std::fs::read(file.path()).unwrap();
        DeviceState::Precondition(0.5).prepare(file.path(), Seed(1)).unwrap();
        assert!(std::fs::read(file.path()).unwrap() == before);
        assert_eq!(file.as_file().metadata().unwrap().blocks() * 512, 3 << 20);
        assert_eq!(DeviceState::Precondition(2.0).bytes_written(Bytes(100)), 300.0);
    }
}
