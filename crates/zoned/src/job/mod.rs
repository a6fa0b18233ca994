//! The job runner: concurrent actors on one drive, in virtual time or on threads.

mod bounds;
pub mod check;
pub mod drive;
mod pointers;
pub mod prepare;
pub mod resources;
pub mod result;
pub mod spec;
pub mod tally;
pub mod values;
pub mod worker;

pub use check::{CheckedActor, CheckedJob, check};
pub use pointers::Pointers;
pub use result::{ActorResult, JobResult};
pub use spec::{Activity, ActorSpec, FaultSpec, Job, OnLostZone, Preparation, PrepareStep};
pub use tally::{Latency, Tally};
pub use values::{Rate, Span, Zones};
