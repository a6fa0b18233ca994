//! A region with a small file system in which bytes were changed: `check` must judge it without panic or endless loop, and
//! what it calls sound must be mountable and readable.

use senesce_tierfs::cold::AlignedBuffer;
use senesce_tierfs::format::{BLOCK, Identity, ROOT_INO};
use senesce_tierfs::open::format_region;
use senesce_tierfs::{ColdStore, MappedNvm, NewInode, Nvm, Options, TierFs, check};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

const BLOCKS: u64 = 160;
const SLOTS: u64 = 64;
/// A patch: where (4 bytes, modulo the size of the region) and what (8 bytes), little-endian.
const PATCH: usize = 12;

struct Zeros;

impl ColdStore for Zeros {
    fn read(&self, _: u32, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        Ok(())
    }
    fn write(&self, _: u32, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "zeros".into()
    }
}

fn memory(image: &[u8]) -> Box<dyn Nvm> {
    let nvm = MappedNvm::anonymous(image.len() as u64).expect("memory");
    // SAFETY: fresh memory of that size.
    unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), nvm.base(), image.len()) };
    Box::new(nvm)
}

/// Memory whose bytes can be looked at after the file system is gone.
struct Buffer(*mut u8, AlignedBuffer);
// SAFETY: the buffer is owned and used by one thread.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}
// SAFETY: the buffer's memory never moves.
unsafe impl Nvm for &'static Buffer {
    fn base(&self) -> *mut u8 {
        self.0
    }
    fn len(&self) -> usize {
        self.1.len()
    }
    fn persist_all(&self, _: &[std::ops::Range<usize>]) {}
    fn durability(&self) -> &'static str {
        "none"
    }
}

/// A file in memory and in the cold store, a directory with many names, links, an attribute.
fn sound() -> &'static [u8] {
    // The buffer itself is kept, so that a search for leaks finds it.
    static IMAGE: OnceLock<&'static Buffer> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let mut room = AlignedBuffer::new(BLOCKS as usize);
        let base = room.as_mut_ptr();
        let buffer: &'static Buffer = Box::leak(Box::new(Buffer(base, room)));
        let nvm = format_region(Box::new(buffer), &Identity { pair: [7; 16], blocks: BLOCKS, slots: SLOTS });
        let fs =
            TierFs::open(nvm.expect("format"), Box::new(Zeros), Path::new("image"), &Options::default()).expect("open");
        let new = |mode: u32| {
            let target: &[u8] = if mode & libc::S_IFMT == libc::S_IFLNK { b"file" } else { b"" };
            NewInode { mode, uid: 0, gid: 0, rdev: 0, target }
        };
        let file = fs.create(ROOT_INO, b"file", &new(libc::S_IFREG | 0o644)).expect("create").ino;
        fs.write(file, 0, &[0; 20 * BLOCK], false).expect("write");
        fs.evict(8);
        let folder = fs.create(ROOT_INO, b"folder", &new(libc::S_IFDIR | 0o755)).expect("mkdir").ino;
        for number in 0..100 {
            fs.create(folder, format!("name-{number}").as_bytes(), &new(libc::S_IFREG | 0o600)).expect("create");
        }
        fs.create(folder, b"symlink", &new(libc::S_IFLNK | 0o777)).expect("symlink");
        fs.link(file, folder, b"link").expect("link");
        fs.set_xattr(file, b"user.name", b"value", false, false).expect("setxattr");
        fs.close();
        buffer
    });
    // SAFETY: the file system is closed; the buffer lives for ever.
    unsafe { std::slice::from_raw_parts(image.0, BLOCKS as usize * BLOCK) }
}

/// Applies `patches` to the sound image and judges the result; says whether `check` called it sound.
pub fn exercise(patches: &[u8]) -> bool {
    let mut image = sound().to_vec();
    for patch in patches.chunks_exact(PATCH) {
        let at = u32::from_le_bytes([patch[0], patch[1], patch[2], patch[3]]) as usize % (image.len() - 8);
        image[at..at + 8].copy_from_slice(&patch[4..]);
    }
    let Ok(report) = check(memory(&image), None, Path::new("image")) else { return false };
    let opened = TierFs::open(memory(&image), Box::new(Zeros), Path::new("image"), &Options::default());
    if !report.problems.is_empty() {
        return false;
    }
    let fs = opened.expect("what check calls sound is mounted");
    read_below(&fs, ROOT_INO, 0);
    fs.close();
    true
}

fn read_below(fs: &TierFs, ino: u32, depth: usize) {
    assert!(depth < 200, "a loop of directories");
    let mut children = Vec::new();
    let listed = fs.read_directory(ino, 0, &mut |entry, name, _| {
        if name != b"." && name != b".." {
            children.push((entry.ino, name.to_vec()));
        }
        true
    });
    listed.expect("a sound directory is listed");
    for (child, name) in children {
        let attr = fs.lookup(ino, &name).expect("a listed name is found");
        assert_eq!(attr.ino, child);
        let _ = fs.list_xattr(child);
        match attr.mode & libc::S_IFMT {
            libc::S_IFREG => {
                let mut piece = vec![0; 3 * BLOCK];
                for at in [0, attr.size / 2, attr.size.saturating_sub(1)] {
                    let _ = fs.read(child, at, &mut piece);
                }
            }
            libc::S_IFLNK => drop(fs.read_link(child)),
            libc::S_IFDIR => read_below(fs, child, depth + 1),
            _ => {}
        }
        fs.forget(child, 1);
    }
}
