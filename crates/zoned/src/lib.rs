//! Zoned drives: one interface ([`ZonedDevice`]), four back ends, a job runner and the zone map.
//!
//! `sim:MODEL` simulates a drive in virtual time, `null` completes commands at once.

mod command;
mod device;
mod error;
pub mod fit;
mod geometry;
pub mod hardware;
pub mod job;
pub mod manage;
mod map;
pub mod null;
pub mod replay;
pub mod run;
pub mod script;
pub mod session;
pub mod sim;
pub mod survey;
mod zone_table;

pub use command::{Command, Operation, ZoneFault};
pub use device::ZonedDevice;
pub use error::ZonedError;
pub use geometry::{Geometry, LbaFormat, ZoneInfo, ZoneState};
