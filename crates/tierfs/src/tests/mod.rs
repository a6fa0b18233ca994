//! Tests of the core with simulated memory and cold store.

mod bits;
mod corruption;
mod corruption_bytes;
mod corruption_directed;
mod corruption_table;
mod crafted;
mod crash;
mod dump;
mod faults;
mod frozen;
mod model;
mod posix;
mod region;
mod repairing;
mod sim;
mod space;
mod syncs;
mod threads;
