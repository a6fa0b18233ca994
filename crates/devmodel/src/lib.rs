//! Time models of storage devices: pure functions from requests to seconds. What they give is always called modelled.
//!
//! A [`DeviceModel`] is a set of parameters with sources, read from TOML. [`DeviceModel::seconds`] replays a trace on it;
//! [`DeviceModel::start`] gives a device in its initial state for simulations that make up requests as they go. There is
//! no randomness: the same requests always take the same time.

pub mod cold;
pub mod disk;
pub mod error;
pub mod hdd;
pub mod last_write;
pub mod measure;
pub mod model;
pub mod replay;
pub mod request;
pub mod seek;
pub mod simulate;
pub mod ssd;

pub use cold::ColdStore;
pub use disk::Disk;
pub use error::ModelError;
pub use hdd::Hdd;
pub use measure::{Measurement, Probe, measure};
pub use model::{DeviceModel, Parameters};
pub use replay::{Modelled, closed_loop_rate};
pub use request::{Operation, Request};
pub use seek::SeekCurve;
pub use simulate::{Command, Options, Outcome, Pacing, simulate};
pub use ssd::{Flash, Ssd};

/// A device in some state: where its head is, which of its units are busy.
pub trait Device: Send {
    /// Serves a request that reaches the device at `at_ns`; gives the time at which it completes. Requests must be given in
    /// the order in which they reach the device.
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64;
}
