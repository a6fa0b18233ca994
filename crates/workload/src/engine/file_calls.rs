//! Calls of flowops: to the system, or to a null back end that measures the engine itself.

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

/// Paths are relative to the file set's directory.
pub(crate) trait FileCalls: Send + Sync + 'static {
    type Handle: Send + Copy;

    const ASYNCHRONOUS: bool;
    /// Whether operations are executed or only counted.
    const EXECUTES: bool;

    /// Opens or creates a file; `size` is its size in the file set.
    fn open(&self, root: BorrowedFd<'_>, path: &CStr, flags: OFlags, size: u64) -> Result<Self::Handle, Errno>;
    fn close(&self, handle: Self::Handle) -> Result<(), Errno>;
    fn read(&self, handle: &mut Self::Handle, buffer: &mut [u8]) -> Result<usize, Errno>;
    fn read_at(&self, handle: &mut Self::Handle, buffer: &mut [u8], offset: u64) -> Result<usize, Errno>;
    fn write(&self, handle: &mut Self::Handle, buffer: &[u8]) -> Result<usize, Errno>;
    fn write_at(&self, handle: &mut Self::Handle, buffer: &[u8], offset: u64) -> Result<usize, Errno>;
    fn seek_start(&self, handle: &mut Self::Handle) -> Result<(), Errno>;
    fn seek_end(&self, handle: &mut Self::Handle) -> Result<(), Errno>;
    fn fsync(&self, handle: &Self::Handle) -> Result<(), Errno>;
    /// Announces random reads to the kernel.
    fn advise_random(&self, handle: &Self::Handle) -> Result<(), Errno>;
    fn fstat(&self, handle: &Self::Handle) -> Result<(), Errno>;
    fn stat(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno>;
    fn unlink(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno>;
    fn mkdir(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno>;
    fn rmdir(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno>;
    /// Reads a whole directory with a buffer and returns the bytes that Filebench counts for it.
    fn list(&self, root: BorrowedFd<'_>, path: &CStr, buffer: &mut [MaybeUninit<u8>]) -> Result<u64, Errno>;
    fn descriptor(&self, handle: &Self::Handle) -> Option<RawFd>;
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct System;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor(RawFd);

impl Descriptor {
    fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: the thread that holds the slot keeps the descriptor open until it takes the handle out to close it.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// Bytes that Filebench adds to a name's length per directory entry: `sizeof (struct dirent) - 1` of glibc on 64 bits.
const DIRENT_BYTES: u64 = 279;

impl FileCalls for System {
    type Handle = Descriptor;

    const ASYNCHRONOUS: bool = true;
    const EXECUTES: bool = true;

    fn open(&self, root: BorrowedFd<'_>, path: &CStr, flags: OFlags, _size: u64) -> Result<Descriptor, Errno> {
        let file: OwnedFd = rustix::fs::openat(root, path, flags, Mode::from_raw_mode(0o666))?;
        Ok(Descriptor(file.into_raw_fd()))
    }

    fn close(&self, handle: Descriptor) -> Result<(), Errno> {
        // SAFETY: the handle was taken out of its slot, so no other thread uses the descriptor.
        unsafe { rustix::io::try_close(handle.0) }
    }

    fn read(&self, handle: &mut Descriptor, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(handle.borrow(), buffer)
    }

    fn read_at(&self, handle: &mut Descriptor, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(handle.borrow(), buffer, offset)
    }

    fn write(&self, handle: &mut Descriptor, buffer: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(handle.borrow(), buffer)
    }

    fn write_at(&self, handle: &mut Descriptor, buffer: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(handle.borrow(), buffer, offset)
    }

    fn seek_start(&self, handle: &mut Descriptor) -> Result<(), Errno> {
        rustix::fs::seek(handle.borrow(), SeekFrom::Start(0)).map(drop)
    }

    fn seek_end(&self, handle: &mut Descriptor) -> Result<(), Errno> {
        rustix::fs::seek(handle.borrow(), SeekFrom::End(0)).map(drop)
    }

    fn fsync(&self, handle: &Descriptor) -> Result<(), Errno> {
        rustix::fs::fsync(handle.borrow())
    }

    fn advise_random(&self, handle: &Descriptor) -> Result<(), Errno> {
        rustix::fs::fadvise(handle.borrow(), 0, None, rustix::fs::Advice::Random)
    }

    fn fstat(&self, handle: &Descriptor) -> Result<(), Errno> {
        rustix::fs::fstat(handle.borrow()).map(drop)
    }

    fn stat(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        rustix::fs::statat(root, path, AtFlags::empty()).map(drop)
    }

    fn unlink(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(root, path, AtFlags::empty())
    }

    fn mkdir(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755))
    }

    fn rmdir(&self, root: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(root, path, AtFlags::REMOVEDIR)
    }

    fn list(&self, root: BorrowedFd<'_>, path: &CStr, buffer: &mut [MaybeUninit<u8>]) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = if path.is_empty() { c"." } else { path };
        let directory = rustix::fs::openat(root, path, flags, Mode::empty())?;
        let mut entries = RawDir::new(directory.as_fd(), buffer);
        let mut bytes = 0;
        while let Some(entry) = entries.next() {
            bytes += entry?.file_name().to_bytes().len() as u64 + DIRENT_BYTES;
        }
        Ok(bytes)
    }

    fn descriptor(&self, handle: &Descriptor) -> Option<RawFd> {
        Some(handle.borrow().as_raw_fd())
    }
}

/// Null back end: every call succeeds at once. Reads end at the size in the file set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Null;

/// A file of the null back end: its size and remaining bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullFile {
    size: u64,
    left: u64,
}

impl FileCalls for Null {
    type Handle = NullFile;

    const ASYNCHRONOUS: bool = false;
    const EXECUTES: bool = false;

    fn open(&self, _root: BorrowedFd<'_>, _path: &CStr, _flags: OFlags, size: u64) -> Result<NullFile, Errno> {
        Ok(NullFile { size, left: size })
    }

    fn close(&self, _handle: NullFile) -> Result<(), Errno> {
        Ok(())
    }

    fn read(&self, handle: &mut NullFile, buffer: &mut [u8]) -> Result<usize, Errno> {
        let count = handle.left.min(buffer.len() as u64);
        handle.left -= count;
        Ok(count as usize)
    }

    fn read_at(&self, _handle: &mut NullFile, buffer: &mut [u8], _offset: u64) -> Result<usize, Errno> {
        Ok(buffer.len())
    }

    fn write(&self, _handle: &mut NullFile, buffer: &[u8]) -> Result<usize, Errno> {
        Ok(buffer.len())
    }

    fn write_at(&self, _handle: &mut NullFile, buffer: &[u8], _offset: u64) -> Result<usize, Errno> {
        Ok(buffer.len())
    }

    fn seek_start(&self, handle: &mut NullFile) -> Result<(), Errno> {
        handle.left = handle.size;
        Ok(())
    }

    fn seek_end(&self, _handle: &mut NullFile) -> Result<(), Errno> {
        Ok(())
    }

    fn fsync(&self, _handle: &NullFile) -> Result<(), Errno> {
        Ok(())
    }

    fn advise_random(&self, _handle: &NullFile) -> Result<(), Errno> {
        Ok(())
    }

    fn fstat(&self, _handle: &NullFile) -> Result<(), Errno> {
        Ok(())
    }

    fn stat(&self, _root: BorrowedFd<'_>, _path: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn unlink(&self, _root: BorrowedFd<'_>, _path: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn mkdir(&self, _root: BorrowedFd<'_>, _path: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn rmdir(&self, _root: BorrowedFd<'_>, _path: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn list(&self, _root: BorrowedFd<'_>, _path: &CStr, _buffer: &mut [MaybeUninit<u8>]) -> Result<u64, Errno> {
        Ok(0)
    }

    fn descriptor(&self, _handle: &NullFile) -> Option<RawFd> {
        None
    }
}
