//! File operations of the BPFS microbenchmark with their untimed preparation (`data/bpfs/microbench.csv`).

use rustix::fs::{AtFlags, FallocateFlags, Gid, Mode, OFlags, RawDir, Uid, XattrFlags};
use rustix::io::Errno;
use senesce_sys::extents::ExtentMap;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) struct BatchDirectory<'a> {
    pub directory: BorrowedFd<'a>,
    /// First name of each instance (`a0`, `a1` ...).
    pub a: Vec<CString>,
    pub b: Vec<CString>,
    /// A name inside of the first as directory.
    pub a_inner: Vec<CString>,
    /// A name inside of the second as directory.
    pub b_inner: Vec<CString>,
    pub content: &'a [u8],
    /// Own user and group, for chown.
    pub owner: (Uid, Gid),
}

impl<'a> BatchDirectory<'a> {
    pub(crate) fn new(directory: BorrowedFd<'a>, count: usize, content: &'a [u8]) -> Self {
        let names = |form: &dyn Fn(usize) -> String| -> Vec<CString> {
            (0..count).map(|index| CString::new(form(index)).unwrap_or_default()).collect()
        };
        Self {
            directory,
            a: names(&|index| format!("a{index}")),
            b: names(&|index| format!("b{index}")),
            a_inner: names(&|index| format!("a{index}/c")),
            b_inner: names(&|index| format!("b{index}/c")),
            content,
            owner: (rustix::process::geteuid(), rustix::process::getegid()),
        }
    }

    fn open(&self, path: &CString, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(self.directory, path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
    }

    /// Creates a file of `size` bytes by writes of 16 KiB.
    fn file(&self, path: &CString, size: u64) -> Result<(), Errno> {
        let file = self.open(path, OFlags::WRONLY | OFlags::CREATE)?;
        let mut left = size;
        while left > 0 {
            let piece = left.min(16 << 10);
            write_all(&file, &self.content[..piece as usize])?;
            left -= piece;
        }
        Ok(())
    }

    /// Returns content for a timed write, different from the preparation's.
    fn tail(&self, bytes: u64) -> &[u8] {
        &self.content[self.content.len() - bytes as usize..]
    }

    fn directory(&self, path: &CString) -> Result<(), Errno> {
        rustix::fs::mkdirat(self.directory, path, Mode::from_raw_mode(0o755))
    }
}

fn write_all(file: &OwnedFd, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        let written = rustix::io::write(file, data)?;
        data = &data[written..];
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Act {
    Empty,
    Create,
    MakeDirectory,
    Symlink,
    Unlink { size: u64 },
    RemoveDirectory,
    UnlinkSymlink,
    RenameFileIntra,
    RenameFileInter,
    RenameFileClobber,
    RenameDirectoryIntra,
    RenameDirectoryInter,
    RenameDirectoryClobber,
    Link,
    UnlinkHardLink,
    ChangeMode,
    ChangeOwner,
    Append { before: u64, bytes: u64 },
    Write { bytes: u64, offset: u64 },
    Read,
    ReadDirectory,
    Allocate { bytes: u64 },
    PunchHole { bytes: u64 },
    Extents,
    Replace { bytes: u64 },
    SetAttribute,
    GetAttribute,
}

/// An operation with its name in `microbench.csv`.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub name: &'static str,
    pub act: Act,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn operation(name: &'static str, act: Act) -> Operation {
    Operation { name, act }
}

pub const OPERATIONS: &[Operation] = &[
    operation("empty", Act::Empty),
    operation("create", Act::Create),
    operation("mkdir", Act::MakeDirectory),
    operation("symlink", Act::Symlink),
    operation("unlink_0B", Act::Unlink { size: 0 }),
    operation("unlink_4k", Act::Unlink { size: 4 * KIB }),
    operation("unlink_1M", Act::Unlink { size: MIB }),
    operation("unlink_16M", Act::Unlink { size: 16 * MIB }),
    operation("rmdir", Act::RemoveDirectory),
    operation("unlink_symlink", Act::UnlinkSymlink),
    operation("rename_file_intra", Act::RenameFileIntra),
    operation("rename_file_inter", Act::RenameFileInter),
    operation("rename_file_clobber", Act::RenameFileClobber),
    operation("rename_dir_intra", Act::RenameDirectoryIntra),
    operation("rename_dir_inter", Act::RenameDirectoryInter),
    operation("rename_dir_clobber", Act::RenameDirectoryClobber),
    operation("link", Act::Link),
    operation("unlink_hardlink", Act::UnlinkHardLink),
    operation("chmod", Act::ChangeMode),
    operation("chown", Act::ChangeOwner),
    operation("append_0B_8B", Act::Append { before: 0, bytes: 8 }),
    operation("append_8B_8B", Act::Append { before: 8, bytes: 8 }),
    operation("append_0B_4k", Act::Append { before: 0, bytes: 4 * KIB }),
    operation("append_8k_4k", Act::Append { before: 8 * KIB, bytes: 4 * KIB }),
    operation("append_0B_128k", Act::Append { before: 0, bytes: 128 * KIB }),
    operation("append_2M_4k", Act::Append { before: 2 * MIB, bytes: 4 * KIB }),
    operation("append_2M_128k", Act::Append { before: 2 * MIB, bytes: 128 * KIB }),
    operation("write_1M_8B", Act::Write { bytes: 8, offset: 0 }),
    operation("write_1M_8B_4092", Act::Write { bytes: 8, offset: 4092 }),
    operation("write_1M_16B", Act::Write { bytes: 16, offset: 0 }),
    operation("write_1M_4k", Act::Write { bytes: 4 * KIB, offset: 0 }),
    operation("write_1M_4k_1", Act::Write { bytes: 4 * KIB, offset: 1 }),
    operation("write_1M_128k", Act::Write { bytes: 128 * KIB, offset: 0 }),
    operation("write_1M_124k_1", Act::Write { bytes: 124 * KIB, offset: 1 }),
    operation("read", Act::Read),
    operation("readdir", Act::ReadDirectory),
];

/// Operations beyond the published table. Only measured if named, because some file systems do not support them.
pub(crate) const FURTHER: &[Operation] = &[
    operation("fallocate_1M", Act::Allocate { bytes: MIB }),
    operation("punch_hole_64k", Act::PunchHole { bytes: 64 * KIB }),
    operation("fiemap_1M", Act::Extents),
    operation("replace_4k", Act::Replace { bytes: 4 * KIB }),
    operation("setxattr", Act::SetAttribute),
    operation("getxattr", Act::GetAttribute),
];

pub fn all() -> impl Iterator<Item = &'static Operation> + Clone {
    OPERATIONS.iter().chain(FURTHER)
}

const ATTRIBUTE: &str = "user.senesce";
const ATTRIBUTE_VALUE: [u8; 64] = [0x5a; 64];

/// Requests at most 16 extents of a file; returns their number.
fn extents(file: &OwnedFd) -> Result<usize, Errno> {
    Ok(ExtentMap::<16>::default().read(file, 0)?.len())
}

impl Operation {
    /// Returns the bytes of data written by the preparation of one instance.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        match self.act {
            Act::Unlink { size } => size,
            Act::Append { before, .. } => before,
            Act::Write { .. } | Act::PunchHole { .. } | Act::Extents => MIB,
            _ => 0,
        }
    }

    /// Prepares instance `index`; not timed.
    pub(crate) fn prepare(&self, place: &BatchDirectory<'_>, index: usize) -> Result<(), Errno> {
        let (a, b) = (&place.a[index], &place.b[index]);
        match self.act {
            Act::Empty | Act::Create | Act::MakeDirectory | Act::Symlink => Ok(()),
            Act::Unlink { size } => place.file(a, size),
            Act::Append { before, .. } => place.file(a, before),
            Act::Write { .. } | Act::PunchHole { .. } | Act::Extents => place.file(a, MIB),
            Act::Allocate { .. } | Act::Replace { .. } | Act::SetAttribute => place.file(a, 0),
            Act::GetAttribute => {
                place.file(a, 0)?;
                rustix::fs::fsetxattr(place.open(a, OFlags::WRONLY)?, ATTRIBUTE, &ATTRIBUTE_VALUE, XattrFlags::empty())
            }
            Act::RemoveDirectory | Act::RenameDirectoryIntra | Act::ReadDirectory => place.directory(a),
            Act::UnlinkSymlink => rustix::fs::symlinkat(a, place.directory, b),
            Act::RenameFileIntra | Act::Link | Act::ChangeMode | Act::ChangeOwner | Act::Read => place.file(a, 0),
            Act::RenameFileInter => {
                place.directory(a)?;
                place.directory(b)?;
                place.file(&place.a_inner[index], 0)
            }
            Act::RenameFileClobber => {
                place.file(a, 0)?;
                place.file(b, 0)
            }
            Act::RenameDirectoryInter => {
                place.directory(a)?;
                place.directory(b)?;
                place.directory(&place.a_inner[index])
            }
            Act::RenameDirectoryClobber => {
                place.directory(a)?;
                place.directory(b)
            }
            Act::UnlinkHardLink => {
                place.file(a, 0)?;
                rustix::fs::linkat(place.directory, a, place.directory, b, AtFlags::empty())
            }
        }
    }

    /// Executes instance `index`; timed. With `sync`, makes the change durable: syncs the file if one is written or changed,
    /// otherwise the directory.
    #[inline]
    pub(crate) fn run(&self, place: &BatchDirectory<'_>, index: usize, sync: bool) -> Result<(), Errno> {
        let (a, b) = (&place.a[index], &place.b[index]);
        let directory = place.directory;
        let (a_inner, b_inner) = (&place.a_inner[index], &place.b_inner[index]);
        match self.act {
            Act::Empty => return Ok(()),
            Act::Create => drop(place.open(a, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?),
            Act::MakeDirectory => place.directory(a)?,
            Act::Symlink => rustix::fs::symlinkat(a, directory, b)?,
            Act::Unlink { .. } | Act::UnlinkHardLink => rustix::fs::unlinkat(directory, a, AtFlags::empty())?,
            Act::UnlinkSymlink => rustix::fs::unlinkat(directory, b, AtFlags::empty())?,
            Act::RemoveDirectory => rustix::fs::unlinkat(directory, a, AtFlags::REMOVEDIR)?,
            Act::RenameFileIntra | Act::RenameFileClobber | Act::RenameDirectoryIntra | Act::RenameDirectoryClobber => {
                rustix::fs::renameat(directory, a, directory, b)?;
            }
            Act::RenameFileInter | Act::RenameDirectoryInter => {
                rustix::fs::renameat(directory, a_inner, directory, b_inner)?;
            }
            Act::Link => rustix::fs::linkat(directory, a, directory, b, AtFlags::empty())?,
            Act::ChangeMode => rustix::fs::chmodat(directory, a, Mode::from_raw_mode(0o600), AtFlags::empty())?,
            Act::ChangeOwner => {
                rustix::fs::chownat(directory, a, Some(place.owner.0), Some(place.owner.1), AtFlags::empty())?;
            }
            Act::Append { bytes, .. } => {
                let file = place.open(a, OFlags::WRONLY | OFlags::APPEND)?;
                write_all(&file, place.tail(bytes))?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            Act::Write { bytes, offset } => {
                let file = place.open(a, OFlags::RDWR)?;
                rustix::io::pwrite(&file, place.tail(bytes), offset)?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            Act::Allocate { bytes } => {
                let file = place.open(a, OFlags::WRONLY)?;
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            Act::PunchHole { bytes } => {
                let file = place.open(a, OFlags::WRONLY)?;
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, flags, MIB / 2, bytes)?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            Act::Replace { bytes } => {
                let file = place.open(b, OFlags::WRONLY | OFlags::CREATE)?;
                write_all(&file, place.tail(bytes))?;
                if sync {
                    rustix::fs::fsync(&file)?;
                }
                rustix::fs::renameat(directory, b, directory, a)?;
            }
            Act::SetAttribute => {
                let file = place.open(a, OFlags::WRONLY)?;
                rustix::fs::fsetxattr(&file, ATTRIBUTE, &ATTRIBUTE_VALUE, XattrFlags::empty())?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            Act::GetAttribute => {
                let mut value = [0u8; ATTRIBUTE_VALUE.len()];
                let length = rustix::fs::fgetxattr(place.open(a, OFlags::RDONLY)?, ATTRIBUTE, &mut value)?;
                // The value read must equal the value set.
                return if length == value.len() && value == ATTRIBUTE_VALUE { Ok(()) } else { Err(Errno::IO) };
            }
            Act::Extents => {
                // A file of a mebibyte has at least one extent.
                return if extents(&place.open(a, OFlags::RDONLY)?)? > 0 { Ok(()) } else { Err(Errno::IO) };
            }
            Act::Read => {
                let file = place.open(a, OFlags::RDONLY)?;
                rustix::io::read(&file, &mut [0u8; 1][..])?;
                return Ok(());
            }
            Act::ReadDirectory => {
                let listed = place.open(a, OFlags::RDONLY | OFlags::DIRECTORY)?;
                let mut buffer = [const { MaybeUninit::uninit() }; 4096];
                let mut entries = RawDir::new(listed.as_fd(), &mut buffer);
                while let Some(entry) = entries.next() {
                    entry?;
                }
                return Ok(());
            }
        }
        if sync { rustix::fs::fsync(directory) } else { Ok(()) }
    }

    pub(crate) fn changes(&self) -> bool {
        !matches!(self.act, Act::Empty | Act::Read | Act::ReadDirectory | Act::Extents | Act::GetAttribute)
    }
}
