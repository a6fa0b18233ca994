//! What layout must do, tried from outside.

mod common;
mod images;
mod same_numbers;
