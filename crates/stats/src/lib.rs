//! senesce stats.
