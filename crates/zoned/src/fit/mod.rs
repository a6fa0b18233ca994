//! Models beside measurements: operating points out of tables, split into those for fitting and those held out, and the
//! error of a model on each.

pub mod error;
pub mod points;
mod table;
