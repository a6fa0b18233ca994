//! A slow disk for other file systems: a file whose requests take as long as on a modelled disk. A loop device on it holds, for
//! example, the ext4 that a tier file system is compared with.

use crate::cold::{AlignedBuffer, ColdStore};
use crate::error::{TierError, io_error};
use crate::format::BLOCK;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    Session, WriteFlags,
};
use parking_lot::Mutex;
use senesce_volume::Guardian;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(3600);
const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";

struct SlowDisk {
    store: Box<dyn ColdStore>,
    bytes: u64,
    /// Held during a change of a part of a block.
    partial: Mutex<()>,
}

/// Unmounted when dropped.
pub struct DiskMount {
    path: PathBuf,
    session: Option<BackgroundSession>,
    _guardian: Guardian,
}

impl DiskMount {
    /// Mounts `store` of `bytes` bytes as the file `disk` below `mount_point`.
    pub fn new(store: Box<dyn ColdStore>, bytes: u64, mount_point: &Path, threads: usize) -> Result<Self, TierError> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("senesce-disk".into())];
        config.n_threads = Some(threads.max(1));
        let disk = SlowDisk { store, bytes, partial: Mutex::new(()) };
        let guardian = Guardian::of_fuse_mount(mount_point)?;
        let session = Session::new(disk, mount_point, &config)
            .and_then(Session::spawn)
            .map_err(io_error("mount on", mount_point))?;
        Ok(Self { path: mount_point.join(NAME), session: Some(session), _guardian: guardian })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DiskMount {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.session.take().map(BackgroundSession::umount_and_join) {
            tracing::warn!("unmount the slow disk {}: {error}", self.path.display());
        }
    }
}

impl SlowDisk {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let directory = ino != FILE;
        FileAttr {
            ino,
            size: if directory { 0 } else { self.bytes },
            blocks: if directory { 0 } else { self.bytes / 512 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }

    fn around(offset: u64, len: usize) -> (u32, usize) {
        let (first, end) = (offset / BLOCK as u64, (offset + len as u64).div_ceil(BLOCK as u64));
        (first as u32, (end - first) as usize)
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let len = len.min(self.bytes.saturating_sub(offset) as usize);
        let (first, blocks) = Self::around(offset, len);
        let mut buffer = AlignedBuffer::new(blocks);
        self.store.read(first, &mut buffer)?;
        let skip = (offset % BLOCK as u64) as usize;
        Ok(buffer[skip..skip + len].to_vec())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (first, blocks) = Self::around(offset, data.len());
        let mut buffer = AlignedBuffer::new(blocks);
        let skip = (offset % BLOCK as u64) as usize;
        let whole = skip == 0 && data.len().is_multiple_of(BLOCK);
        let _guard = (!whole).then(|| self.partial.lock());
        if !whole {
            self.store.read(first, &mut buffer)?;
        }
        buffer[skip..skip + data.len()].copy_from_slice(data);
        self.store.write(first, &buffer)
    }
}

fn failed(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Filesystem for SlowDisk {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&TTL, &self.attr(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino));
    }

    /// Disables caching: every request reaches the disk.
    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_at(offset, size as usize) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_at(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        match self.store.sync() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn flush(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
