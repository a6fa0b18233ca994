//! Attributes of inodes.

use crate::error::FsResult;
use crate::file::without_setid;
use crate::format::Inode;
use crate::fs::{TierFs, now};
use crate::table;
use std::sync::atomic::Ordering;

/// Result of stat(2). Times are nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    pub ino: u32,
    pub generation: u32,
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Blocks of 4 KiB in both tiers.
    pub blocks: u64,
    pub atime: i64,
    pub mtime: i64,
    /// Last change of the inode.
    pub ctime: i64,
    pub rdev: u32,
}

/// `None` leaves a field unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    /// Nanoseconds since the epoch.
    pub atime: Option<i64>,
    /// Nanoseconds since the epoch.
    pub mtime: Option<i64>,
    /// Clears set-user-ID and set-group-ID, as after a change by an unprivileged user.
    pub clear_setid: bool,
}

impl SetAttr {
    fn adjust(&self, inode: &mut Inode) {
        if self.uid.is_some() || self.gid.is_some() || self.clear_setid && self.size.is_some() {
            inode.mode = if inode.is_directory() { inode.mode } else { without_setid(inode.mode) };
        }
        if let Some(mode) = self.mode {
            inode.mode = inode.kind() | mode & !libc::S_IFMT;
        }
        inode.uid = self.uid.unwrap_or(inode.uid);
        inode.gid = self.gid.unwrap_or(inode.gid);
        inode.mtime = self.mtime.unwrap_or(inode.mtime);
        inode.atime = self.atime.unwrap_or(inode.atime);
    }
}

impl TierFs {
    pub(crate) fn get_attr(&self, ino: u32) -> FsResult<Attr> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        let inode = self.load(offset)?;
        Ok(self.attr_of(ino, offset, &inode))
    }

    /// Returns the attributes of an inode. The caller holds the inode's lock.
    pub(crate) fn attr_of(&self, ino: u32, offset: usize, inode: &Inode) -> Attr {
        let links = match inode.is_directory() {
            true => self.directories.get(ino).map_or(0, |directory| {
                if inode.links == 0 { 0 } else { 2 + directory.subdirectories.load(Ordering::Relaxed) }
            }),
            false => inode.links,
        };
        Attr {
            ino,
            generation: table::generation(&self.region, offset),
            mode: inode.mode,
            links,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.length(),
            blocks: u64::from(self.table.slot(ino).blocks.load(Ordering::Relaxed)),
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            rdev: if inode.is_device() { inode.size as u32 } else { 0 },
        }
    }

    /// Sets all attributes in one commit.
    pub(crate) fn set_attr(&self, ino: u32, set: &SetAttr) -> FsResult<Attr> {
        if let Some(size) = set.size {
            return self.truncate(ino, size, |inode| set.adjust(inode));
        }
        self.changeable()?;
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.write();
        let mut inode = self.load(offset)?;
        set.adjust(&mut inode);
        inode.ctime = now();
        table::commit(&self.region, offset, &inode);
        self.settled()?;
        Ok(self.attr_of(ino, offset, &inode))
    }
}
