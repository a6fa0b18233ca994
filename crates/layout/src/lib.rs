//! senesce layout.
