//! One file per verb.

pub mod age;
pub mod bench;
pub mod compare;
pub mod completions;
pub mod demo;
pub mod device;
pub mod diagnose;
pub mod doctor;
pub mod help;
pub mod image;
pub mod layout;
pub mod objects;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod runs;
pub mod snapshot;
pub mod study;
pub mod tier;
pub mod trace;
pub mod verify;
pub mod vm;
pub mod zoned;
