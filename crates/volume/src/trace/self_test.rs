//! Self-test of block traces on this machine: traces a known number of reads.

use super::request::Operation;
use super::session::TraceSession;
use crate::block_device::BlockDevice;
use crate::device_stat::DeviceStat;
use crate::error::TargetError;
use crate::loop_device::LoopDevice;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 256;
/// Gaps prevent the merging of two reads into one request.
const STRIDE: u64 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTest {
    pub asked: u64,
    pub traced: u64,
    /// The device's counters; other programs may have read it too.
    pub device_stat: DeviceStat,
    pub problems: Vec<String>,
}

impl SelfTest {
    pub fn agrees(&self) -> bool {
        self.traced == self.asked && self.device_stat.reads >= self.asked && self.problems.is_empty()
    }
}

pub fn self_test() -> Result<SelfTest, TargetError> {
    let name = std::path::Path::new("memory of the trace's self-test");
    let memory = rustix::fs::memfd_create("senesce-self-test", MemfdFlags::CLOEXEC);
    let file = File::from(memory.map_err(TargetError::errno("make", name))?);
    file.set_len(BLOCKS * STRIDE * BLOCK as u64).map_err(TargetError::io("set the size of", name))?;
    let attached = LoopDevice::attach(&file, "senesce self-test", true)?;
    let device = BlockDevice::open(attached.path())?;
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(attached.path());
    let direct = direct.map_err(TargetError::io("open", attached.path()))?;
    let session = TraceSession::start(&device)?;
    let mut buffer = vec![0u8; 2 * BLOCK];
    let aligned = buffer.as_ptr().align_offset(BLOCK);
    for block in 0..BLOCKS {
        let (at, block) = (block * STRIDE * BLOCK as u64, &mut buffer[aligned..aligned + BLOCK]);
        direct.read_exact_at(block, at).map_err(TargetError::io("read", attached.path()))?;
    }
    let trace = session.stop()?;
    let mut found = vec![false; BLOCKS as usize];
    let (block_sectors, stride) = (BLOCK as u32 / 512, STRIDE * BLOCK as u64 / 512);
    for request in trace.iter().filter(|one| one.operation == Operation::Read && one.sectors == block_sectors) {
        if let (0, Some(found)) = (request.sector % stride, found.get_mut((request.sector / stride) as usize)) {
            *found = true;
        }
    }
    Ok(SelfTest {
        asked: BLOCKS,
        traced: found.iter().filter(|found| **found).count() as u64,
        device_stat: trace.device_stat().unwrap_or_default(),
        problems: trace.problems().iter().map(ToString::to_string).collect(),
    })
}
