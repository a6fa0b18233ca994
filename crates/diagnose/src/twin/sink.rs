//! A FUSE file system with one file: the unchanged twin below, and the writes of a trial above it. Blocks of zeros are
//! only remembered, so that the data of a twin, which are zeros, take no space.

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use senesce_sys::zeros::is_zero;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

pub(crate) const NAME: &str = "twin";
const ROOT: u64 = 1;
const IMAGE: u64 = 2;
const TTL: Duration = Duration::from_secs(3600);
const BLOCK: u64 = 4096;
/// Blocks whose states are stored together.
const GROUP: u64 = 1024;
const MAX_WRITE: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BlockIn {
    #[default]
    Below,
    /// Not stored: it is zero.
    Zero,
    Above,
}

#[derive(Debug)]
pub(crate) struct Store {
    below: File,
    above: File,
    size: u64,
    places: Mutex<HashMap<u64, Box<[BlockIn; GROUP as usize]>>>,
    is_full: AtomicBool,
}

impl Store {
    pub(crate) fn new(below: File, above: File, size: u64) -> Self {
        Self { below, above, size, places: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    /// Returns whether the scratch file had no space for something that was written.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn keep(&self, content: &[u8], at: u64) -> io::Result<()> {
        self.above.write_all_at(content, at).inspect_err(|error| {
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                self.is_full.store(true, Ordering::Relaxed);
            }
        })
    }

    fn place(places: &HashMap<u64, Box<[BlockIn; GROUP as usize]>>, block: u64) -> BlockIn {
        places.get(&(block / GROUP)).map_or(BlockIn::Below, |group| group[(block % GROUP) as usize])
    }

    /// Reads from the image and its changes. Bytes after the end of the image read as zeros.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset + buffer.len() as u64;
        let mut at = offset;
        while at < end {
            let place = Self::place(&places, at / BLOCK);
            let mut next = (at / BLOCK + 1) * BLOCK;
            while next < end && Self::place(&places, next / BLOCK) == place {
                next += BLOCK;
            }
            let next = next.min(end);
            let part = &mut buffer[(at - offset) as usize..(next - offset) as usize];
            match place {
                BlockIn::Zero => part.fill(0),
                BlockIn::Below => read_or_zero(&self.below, part, at)?,
                BlockIn::Above => read_or_zero(&self.above, part, at)?,
            }
            at = next;
        }
        Ok(())
    }

    /// Writes to the scratch file, which may fail with ENOSPC. Blocks before the failed one are written.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let inside = (at % BLOCK) as usize;
            let length = rest.len().min(BLOCK as usize - inside);
            let (part, behind) = rest.split_at(length);
            self.write_block(&mut places, at, part)?;
            at += length as u64;
            rest = behind;
        }
        Ok(())
    }

    fn write_block(
        &self,
        places: &mut HashMap<u64, Box<[BlockIn; GROUP as usize]>>,
        at: u64,
        part: &[u8],
    ) -> io::Result<()> {
        let block = at / BLOCK;
        let before = Self::place(places, block);
        let zero = is_zero(part);
        let whole = part.len() as u64 == BLOCK;
        let after = match (zero, whole, before) {
            (true, true, _) | (true, false, BlockIn::Zero) => BlockIn::Zero,
            (_, true, _) | (_, _, BlockIn::Above) => {
                self.keep(part, at)?;
                BlockIn::Above
            }
            (_, false, _) => {
                let mut content = [0; BLOCK as usize];
                if before == BlockIn::Below {
                    read_or_zero(&self.below, &mut content, block * BLOCK)?;
                }
                content[(at % BLOCK) as usize..][..part.len()].copy_from_slice(part);
                self.keep(&content, block * BLOCK)?;
                BlockIn::Above
            }
        };
        let group = places.entry(block / GROUP).or_insert_with(|| Box::new([BlockIn::Below; GROUP as usize]));
        group[(block % GROUP) as usize] = after;
        Ok(())
    }

    /// Zeroes whole blocks; partial blocks at the ends are written.
    pub(crate) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.saturating_add(length).min(self.size);
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first >= last {
            return self.write(offset, &vec![0; end.saturating_sub(offset) as usize]);
        }
        {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            for block in first..last {
                let group = places.entry(block / GROUP).or_insert_with(|| Box::new([BlockIn::Below; GROUP as usize]));
                group[(block % GROUP) as usize] = BlockIn::Zero;
            }
        }
        self.write(offset, &vec![0; (first * BLOCK - offset) as usize])?;
        self.write(last * BLOCK, &vec![0; (end - last * BLOCK) as usize])
    }
}

fn read_or_zero(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset)? {
            0 => {
                buffer.fill(0);
                return Ok(());
            }
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

pub(crate) struct Sink(pub Arc<Store>);

impl Sink {
    fn attributes(&self, inode: u64) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            ROOT => (FileType::Directory, 0o700, 0),
            IMAGE => (FileType::RegularFile, 0o600, self.0.size),
            _ => return None,
        };
        Some(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }
}

fn failed(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Filesystem for Sink {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(IMAGE).filter(|_| parent.0 == ROOT && name == NAME) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _request: &Request, _inode: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _request: &Request, _inode: INodeNo, _handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = u64::from(size).min(self.0.size.saturating_sub(offset)) as usize;
        let mut buffer = vec![0; length];
        match self.0.read(offset, &mut buffer) {
            Ok(()) => reply.data(&buffer),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.0.discard(offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(failed(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::MetadataExt;

    fn store(content: &[u8]) -> Store {
        let below = tempfile::tempfile().unwrap();
        below.write_all_at(content, 0).unwrap();
        Store::new(below, tempfile::tempfile().unwrap(), content.len() as u64)
    }

    #[test]
    fn zeros_take_no_space_and_twin_is_unchanged() {
        let content = vec![7; 1 << 20];
        let store = store(&content);
        store.write(0, &vec![0; 1 << 20]).unwrap();
        assert_eq!(store.above.metadata().unwrap().blocks(), 0);
        let mut read = vec![1; 1 << 20];
        store.read(0, &mut read).unwrap();
        assert!(read.iter().all(|byte| *byte == 0));
        let mut below = vec![0; 1 << 20];
        store.below.read_exact_at(&mut below, 0).unwrap();
        assert_eq!(below, content);
    }

    #[derive(Debug, Clone)]
    enum Change {
        Write(u64, Vec<u8>),
        Discard(u64, u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        let sector = 0u64..128;
        let write = (sector.clone(), 1usize..40, prop::bool::ANY).prop_map(|(at, length, zero)| {
            Change::Write(at * 512, vec![if zero { 0 } else { at as u8 + 1 }; length * 512])
        });
        let discard = (sector, 0u64..64).prop_map(|(at, length)| Change::Discard(at * 512, length * 512));
        prop_oneof![3 => write, 1 => discard]
    }

    proptest! {
        #[test]
        fn sink_reads_like_a_plain_file(changes in prop::collection::vec(change(), 0..30), at in 0usize..100, length in 1usize..200) {
            let size = 96 << 10;
            let content: Vec<u8> = (0..size).map(|index| (index / 512) as u8).collect();
            let (store, mut plain) = (store(&content), content);
            for change in changes {
                match change {
                    Change::Write(at, data) => {
                        let length = data.len().min(size - at as usize);
                        store.write(at, &data[..length]).unwrap();
                        plain[at as usize..][..length].copy_from_slice(&data[..length]);
                    }
                    Change::Discard(at, length) => {
                        store.discard(at, length).unwrap();
                        let end = (at + length).min(size as u64) as usize;
                        plain[at as usize..end].fill(0);
                    }
                }
            }
            let (from, to) = (at * 512, (at + length) * 512);
            let mut read = vec![9; to - from];
            store.read(from as u64, &mut read).unwrap();
            for (index, byte) in read.iter().enumerate() {
                prop_assert_eq!(*byte, plain.get(from + index).copied().unwrap_or(0), "at {}", from + index);
            }
        }
    }
}
