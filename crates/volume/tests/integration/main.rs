//! Integration tests of volumes.

mod cold;
mod common;
mod complete_traces;
mod copies;
mod crafted;
mod custom;
mod guard;
mod other_targets;
mod overlays;
mod own_image;
mod planted;
mod private_files;
mod proven_rollback;
mod snapshots;
mod targets;
mod traces;
