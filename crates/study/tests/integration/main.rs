//! Tests of studies.

mod foreign;
mod open;
mod truth;
