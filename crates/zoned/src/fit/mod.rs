//! Models beside measurements: operating points out of tables, split into those for fitting and those held out; what to measure on
//! a drive to learn its constants; the fit, and the error of a model on what it was not fitted to.

pub mod block;
pub mod constants;
pub mod design;
pub mod error;
mod least_squares;
mod line;
pub mod points;
pub mod probe;
pub mod recovery;
mod screen;
mod search;
pub mod singles;
mod surface;
mod table;
pub mod tables;
