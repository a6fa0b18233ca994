//! senesce lab.
