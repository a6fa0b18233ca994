//! What reports must do, tried from outside.

mod browser;
mod common;
mod report;
