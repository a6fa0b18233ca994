//! The visible state of a file system as plain data, without times.

use crate::TierFs;
use crate::error::FsResult;
use crate::format::ROOT_INO;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub mode: u32,
    pub links: u32,
    pub content: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub(crate) type Dump = BTreeMap<String, Node>;

pub(crate) fn dump(fs: &TierFs) -> FsResult<Dump> {
    let mut all = Dump::new();
    below(fs, ROOT_INO, "", &mut all)?;
    Ok(all)
}

fn below(fs: &TierFs, ino: u32, path: &str, all: &mut Dump) -> FsResult<()> {
    for (name, child) in super::entries(fs, ino)? {
        let here = format!("{path}/{}", String::from_utf8_lossy(&name));
        let attr = fs.get_attr(child)?;
        let content = match attr.mode & libc::S_IFMT {
            libc::S_IFREG => super::read_all(fs, child)?,
            libc::S_IFLNK => fs.read_link(child)?,
            _ => Vec::new(),
        };
        let xattrs = fs.list_xattr(child)?.into_iter().collect();
        all.insert(here.clone(), Node { mode: attr.mode, links: attr.links, content, xattrs });
        if attr.mode & libc::S_IFMT == libc::S_IFDIR {
            below(fs, child, &here, all)?;
        }
    }
    Ok(())
}
