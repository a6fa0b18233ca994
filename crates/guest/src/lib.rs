//! The guest: a QEMU virtual machine that boots in seconds on the host's own files, with emulated NVMe and ZNS drives, and runs
//! a command. It sees the host's root read-only under an overlay; shared folders return results.

pub mod carry;
pub mod drive;
pub mod drives;
pub mod error;
pub mod guest;
pub mod image;
pub mod initramfs;
pub mod keep;
pub mod kernel;
pub mod modules;
pub mod payload;
pub mod qemu;
mod room;
pub mod run;
pub mod scratch;
pub mod share;
pub mod slow_drive;
mod space;
mod watch;

pub use drive::{Drive, DriveKind};
pub use error::GuestError;
pub use keep::Keep;
pub use kernel::{Kernel, KernelSource, cached_kernels, setup};
pub use qemu::{Accelerator, probe_accelerator};
pub use run::{GuestOutcome, GuestRun};
