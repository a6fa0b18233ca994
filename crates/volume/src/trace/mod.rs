//! Block traces: the requests that a device was given, in issue order. One record type for what the kernel shows, what
//! other tools recorded, what layout scores and what device models time.

mod account;
pub mod blkparse;
pub mod blktrace;
pub mod columns;
mod event_format;
pub mod file;
pub mod measures;
mod modelled;
pub mod packed;
mod pairing;
mod request;
mod ring_buffer;
mod self_test;
mod session;
mod several;
mod tally;
mod tracefs;
mod validity;

pub(crate) use ring_buffer::judge_page;

pub use measures::{DynamicLayout, LatencySummary, Measures, QueueDepth};
pub use packed::BlockTrace;
pub use request::{Operation, Request, ZoneAction};
pub use self_test::{SelfTest, self_test};
pub use session::TraceSession;
pub use several::TraceSessions;
pub use validity::{Problem, ValidTrace};
