//! What is wrong with a device file or a measurement.

use senesce_core::failure::{Classify, ExitCode, errno_words};

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The TOML text is not a device.
    #[error("device file {name}: {problem}")]
    Malformed {
        /// The file or built-in name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A parameter is out of range.
    #[error("device file {name}: {parameter} is {value}, it must be {expected}")]
    Parameter {
        /// The file or built-in name.
        name: String,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// There is no such built-in device.
    #[error("there is no device '{name}': name a TOML file or one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A measurement failed.
    #[error("read {bytes} bytes at byte {offset} of the device: {words}", words = errno_words(source))]
    Read {
        /// Where.
        offset: u64,
        /// How much.
        bytes: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The device is too small to be measured.
    #[error("the device has {bytes} bytes; at least {least} are needed to measure it")]
    TooSmall {
        /// Its size.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
}

impl Classify for ModelError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Read { .. } => ExitCode::RunFailed,
            _ => ExitCode::Usage,
        }
    }
}
