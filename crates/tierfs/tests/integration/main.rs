//! What the anti-caching file system must do, tried from outside.

mod damaged_regions;
mod mounted;
