//! Integration tests of the device models.

mod devices;
mod die_collisions;
mod disk;
mod last_write;
mod ssd;
