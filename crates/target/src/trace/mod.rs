//! Block traces: the requests that a device was given, in issue order. One record type for what the kernel shows, what
//! other tools recorded, what layout scores and what device models time.

pub mod blkparse;
pub mod blktrace;
pub mod file;
pub mod measures;
pub mod packed;
mod pairing;
mod request;
mod ring_buffer;
mod session;
mod tracefs;

pub use measures::{DynamicLayout, LatencySummary, Measures, QueueDepth};
pub use packed::BlockTrace;
pub use request::{Operation, Request};
pub use session::TraceSession;
