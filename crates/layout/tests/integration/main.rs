//! Integration tests of layout.

mod common;
mod conditions;
mod images;
mod same_numbers;
