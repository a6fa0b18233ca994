//! Zoned drives: one interface ([`ZonedDevice`]), four back ends, a job runner and the zone map.
//!
//! `sim:MODEL` simulates a drive in virtual time, `null` completes commands at once.

pub mod command;
pub mod device;
pub mod error;
pub mod fit;
pub mod geometry;
pub mod hardware;
pub mod job;
pub mod manage;
pub mod map;
pub mod null;
pub mod replay;
pub mod run;
pub mod script;
pub mod session;
pub mod sim;
pub mod survey;
pub mod zone_table;

pub use command::{Command, Completion, Operation, ZoneFault};
pub use device::{Clock, ZonedDevice};
pub use error::ZonedError;
pub use geometry::{Geometry, LbaFormat, ZoneInfo, ZoneState};
