//! Block traces: the requests of a device in issue order. The kernel's events, imports, layout scores and device models
//! share one record type.

mod account;
pub mod blkparse;
pub mod blktrace;
pub mod columns;
mod event_format;
pub(crate) mod file;
pub(crate) mod measures;
mod modelled;
pub(crate) mod packed;
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

pub use measures::{DynamicLayout, LatencySummary, Measures};
pub use packed::BlockTrace;
pub use request::{Operation, Request, ZoneAction};
pub use self_test::self_test;
pub use session::TraceSession;
pub use several::TraceSessions;
pub use validity::{Problem, ValidTrace};
