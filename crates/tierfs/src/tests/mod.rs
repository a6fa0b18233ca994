//! Tests of the core as a whole, over doubles of memory and cold store.

mod corruption;
mod crash;
mod dump;
mod faults;
mod model;
mod posix;
mod region;
mod room;
mod sim;
mod threads;
