//! A FUSE file system in memory that does nothing: names and sizes, no data. What its requests take is the price of FUSE.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyWrite,
    ReplyXattr, Request, Session, SessionACL, WriteFlags,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(3600);

/// Inodes by name, sizes by inode.
#[derive(Default)]
struct Names {
    inodes: HashMap<OsString, u64>,
    sizes: HashMap<u64, u64>,
}

struct Nothing {
    names: Mutex<Names>,
    kind: InodeKind,
}

/// What it makes the kernel ask.
#[derive(Clone, Copy, PartialEq)]
pub enum InodeKind {
    /// The least: no permissions are checked, there are no extended attributes.
    Bare,
    /// The same as the tier file system: the kernel checks permissions, and so asks for the attributes of a directory that
    /// changed; there are extended attributes, and so it asks a new file for its capabilities at the first write.
    Posix,
}

/// Mounts it, runs `body`, unmounts it.
pub fn with_nothing<T>(
    mount: &Path,
    threads: usize,
    kind: InodeKind,
    body: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let mut config = Config::default();
    (config.n_threads, config.clone_fd) = (Some(threads), threads > 1);
    if kind == InodeKind::Posix {
        config.acl = SessionACL::All;
        config.mount_options = vec![MountOption::DefaultPermissions];
    }
    let session = Session::new(Nothing { names: Mutex::default(), kind }, mount, &config)?.spawn()?;
    let result = body();
    session.umount_and_join()?;
    result
}

fn attributes(ino: u64, size: u64) -> FileAttr {
    let (kind, perm) = if ino == 1 { (FileType::Directory, 0o755) } else { (FileType::RegularFile, 0o644) };
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Nothing {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if self.kind == InodeKind::Posix {
            // What an old kernel lacks costs the tier file system the same.
            let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2 | InitFlags::FUSE_PARALLEL_DIROPS);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.names.lock().inodes.get(name) {
            Some(ino) => reply.entry(&TTL, &attributes(*ino, 0), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let size = self.names.lock().sizes.get(&ino.0).copied().unwrap_or(0);
        reply.attr(&TTL, &attributes(ino.0, size));
    }

    fn create(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut names = self.names.lock();
        let ino = names.sizes.len() as u64 + 2;
        names.inodes.insert(name.into(), ino);
        names.sizes.insert(ino, 0);
        drop(names);
        reply.created(&TTL, &attributes(ino, 0), Generation(0), FileHandle(0), FopenFlags::empty());
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = offset + data.len() as u64;
        self.names.lock().sizes.entry(ino.0).and_modify(|size| *size = end.max(*size));
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    /// ENOSYS: the kernel stops asking, as with the tier file system.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(if self.kind == InodeKind::Posix { Errno::NO_XATTR } else { Errno::ENOSYS });
    }
}
