//! Repeats the measurements of Jun et al., "We Ain't Afraid of No File Fragmentation", FAST 2024, on a modelled drive.
//!
//! Writes and reads follow the study's artifact (github.com/yuhun-Jun/fast24_ae). The file system is assumed to allocate new
//! blocks sequentially in the order of writing (ext4 without delayed allocation, stream allocation for all files, journal
//! elsewhere). One number is fitted per program: the host's time per read, so that the contiguous file takes the published time.
//! Everything else is held out.

pub(crate) mod fileserver;
pub(crate) mod glibc;
pub(crate) mod hypothetical;
pub(crate) mod sqlite;

use super::drive::{Drive, Hint};
use super::parameters::{Flash, PAGE, Placement};
use crate::error::ModelError;
use crate::model::{DeviceModel, Parameters};
use crate::request::{Operation, Request};

const MIB: f64 = 1_048_576.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// 8 MiB in 256 appends, after each a dummy file of 224 KiB: all pages fall on one die.
    AppendWorst,
    /// The same with dummy files of 32 KiB x (1 + rand() % 32).
    AppendRandom,
    /// A contiguous file of 8 MiB of which each 32 KiB are overwritten, with dummy files of 224 KiB in between.
    OverwriteWorst,
    /// The same with dummy files of 32 KiB x (1 + rand() % 32).
    OverwriteRandom,
    /// 10,000 rows are inserted, with 100 KiB appended to another file after each; then all rows are read.
    Sqlite,
    /// Files to which 10 threads append 32 KiB are read whole.
    Fileserver,
    /// The same with appends of 16 KiB.
    FileserverSmall,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Contiguous,
    Fragmented,
    /// In pieces, with hints to the drive about the page that each piece continues or overwrites.
    Placed,
}

pub const WORKLOADS: [Workload; 7] = [
    Workload::AppendWorst,
    Workload::AppendRandom,
    Workload::OverwriteWorst,
    Workload::OverwriteRandom,
    Workload::Sqlite,
    Workload::Fileserver,
    Workload::FileserverSmall,
];

/// Start offsets of the write pointer that make a difference: two pages of each die (LSB and MSB).
pub const OFFSETS: u32 = 16;

impl Workload {
    /// Returns the published rates, MiB/s: contiguous, fragmented, with the study's placement (README of the artifact).
    pub const fn published(self) -> [f64; 3] {
        match self {
            Self::AppendWorst => [2174.53, 397.26, 2126.48],
            Self::AppendRandom => [2174.53, 1470.01, 2063.64],
            Self::OverwriteWorst => [2174.53, 398.789, 2057.91],
            Self::OverwriteRandom => [2174.53, 1487.34, 2069.28],
            Self::Sqlite => [870.044, 531.073, 849.64],
            Self::Fileserver => [2739.8, 2149.4, 2611.8],
            Self::FileserverSmall => [2776.3, 1721.0, 2099.3],
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::AppendWorst => "append-worst",
            Self::AppendRandom => "append-random",
            Self::OverwriteWorst => "overwrite-worst",
            Self::OverwriteRandom => "overwrite-random",
            Self::Sqlite => "sqlite",
            Self::Fileserver => "fileserver",
            Self::FileserverSmall => "fileserver-small",
        }
    }
}

/// Modelled rates of one workload, MiB/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// In the states contiguous, fragmented and placed.
    pub mib_per_s: [f64; 3],
    /// Fitted on the contiguous rate: nanoseconds that the host adds to each read of the program.
    pub host_ns: f64,
    /// Die-collision index of the reads in each state.
    pub collision_index: [Option<f64>; 3],
}

/// Rates of a workload with the write pointer `offset` pages after its first die at the start.
pub fn rates(workload: Workload, offset: u32) -> Result<Rates, ModelError> {
    let flash = drive_of_the_study()?;
    Ok(match workload {
        Workload::Sqlite => sqlite::rates(&flash, offset),
        Workload::Fileserver => fileserver::rates(&flash, 32 << 10, offset),
        Workload::FileserverSmall => fileserver::rates(&flash, 16 << 10, offset),
        _ => hypothetical::rates(&flash, workload, offset),
    })
}

pub fn drive_of_the_study() -> Result<Flash, ModelError> {
    match DeviceModel::builtin("ssd:fast24")?.parameters {
        Parameters::FlashSsd(flash) => Ok(flash),
        _ => Err(ModelError::Malformed {
            name: "ssd:fast24".into(),
            problem: "it has no flash translation layer".into(),
        }),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub drive: Drive,
    next: u64,
    placed: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pages: Vec<u32>,
}

impl Volume {
    /// Creates an empty volume on a drive with its write pointer at `offset` programs.
    pub(crate) fn new(flash: &Flash, state: State, offset: u32) -> Self {
        let placed = state == State::Placed;
        let placement = if placed { Placement::DieAffinity } else { Placement::RoundRobin };
        let mut drive = Drive::new(&Flash { placement, ..flash.clone() });
        let pages = u64::from(offset) * flash.program_bytes() / PAGE;
        drive.prepare(0..pages, Hint::None);
        Self { drive, next: pages, placed }
    }

    pub(crate) fn append(&mut self, file: &mut File, bytes: u64) {
        let hint = match file.pages.last() {
            Some(last) if self.placed => Hint::Behind(u64::from(*last)),
            _ => Hint::None,
        };
        let pages = self.next..self.next + bytes.div_ceil(PAGE);
        self.next = pages.end;
        self.drive.prepare(pages.clone(), hint);
        file.pages.extend(pages.map(|page| page as u32));
    }

    pub(crate) fn overwrite(&mut self, file: &File, offset: u64, bytes: u64) {
        let hint = if self.placed { Hint::Overwrite } else { Hint::None };
        let (first, count) = ((offset / PAGE) as usize, bytes.div_ceil(PAGE) as usize);
        self.drive.prepare(file.pages[first..first + count].iter().map(|page| u64::from(*page)), hint);
    }

    /// Reads part of a file: one request for each run of adjacent pages, all issued at `at_ns`. Returns the time of the last
    /// completion.
    pub(crate) fn read(&mut self, file: &File, offset: u64, bytes: u64, at_ns: u64) -> u64 {
        self.read_runs(file, offset, bytes, at_ns).map(|(_, done)| done).fold(at_ns, u64::max)
    }

    /// Works like `read`, but returns page count and completion time of each run.
    pub(crate) fn read_runs<'a>(
        &'a mut self,
        file: &'a File,
        offset: u64,
        bytes: u64,
        at_ns: u64,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        let first = (offset / PAGE) as usize;
        let end = file.pages.len().min(first + bytes.div_ceil(PAGE) as usize);
        file.pages[first..end].chunk_by(|a, b| a + 1 == *b).map(move |run| {
            let start = u64::from(run[0]) * PAGE;
            let request = Request::of_bytes(Operation::Read, start, run.len() as u64 * PAGE);
            (run.len(), self.drive.serve_hinted(&request, Hint::None, at_ns))
        })
    }
}

impl File {
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }
}
