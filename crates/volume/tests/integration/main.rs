//! What volumes must do, tried from outside.

mod cold;
mod common;
mod complete_traces;
mod crafted;
mod guard;
mod proven_rollback;
mod snapshots;
mod targets;
mod traces;
