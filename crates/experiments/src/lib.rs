//! senesce experiments.
