//! Integration tests of reports.

mod browser;
mod common;
mod report;
