//! Errors of device files and measurements.

use senesce_core::failure::{Classify, ExitCode, errno_message};

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("device file {name}: {problem}")]
    Malformed { name: String, problem: String },
    #[error("device file {name}: {parameter} is {value}, but must be {expected}")]
    Parameter { name: String, parameter: &'static str, value: f64, expected: &'static str },
    /// The geometry does not match the capacity.
    #[error(
        "device file {name}: the geometry multiplies out to {physical} bytes, but capacity_bytes {capacity_bytes} x (1 + \
         spare_share) is {wanted:.0}\nhint: correct one of them (at most 16 TiB can be modelled)"
    )]
    Geometry { name: String, physical: f64, wanted: f64, capacity_bytes: u64 },
    /// The tracks do not match the capacity.
    #[error(
        "device file {name}: the zones and heads hold {tracks:.0} bytes, but capacity_bytes is {capacity_bytes}; they must hold \
         at least that, and at most 2 % more"
    )]
    Tracks { name: String, tracks: f64, capacity_bytes: u64 },
    #[error(
        "device file {name}: the spare area has {spare} bytes, but the blocks being filled and those kept ready need {needed}; raise spare_share or use more, smaller blocks"
    )]
    Spare { name: String, spare: u64, needed: u64 },
    #[error("cannot read device file {path}: {message}", message = errno_message(source))]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "request {index} ({operation}) ends at byte {end}, but {device} has {capacity_bytes} bytes\nhint: choose a larger \
         drive, such as a file of senesce device measure"
    )]
    Outside {
        /// Index of the request, from 0.
        index: u64,
        operation: &'static str,
        /// First byte after it.
        end: u64,
        device: String,
        capacity_bytes: u64,
    },
    #[error(
        "request {index} was issued at {time_ns} ns, before its predecessor at {before_ns} ns\nhint: sort the trace by issue time"
    )]
    Backwards {
        /// Index of the request, from 0.
        index: u64,
        time_ns: u64,
        before_ns: u64,
    },
    #[error("simulate {device}: {problem}")]
    Options { device: String, problem: String },
    #[error("unknown device '{name}': name a TOML file or one of {known}")]
    Unknown { name: String, known: String },
    #[error("read {bytes} bytes at byte {offset} of the device: {message}", message = errno_message(source))]
    Read {
        offset: u64,
        bytes: u64,
        #[source]
        source: std::io::Error,
    },
    #[error("the device has {bytes} bytes; at least {least} are needed to measure it")]
    TooSmall { bytes: u64, least: u64 },
}

impl Classify for ModelError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Read { .. } => ExitCode::RunFailed,
            _ => ExitCode::Usage,
        }
    }
}
