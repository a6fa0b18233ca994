//! Time models of storage devices: pure functions from requests to seconds. Their results are always called modelled.
//!
//! A [`DeviceModel`] is a set of parameters with sources, read from TOML. [`DeviceModel::seconds`] replays a trace on it;
//! [`DeviceModel::start`] returns a device in its initial state, for simulations that generate requests. Models are deterministic:
//! equal requests always take equal time.

mod cold;
pub mod disk;
mod error;
mod hdd;
pub mod last_write;
pub mod measure;
pub mod model;
pub mod replay;
pub mod request;
mod seek;
pub mod simulate;
pub mod ssd;

pub use disk::Disk;
pub use error::ModelError;
pub use hdd::Hdd;
pub use measure::{Probe, measure};
pub use model::{DeviceModel, Parameters};
pub use replay::{Modelled, closed_loop_rate};
pub use request::{Operation, Request};
pub(crate) use seek::SeekCurve;
pub use simulate::{Command, Options, Outcome, Pacing, simulate};
pub use ssd::Flash;

pub trait Device: Send {
    /// Serves a request that reaches the device at `at_ns`; returns its completion time. Requests must be passed in the
    /// order of arrival.
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64;
}
