//! Tests of the core as a whole, over doubles of memory and cold store.

mod crash;
mod dump;
mod faults;
mod model;
mod posix;
mod region;
mod sim;
mod threads;
