//! senesce zoned.
