//! Tests of studies.

mod advice;
mod foreign;
mod open;
mod truth;
