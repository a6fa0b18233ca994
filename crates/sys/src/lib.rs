//! What the kernel is asked directly: ioctls with their structures, clocks, memory, pressure, and the words of its errors.
//!
//! Every ioctl is one function with typed arguments, whose number follows from the structure that it takes; what it does to a
//! device is the caller's to answer for, what it does to memory is settled here. A number of the kernel's headers stands in this
//! crate alone.

pub mod alarm;
pub mod block;
pub mod btrfs;
pub mod cache;
pub mod clock;
pub mod descriptor;
pub mod errno;
pub mod extents;
pub mod fsmap;
pub mod lease;
pub mod lock;
pub mod loop_device;
pub mod memory;
pub mod mounted;
pub mod nvme;
pub mod pressure;
pub mod priority;
pub mod processes;
pub mod signal;
pub mod usage;
pub mod xfs;
pub mod zones;

/// What the calls of this crate give: the kernel's error is a number without a place, which only the caller knows.
pub type Result<T> = rustix::io::Result<T>;
