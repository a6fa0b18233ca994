//! The guest: a QEMU virtual machine that boots in seconds on the host's own files, with emulated NVMe and ZNS drives, and runs
//! a command. It sees the host's root read-only under an overlay; shared folders return results.

pub mod carry;
mod control;
mod drive;
pub mod drives;
mod ending;
mod error;
mod fetch;
pub mod guest;
mod guest_space;
mod image;
mod initramfs;
pub mod installed;
mod keep;
pub mod kernel;
mod modules;
mod payload;
pub mod qemu;
mod run;
mod scratch;
pub mod share;
mod slow_drive;
mod space;
pub mod uml;
mod watch;

pub use drive::Drive;
pub use keep::KeptFiles;
pub use kernel::{KernelSource, cached_kernels, setup};
pub use qemu::Accelerator;
pub(crate) use run::GuestOutcome;
pub use run::GuestRun;
pub use uml::GuestTime;
