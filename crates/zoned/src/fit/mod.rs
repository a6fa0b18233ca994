//! Fits models to measurements: operating points from tables, measurement plans for a drive, the fit, and the error on
//! held-out points.

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
