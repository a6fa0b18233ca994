//! Fits models to measurements: operating points from tables, measurement plans for a drive, the fit, and the error on
//! held-out points.

pub mod block;
pub mod constants;
pub mod design;
pub mod error;
pub mod fit_data;
mod least_squares;
mod line;
mod measured_table;
pub mod points;
pub mod probe;
pub mod recovery;
mod screen;
mod search;
pub(crate) mod singles;
mod surface;
