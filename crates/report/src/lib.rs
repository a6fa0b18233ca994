//! senesce report.
