//! What the statistics promise, held against noise of known truth. Seeds are fixed: every run draws the same. The short forms
//! run always; the long ones measure the stated rates themselves (`cargo test -p senesce-stats --release -- --ignored`).

mod coverage;
mod noise;
mod pairs;
mod proofs;
mod series;
mod until_decided;
mod verdicts;
