//! senesce tierfs.
