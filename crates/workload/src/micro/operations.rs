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
    /// A name inside the first as directory.
    pub a_inner: Vec<CString>,
    /// A name inside the second as directory.
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
pub enum MicroAction {
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
    pub act: MicroAction,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn operation(name: &'static str, act: MicroAction) -> Operation {
    Operation { name, act }
}

pub const OPERATIONS: &[Operation] = &[
    operation("empty", MicroAction::Empty),
    operation("create", MicroAction::Create),
    operation("mkdir", MicroAction::MakeDirectory),
    operation("symlink", MicroAction::Symlink),
    operation("unlink_0B", MicroAction::Unlink { size: 0 }),
    operation("unlink_4k", MicroAction::Unlink { size: 4 * KIB }),
    operation("unlink_1M", MicroAction::Unlink { size: MIB }),
    operation("unlink_16M", MicroAction::Unlink { size: 16 * MIB }),
    operation("rmdir", MicroAction::RemoveDirectory),
    operation("unlink_symlink", MicroAction::UnlinkSymlink),
    operation("rename_file_intra", MicroAction::RenameFileIntra),
    operation("rename_file_inter", MicroAction::RenameFileInter),
    operation("rename_file_clobber", MicroAction::RenameFileClobber),
    operation("rename_dir_intra", MicroAction::RenameDirectoryIntra),
    operation("rename_dir_inter", MicroAction::RenameDirectoryInter),
    operation("rename_dir_clobber", MicroAction::RenameDirectoryClobber),
    operation("link", MicroAction::Link),
    operation("unlink_hardlink", MicroAction::UnlinkHardLink),
    operation("chmod", MicroAction::ChangeMode),
    operation("chown", MicroAction::ChangeOwner),
    operation("append_0B_8B", MicroAction::Append { before: 0, bytes: 8 }),
    operation("append_8B_8B", MicroAction::Append { before: 8, bytes: 8 }),
    operation("append_0B_4k", MicroAction::Append { before: 0, bytes: 4 * KIB }),
    operation("append_8k_4k", MicroAction::Append { before: 8 * KIB, bytes: 4 * KIB }),
    operation("append_0B_128k", MicroAction::Append { before: 0, bytes: 128 * KIB }),
    operation("append_2M_4k", MicroAction::Append { before: 2 * MIB, bytes: 4 * KIB }),
    operation("append_2M_128k", MicroAction::Append { before: 2 * MIB, bytes: 128 * KIB }),
    operation("write_1M_8B", MicroAction::Write { bytes: 8, offset: 0 }),
    operation("write_1M_8B_4092", MicroAction::Write { bytes: 8, offset: 4092 }),
    operation("write_1M_16B", MicroAction::Write { bytes: 16, offset: 0 }),
    operation("write_1M_4k", MicroAction::Write { bytes: 4 * KIB, offset: 0 }),
    operation("write_1M_4k_1", MicroAction::Write { bytes: 4 * KIB, offset: 1 }),
    operation("write_1M_128k", MicroAction::Write { bytes: 128 * KIB, offset: 0 }),
    operation("write_1M_124k_1", MicroAction::Write { bytes: 124 * KIB, offset: 1 }),
    operation("read", MicroAction::Read),
    operation("readdir", MicroAction::ReadDirectory),
];

/// Operations beyond the published table. Only measured if named, because some file systems do not support them.
pub(crate) const FURTHER: &[Operation] = &[
    operation("fallocate_1M", MicroAction::Allocate { bytes: MIB }),
    operation("punch_hole_64k", MicroAction::PunchHole { bytes: 64 * KIB }),
    operation("fiemap_1M", MicroAction::Extents),
    operation("replace_4k", MicroAction::Replace { bytes: 4 * KIB }),
    operation("setxattr", MicroAction::SetAttribute),
    operation("getxattr", MicroAction::GetAttribute),
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
            MicroAction::Unlink { size } => size,
            MicroAction::Append { before, .. } => before,
            MicroAction::Write { .. } | MicroAction::PunchHole { .. } | MicroAction::Extents => MIB,
            _ => 0,
        }
    }

    /// Prepares instance `index`; not timed.
    pub(crate) fn prepare(&self, place: &BatchDirectory<'_>, index: usize) -> Result<(), Errno> {
        let (a, b) = (&place.a[index], &place.b[index]);
        match self.act {
            MicroAction::Empty | MicroAction::Create | MicroAction::MakeDirectory | MicroAction::Symlink => Ok(()),
            MicroAction::Unlink { size } => place.file(a, size),
            MicroAction::Append { before, .. } => place.file(a, before),
            MicroAction::Write { .. } | MicroAction::PunchHole { .. } | MicroAction::Extents => place.file(a, MIB),
            MicroAction::Allocate { .. } | MicroAction::Replace { .. } | MicroAction::SetAttribute => place.file(a, 0),
            MicroAction::GetAttribute => {
                place.file(a, 0)?;
                rustix::fs::fsetxattr(place.open(a, OFlags::WRONLY)?, ATTRIBUTE, &ATTRIBUTE_VALUE, XattrFlags::empty())
            }
            MicroAction::RemoveDirectory | MicroAction::RenameDirectoryIntra | MicroAction::ReadDirectory => {
                place.directory(a)
            }
            MicroAction::UnlinkSymlink => rustix::fs::symlinkat(a, place.directory, b),
            MicroAction::RenameFileIntra
            | MicroAction::Link
            | MicroAction::ChangeMode
            | MicroAction::ChangeOwner
            | MicroAction::Read => place.file(a, 0),
            MicroAction::RenameFileInter => {
                place.directory(a)?;
                place.directory(b)?;
                place.file(&place.a_inner[index], 0)
            }
            MicroAction::RenameFileClobber => {
                place.file(a, 0)?;
                place.file(b, 0)
            }
            MicroAction::RenameDirectoryInter => {
                place.directory(a)?;
                place.directory(b)?;
                place.directory(&place.a_inner[index])
            }
            MicroAction::RenameDirectoryClobber => {
                place.directory(a)?;
                place.directory(b)
            }
            MicroAction::UnlinkHardLink => {
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
            MicroAction::Empty => return Ok(()),
            MicroAction::Create => drop(place.open(a, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?),
            MicroAction::MakeDirectory => place.directory(a)?,
            MicroAction::Symlink => rustix::fs::symlinkat(a, directory, b)?,
            MicroAction::Unlink { .. } | MicroAction::UnlinkHardLink => {
                rustix::fs::unlinkat(directory, a, AtFlags::empty())?
            }
            MicroAction::UnlinkSymlink => rustix::fs::unlinkat(directory, b, AtFlags::empty())?,
            MicroAction::RemoveDirectory => rustix::fs::unlinkat(directory, a, AtFlags::REMOVEDIR)?,
            MicroAction::RenameFileIntra
            | MicroAction::RenameFileClobber
            | MicroAction::RenameDirectoryIntra
            | MicroAction::RenameDirectoryClobber => {
                rustix::fs::renameat(directory, a, directory, b)?;
            }
            MicroAction::RenameFileInter | MicroAction::RenameDirectoryInter => {
                rustix::fs::renameat(directory, a_inner, directory, b_inner)?;
            }
            MicroAction::Link => rustix::fs::linkat(directory, a, directory, b, AtFlags::empty())?,
            MicroAction::ChangeMode => rustix::fs::chmodat(directory, a, Mode::from_raw_mode(0o600), AtFlags::empty())?,
            MicroAction::ChangeOwner => {
                rustix::fs::chownat(directory, a, Some(place.owner.0), Some(place.owner.1), AtFlags::empty())?;
            }
            MicroAction::Append { bytes, .. } => {
                let file = place.open(a, OFlags::WRONLY | OFlags::APPEND)?;
                write_all(&file, place.tail(bytes))?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            MicroAction::Write { bytes, offset } => {
                let file = place.open(a, OFlags::RDWR)?;
                rustix::io::pwrite(&file, place.tail(bytes), offset)?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            MicroAction::Allocate { bytes } => {
                let file = place.open(a, OFlags::WRONLY)?;
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            MicroAction::PunchHole { bytes } => {
                let file = place.open(a, OFlags::WRONLY)?;
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&file, flags, MIB / 2, bytes)?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            MicroAction::Replace { bytes } => {
                let file = place.open(b, OFlags::WRONLY | OFlags::CREATE)?;
                write_all(&file, place.tail(bytes))?;
                if sync {
                    rustix::fs::fsync(&file)?;
                }
                rustix::fs::renameat(directory, b, directory, a)?;
            }
            MicroAction::SetAttribute => {
                let file = place.open(a, OFlags::WRONLY)?;
                rustix::fs::fsetxattr(&file, ATTRIBUTE, &ATTRIBUTE_VALUE, XattrFlags::empty())?;
                return if sync { rustix::fs::fsync(&file) } else { Ok(()) };
            }
            MicroAction::GetAttribute => {
                let mut value = [0u8; ATTRIBUTE_VALUE.len()];
                let length = rustix::fs::fgetxattr(place.open(a, OFlags::RDONLY)?, ATTRIBUTE, &mut value)?;
                // The value read must equal the value set.
                return if length == value.len() && value == ATTRIBUTE_VALUE { Ok(()) } else { Err(Errno::IO) };
            }
            MicroAction::Extents => {
                // A file of a mebibyte has at least one extent.
                return if extents(&place.open(a, OFlags::RDONLY)?)? > 0 { Ok(()) } else { Err(Errno::IO) };
            }
            MicroAction::Read => {
                let file = place.open(a, OFlags::RDONLY)?;
                rustix::io::read(&file, &mut [0u8; 1][..])?;
                return Ok(());
            }
            MicroAction::ReadDirectory => {
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
        !matches!(
            self.act,
            MicroAction::Empty
                | MicroAction::Read
                | MicroAction::ReadDirectory
                | MicroAction::Extents
                | MicroAction::GetAttribute
        )
    }
}
