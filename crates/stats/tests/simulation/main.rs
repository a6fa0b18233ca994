//! Tests the guarantees of the statistics against noise with known truth. Seeds are fixed, so every run draws the same numbers.
//! Short tests always run; long ones measure the stated rates (`cargo test -p senesce-stats --release -- --ignored`).

mod coverage;
mod noise;
mod pairs;
mod proofs;
mod recorded;
mod series;
mod until_decided;
mod verdicts;
