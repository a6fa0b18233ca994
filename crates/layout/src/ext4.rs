//! Reads the inode tables of ext4 from the block device, through the page cache that the mounted file system uses too. Opens no
//! file; reads tables in device order.

use crate::collect::{Collected, Collector, KeptDetails};
use crate::error::LayoutError;
use crate::ext4_format::{self, Content, Geometry, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::extent::Extent;
use crate::fiemap;
use crate::tree::Tree;
use rayon::prelude::*;
use senesce_volume::BlockDevice;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Inodes further apart than this are read separately.
const GAP: u64 = 32 << 10;
const PIECE: u64 = 256 << 10;

#[derive(Debug)]
pub(crate) struct InodeTables {
    device: File,
    geometry: Geometry,
    /// Byte offset of each group's table.
    tables: Vec<u64>,
}

impl InodeTables {
    /// Opens the device with this number; `None` if it is not readable, or the file system uses unsupported features.
    pub(crate) fn open(number: u64) -> Option<Self> {
        let found = BlockDevice::from_number((rustix::fs::major(number), rustix::fs::minor(number)))?;
        let device = File::open(found.path()).ok()?;
        (device.metadata().ok()?.rdev() == number).then_some(())?;
        let mut superblock = [0; SUPERBLOCK_BYTES];
        device.read_exact_at(&mut superblock, SUPERBLOCK_OFFSET).ok()?;
        let geometry = Geometry::parse(&superblock)?;
        let bytes = geometry.groups().checked_mul(geometry.descriptor_size)?;
        // Limited to the size of the file system, whatever its superblock states.
        (bytes < geometry.blocks * geometry.block_size).then_some(())?;
        let mut descriptors = vec![0; usize::try_from(bytes).ok()?];
        device.read_exact_at(&mut descriptors, geometry.descriptors_offset).ok()?;
        let descriptors = descriptors.chunks_exact(geometry.descriptor_size as usize);
        let tables = descriptors.map(|descriptor| geometry.inode_table(descriptor)).collect::<Option<Vec<_>>>()?;
        Some(Self { device, geometry, tables })
    }

    /// Returns the byte offset of an inode on the device.
    fn offset(&self, inode: u64) -> Option<u64> {
        let index = inode.checked_sub(1)?;
        let table = self.tables.get(usize::try_from(index / self.geometry.inodes_per_group).ok()?)?;
        Some(table + index % self.geometry.inodes_per_group * self.geometry.inode_size)
    }

    /// Reads the extents of every file of the tree. For files with unsupported mappings, asks the kernel.
    pub(crate) fn walk(
        &self,
        root: BorrowedFd<'_>,
        shown: &Path,
        tree: &Tree,
        keep: KeptDetails,
    ) -> Result<Collected, LayoutError> {
        let order = tree.by_inode();
        let part = order.len().div_ceil(4 * rayon::current_num_threads()).max(1024);
        let parts = order
            .par_chunks(part)
            .map(|part| {
                let mut reader = Reader::new(self, tree, keep);
                reader.read(part).map_err(|source| LayoutError::io("read the inode tables of", shown, source))?;
                Ok((reader.collector, reader.unknown))
            })
            .collect::<Result<Vec<_>, LayoutError>>()?;
        let (mut collectors, unknown): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let unknown = unknown.concat();
        if !unknown.is_empty() {
            collectors.extend(fiemap::read_files(root, shown, tree, unknown, keep)?);
        }
        Ok(Collector::merge(collectors, tree.files.len()))
    }
}

struct Reader<'a> {
    tables: &'a InodeTables,
    tree: &'a Tree,
    collector: Collector,
    unknown: Vec<u32>,
    piece: Vec<u8>,
    node: Vec<u8>,
    extents: Vec<Extent>,
}

impl<'a> Reader<'a> {
    fn new(tables: &'a InodeTables, tree: &'a Tree, keep: KeptDetails) -> Self {
        Self {
            tables,
            tree,
            collector: Collector::new(keep),
            unknown: Vec::new(),
            piece: Vec::new(),
            node: vec![0; tables.geometry.block_size as usize],
            extents: Vec::new(),
        }
    }

    /// Reads files in the order of their inode numbers.
    fn read(&mut self, files: &[u32]) -> io::Result<()> {
        let offset = |index: u32| self.tables.offset(self.tree.files[index as usize].inode);
        let mut located: Vec<(u64, u32)> = Vec::with_capacity(files.len());
        for &index in files {
            match offset(index) {
                Some(at) => located.push((at, index)),
                None => self.unknown.push(index),
            }
        }
        located.sort_unstable();
        let mut rest = &located[..];
        while let Some(&(start, _)) = rest.first() {
            let joined = rest.windows(2).take_while(|pair| pair[1].0 - pair[0].0 < GAP && pair[1].0 - start < PIECE);
            let count = joined.count() + 1;
            self.read_piece(&rest[..count])?;
            rest = &rest[count..];
        }
        Ok(())
    }

    fn read_piece(&mut self, inodes: &[(u64, u32)]) -> io::Result<()> {
        let size = self.tables.geometry.inode_size;
        let start = inodes[0].0;
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize((inodes[inodes.len() - 1].0 + size - start) as usize, 0);
        self.tables.device.read_exact_at(&mut piece, start)?;
        for &(at, index) in inodes {
            let from = (at - start) as usize;
            self.file(index, &piece[from..from + size as usize])?;
        }
        self.piece = piece;
        Ok(())
    }

    fn file(&mut self, index: u32, inode: &[u8]) -> io::Result<()> {
        self.extents.clear();
        match ext4_format::inode(&self.tables.geometry, inode, &mut self.extents) {
            Content::Gone => self.collector.vanished(index),
            Content::Mapped => self.collector.file(index, &self.extents),
            Content::Unknown => self.unknown.push(index),
            Content::Nodes(nodes, depth) => match self.nodes(nodes, depth)? {
                true => self.collector.file(index, &self.extents),
                false => self.unknown.push(index),
            },
        }
        Ok(())
    }

    /// Reads the nodes below an inode, in order. Returns whether all of them were valid.
    fn nodes(&mut self, nodes: Vec<u64>, depth: u16) -> io::Result<bool> {
        let mut stack: Vec<(u64, u16)> = nodes.into_iter().rev().map(|node| (node, depth)).collect();
        while let Some((at, depth)) = stack.pop() {
            self.tables.device.read_exact_at(&mut self.node, at)?;
            match ext4_format::node(&self.tables.geometry, &self.node, depth, &mut self.extents) {
                Content::Mapped => {}
                Content::Nodes(children, depth) => stack.extend(children.into_iter().rev().map(|node| (node, depth))),
                Content::Gone | Content::Unknown => return Ok(false),
            }
        }
        Ok(true)
    }
}
