//! One file per verb.

pub mod advise;
pub mod age;
pub mod bench;
pub mod bundle;
pub mod compare;
pub mod completions;
pub mod device;
pub mod doc;
pub mod doctor;
pub mod experiments;
pub mod export;
pub mod import;
pub mod lab;
pub mod layout;
pub mod man;
pub mod objects;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod runs;
pub mod tier;
pub mod verify;
