//! Direct kernel interfaces: ioctls with their structures, clocks, memory, pressure, and error texts.
//!
//! Every ioctl is one function with typed arguments, whose request code follows from its structure. The caller is responsible for
//! effects on devices, this crate for memory safety. All constants of kernel headers are in this crate.

pub mod alarm;
pub mod block;
pub mod btrfs;
pub mod cache;
pub mod clock;
#[cfg(target_arch = "x86_64")]
pub mod confined;
pub mod descriptor;
pub mod deterministic;
pub mod errno;
pub mod extents;
mod filter;
pub mod fsmap;
pub mod lease;
pub mod lock;
pub mod loop_device;
pub mod memory;
pub mod mounted;
pub mod nvme;
pub mod pressure;
pub mod priority;
pub mod process;
pub mod processes;
pub mod signal;
pub mod usage;
pub mod xfs;
pub mod zeros;
pub mod zones;

/// The kernel's error without context, which the caller adds.
pub type Result<T> = rustix::io::Result<T>;
