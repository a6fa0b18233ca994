//! Integration tests of workloads.

mod common;
mod control;
mod device;
mod endings;
mod flowops;
mod language;
mod personalities;
mod threads;
