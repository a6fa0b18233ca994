//! The job runner: concurrent actors on one drive, in virtual time or on threads.

mod bounds;
pub mod check;
pub(crate) mod drive;
mod pointers;
pub(crate) mod prepare;
pub(crate) mod resources;
pub(crate) mod result;
pub(crate) mod spec;
pub(crate) mod tally;
pub(crate) mod values;
pub(crate) mod worker;

pub use check::{CheckedActor, CheckedJob, check};
pub(crate) use pointers::Pointers;
pub use result::{ActorResult, JobResult};
pub use spec::{Activity, ActorSpec, FaultSpec, Job, OnLostZone, Preparation, PrepareStep};
pub use tally::Latency;
pub(crate) use tally::Tally;
pub use values::{Rate, Span, Zones};
