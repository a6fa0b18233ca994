//! Extended attributes: one block per inode, replaced as a whole. Records: name length (1 byte), 0, value length
//! (2 bytes), name, value; a name length of 0 ends them.

use crate::error::FsResult;
use crate::format::{BLOCK, Inode, Pointer};
use crate::fs::{TierFs, now};
use crate::region::byte;
use crate::table;
use rustix::io::Errno;

/// Names and values, in order.
pub type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

const HEADER: usize = 4;

/// Reads a block of attributes; `None` if it is malformed.
pub fn decode(block: &[u8]) -> Option<Attributes> {
    let mut attributes = Vec::new();
    let mut rest = block;
    while let [name_len, 0, low, high, tail @ ..] = rest
        && *name_len > 0
    {
        let (name_len, value_len) = (*name_len as usize, u16::from_le_bytes([*low, *high]) as usize);
        let name = tail.get(..name_len)?.to_vec();
        let value = tail.get(name_len..name_len + value_len)?.to_vec();
        rest = &tail[name_len + value_len..];
        attributes.push((name, value));
    }
    (rest.is_empty() || rest[0] == 0).then_some(attributes)
}

/// Writes a block of attributes; `None` if they do not fit.
pub fn encode(attributes: &Attributes) -> Option<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let mut at = 0;
    for (name, value) in attributes {
        let end = at + HEADER + name.len() + value.len();
        if end > BLOCK || name.is_empty() || name.len() > 255 {
            return None;
        }
        block[at] = name.len() as u8;
        block[at + 2..at + 4].copy_from_slice(&(value.len() as u16).to_le_bytes());
        block[at + HEADER..at + HEADER + name.len()].copy_from_slice(name);
        block[at + HEADER + name.len()..end].copy_from_slice(value);
        at = end;
    }
    Some(block)
}

impl TierFs {
    fn attributes(&self, inode: &Inode) -> FsResult<Attributes> {
        if inode.xattr.is_hole() {
            return Ok(Vec::new());
        }
        let mut block = [0; BLOCK];
        // SAFETY: the caller has locked the inode.
        unsafe { self.region.read(byte(inode.xattr.address()), &mut block) };
        decode(&block).ok_or(Errno::IO)
    }

    /// The value of an attribute; ENODATA if there is none.
    pub fn get_xattr(&self, ino: u32, name: &[u8]) -> FsResult<Vec<u8>> {
        let found = self.list_xattr(ino)?.into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value).ok_or(Errno::NODATA)
    }

    /// All attributes.
    pub fn list_xattr(&self, ino: u32) -> FsResult<Attributes> {
        let (offset, slot) = self.find(ino)?;
        let _guard = slot.lock.read();
        self.attributes(&self.load(offset)?)
    }

    /// Sets an attribute. With `create` it must be new (EEXIST), with `replace` it must exist (ENODATA).
    pub fn set_xattr(&self, ino: u32, name: &[u8], value: &[u8], create: bool, replace: bool) -> FsResult<()> {
        if name.is_empty() || name.len() > 255 {
            return Err(Errno::RANGE);
        }
        if value.len() > BLOCK {
            return Err(Errno::NOSPC);
        }
        self.change_xattrs(ino, |attributes| {
            match attributes.iter_mut().find(|(known, _)| known == name) {
                Some(_) if create => return Err(Errno::EXIST),
                None if replace => return Err(Errno::NODATA),
                Some((_, old)) => *old = value.to_vec(),
                None => attributes.push((name.to_vec(), value.to_vec())),
            }
            Ok(())
        })
    }

    /// Removes an attribute; ENODATA if there is none.
    pub fn remove_xattr(&self, ino: u32, name: &[u8]) -> FsResult<()> {
        self.change_xattrs(ino, |attributes| {
            let before = attributes.len();
            attributes.retain(|(known, _)| known != name);
            if attributes.len() == before { Err(Errno::NODATA) } else { Ok(()) }
        })
    }

    /// Drops the capabilities of a program, as every write does (capabilities(7), "File capabilities").
    pub fn drop_capability(&self, ino: u32) -> FsResult<()> {
        let (offset, slot) = self.find(ino)?;
        let has_none = {
            let _guard = slot.lock.read();
            self.load(offset)?.xattr.is_hole()
        };
        if has_none {
            return Ok(());
        }
        match self.remove_xattr(ino, b"security.capability") {
            Err(Errno::NODATA) => Ok(()),
            other => other,
        }
    }

    fn change_xattrs(&self, ino: u32, edit: impl FnOnce(&mut Attributes) -> FsResult<()>) -> FsResult<()> {
        let (offset, slot) = self.find(ino)?;
        let mut change = self.begin(1, false)?;
        let _guard = slot.lock.write();
        let mut inode = self.load(offset)?;
        let mut attributes = self.attributes(&inode)?;
        edit(&mut attributes)?;
        change.drop_tree(inode.xattr, 0);
        inode.xattr = Pointer::HOLE;
        if !attributes.is_empty() {
            let encoded = encode(&attributes).ok_or(Errno::NOSPC)?;
            let block = change.take()?;
            // SAFETY: the block is fresh.
            unsafe { self.region.write(byte(block), &encoded) };
            self.region.persist_block(block);
            inode.xattr = Pointer::resident(block);
        }
        inode.ctime = now();
        table::commit(&self.region, offset, &inode);
        change.finish(slot);
        self.settled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn attributes_survive_a_round_trip(
            attributes in proptest::collection::vec(
                (proptest::collection::vec(1u8.., 1..20), proptest::collection::vec(any::<u8>(), 0..60)), 0..30)
        ) {
            if let Some(block) = encode(&attributes) {
                prop_assert_eq!(decode(&block), Some(attributes));
            }
        }

        #[test]
        fn foreign_blocks_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), BLOCK)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_full_block_is_refused() {
        assert!(encode(&vec![(b"user.a".to_vec(), vec![0; BLOCK])]).is_none());
    }
}
