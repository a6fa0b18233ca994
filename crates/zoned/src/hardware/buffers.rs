//! Page-aligned buffers for commands in flight, allocated once.

use super::noise;
use crate::error::ZonedError;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use senesce_core::IoFailure;
use std::ptr::NonNull;

const LIMIT: usize = 2 << 30;

#[derive(Debug)]
pub(crate) struct Buffers {
    base: NonNull<std::ffi::c_void>,
    slot_bytes: usize,
    total: usize,
}

// SAFETY: only this value owns the mapping, and it is only handed out as addresses for the kernel.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Maps `slots` buffers of at least `bytes`, filled with [`noise`].
    pub(crate) fn new(slots: u32, bytes: u32) -> Result<Self, ZonedError> {
        let slot_bytes = (bytes.max(4096) as usize).next_multiple_of(4096);
        let total = slot_bytes * slots.max(1) as usize;
        if total > LIMIT {
            return Err(ZonedError::Usage(format!(
                "queue depth times request size needs {} of buffers; the limit is {} per worker",
                senesce_core::Bytes(total as u64),
                senesce_core::Bytes(LIMIT as u64)
            )));
        }
        // SAFETY: an anonymous private mapping of a non-zero length; nothing else refers to it.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), total, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }
        .map_err(|errno| {
            ZonedError::Io(
                IoFailure::new("map buffers for", format!("{slots} commands"), errno)
                    .with_remedy("reduce queue depth or request size"),
            )
        })?;
        let base = NonNull::new(base).ok_or_else(|| ZonedError::Usage("the kernel mapped nothing".into()))?;
        let mut buffers = Self { base, slot_bytes, total };
        noise::fill(buffers.all());
        Ok(buffers)
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `total` bytes long, initialised to zero by the kernel, and borrowed mutably here.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.total) }
    }

    pub(crate) fn address(&self, tag: u32) -> *mut u8 {
        let offset = (tag as usize * self.slot_bytes).min(self.total - self.slot_bytes);
        // SAFETY: the offset lies within the mapping.
        unsafe { self.base.as_ptr().cast::<u8>().add(offset) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: base and total are those of the mapping made in `new`.
        let _ = unsafe { munmap(self.base.as_ptr(), self.total) };
    }
}
