//! The FUSE adapter: translates requests of the kernel.
//!
//! The kernel checks permissions (default_permissions) and may cache names, attributes and pages without limit, because nothing
//! else changes them. Its write-back cache is off: a write is durable when write(2) returns.

mod adapter;
mod answer;
mod linger;
mod new_file;

use crate::attr::SetAttr;
use crate::format::{BLOCK, MAX_NAME};
use crate::namespace::NewInode;
pub(crate) use adapter::{Adapter, SCRUB_XATTR, STATS_XATTR};
use answer::{TTL, attributes, done, entry, errno, file_attr, file_type, nanoseconds, new_inode, number, xattr};
use fuser::{
    Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
pub(crate) use linger::Linger;
use new_file::{NewFiles, Written, written};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

const MAX_WRITE: u32 = 1 << 20;

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Correctness does not depend on these flags. FUSE_ASYNC_DIO is excluded: an asynchronous direct write leaves pages in
        // the kernel's cache that a reader filled during the write, because only generic_file_direct_write drops them and
        // fuse_aio_complete does not (fs/fuse/file.c; xfstests generic/451).
        for flag in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(flag);
        }
        let can_be_mapped = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.new_files = NewFiles::on_this_kernel(can_be_mapped);
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.serve().lookup(number(parent), name.as_bytes()), reply);
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        // No reply is expected, and the kernel forgets many at once.
        self.fs.forget(number(ino), count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        attributes(self.serve().get_attr(number(ino)), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(nanoseconds), mtime.map(nanoseconds));
        // The kernel's own flag (FATTR_KILL_SUIDGID) is not passed on by fuser; root has CAP_FSETID.
        let clear_setid = request.uid() != 0;
        let set = SetAttr { mode, uid, gid, size, atime, mtime, clear_setid };
        attributes(self.serve().set_attr(number(ino), &set), reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.serve().read_link(number(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let new = NewInode { rdev, ..new_inode(request, mode) };
        entry(self.serve().create(number(parent), name.as_bytes(), &new), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let new = new_inode(request, libc::S_IFDIR | mode & 0o7777);
        entry(self.serve().create(number(parent), name.as_bytes(), &new), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.serve().unlink(number(parent), name.as_bytes()), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.serve().rmdir(number(parent), name.as_bytes()), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let new = NewInode { target, ..new_inode(request, libc::S_IFLNK | 0o777) };
        entry(self.serve().create(number(parent), name.as_bytes(), &new), reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let no_replace = flags.contains(RenameFlags::RENAME_NOREPLACE);
        let (from, to) = (number(parent), number(to));
        done(self.serve().rename(from, name.as_bytes(), to, to_name.as_bytes(), no_replace), reply);
    }

    fn link(&self, _request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.serve().link(number(ino), number(parent), name.as_bytes()), reply);
    }

    /// Replies ENOSYS, which makes the kernel stop sending open requests.
    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    /// Replies ENOSYS, which makes the kernel stop asking: nothing is left to write at close.
    fn flush(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let new = new_inode(request, libc::S_IFREG | mode & 0o7777);
        match self.serve().create(number(parent), name.as_bytes(), &new) {
            Ok(attr) => {
                let generation = Generation(u64::from(attr.generation));
                let (handle, how) = self.new_files.opened(flags);
                reply.created(&TTL, &file_attr(&attr), generation, handle, how);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let fs = self.serve();
            // The kernel names a lock owner for reads past its cache (fuse_send_read, fs/fuse/file.c), and none for reads that
            // fill it.
            let read = match owner {
                Some(_) => fs.read(number(ino), offset, &mut buffer[..size]),
                None => fs.read_into_cache(number(ino), offset, &mut buffer[..size]),
            };
            match read {
                Ok(len) => reply.data(&buffer[..len]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _open: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let clear_setid = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let fs = self.serve();
        let result = match written(handle, flags) {
            Written::PastCache => fs
                .drop_capability(number(ino))
                .and_then(|()| fs.write_past_cache(number(ino), offset, data, clear_setid)),
            Written::Directly => fs.write_past_cache(number(ino), offset, data, clear_setid),
            Written::ThroughCache => fs.write_through_cache(number(ino), offset, data, clear_setid),
            Written::FromCache => fs.write_back(number(ino), offset, data, clear_setid),
        };
        match result {
            Ok(len) => reply.written(len as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        done(self.serve().settled(), reply);
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, _handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        done(self.serve().settled(), reply);
    }

    fn readdir(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let fs = self.serve();
        let read = fs.read_directory(number(ino), offset, &mut |entry, name, next| {
            let kind = file_type(u32::from(entry.kind) << 12);
            !reply.add(INodeNo(u64::from(entry.ino)), next, kind, OsStr::from_bytes(name))
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let fs = self.serve();
        let read = fs.read_directory_plus(number(ino), offset, &mut |attr, name, next| {
            let generation = Generation(u64::from(attr.generation));
            let ino = INodeNo(u64::from(attr.ino));
            !reply.add(ino, next, OsStr::from_bytes(name), &TTL, &file_attr(attr), generation)
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let found = self.serve().statfs();
        reply.statfs(
            found.blocks,
            found.free,
            found.available,
            found.inodes,
            found.free_inodes,
            BLOCK as u32,
            MAX_NAME as u32,
            BLOCK as u32,
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.set_attribute(request, number(ino), name.as_bytes(), (value, flags), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.reply_attribute(number(ino), name.as_bytes(), size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let fs = self.serve();
        let names = fs
            .list_xattr(number(ino))
            .map(|attributes| attributes.into_iter().flat_map(|(name, _)| name.into_iter().chain([0])).collect());
        xattr(names, size, reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.serve().remove_xattr(number(ino), name.as_bytes()), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let fs = self.serve();
        let (keep, punch) = (libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_PUNCH_HOLE);
        let result = match mode {
            0 => fs.preallocate(number(ino), offset, length, false),
            mode if mode == keep => fs.preallocate(number(ino), offset, length, true),
            mode if mode == keep | punch => fs.punch(number(ino), offset, length),
            _ => Err(rustix::io::Errno::OPNOTSUPP),
        };
        done(result, reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let fs = self.serve();
        let found = match (whence, u64::try_from(offset)) {
            (libc::SEEK_DATA, Ok(offset)) => fs.seek(number(ino), offset, true),
            (libc::SEEK_HOLE, Ok(offset)) => fs.seek(number(ino), offset, false),
            (_, Err(_)) => Err(rustix::io::Errno::NXIO),
            _ => Err(rustix::io::Errno::INVAL),
        };
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Replies ENOSYS; the kernel then falls back to reading and writing.
    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        _from_handle: FileHandle,
        _from_offset: u64,
        _to: INodeNo,
        _to_handle: FileHandle,
        _to_offset: u64,
        _len: u64,
        _flags: fuser::CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS);
    }
}
