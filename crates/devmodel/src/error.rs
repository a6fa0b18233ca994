//! What is wrong with a device file or a measurement.

use senesce_core::failure::{Classify, ExitCode, errno_message};

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
    /// The parts of a drive do not make up its size.
    #[error(
        "device file {name}: the geometry multiplies out to {physical} bytes, but capacity_bytes {capacity_bytes} x (1 + \
         spare_share) is {wanted:.0}; correct one of them (at most 16 TiB can be modelled)"
    )]
    Geometry {
        /// The file or built-in name.
        name: String,
        /// Bytes of all blocks or tracks.
        physical: f64,
        /// What the capacity asks for.
        wanted: f64,
        /// The declared capacity.
        capacity_bytes: u64,
    },
    /// The tracks of a disk do not make up its size.
    #[error(
        "device file {name}: the zones and heads hold {tracks:.0} bytes, but capacity_bytes is {capacity_bytes}; they must hold \
         as much, and at most 2 % more"
    )]
    Tracks {
        /// The file or built-in name.
        name: String,
        /// Bytes of all tracks.
        tracks: f64,
        /// The declared capacity.
        capacity_bytes: u64,
    },
    /// Garbage collection has no space to work in.
    #[error(
        "device file {name}: the spare area has {spare} bytes, but the blocks being filled and those kept ready take \
         {needed}; raise spare_share or use more, smaller blocks"
    )]
    Spare {
        /// The file or built-in name.
        name: String,
        /// Physical size less capacity.
        spare: u64,
        /// What is taken.
        needed: u64,
    },
    /// A device file cannot be read.
    #[error("read device file {path}: {message}", message = errno_message(source))]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A request of a trace reaches behind the end of the device.
    #[error(
        "request {index} ({operation}) ends at byte {end}, but {device} has {capacity_bytes} bytes; time the trace on a \
         device that is large enough"
    )]
    Outside {
        /// Number of the request, from 0.
        index: u64,
        /// What it does.
        operation: &'static str,
        /// First byte behind it.
        end: u64,
        /// The device.
        device: String,
        /// Its size.
        capacity_bytes: u64,
    },
    /// Issue times go down.
    #[error(
        "request {index} was issued at {time_ns} ns, before its predecessor at {before_ns} ns; sort the trace by issue time"
    )]
    Backwards {
        /// Number of the request, from 0.
        index: u64,
        /// Its time.
        time_ns: u64,
        /// The time of the one before.
        before_ns: u64,
    },
    /// A setting of a simulation makes no sense.
    #[error("simulate {device}: {problem}")]
    Options {
        /// The device.
        device: String,
        /// What is wrong.
        problem: String,
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
    #[error("read {bytes} bytes at byte {offset} of the device: {message}", message = errno_message(source))]
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
