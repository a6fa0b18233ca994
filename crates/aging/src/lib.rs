//! senesce aging.
