//! Examines the layout of a target.

use crate::btrfs::{self, ExtentTree};
use crate::collect::{Collected, KeptDetails};
use crate::condition::Condition;
use crate::error::LayoutError;
use crate::ext4::InodeTables;
use crate::free::{self, FreeSpace};
use crate::map::{LayoutMap, MapExtent};
use crate::method::{Method, Mounted};
use crate::runs::FileRuns;
use crate::shown_directory::ShownDirectory;
use crate::summary::{self, Circumstances, FileLayout, LayoutSummary};
use crate::tree::Tree;
use crate::xfs::{Geometry, ReverseMap};
use crate::{btrfs_free, f2fs_free, fiemap, names};
use rustix::fs::{Mode, OFlags};
use senesce_volume::file_system::{ExtentsBy, FreeSpaceBy};
use senesce_volume::{FileSystem, MARKER};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Number of threads; 0: as many as processors.
    pub threads: usize,
    /// Method of reading extents; `None`: the fastest that the file system supports.
    pub method: Option<Method>,
    pub per_file: bool,
    pub map: bool,
    /// Keep every mapping, in file order.
    pub extents: bool,
    /// Keep the location of each file's data, in reading order.
    pub runs: bool,
    /// Count directories and files that may not be opened, and continue.
    pub skip_denied: bool,
}

impl Options {
    fn keep(&self, mapped_between: Option<u64>) -> KeptDetails {
        KeptDetails { map: self.map || self.extents, runs: self.runs, skip_denied: self.skip_denied, mapped_between }
    }
}

/// The layout of a target.
///
/// Memory: 32 bytes per file plus its name, and per million extents 64 MB with [`Method::ReverseMap`], none with other methods;
/// 32 MB more per million extents with `map`.
#[derive(Debug, Clone)]
pub struct Layout {
    pub summary: LayoutSummary,
    /// Whether one of the files is the marker of senesce in the root.
    pub has_marker: bool,
    /// Every file in `find` order, if requested.
    pub files: Vec<FileLayout>,
    /// If requested.
    pub map: Option<LayoutMap>,
    /// If requested.
    pub runs: Option<FileRuns>,
    /// Mappings of all files in `find` order, each file's in file order, if requested.
    pub extents: Vec<MapExtent>,
}

impl Layout {
    pub fn of(target: &Path) -> Result<LayoutSummary, LayoutError> {
        Ok(Self::examine(target, &Options::default())?.summary)
    }

    /// Works like [`Self::of`], but takes options and returns more than the summary.
    pub fn examine(target: &Path, options: &Options) -> Result<Self, LayoutError> {
        let started = Instant::now();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .build()
            .map_err(|error| LayoutError::io("start threads to examine", target, std::io::Error::other(error)))?;
        let place = ShownDirectory::of(target)?;
        let mut layout = pool.install(|| {
            let examination = Examination::open(target, &place)?;
            examination.run(options).map_err(|error| examination.explained(error))
        })?;
        layout.summary.elapsed_seconds = started.elapsed().as_secs_f64();
        layout.summary.peak_rss_bytes = senesce_sys::memory::peak_resident_bytes().unwrap_or(0);
        Ok(layout)
    }
}

/// Mappings of a file keep the order of its walker, which is file order.
fn in_file_order(collected: &[MapExtent]) -> Vec<MapExtent> {
    let mut extents = collected.to_vec();
    extents.sort_by_key(|extent| extent.file);
    extents
}

struct Examination<'a> {
    shown: &'a Path,
    place: &'a ShownDirectory,
    root: OwnedFd,
    file_system: Mounted,
    device_number: u64,
    device: u32,
    block_size: u64,
    threads: usize,
}

enum Source {
    Fiemap,
    InodeTables(InodeTables),
    ReverseMap(Geometry),
    TreeSearch,
}

impl<'a> Examination<'a> {
    fn open(target: &'a Path, place: &'a ShownDirectory) -> Result<Self, LayoutError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(place.directory(), flags, Mode::empty())
            .map_err(|errno| LayoutError::io("open directory", target, errno))?;
        let failed = |errno| LayoutError::io("open", target, errno);
        let device = rustix::fs::fstat(&root).map_err(failed)?.st_dev;
        let statfs = rustix::fs::fstatfs(&root).map_err(failed)?;
        let file_system = Mounted::new(statfs.f_type as u64 & 0xFFFF_FFFF, rustix::fs::major(device) != 0);
        if let Mounted::Without(_) = file_system {
            return Err(LayoutError::NoExtents { path: target.into(), filesystem: file_system.name() });
        }
        // Flushes first, because data in memory do not have a location yet, like `filefrag -s`.
        rustix::fs::syncfs(&root).map_err(|errno| LayoutError::io("write back", target, errno))?;
        Ok(Self {
            shown: target,
            place,
            root,
            file_system,
            device_number: device,
            device: senesce_sys::fsmap::encode_device(device),
            block_size: statfs.f_bsize as u64,
            threads: rayon::current_num_threads(),
        })
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn condition(&self) -> Condition {
        Condition::of(self.place, self.root(), self.known())
    }

    fn explained(&self, error: LayoutError) -> LayoutError {
        if !matches!(error, LayoutError::Io(_) | LayoutError::Malformed { .. }) {
            return error;
        }
        match self.condition().reservations() {
            reasons if reasons.is_empty() => error,
            reasons => LayoutError::Unsound { reasons, source: Box::new(error) },
        }
    }

    fn known(&self) -> Option<FileSystem> {
        match self.file_system {
            Mounted::Known(known) => Some(known),
            Mounted::Other(_) | Mounted::Without(_) => None,
        }
    }

    fn keep(&self, options: &Options) -> KeptDetails {
        let is_ext = self.file_system == Mounted::Known(FileSystem::Ext4);
        options.keep(is_ext.then_some(self.block_size))
    }

    fn run(&self, options: &Options) -> Result<Layout, LayoutError> {
        let source = self.source(options.method)?;
        let (tree, collected, method, free_space) = match source {
            Source::Fiemap => {
                let (tree, free) = rayon::join(|| self.tree(options.skip_denied), || self.free_space());
                let tree = tree?;
                let collected = fiemap::walk(self.root(), self.shown, &tree, self.keep(options))?;
                (tree, collected, Method::Fiemap, free?)
            }
            Source::InodeTables(tables) => {
                let (tree, free) = rayon::join(|| self.tree(options.skip_denied), || self.free_space());
                let tree = tree?;
                let collected = tables.walk(self.root(), self.shown, &tree, self.keep(options))?;
                (tree, collected, Method::InodeTables, free?)
            }
            Source::ReverseMap(geometry) => {
                let read = || ReverseMap::read(self.root(), self.shown, self.device, &geometry, self.threads);
                let (tree, records) = rayon::join(|| self.tree(options.skip_denied), read);
                let (tree, records) = (tree?, records?);
                let collected = records.assign(&tree, self.keep(options));
                (tree, collected, Method::ReverseMap, Ok(records.free))
            }
            Source::TreeSearch => {
                let extents = || ExtentTree::read(self.root(), self.shown);
                let (tree, extents) = rayon::join(|| self.tree(options.skip_denied), extents);
                let (tree, extents) = (tree?, extents?);
                let free = || btrfs_free::read(self.root(), self.shown, self.block_size, &extents.allocated);
                let stated = !extents.has_shared_tree_blocks;
                if !stated && options.method.is_some() {
                    return Err(self.unfit(
                        Method::TreeSearch,
                        "if there are snapshots, only FIEMAP reports which extents are shared",
                    ));
                }
                let walk = || match stated {
                    true => btrfs::walk(self.root(), self.shown, &tree, &extents, self.keep(options)),
                    false => fiemap::walk(self.root(), self.shown, &tree, self.keep(options)),
                };
                let (collected, free) = rayon::join(walk, free);
                (tree, collected?, if stated { Method::TreeSearch } else { Method::Fiemap }, Ok(free?))
            }
        };
        Ok(self.layout(options, tree, collected, method, free_space))
    }

    fn layout(
        &self,
        options: &Options,
        tree: Tree,
        mut collected: Collected,
        method: Method,
        free_space: Result<FreeSpace, String>,
    ) -> Layout {
        let mut condition = self.condition();
        let vanished = collected.vanished.len() as u64 + tree.vanished_directories;
        condition.add_names_without_inode(self.place, vanished);
        // The kernel answers GETFSMAP or not, depending on whether it has read the damaged bitmap before.
        let free_space = match condition.free_space_damaged {
            true => Err("unknown, because block bitmaps are damaged".into()),
            false => free_space,
        };
        let circumstances = Circumstances {
            target: self.shown.display().to_string(),
            file_system: self.file_system.name(),
            view: self.place.view(),
            condition,
            method,
            free_space,
        };
        let runs = options.runs.then(|| std::mem::take(&mut collected.runs));
        let extents = if options.extents { in_file_order(&collected.map) } else { Vec::new() };
        let map = options.map.then(|| {
            let names = tree.files.iter().map(|file| names::shown(&tree.path(file)));
            LayoutMap::new(std::mem::take(&mut collected.map), names)
        });
        let unknown = (0..tree.files.len() as u32).filter(|file| collected.is_unknown(*file as usize)).collect();
        Layout {
            has_marker: tree.has_root_file(MARKER),
            summary: LayoutSummary::new(circumstances, &tree, &collected),
            files: if options.per_file { summary::per_file(&tree, &collected) } else { Vec::new() },
            map,
            runs: runs.map(|runs| FileRuns::new(tree, runs, unknown)),
            extents,
        }
    }

    fn tree(&self, skip_denied: bool) -> Result<Tree, LayoutError> {
        Tree::read(self.root(), self.shown, skip_denied)
    }

    fn unfit(&self, method: Method, reason: &str) -> LayoutError {
        LayoutError::Method { method: method.name(), path: self.shown.into(), reason: reason.into() }
    }

    fn source(&self, wanted: Option<Method>) -> Result<Source, LayoutError> {
        match (self.file_system.extents(), wanted) {
            (_, Some(Method::Fiemap)) => Ok(Source::Fiemap),
            (ExtentsBy::InodeTables, None | Some(Method::InodeTables)) => match InodeTables::open(self.device_number) {
                Some(tables) => Ok(Source::InodeTables(tables)),
                None if wanted.is_none() => Ok(Source::Fiemap),
                None => {
                    Err(self.unfit(Method::InodeTables, "its device cannot be read, or it uses unsupported features"))
                }
            },
            (ExtentsBy::ReverseMap, None | Some(Method::ReverseMap)) => {
                let geometry = Geometry::read(self.root(), self.shown)?;
                match geometry.reports_owners() && is_root() {
                    true => Ok(Source::ReverseMap(geometry)),
                    false if wanted.is_none() => Ok(Source::Fiemap),
                    false => Err(self.unfit(
                        Method::ReverseMap,
                        "it needs root and an xfs made with rmapbt=1 and no realtime device",
                    )),
                }
            }
            (ExtentsBy::TreeSearch, None | Some(Method::TreeSearch)) if is_root() => Ok(Source::TreeSearch),
            (_, None) => Ok(Source::Fiemap),
            (_, Some(method)) => Err(self.unfit(method, "the file system is of another type, or root is required")),
        }
    }

    /// Returns the free space if the file system reports it; otherwise the reason.
    fn free_space(&self) -> Result<Result<FreeSpace, String>, LayoutError> {
        if self.file_system == Mounted::Known(FileSystem::Xfs) && Geometry::read(self.root(), self.shown)?.has_realtime
        {
            return Ok(Err("not available with a realtime device".into()));
        }
        match self.file_system.free_space() {
            FreeSpaceBy::Fsmap => match free::by_fsmap(self.root(), self.shown, self.device, self.block_size) {
                Err(LayoutError::Permission { .. }) => Ok(Err("not available without root".into())),
                Err(error) if !self.condition().reservations().is_empty() => Ok(Err(error.to_string())),
                other => other.map(Ok),
            },
            FreeSpaceBy::TreeSearch if !is_root() => Ok(Err("not available without root".into())),
            FreeSpaceBy::TreeSearch => {
                let extents = ExtentTree::read(self.root(), self.shown)?;
                btrfs_free::read(self.root(), self.shown, self.block_size, &extents.allocated).map(Ok)
            }
            FreeSpaceBy::SegmentBits => Ok(f2fs_free::read(self.device_number)),
            FreeSpaceBy::Unknown => Ok(Err("not available on this file system".into())),
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
