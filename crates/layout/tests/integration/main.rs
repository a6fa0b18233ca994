//! What layout must do, tried from outside.

mod common;
mod conditions;
mod images;
mod same_numbers;
