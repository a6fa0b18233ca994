//! What the device models must do, tried from outside.

mod devices;
mod die_collisions;
mod disk;
mod last_write;
mod ssd;
