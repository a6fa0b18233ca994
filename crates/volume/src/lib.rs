//! Targets: the only crate that writes to devices. Every destructive operation requires a claim made here.
//!
//! The user writes a [`TargetSpec`]. [`open()`] turns it into a [`MountedTarget`] (guard, lock, image, loop device,
//! mkfs, mount). [`MountedTarget::close`] or its drop undoes all of it. [`visit`] mounts an existing target without
//! claiming it, to inspect it or to run a command on it.

mod block_device;
pub mod claim;
pub mod cold;
pub mod command_group;
pub mod custom;
mod device_stat;
mod environment;
mod error;
pub mod file_system;
pub mod foreign;
mod growth;
pub mod guard;
pub mod guardian;
pub mod guest;
mod held_image;
mod holders;
mod image_file;
pub mod images;
mod in_use;
pub mod kept_drive;
mod kernel_log;
pub mod limits;
mod lock;
pub mod loop_device;
pub mod mount;
mod mounted;
pub mod open;
mod overlay;
mod own_image;
mod planted;
mod probe;
pub mod runtime;
pub mod scratch_directory;
mod setting;
pub mod signature;
pub mod snapshot;
pub mod sparse;
mod spec;
mod stitch;
mod target_identity;
pub mod throttle;
pub mod trace;
mod witness;
mod zones;

pub use block_device::{BlockDevice, drop_caches};
pub use claim::{ClaimedDevice, ClaimedDirectory, MARKER, MarkedAs, VisitedDirectory, marked_as};
pub use command_group::CommandGroup;
pub use custom::CustomFileSystem;
pub use device_stat::{BusyTime, DeviceStat};
pub use error::TargetError;
pub use file_system::{CheckReport, FileSystem, FreeForFiles};
pub use growth::GrowthSpace;
pub use guardian::Guardian;
pub use guest::Guest;
pub use held_image::HeldImage;
pub use images::ImageStore;
pub use kept_drive::KeptDrive;
pub use limits::{AppliedLimits, Limits};
pub use loop_device::LoopDevice;
pub use mounted::{MountedTarget, Remounted};
pub use open::{OpenOptions, open, visit};
pub use own_image::holds_only_ours;
pub use probe::DeviceProbe;
pub use scratch_directory::ScratchDirectory;
pub use senesce_sys::mounted::points_below as mount_points_below;
pub use setting::ChangedSetting;
pub use spec::TargetSpec;
pub use stitch::Stitched;
pub use target_identity::TargetIdentity;
pub use trace::{BlockTrace, Operation, Request, TraceSession, TraceSessions};
