//! Random corruption: names, links, sizes, attributes and evicted content stay correct, or the damage is detected.

use super::corruption_bytes::{BytesOfName, bytes_of_inodes, bytes_of_names};
use super::*;
use crate::format::{Identity, superblock};
use crate::open::identify;
use crate::survey::{Purpose, survey};
use crate::{Attr, Nvm};
use rand_pcg::Pcg64;
use std::collections::BTreeSet;
use std::ops::Range;

const BLOCKS: u64 = 1200;
const SLOTS: u64 = 3000;

#[derive(Debug, Clone, PartialEq, Eq)]
struct InodeView {
    attr: Attr,
    content: Vec<FsResult<Vec<u8>>>,
    xattrs: FsResult<Vec<(Vec<u8>, Vec<u8>)>>,
    names: Option<FsResult<BTreeMap<Vec<u8>, u32>>>,
}

type Tree = BTreeMap<String, FsResult<InodeView>>;

struct Sample {
    image: Vec<u8>,
    cold: SimCold,
    tree: Tree,
    /// Metadata of the region: block, and its used bytes.
    metadata: Vec<(usize, usize)>,
    /// Bytes on which an inode depends.
    inodes: Vec<(Range<usize>, u32)>,
    names: Vec<BytesOfName>,
}

fn populate(fs: &TierFs) -> FsResult<()> {
    let folder =
        |parent, name: &str| fs.create(parent, name.as_bytes(), &new(libc::S_IFDIR | 0o755)).map(|attr| attr.ino);
    let file =
        |parent, name: &str| fs.create(parent, name.as_bytes(), &new(libc::S_IFREG | 0o640)).map(|attr| attr.ino);
    let (a, b) = (folder(ROOT_INO, "a")?, folder(ROOT_INO, "b")?);
    let c = folder(b, "c")?;
    let big = file(a, "big")?;
    fs.write(big, 0, &pattern(300 * BLOCK, 1), false)?;
    let sparse = file(b, "sparse")?;
    fs.write(sparse, 600 * BLOCK as u64, &pattern(3 * BLOCK + 77, 2), false)?;
    fs.write(file(c, "small")?, 0, &pattern(900, 3), false)?;
    fs.evict(250);
    fs.write(file(c, "hot")?, 0, &pattern(9 * BLOCK, 4), false)?;
    for number in 0..260 {
        let name = format!("a-file-with-a-name-of-some-length-{number}");
        let ino = file(c, &name)?;
        if number % 50 == 0 {
            fs.write(ino, 0, &pattern(number, 5), false)?;
            fs.set_xattr(ino, b"user.color", b"green", false, false)?;
        }
    }
    for number in 0..30 {
        fs.set_xattr(big, format!("user.attribute-{number}").as_bytes(), &pattern(300, number), false, false)?;
        let target = vec![b'a' + number % 26; 100 * usize::from(number) + 1];
        let link = NewInode { target: &target, ..new(libc::S_IFLNK | 0o777) };
        fs.create(a, format!("link-{number}").as_bytes(), &link)?;
    }
    fs.link(big, c, b"another-name")?;
    fs.unlink(c, b"a-file-with-a-name-of-some-length-7")?;
    Ok(())
}

impl Sample {
    fn new() -> Self {
        let (nvm, cold) = (SimNvm::new(&empty_image(BLOCKS, SLOTS)), SimCold::default());
        let fs = open_nvm(&nvm, &cold, &Options::default());
        populate(&fs).unwrap();
        fs.close();
        let image = nvm.image();
        let fs = open_image(&image, &cold, &Options::default()).unwrap();
        assert!(fs.stats().cold_blocks > 200);
        let tree = tree_of(&fs);
        assert!(tree.len() > 290, "{}", tree.len());
        let metadata = metadata_of(&image);
        let (inodes, names) = (bytes_of_inodes(&fs), bytes_of_names(&fs));
        assert!(inodes.len() > 290 && names.len() > 290, "{} {}", inodes.len(), names.len());
        Self { image, cold, tree, metadata, inodes, names }
    }

    /// Paths and inodes that do not depend on the word at byte `at` of the region; all for `None`.
    fn unaffected(&self, at: Option<usize>) -> (BTreeSet<&str>, BTreeSet<u32>) {
        let is_hit = |bytes: &Range<usize>| at.is_some_and(|at| bytes.start < at + 8 && at < bytes.end);
        let lost: BTreeSet<u32> = self.inodes.iter().filter(|(bytes, _)| is_hit(bytes)).map(|(_, ino)| *ino).collect();
        let nameless: BTreeSet<_> =
            self.names.iter().filter(|(bytes, _)| is_hit(bytes)).map(|(_, name)| name).collect();
        let mut paths = BTreeSet::from([""]);
        let mut inodes = BTreeSet::new();
        // Directories come before their content.
        for (path, seen) in &self.tree {
            let ino = seen.as_ref().unwrap().attr.ino;
            if !lost.contains(&ino) {
                inodes.insert(ino);
            }
            let Some((parent, name)) = path.rsplit_once('/') else { continue };
            let holder = self.tree[parent].as_ref().unwrap().attr.ino;
            let has_name = !nameless.contains(&(holder, name.as_bytes().to_vec()));
            if has_name && paths.contains(parent) && !lost.contains(&holder) && !lost.contains(&ino) {
                paths.insert(path);
            }
        }
        (paths, inodes)
    }

    /// Location to damage: in the superblock, another metadata block, or an evicted one (`Err`).
    fn target(&self, rng: &mut Pcg64) -> Result<usize, u32> {
        let slots = self.cold.slots();
        match rng.next_u32() % 8 {
            0..3 => Err(slots[rng.next_u32() as usize % slots.len()]),
            3 => Ok(rng.next_u32() as usize % 400),
            _ => {
                let (start, len) = self.metadata[rng.next_u32() as usize % self.metadata.len()];
                Ok(start + rng.next_u32() as usize % len)
            }
        }
    }
}

/// The superblock's used bytes and all used blocks except file content.
fn metadata_of(image: &[u8]) -> Vec<(usize, usize)> {
    let identity = identify(&*anonymous(image), Path::new("image")).unwrap();
    let found = survey(&Region::new(anonymous(image)), identity, Purpose::default());
    let is_content = |block: u32| {
        found.heat.sweep(block);
        found.heat.sweep(block).is_some()
    };
    let blocks = (1..BLOCKS as u32).filter(|block| found.blocks.set(*block) && !is_content(*block));
    let blocks: Vec<_> = blocks.map(|block| (block as usize * BLOCK, BLOCK - 7)).collect();
    assert!(blocks.len() > 40, "{}", blocks.len());
    blocks
}

/// Changes one to eight adjacent bytes.
fn damage(bytes: &mut [u8], at: usize, rng: &mut Pcg64) {
    let len = 1 + rng.next_u32() as usize % 8;
    let zeros = rng.next_u32().is_multiple_of(8);
    for byte in bytes.iter_mut().skip(at).take(len) {
        *byte = if zeros { 0 } else { *byte ^ (1 + rng.next_u32() % 255) as u8 };
    }
}

fn tree_of(fs: &TierFs) -> Tree {
    let mut tree = Tree::new();
    read_below(fs, ROOT_INO, "", &mut tree, 0);
    tree
}

fn read_below(fs: &TierFs, ino: u32, path: &str, tree: &mut Tree, depth: usize) {
    assert!(depth < 20, "a loop of directories");
    let seen = fs.get_attr(ino).map(|attr| view(fs, ino, attr));
    let names = seen.as_ref().ok().and_then(|seen| seen.names.clone());
    tree.insert(path.into(), seen);
    for (name, child) in names.and_then(Result::ok).unwrap_or_default() {
        let here = format!("{path}/{}", String::from_utf8_lossy(&name));
        match fs.lookup(ino, &name) {
            Ok(attr) => {
                assert_eq!(attr.ino, child, "{here}");
                read_below(fs, child, &here, tree, depth + 1);
                fs.forget(child, 1);
            }
            Err(error) => drop(tree.insert(here, Err(error))),
        }
    }
}

fn view(fs: &TierFs, ino: u32, attr: Attr) -> InodeView {
    let (mut content, mut names) = (Vec::new(), None);
    match attr.mode & libc::S_IFMT {
        libc::S_IFREG => {
            for start in (0..attr.size).step_by(BLOCK) {
                let mut block = vec![0xaa; BLOCK.min((attr.size - start) as usize)];
                content.push(fs.read(ino, start, &mut block).map(|got| block[..got].to_vec()));
            }
        }
        libc::S_IFLNK => content.push(fs.read_link(ino)),
        libc::S_IFDIR => {
            names = Some(entries(fs, ino));
        }
        _ => {}
    }
    let attr = Attr { atime: 0, ..attr };
    InodeView { attr, content, xattrs: fs.list_xattr(ino), names }
}

fn same_or_error<T: PartialEq + std::fmt::Debug>(now: &FsResult<T>, then: &FsResult<T>, what: &str) -> bool {
    assert!(now == then || *now == Err(Errno::IO), "{what} is wrong and nobody said so");
    now.is_err()
}

/// Compares with the original: everything is equal, or EIO. Returns whether there was an error. After a repair, paths and
/// extended attributes may be missing and directories may have other attributes.
fn compare(now: &Tree, then: &Tree, repaired: bool, what: &str) -> bool {
    let mut errors = now.values().any(Result::is_err);
    for (path, seen) in now {
        let Ok(seen) = seen else { continue };
        if repaired && path.starts_with("/lost+found") {
            continue;
        }
        let Some(Ok(before)) = then.get(path) else { panic!("{what}: {path} was never there") };
        let forgiving = |attr: Attr| match repaired && attr.mode & libc::S_IFMT != libc::S_IFREG {
            true => Attr { links: 0, size: 0, mtime: 0, ctime: 0, ..attr },
            false => attr,
        };
        let relinked = |attr: Attr| if repaired { Attr { links: 0, blocks: 0, ..forgiving(attr) } } else { attr };
        if repaired && path.is_empty() {
            continue;
        }
        assert_eq!(relinked(seen.attr), relinked(before.attr), "{what}: attributes of {path}");
        assert_eq!(seen.content.len(), before.content.len(), "{what}: {path}");
        for (index, (now, then)) in seen.content.iter().zip(&before.content).enumerate() {
            errors |= same_or_error(now, then, &format!("{what}: block {index} of {path}"));
        }
        let gave_up = repaired && seen.xattrs.as_ref().is_ok_and(Vec::is_empty);
        errors |= !gave_up && same_or_error(&seen.xattrs, &before.xattrs, &format!("{what}: attributes of {path}"));
        if let (Some(now), Some(then), false) = (&seen.names, &before.names, repaired) {
            errors |= same_or_error(now, then, &format!("{what}: names in {path}"));
        }
    }
    errors
}

/// A damaged copy of the sample, the first damaged byte of the region, and a description.
fn damaged(sample: &Sample, rng: &mut Pcg64) -> (Vec<u8>, SimCold, Option<usize>, String) {
    let (mut image, cold) = (sample.image.clone(), sample.cold.crash(Survivors::All, rng));
    let target = sample.target(rng);
    let what = match target {
        Ok(at) => {
            damage(&mut image, at, rng);
            format!("byte {} of block {}", at % BLOCK, at / BLOCK)
        }
        Err(slot) => {
            let at = rng.next_u32() as usize % BLOCK;
            cold.change(slot, |content| damage(content, at, rng));
            format!("byte {at} of slot {slot}")
        }
    };
    (image, cold, target.ok(), what)
}

#[test]
fn random_corruptions_are_detected_or_harmless() {
    let sample = Sample::new();
    let mut rng = Seed(25).stream("tierfs/corruption");
    let (mut refused, mut unreadable, mut harmless) = (0, 0, 0);
    for round in 0..300 {
        let (image, cold, _, what) = damaged(&sample, &mut rng);
        let what = format!("round {round}, {what}");
        let report = check(anonymous(&image), Some(&cold), Path::new("image"));
        let mounted = open_image(&image, &cold, &Options::default());
        let Ok(report) = report else {
            assert!(mounted.is_err(), "{what}: a mount takes what a check refuses");
            refused += 1;
            continue;
        };
        assert_eq!(report.problems.is_empty(), mounted.is_ok(), "{what}: {report:?}");
        let Ok(fs) = mounted else {
            refused += 1;
            continue;
        };
        let errors = compare(&tree_of(&fs), &sample.tree, false, &what);
        assert_eq!(errors, !report.damaged_blocks.is_empty(), "{what}: {report:?}");
        assert_eq!(errors, fs.stats().damaged_block_reads > 0, "{what}");
        let scrubbed = fs.scrub();
        assert_eq!(scrubbed.damaged_blocks > 0, errors, "{what}: {scrubbed:?}");
        if errors { unreadable += 1 } else { harmless += 1 }
    }
    assert!(refused > 60 && unreadable > 60 && harmless > 10, "{refused} {unreadable} {harmless}");
}

#[test]
fn corruptions_of_a_mounted_region_are_detected_or_harmless() {
    let sample = Sample::new();
    let mut rng = Seed(26).stream("tierfs/corruption-mounted");
    let mut seen = 0;
    for round in 0..120 {
        let nvm = SimNvm::new(&sample.image);
        let cold = sample.cold.crash(Survivors::All, &mut rng);
        let fs = open_nvm(&nvm, &cold, &Options::default());
        let Ok(at) = sample.target(&mut rng) else { continue };
        // SAFETY: no thread uses the file system.
        damage(unsafe { std::slice::from_raw_parts_mut(nvm.base(), nvm.len()) }, at, &mut rng);
        let what = format!("round {round}, byte {} of block {}", at % BLOCK, at / BLOCK);
        let scrubbed = fs.scrub();
        let errors = compare(&tree_of(&fs), &sample.tree, false, &what);
        let sums = at / BLOCK >= 2
            && at / BLOCK < 2 + Identity { pair: [0; 16], blocks: BLOCKS, slots: SLOTS }.sum_blocks() as usize;
        assert!(!errors || sums || scrubbed.damaged_metadata > 0, "{what}: {scrubbed:?}");
        seen += u32::from(scrubbed.damaged_metadata > 0);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn repairs_leave_a_sound_file_system() {
    let sample = Sample::new();
    let mut rng = Seed(27).stream("tierfs/repair");
    let (mut repaired, mut kept) = (0, 0);
    for round in 0..300 {
        let (image, cold, at, what) = damaged(&sample, &mut rng);
        let what = format!("round {round}, {what}");
        let nvm = SimNvm::new(&image);
        let report = match repair(Box::new(nvm.clone()), Box::new(cold.clone()), Path::new("image")) {
            Ok(report) => report,
            // For files, the header is restored from the cold store's.
            Err(_) if at.is_some_and(|at| at < superblock::STATE) => continue,
            Err(error) => panic!("{what}: {error}"),
        };
        repaired += u32::from(!report.lost.is_empty() || !report.restored.is_empty());
        kept += u32::from(!report.kept.is_empty());
        let after = check(anonymous(&nvm.image()), None, Path::new("image")).unwrap();
        assert!(after.problems.is_empty() && after.clean, "{what}: {report:?} {after:?}");
        let fs = open_image(&nvm.image(), &cold, &Options::default()).unwrap();
        let now = tree_of(&fs);
        compare(&now, &sample.tree, true, &what);
        let (paths, inodes) = sample.unaffected(at);
        let missing: Vec<_> = paths.into_iter().filter(|path| !now.contains_key(*path)).collect();
        assert!(missing.is_empty(), "{what}: {missing:?} are gone: {report:?}");
        let kept: BTreeSet<u32> = now.values().flatten().map(|seen| seen.attr.ino).collect();
        let missing: Vec<_> = inodes.difference(&kept).collect();
        assert!(missing.is_empty(), "{what}: inodes {missing:?} are gone: {report:?}");
    }
    assert!(repaired > 60 && kept > 2, "{repaired} {kept}");
}

#[test]
fn a_bad_evicted_block_is_eio_counted_and_can_be_overwritten() {
    let (fs, _, cold) = small(400, 1000);
    let ino = filled(&fs, "f", 20, 1);
    assert_eq!(fs.evict(20), 20);
    let slot = cold.slots()[5];
    cold.change(slot, |content| content[99] ^= 1);
    assert_eq!((read_all(&fs, ino), fs.stats().damaged_block_reads), (Err(Errno::IO), 1));
    let read = |at: &u64| fs.read(ino, at * BLOCK as u64, &mut [0; BLOCK]);
    let unreadable: Vec<u64> = (0..20).filter(|at| read(at).is_err()).collect();
    assert_eq!(unreadable.len(), 1);
    let at = unreadable[0] * BLOCK as u64;
    assert_eq!(fs.write(ino, at + 5, b"part", false), Err(Errno::IO));
    fs.write(ino, at, &[7; BLOCK], false).unwrap();
    assert_eq!(read_all(&fs, ino).unwrap()[at as usize..][..BLOCK], [7; BLOCK]);
}

#[test]
fn blocks_without_sums_are_read_as_they_are() {
    let options = Options { block_sums: false, ..Options::default() };
    let cold = SimCold::default();
    let fs = open_image(&empty_image(400, 1000), &cold, &options).unwrap();
    let ino = filled(&fs, "f", 4, 1);
    evict_to(&fs, 4);
    cold.change(cold.slots()[0], |content| content[99] ^= 1);
    assert_ne!(read_all(&fs, ino).unwrap(), pattern(4 * BLOCK, 1));
    assert_eq!(fs.stats().damaged_block_reads, 0);
}
