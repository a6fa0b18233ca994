//! What a study is read from, and what it leaves.

mod advice;
mod foreign;
mod open;
mod truth;
