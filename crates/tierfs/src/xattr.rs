//! Extended attributes: a chain of blocks per inode, replaced as a whole. Each block holds its checksum, the number of the next
//! block or 0, its used bytes, and 0 (4 bytes each), then its part of the records. A record: name length (1 byte), 0 (3 bytes),
//! value length (4 bytes), name, value.

use crate::error::FsResult;
use crate::format::{BLOCK, Inode, Pointer, u32_at};
use crate::fs::{Change, FreedSpace, TierFs, now};
use crate::region::{Region, byte};
use crc32c::{crc32c, crc32c_append};
use rustix::io::Errno;

pub(crate) type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

const RECORD_HEADER: usize = 8;
const BLOCK_HEADER: usize = 16;
const PAYLOAD: usize = BLOCK - BLOCK_HEADER;
/// Maximum blocks of a chain: the kernel lists 64 KiB of names at once, with their values, plus one value of maximum size.
const MOST_BLOCKS: usize = 64;
/// Maximum length of a value (XATTR_SIZE_MAX, include/uapi/linux/limits.h).
const MAX_VALUE: usize = 65_536;

/// Decodes the records; `None` if they are malformed.
pub(crate) fn decode(records: &[u8]) -> Option<Attributes> {
    let mut attributes = Vec::new();
    let mut rest = records;
    while !rest.is_empty() {
        let head = rest.get(..RECORD_HEADER)?;
        let (name_len, value_len) = (head[0] as usize, u32_at(head, 4) as usize);
        let name = rest.get(RECORD_HEADER..RECORD_HEADER + name_len).filter(|name| !name.is_empty())?;
        let value = rest.get(RECORD_HEADER + name_len..)?.get(..value_len)?;
        attributes.push((name.to_vec(), value.to_vec()));
        rest = &rest[RECORD_HEADER + name_len + value_len..];
    }
    Some(attributes)
}

/// Encodes the records; `None` if there are too many.
pub(crate) fn encode(attributes: &Attributes) -> Option<Vec<u8>> {
    let mut records = Vec::new();
    for (name, value) in attributes {
        records.extend([u8::try_from(name.len()).ok()?, 0, 0, 0]);
        records.extend((value.len() as u32).to_le_bytes());
        records.extend(name);
        records.extend(value);
    }
    (records.len() <= MOST_BLOCKS * PAYLOAD).then_some(records)
}

pub(crate) struct Chain {
    pub attributes: Attributes,
    pub blocks: Vec<u32>,
}

/// Reads the chain that begins with `first`; `None` if it is damaged. The caller keeps writers out.
pub(crate) fn read_chain(region: &Region, first: Pointer) -> Option<Chain> {
    let (mut records, mut blocks) = (Vec::new(), Vec::new());
    if first.is_hole() {
        return Some(Chain { attributes: Vec::new(), blocks });
    }
    let mut next = first.address();
    let mut block = [0; BLOCK];
    while next != 0 {
        if blocks.len() == MOST_BLOCKS || u64::from(next) >= region.blocks() {
            return None;
        }
        // SAFETY: the caller keeps writers out.
        unsafe { region.read(byte(next), &mut block) };
        let used = u32_at(&block, 8) as usize;
        if used > PAYLOAD || u32_at(&block, 0) != sum_of(next, &block[4..BLOCK_HEADER + used]) {
            return None;
        }
        records.extend(&block[BLOCK_HEADER..BLOCK_HEADER + used]);
        blocks.push(next);
        next = u32_at(&block, 4);
    }
    Some(Chain { attributes: decode(&records)?, blocks })
}

fn sum_of(block: u32, content: &[u8]) -> u32 {
    crc32c_append(crc32c(&block.to_le_bytes()), content)
}

/// Writes records into fresh blocks, the last one first; returns the first block.
fn write_chain(region: &Region, change: &mut Change<'_>, records: &[u8]) -> FsResult<Pointer> {
    let mut next = 0u32;
    for part in records.chunks(PAYLOAD).rev() {
        let number = change.take()?;
        let mut block = [0; BLOCK];
        block[4..8].copy_from_slice(&next.to_le_bytes());
        block[8..12].copy_from_slice(&(part.len() as u32).to_le_bytes());
        block[BLOCK_HEADER..BLOCK_HEADER + part.len()].copy_from_slice(part);
        let sum = sum_of(number, &block[4..BLOCK_HEADER + part.len()]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        // SAFETY: the block is fresh.
        unsafe { region.write(byte(number), &block) };
        change.unsynced.add_block(number);
        next = number;
    }
    Ok(Pointer::resident(next))
}

impl TierFs {
    fn chain(&self, inode: &Inode) -> FsResult<Chain> {
        read_chain(&self.region, inode.xattr).ok_or_else(|| {
            self.region.note_damage();
            Errno::IO
        })
    }

    pub(crate) fn free_xattrs(&self, inode: &Inode) {
        if let Ok(chain) = self.chain(inode) {
            self.give(&FreedSpace { blocks: chain.blocks, ..FreedSpace::default() });
        }
    }

    /// Fails with ENODATA if the attribute does not exist.
    pub(crate) fn get_xattr(&self, ino: u32, name: &[u8]) -> FsResult<Vec<u8>> {
        let found = self.list_xattr(ino)?.into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value).ok_or(Errno::NODATA)
    }

    pub fn list_xattr(&self, ino: u32) -> FsResult<Attributes> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        Ok(self.chain(&self.load(offset)?)?.attributes)
    }

    /// Sets an attribute. With `create` it must be new (EEXIST), with `replace` it must exist (ENODATA).
    pub fn set_xattr(&self, ino: u32, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult<()> {
        if name.is_empty() || name.len() > 255 {
            return Err(Errno::RANGE);
        }
        if value.len() > MAX_VALUE {
            return Err(Errno::TOOBIG);
        }
        self.change_xattrs(ino, false, |attributes| {
            match attributes.iter_mut().find(|(known, _)| known == name) {
                Some(_) if create => return Err(Errno::EXIST),
                None if replace => return Err(Errno::NODATA),
                Some((_, old)) => *old = value.to_vec(),
                None => attributes.push((name.to_vec(), value.to_vec())),
            }
            Ok(())
        })
    }

    /// Fails with ENODATA if the attribute does not exist.
    pub(crate) fn remove_xattr(&self, ino: u32, name: &[u8]) -> FsResult<()> {
        self.change_xattrs(ino, true, |attributes| {
            let before = attributes.len();
            attributes.retain(|(known, _)| known != name);
            if attributes.len() == before { Err(Errno::NODATA) } else { Ok(()) }
        })
    }

    /// Removes file capabilities, as every write does (capabilities(7), "File capabilities").
    pub(crate) fn drop_capability(&self, ino: u32) -> FsResult<()> {
        match self.remove_xattr(ino, b"security.capability") {
            Err(Errno::NODATA) => Ok(()),
            other => other,
        }
    }

    /// Replaces the chain by the result of `edit`; `freeing` if that has fewer attributes. Without a change, takes no block and
    /// only a shared lock.
    fn change_xattrs(&self, ino: u32, freeing: bool, edit: impl Fn(&mut Attributes) -> FsResult<()>) -> FsResult<()> {
        self.changeable()?;
        let (offset, slot) = self.find(ino)?;
        let mut needed = {
            let _guard = slot.lock.read();
            self.edited(&self.load(offset)?, &edit)?.0.len().div_ceil(PAYLOAD)
        };
        loop {
            let mut change = self.begin(needed, freeing)?;
            let _guard = slot.lock.write();
            let mut inode = self.load(offset)?;
            let (records, blocks) = self.edited(&inode, &edit)?;
            if records.len().div_ceil(PAYLOAD) > needed {
                needed = records.len().div_ceil(PAYLOAD);
                continue;
            }
            inode.xattr = write_chain(&self.region, &mut change, &records)?;
            blocks.into_iter().for_each(|block| change.drop_tree(Pointer::resident(block), 0));
            inode.ctime = now();
            change.commit_inode(offset, &inode);
            change.finish(slot);
            return self.settled();
        }
    }

    /// Returns the records of an inode's attributes after `edit`, and their current blocks.
    fn edited(&self, inode: &Inode, edit: impl Fn(&mut Attributes) -> FsResult<()>) -> FsResult<(Vec<u8>, Vec<u32>)> {
        let Chain { mut attributes, blocks } = self.chain(inode)?;
        edit(&mut attributes)?;
        Ok((encode(&attributes).ok_or(Errno::NOSPC)?, blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn attributes_round_trip(
            attributes in proptest::collection::vec(
                (proptest::collection::vec(1u8.., 1..20), proptest::collection::vec(any::<u8>(), 0..60)), 0..30)
        ) {
            prop_assert_eq!(decode(&encode(&attributes).unwrap()), Some(attributes));
        }

        #[test]
        fn foreign_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..BLOCK)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn attributes_beyond_the_limit_are_refused() {
        assert!(encode(&vec![(b"user.a".to_vec(), vec![0; MOST_BLOCKS * PAYLOAD])]).is_none());
    }
}
