//! What workloads must do, tried from outside.

mod common;
mod control;
mod device;
mod endings;
mod flowops;
mod language;
mod personalities;
mod threads;
