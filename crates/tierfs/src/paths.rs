use crate::file::B;
use crate::format::ROOT_INO;
use crate::record::scan_block;
use crate::region::Region;
use crate::survey::{CheckedWalk, Survey, VisitedBlock};
use crate::table::{InodeSlot, inspect};
use std::collections::{BTreeMap, BTreeSet};

/// Returns parent directory and name of `wanted` inodes and of all directories, as far as directories are readable.
fn names(region: &Region, found: &Survey, wanted: &BTreeSet<u32>) -> BTreeMap<u32, (u32, String)> {
    let mut names = BTreeMap::new();
    let careful = CheckedWalk::new(region);
    for ino in 1..found.table.end() {
        let Ok(offset) = found.table.offset(ino) else { continue };
        let (InodeSlot::Used(inode), Some(_)) = (inspect(region, offset), found.directories.get(ino)) else { continue };
        let blocks = (inode.size / B).min(region.blocks()) as u32;
        careful.blocks(inode.root, blocks, &mut |_, met| {
            let VisitedBlock::Block(block) = met else { return };
            // Damage is reported elsewhere.
            let _ = scan_block(region, block, 0, 0, &mut |entry, name| {
                if wanted.contains(&entry.ino) || found.directories.get(entry.ino).is_some() {
                    names.entry(entry.ino).or_insert((ino, String::from_utf8_lossy(name).into_owned()));
                }
                true
            });
        });
    }
    names
}

/// Returns the paths of `inodes` that are reachable from the root.
pub(crate) fn paths_of(
    region: &Region,
    found: &Survey,
    inodes: impl IntoIterator<Item = u32>,
) -> BTreeMap<u32, String> {
    let wanted: BTreeSet<u32> = inodes.into_iter().filter(|ino| *ino != 0).collect();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let names = names(region, found, &wanted);
    wanted.iter().filter_map(|ino| Some((*ino, path_of(*ino, &names)?))).collect()
}

fn path_of(mut ino: u32, names: &BTreeMap<u32, (u32, String)>) -> Option<String> {
    let mut parts = Vec::new();
    while ino != ROOT_INO {
        let (parent, name) = names.get(&ino).filter(|_| parts.len() <= names.len())?;
        parts.push(name.as_str());
        ino = *parent;
    }
    parts.reverse();
    Some(format!("/{}", parts.join("/")))
}
