//! Integration tests of zoned devices.

mod allocations;
mod conventional;
mod device_body;
mod fit;
mod job_ends;
mod job_limits;
mod jobs;
mod lost_zones;
mod measured_points;
mod simulation;
mod state_machine;
