//! Shared types of all crates; nothing here touches a device.
//!
//! Data flows one way: a specification becomes a [`Plan`], a run writes a [`RunDirectory`], a [`Record`] reads it back, an
//! [`Analysis`] holds tables, figures and findings for a report.

#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod analysis;
pub mod beneath;
pub mod circumstances;
pub mod environment;
pub mod failure;
mod finding;
pub mod finite;
pub mod heartbeat;
pub mod input;
pub mod interrupt;
mod io_failure;
pub mod machine;
mod measured;
pub mod measurement;
pub mod order;
pub mod output;
pub mod parameter;
mod peers;
pub mod plan;
pub mod progress;
pub mod prometheus;
pub mod published;
pub mod record;
pub mod resume;
pub mod rows;
pub mod seed;
pub mod text;
pub mod units;
mod users;
pub mod virtual_time;

pub use analysis::{Analysis, Axis, Better, Figure, FigureKind, Finding, Mark, Scale, Score, Series, Table, Verdict};
pub use environment::Environment;
pub use failure::{Classify, ExitCode, Failure};
pub use finite::{Finite, NoValue};
pub use io_failure::IoFailure;
pub use measured::MeasuredList;
pub use measurement::Measurement;
pub use parameter::Level;
pub use peers::Peers;
pub use plan::Plan;
pub use progress::{Progress, Silent};
pub use record::{Event, Record, RunDirectory};
pub use rows::Rows;
pub use seed::Seed;
pub use units::{Bytes, Size, Span, number_of, significant};
