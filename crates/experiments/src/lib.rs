//! Published experiments and the verbs that leave records, composed from the rooms.

pub mod append;
pub mod chunk_size;
pub mod coldness;
pub mod compare;
pub mod conduct;
pub mod doctor;
pub mod export;
pub mod f2fs_bandwidth;
pub mod file_ops;
pub mod import;
pub mod io_scheduler;
mod lab_cell;
pub mod lab_selftest;
pub mod measurements;
pub mod object_dirs;
pub mod random_write;
pub mod registry;
pub mod tier;
pub mod tier_fileserver;
pub mod tier_sweep;
pub mod vcs_scaling;
pub mod verbs;
