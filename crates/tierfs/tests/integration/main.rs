//! Integration tests of the tier file system.

mod damaged_regions;
mod mounted;
