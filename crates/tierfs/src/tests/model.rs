//! Compares the file system with a model of plain maps under random operations.

use super::dump::Node;
use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(u8, u8),
    Mkdir(u8, u8),
    Symlink(u8, u8),
    Unlink(u8, u8),
    Rmdir(u8, u8),
    Rename(u8, u8, u8, u8, bool),
    Link(u8, u8, u8, u8),
    Write(u8, u8, u32, u16, u8),
    Truncate(u8, u8, u32),
    Punch(u8, u8, u32, u32),
    Preallocate(u8, u8, u32, u16, bool),
    Read(u8, u8, u32, u16),
    SetXattr(u8, u8, u8, u8),
    RemoveXattr(u8, u8, u8),
    Evict(u16),
    Remount,
}

const MOST_BYTES: u32 = 60_000;

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let (d, n) = (0u8..3, 0u8..6);
    let place = (d.clone(), n.clone());
    let offset = prop_oneof![0..MOST_BYTES, (0..MOST_BYTES / 4096).prop_map(|block| block * 4096)];
    let len = prop_oneof![1u16..20, 1u16..20_000, Just(4096u16), Just(8192u16)];
    prop_oneof![
        3 => place.clone().prop_map(|(d, n)| Op::Create(d, n)),
        2 => place.clone().prop_map(|(d, n)| Op::Mkdir(d, n)),
        1 => place.clone().prop_map(|(d, n)| Op::Symlink(d, n)),
        1 => place.clone().prop_map(|(d, n)| Op::Unlink(d, n)),
        1 => place.clone().prop_map(|(d, n)| Op::Rmdir(d, n)),
        2 => (place.clone(), place.clone(), any::<bool>()).prop_map(|(a, b, f)| Op::Rename(a.0, a.1, b.0, b.1, f)),
        1 => (place.clone(), place.clone()).prop_map(|(a, b)| Op::Link(a.0, a.1, b.0, b.1)),
        8 => (place.clone(), offset.clone(), len.clone(), any::<u8>()).prop_map(|(p, o, l, s)| Op::Write(p.0, p.1, o, l, s)),
        2 => (place.clone(), offset.clone()).prop_map(|(p, o)| Op::Truncate(p.0, p.1, o)),
        2 => (place.clone(), offset.clone(), offset.clone()).prop_map(|(p, o, l)| Op::Punch(p.0, p.1, o, l + 1)),
        1 => (place.clone(), offset.clone(), len.clone(), any::<bool>())
            .prop_map(|(p, o, l, k)| Op::Preallocate(p.0, p.1, o, l, k)),
        4 => (place.clone(), offset, len).prop_map(|(p, o, l)| Op::Read(p.0, p.1, o, l)),
        1 => (place.clone(), 0u8..3, any::<u8>()).prop_map(|(p, n, v)| Op::SetXattr(p.0, p.1, n, v)),
        1 => (place, 0u8..3).prop_map(|(p, n)| Op::RemoveXattr(p.0, p.1, n)),
        4 => (1u16..40).prop_map(Op::Evict),
        1 => Just(Op::Remount),
    ]
}

/// Directory `d`: the root, or `/n0`, `/n1` if they are directories.
fn directory_path(d: u8) -> String {
    if d == 0 { String::new() } else { format!("/n{}", d - 1) }
}

fn name(n: u8) -> String {
    // One name is long, so that a block holds records of different sizes.
    if n == 5 { "n".repeat(200) } else { format!("n{n}") }
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Resolves a path without keeping references.
pub(crate) fn resolve(fs: &TierFs, path: &str) -> FsResult<u32> {
    let mut ino = ROOT_INO;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        ino = fs.lookup(ino, part.as_bytes())?.ino;
        fs.forget(ino, 1);
    }
    Ok(ino)
}

pub(crate) fn new(mode: u32) -> NewInode<'static> {
    NewInode { mode, uid: 0, gid: 0, rdev: 0, target: b"" }
}

/// Applies an operation; returns the bytes read.
pub(crate) fn apply(fs: &TierFs, op: &Op) -> FsResult<Vec<u8>> {
    let at = |d: &u8, n: &u8| resolve(fs, &format!("{}/{}", directory_path(*d), name(*n)));
    let parent = |d: &u8| resolve(fs, &directory_path(*d));
    let create = |d: &u8, n: &u8, new: &NewInode<'_>| -> FsResult<()> {
        let attr = fs.create(parent(d)?, name(*n).as_bytes(), new)?;
        fs.forget(attr.ino, 1);
        Ok(())
    };
    match op {
        Op::Create(d, n) => create(d, n, &new(libc::S_IFREG | 0o644))?,
        Op::Mkdir(d, n) => create(d, n, &new(libc::S_IFDIR | 0o755))?,
        Op::Symlink(d, n) => create(d, n, &NewInode { target: b"some/where", ..new(libc::S_IFLNK | 0o777) })?,
        Op::Unlink(d, n) => fs.unlink(parent(d)?, name(*n).as_bytes())?,
        Op::Rmdir(d, n) => fs.rmdir(parent(d)?, name(*n).as_bytes())?,
        Op::Rename(d, n, e, m, keep) => {
            fs.rename(parent(d)?, name(*n).as_bytes(), parent(e)?, name(*m).as_bytes(), *keep)?
        }
        Op::Link(d, n, e, m) => {
            let ino = at(d, n)?;
            fs.link(ino, parent(e)?, name(*m).as_bytes())?;
            fs.forget(ino, 1);
        }
        Op::Write(d, n, offset, len, seed) => {
            fs.write(at(d, n)?, u64::from(*offset), &pattern(*len as usize, *seed), false)?;
        }
        Op::Truncate(d, n, size) => {
            fs.set_attr(at(d, n)?, &SetAttr { size: Some(u64::from(*size)), ..Default::default() })?;
        }
        Op::Punch(d, n, offset, len) => fs.punch(at(d, n)?, u64::from(*offset), u64::from(*len))?,
        Op::Preallocate(d, n, offset, len, keep) => {
            fs.preallocate(at(d, n)?, u64::from(*offset), u64::from(*len), *keep)?
        }
        Op::Read(d, n, offset, len) => {
            let mut out = vec![0; *len as usize];
            let got = fs.read(at(d, n)?, u64::from(*offset), &mut out)?;
            out.truncate(got);
            return Ok(out);
        }
        Op::SetXattr(d, n, key, value) => fs.set_xattr(
            at(d, n)?,
            format!("user.{key}").as_bytes(),
            &vec![*value; 12 * usize::from(*value)],
            false,
            false,
        )?,
        Op::RemoveXattr(d, n, key) => fs.remove_xattr(at(d, n)?, format!("user.{key}").as_bytes())?,
        Op::Evict(count) => drop(fs.evict(*count as usize)),
        Op::Remount => {}
    }
    Ok(Vec::new())
}

#[derive(Clone, Debug)]
enum ModelNode {
    File(Vec<u8>),
    Directory(BTreeMap<String, usize>),
    Symlink,
}

#[derive(Clone, Debug)]
struct Inode {
    kind: ModelNode,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Reference model: inodes and names.
pub(crate) struct Model(Vec<Inode>);

impl Model {
    pub(crate) fn new() -> Self {
        Self(vec![Inode { kind: ModelNode::Directory(BTreeMap::new()), xattrs: BTreeMap::new() }])
    }

    fn names(&mut self, ino: usize) -> FsResult<&mut BTreeMap<String, usize>> {
        match &mut self.0[ino].kind {
            ModelNode::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn directory(&mut self, d: u8) -> FsResult<usize> {
        match d {
            0 => Ok(0),
            _ => self.names(0)?.get(&name(d - 1)).copied().ok_or(Errno::NOENT),
        }
    }

    fn at(&mut self, d: u8, n: u8) -> FsResult<usize> {
        let parent = self.directory(d)?;
        self.names(parent)?.get(&name(n)).copied().ok_or(Errno::NOENT)
    }

    fn is_directory(&self, ino: usize) -> bool {
        matches!(self.0[ino].kind, ModelNode::Directory(_))
    }

    fn create(&mut self, d: u8, n: u8, kind: ModelNode) -> FsResult<()> {
        let parent = self.directory(d)?;
        if self.names(parent)?.contains_key(&name(n)) {
            return Err(Errno::EXIST);
        }
        self.0.push(Inode { kind, xattrs: BTreeMap::new() });
        let ino = self.0.len() - 1;
        self.names(parent)?.insert(name(n), ino);
        Ok(())
    }

    fn file(&mut self, d: u8, n: u8) -> FsResult<&mut Vec<u8>> {
        let ino = self.at(d, n)?;
        match &mut self.0[ino].kind {
            ModelNode::File(data) => Ok(data),
            ModelNode::Directory(_) => Err(Errno::ISDIR),
            ModelNode::Symlink => Err(Errno::INVAL),
        }
    }

    fn inside(&self, ino: usize, ancestor: usize) -> bool {
        ino == ancestor
            || match &self.0[ancestor].kind {
                ModelNode::Directory(names) => names.values().any(|child| self.inside(ino, *child)),
                _ => false,
            }
    }

    fn rename(&mut self, d: u8, n: u8, e: u8, m: u8, keep: bool) -> FsResult<()> {
        let (from, to) = (self.directory(d)?, self.directory(e)?);
        self.names(from)?;
        self.names(to)?;
        let moved = self.at(d, n)?;
        let replaced = self.names(to)?.get(&name(m)).copied();
        if self.is_directory(moved) && from != to && self.inside(to, moved) {
            return Err(Errno::INVAL);
        }
        if let Some(replaced) = replaced {
            match (self.is_directory(moved), self.is_directory(replaced)) {
                _ if keep => return Err(Errno::EXIST),
                _ if moved == replaced => return Ok(()),
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.names(replaced)?.is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            }
        }
        self.names(from)?.remove(&name(n));
        self.names(to)?.insert(name(m), moved);
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> FsResult<Vec<u8>> {
        match *op {
            Op::Create(d, n) => self.create(d, n, ModelNode::File(Vec::new()))?,
            Op::Mkdir(d, n) => self.create(d, n, ModelNode::Directory(BTreeMap::new()))?,
            Op::Symlink(d, n) => self.create(d, n, ModelNode::Symlink)?,
            Op::Unlink(d, n) => {
                let (parent, ino) = (self.directory(d)?, self.at(d, n)?);
                if self.is_directory(ino) {
                    return Err(Errno::ISDIR);
                }
                self.names(parent)?.remove(&name(n));
            }
            Op::Rmdir(d, n) => {
                let (parent, ino) = (self.directory(d)?, self.at(d, n)?);
                if !self.names(ino)?.is_empty() {
                    return Err(Errno::NOTEMPTY);
                }
                self.names(parent)?.remove(&name(n));
            }
            Op::Rename(d, n, e, m, keep) => self.rename(d, n, e, m, keep)?,
            Op::Link(d, n, e, m) => {
                let ino = self.at(d, n)?;
                let to = self.directory(e)?;
                if self.is_directory(ino) {
                    return Err(Errno::PERM);
                }
                if self.names(to)?.contains_key(&name(m)) {
                    return Err(Errno::EXIST);
                }
                self.names(to)?.insert(name(m), ino);
            }
            Op::Write(d, n, offset, len, seed) => {
                let (data, end) = (self.file(d, n)?, offset as usize + len as usize);
                data.resize(data.len().max(end), 0);
                data[offset as usize..end].copy_from_slice(&pattern(len as usize, seed));
            }
            Op::Truncate(d, n, size) => self.file(d, n)?.resize(size as usize, 0),
            Op::Punch(d, n, offset, len) => {
                let data = self.file(d, n)?;
                let end = (offset as usize + len as usize).min(data.len());
                if let Some(part) = data.get_mut(offset as usize..end) {
                    part.fill(0);
                }
            }
            Op::Preallocate(d, n, offset, len, keep) => {
                let data = self.file(d, n)?;
                if !keep {
                    data.resize(data.len().max(offset as usize + len as usize), 0);
                }
            }
            Op::Read(d, n, offset, len) => {
                let data = self.file(d, n)?;
                let start = data.len().min(offset as usize);
                return Ok(data[start..data.len().min(start + len as usize)].to_vec());
            }
            Op::SetXattr(d, n, key, value) => {
                let ino = self.at(d, n)?;
                self.0[ino].xattrs.insert(format!("user.{key}").into(), vec![value; 12 * usize::from(value)]);
            }
            Op::RemoveXattr(d, n, key) => {
                let ino = self.at(d, n)?;
                self.0[ino].xattrs.remove(format!("user.{key}").as_bytes()).ok_or(Errno::NODATA)?;
            }
            Op::Evict(_) | Op::Remount => {}
        }
        Ok(Vec::new())
    }

    fn dump(&self) -> Dump {
        let mut all = Dump::new();
        self.below(0, "", &mut all);
        all
    }

    fn links(&self, ino: usize) -> u32 {
        let entries = self.0.iter().filter_map(|inode| match &inode.kind {
            ModelNode::Directory(names) => Some(names),
            _ => None,
        });
        match &self.0[ino].kind {
            ModelNode::Directory(names) => 2 + names.values().filter(|child| self.is_directory(**child)).count() as u32,
            _ => entries.flat_map(|names| names.values()).filter(|child| **child == ino).count() as u32,
        }
    }

    fn below(&self, ino: usize, path: &str, all: &mut Dump) {
        let ModelNode::Directory(names) = &self.0[ino].kind else { return };
        for (child_name, child) in names {
            let here = format!("{path}/{child_name}");
            let inode = &self.0[*child];
            let (mode, content) = match &inode.kind {
                ModelNode::File(data) => (libc::S_IFREG | 0o644, data.clone()),
                ModelNode::Directory(_) => (libc::S_IFDIR | 0o755, Vec::new()),
                ModelNode::Symlink => (libc::S_IFLNK | 0o777, b"some/where".to_vec()),
            };
            let node = Node { mode, links: self.links(*child), content, xattrs: inode.xattrs.clone() };
            all.insert(here.clone(), node);
            self.below(*child, &here, all);
        }
    }
}

fn agrees(ops: &[Op], promotion: Promotion) -> Result<(), TestCaseError> {
    let (mut fs, mut nvm, cold) = small(160, 2000);
    let options = Options { promotion, ..Options::default() };
    let mut model = Model::new();
    for op in ops {
        if matches!(op, Op::Remount) {
            fs.close();
            let image = nvm.image();
            prop_assert!(check_image(&image).clean);
            nvm = SimNvm::new(&image);
            fs = open_nvm(&nvm, &cold, &options);
            continue;
        }
        let (ours, theirs) = (apply(&fs, op), model.apply(op));
        prop_assert_eq!(ours, theirs, "{:?}", op);
    }
    prop_assert_eq!(dump(&fs).unwrap(), model.dump());
    fs.close();
    let again = open_image(&nvm.image(), &cold, &options).unwrap();
    prop_assert_eq!(dump(&again).unwrap(), model.dump());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(ops in proptest::collection::vec(op(), 1..80)) {
        agrees(&ops, Promotion::Always)?;
    }

    #[test]
    fn behaves_like_the_model_without_promotion(ops in proptest::collection::vec(op(), 1..80)) {
        agrees(&ops, Promotion::Never)?;
    }
}
