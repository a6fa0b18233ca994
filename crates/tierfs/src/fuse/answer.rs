//! Converts between the types of the core and of the kernel's protocol.

use crate::attr::Attr;
use crate::error::FsResult;
use crate::format::BLOCK;
use crate::fs::now;
use crate::namespace::NewInode;
use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr, Request, TimeOrNow,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Validity of attributes and names in the kernel's cache: only the kernel changes the file system.
pub(crate) const TTL: Duration = Duration::from_secs(3600);

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

pub(crate) fn number(ino: INodeNo) -> u32 {
    u32::try_from(ino.0).unwrap_or(0)
}

fn time(ns: i64) -> SystemTime {
    let span = Duration::from_nanos(ns.unsigned_abs());
    if ns >= 0 { UNIX_EPOCH + span } else { UNIX_EPOCH - span }
}

/// Nanoseconds since the epoch; times outside 64 bits (before 1677, after 2262) are clamped.
pub(crate) fn nanoseconds(time: TimeOrNow) -> i64 {
    match time {
        TimeOrNow::Now => now(),
        TimeOrNow::SpecificTime(time) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            // The kernel adds the fraction to negative seconds; fuser 0.18 subtracts it (time.rs).
            Err(before) => {
                let (seconds, fraction) = (before.duration().as_secs(), i64::from(before.duration().subsec_nanos()));
                let whole = i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(-1_000_000_000));
                whole.map_or(i64::MIN, |whole| whole + fraction)
            }
        },
    }
}

pub(crate) fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

pub(crate) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(u64::from(attr.ino)),
        size: attr.size,
        blocks: attr.blocks * (BLOCK as u64 / 512),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.mode),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK as u32,
        flags: 0,
    }
}

pub(crate) fn entry(result: FsResult<Attr>, reply: ReplyEntry) {
    match result {
        Ok(attr) => reply.entry(&TTL, &file_attr(&attr), Generation(u64::from(attr.generation))),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn attributes(result: FsResult<Attr>, reply: ReplyAttr) {
    match result {
        Ok(attr) => reply.attr(&TTL, &file_attr(&attr)),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn done(result: FsResult<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

/// Replies with an attribute, or with its size if `space` is 0.
pub(crate) fn xattr(result: FsResult<Vec<u8>>, space: u32, reply: ReplyXattr) {
    match result {
        Ok(value) if space == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > space as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

pub(crate) fn new_inode(request: &Request, mode: u32) -> NewInode<'static> {
    NewInode { mode, uid: request.uid(), gid: request.gid(), rdev: 0, target: b"" }
}
