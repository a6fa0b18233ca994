//! Names: create, look up, link, remove.

use crate::attr::Attr;
use crate::dir::{Directory, Names};
use crate::error::FsResult;
use crate::format::{BLOCK, Inode, MAX_NAME, Pointer, entry_kind};
use crate::fs::{TierFs, now};
use crate::region::{Region, byte};
use crate::table;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

#[derive(Debug, Clone, Copy)]
pub struct NewInode<'a> {
    pub mode: u32,
    pub uid: u32,
    /// Replaced by the directory's group if that is set-group-ID.
    pub gid: u32,
    pub rdev: u32,
    pub target: &'a [u8],
}

/// Maximum length of a symbolic link's target: one block, including the kernel's terminating zero byte.
const MAX_TARGET: usize = BLOCK - 1;

pub(crate) fn check_name(name: &[u8]) -> FsResult<()> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

pub(crate) fn live(names: &Names) -> FsResult<()> {
    if names.removed { Err(Errno::NOENT) } else { Ok(()) }
}

/// Returns the target of a symbolic link, if it is intact. The caller keeps writers out.
pub(crate) fn target_of(region: &Region, inode: &Inode) -> Option<Vec<u8>> {
    let mut target = vec![0; inode.length() as usize];
    if target.is_empty() && inode.size == 0 {
        return Some(target);
    }
    let is_inside = inode.root.is_resident() && u64::from(inode.root.address()) < region.blocks();
    if !is_inside || target.len() > MAX_TARGET {
        return None;
    }
    // SAFETY: the caller keeps writers out.
    unsafe { region.read(byte(inode.root.address()), &mut target) };
    (Inode::size_of_target(&target) == inode.size).then_some(target)
}

impl TierFs {
    /// Looks up a name and takes one reference for the caller, released by [`forget`](Self::forget).
    pub fn lookup(&self, parent: u32, name: &[u8]) -> FsResult<Attr> {
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG);
        }
        let directory = self.directory(parent)?;
        let names = directory.state.read();
        let entry = self.find_entry(&names, name)?.ok_or(Errno::NOENT)?;
        self.refer(entry.ino)
    }

    /// Takes a reference of an inode that the lock of its directory protects.
    pub(crate) fn refer(&self, ino: u32) -> FsResult<Attr> {
        let attr = self.get_attr(ino)?;
        self.table.slot(ino).lookups.fetch_add(1, Ordering::Relaxed);
        Ok(attr)
    }

    /// Releases references; frees an inode without links and references.
    pub fn forget(&self, ino: u32, count: u64) {
        let Ok((_, slot)) = self.find(ino) else { return };
        let before =
            slot.lookups.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |held| Some(held.saturating_sub(count)));
        if before.is_ok_and(|before| before <= count) {
            self.forget_cached(ino, slot);
            self.free_if_unused(ino);
        }
    }

    /// Frees an inode without links and references.
    pub(crate) fn free_if_unused(&self, ino: u32) {
        let Ok((offset, slot)) = self.find(ino) else { return };
        let inode = {
            let _guard = slot.lock.write();
            let Ok(inode) = self.load(offset) else { return };
            if inode.links > 0 || slot.lookups.load(Ordering::Acquire) > 0 || self.changeable().is_err() {
                return;
            }
            slot.change();
            slot.leave_cache();
            self.past_cache.clear(ino);
            table::retire(&self.region, offset);
            inode
        };
        if inode.is_directory() {
            self.directories.remove(ino);
        }
        if !inode.is_device() {
            self.free_tree(inode.root.plain(), inode.root.height());
        }
        self.free_xattrs(&inode);
        slot.blocks.store(0, Ordering::Relaxed);
        if self.changeable().is_ok() {
            self.table.give([ino]);
            self.return_inode_blocks();
        }
    }

    /// Creates an inode and its name. The caller gets one reference, as from [`lookup`](Self::lookup).
    pub fn create(&self, parent: u32, name: &[u8], new: &NewInode<'_>) -> FsResult<Attr> {
        check_name(name)?;
        if new.target.len() > MAX_TARGET {
            return Err(Errno::NAMETOOLONG);
        }
        let directory = self.directory(parent)?;
        let ino = self.take_inode()?;
        let mut names = directory.state.write();
        let prepared = self.prepare(&mut names, parent, name, new);
        if prepared.is_err() {
            self.table.give([ino]);
        }
        let (position, inode) = prepared?;
        let (offset, slot) = self.find(ino)?;
        table::initialise(&self.region, offset, &inode);
        slot.blocks.store(u32::from(!inode.root.is_hole()), Ordering::Relaxed);
        if inode.is_directory() {
            self.directories.insert(ino, parent, Names::new(Pointer::HOLE, 0));
        }
        // From here on the number stays in use, even on failure.
        if let Err(error) = self.commit_entry(&mut names, position, name, ino) {
            self.change_links(ino, -1)?;
            return Err(error);
        }
        if inode.is_directory() {
            directory.subdirectories.fetch_add(1, Ordering::Relaxed);
        }
        self.touch_directory(parent)?;
        self.settled()?;
        slot.lookups.store(1, Ordering::Relaxed);
        drop(names);
        let _guard = slot.lock.read();
        Ok(self.attr_of(ino, offset, &inode))
    }

    fn prepare(&self, names: &mut Names, parent: u32, name: &[u8], new: &NewInode<'_>) -> FsResult<(u32, Inode)> {
        self.changeable()?;
        live(names)?;
        if self.find_entry(names, name)?.is_some() {
            return Err(Errno::EXIST);
        }
        let position = self.prepare_entry(parent, names, name, entry_kind(new.mode))?;
        Ok((position, self.new_inode(parent, new)?))
    }

    /// Returns the initial content of an inode; the target of a symbolic link is in its only block.
    fn new_inode(&self, parent: u32, new: &NewInode<'_>) -> FsResult<Inode> {
        let (offset, slot) = self.find(parent)?;
        let holder = {
            let _guard = slot.lock.read();
            self.load(offset)?
        };
        let time = now();
        let mut inode = Inode {
            mode: new.mode,
            links: 1,
            uid: new.uid,
            gid: new.gid,
            mtime: time,
            ctime: time,
            atime: time,
            ..Inode::default()
        };
        if holder.mode & libc::S_ISGID != 0 {
            inode.gid = holder.gid;
        }
        if inode.is_directory() {
            inode.links = 2;
            inode.mode |= holder.mode & libc::S_ISGID;
        }
        if inode.is_device() {
            inode.size = u64::from(new.rdev);
        }
        if new.mode & libc::S_IFMT == libc::S_IFLNK && !new.target.is_empty() {
            let mut change = self.begin(1, false)?;
            let block = change.take()?;
            // SAFETY: the block is fresh.
            unsafe { self.region.zero(byte(block), BLOCK) };
            // SAFETY: the block is fresh.
            unsafe { self.region.write(byte(block), new.target) };
            change.unsynced.add_block(block);
            (inode.root, inode.size) = (Pointer::resident(block), Inode::size_of_target(new.target));
            change.keep();
        }
        Ok(inode)
    }

    /// Takes a free inode number; adds a block of inodes if necessary.
    fn take_inode(&self) -> FsResult<u32> {
        loop {
            if let Some(ino) = self.table.take() {
                return Ok(ino);
            }
            let _guard = self.growth.lock();
            if self.table.free() == 0 {
                self.grow_table()?;
            }
        }
    }

    pub(crate) fn touch_directory(&self, ino: u32) -> FsResult<()> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.write();
        let time = now();
        let inode = Inode { mtime: time, ctime: time, ..self.load(offset)? };
        table::commit(&self.region, offset, &inode);
        Ok(())
    }

    /// Changes the link count of an inode and frees it if that was the last link.
    pub(crate) fn change_links(&self, ino: u32, delta: i32) -> FsResult<Attr> {
        let (offset, slot) = self.find(ino)?;
        let attr = {
            let _guard = slot.lock.write();
            let mut inode = self.load(offset)?;
            if inode.links == 0 {
                return Err(Errno::NOENT);
            }
            inode.links = match inode.is_directory() {
                true => 0,
                false => inode.links.checked_add_signed(delta).ok_or(Errno::MLINK)?,
            };
            inode.ctime = now();
            table::commit(&self.region, offset, &inode);
            self.attr_of(ino, offset, &inode)
        };
        if attr.links == 0 && slot.lookups.load(Ordering::Acquire) == 0 {
            self.free_if_unused(ino);
        }
        Ok(attr)
    }

    /// Creates another name of an inode; the caller gets one more reference.
    pub fn link(&self, ino: u32, parent: u32, name: &[u8]) -> FsResult<Attr> {
        check_name(name)?;
        self.changeable()?;
        let mode = self.get_attr(ino)?.mode;
        if mode & libc::S_IFMT == libc::S_IFDIR {
            return Err(Errno::PERM);
        }
        let directory = self.directory(parent)?;
        let mut names = directory.state.write();
        live(&names)?;
        if self.find_entry(&names, name)?.is_some() {
            return Err(Errno::EXIST);
        }
        let position = self.prepare_entry(parent, &mut names, name, entry_kind(mode))?;
        let attr = self.change_links(ino, 1)?;
        self.commit_entry(&mut names, position, name, ino)?;
        self.table.slot(ino).lookups.fetch_add(1, Ordering::Relaxed);
        self.touch_directory(parent)?;
        self.settled()?;
        Ok(attr)
    }

    pub(crate) fn unlink(&self, parent: u32, name: &[u8]) -> FsResult<()> {
        self.changeable()?;
        let directory = self.directory(parent)?;
        let mut names = directory.state.write();
        let entry = self.find_entry(&names, name)?.ok_or(Errno::NOENT)?;
        if entry.kind == entry_kind(libc::S_IFDIR) {
            return Err(Errno::ISDIR);
        }
        self.remove_entry(&mut names, entry.position, name)?;
        self.return_directory_blocks(parent, &mut names, entry.position)?;
        self.touch_directory(parent)?;
        drop(names);
        self.change_links(entry.ino, -1)?;
        self.settled()
    }

    pub(crate) fn rmdir(&self, parent: u32, name: &[u8]) -> FsResult<()> {
        self.changeable()?;
        let _topology = self.topology.lock();
        let directory = self.directory(parent)?;
        let mut names = directory.state.write();
        let entry = self.find_entry(&names, name)?.ok_or(Errno::NOENT)?;
        let victim = self.directory(entry.ino)?;
        self.empty_and_removed(&victim)?;
        self.remove_entry(&mut names, entry.position, name)?;
        self.return_directory_blocks(parent, &mut names, entry.position)?;
        directory.subdirectories.fetch_sub(1, Ordering::Relaxed);
        self.touch_directory(parent)?;
        drop(names);
        self.change_links(entry.ino, -1)?;
        self.settled()
    }

    /// Marks an empty directory as removed; ENOTEMPTY otherwise.
    pub(crate) fn empty_and_removed(&self, victim: &Directory) -> FsResult<()> {
        let mut inside = victim.state.write();
        if !inside.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        inside.removed = true;
        Ok(())
    }

    pub fn read_link(&self, ino: u32) -> FsResult<Vec<u8>> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        let inode = self.load(offset)?;
        if !inode.is_link() {
            return Err(Errno::INVAL);
        }
        target_of(&self.region, &inode).ok_or_else(|| {
            self.region.note_damage();
            Errno::IO
        })
    }
}
