//! Parameters of a solid-state drive with a flash translation layer.

use crate::error::ModelError;
use serde::{Deserialize, Serialize};

/// Bytes of a mapped page, the unit of the map.
pub(crate) const PAGE: u64 = 4096;
/// Allowed relative difference between physical and declared size: drives round their capacity.
const ROUNDING: f64 = 0.002;
const LONGEST_US: f64 = 1e7;
/// Blocks of all dies; a larger number is a mistake and would need too much memory.
const MOST_BLOCKS: u64 = 1 << 24;

/// A solid-state drive with a flash translation layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Capacity that the host sees.
    pub capacity_bytes: u64,
    /// Physical size over capacity, minus one.
    pub spare_share: f64,
    /// Maximum command size; the host splits larger ones.
    pub largest_command_bytes: u64,
    /// Memory in which writes complete before they are in the flash.
    pub write_buffer_bytes: u64,
    /// Placement of writes.
    pub placement: Placement,
    /// Channels, dies, blocks, pages.
    pub geometry: Geometry,
    /// Times of flash, channels and interface.
    pub timing: Timing,
    /// Times of the controller.
    pub firmware: Firmware,
    /// Garbage collection.
    pub collection: Collection,
    /// Blocks first written with one bit per cell; none: no such cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCache>,
    /// Memory for the map; entries that do not fit are read from the flash. None: the whole map is in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping_cache_bytes: Option<u64>,
}

/// Selection of the die of the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// One write pointer goes round all dies, page by page: the order of writing decides.
    RoundRobin,
    /// One write pointer per die; the address decides.
    ByAddress,
    /// One write pointer per die; a hint selects the die: after the preceding page of the file, or the page's own die if it is
    /// overwritten (Jun et al., FAST '24). Round robin without a hint.
    DieAffinity,
}

/// Geometry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes of a die; they read, program and erase together.
    pub planes_per_die: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Bytes of a page of one plane.
    pub page_bytes: u64,
    /// Pages of a plane programmed at once (one-shot programming).
    pub pages_per_program: u32,
}

/// Times of flash, channels and interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Reading a page, by its position in the cell (LSB, MSB; or LSB, CSB, MSB); pages of a block alternate.
    pub read_us: Vec<f64>,
    /// The same for at most 4 KiB of it.
    pub read_4k_us: Vec<f64>,
    /// Programming.
    pub program_us: f64,
    /// Erasing a block.
    pub erase_us: f64,
    /// Rate of a channel, MiB/s.
    pub channel_mib_per_s: f64,
    /// Size of a transfer on a channel.
    pub channel_transfer_bytes: u64,
    /// Rate of the interface, MiB/s.
    pub interface_mib_per_s: f64,
}

/// Controller times; they delay a command and do not occupy resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// A read.
    pub read_us: f64,
    /// A read of at most 4 KiB.
    pub read_4k_us: f64,
    /// A write, discard or flush.
    pub write_us: f64,
    /// Additional time for each 4 KiB of a write.
    pub write_page_us: f64,
}

/// Garbage collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// Which blocks are cleaned.
    pub policy: Policy,
    /// Moved data go to separate blocks from the host's writes.
    pub separate_stream: bool,
    /// Erased blocks (on each die) that cleaning keeps ready.
    pub ready_blocks: u32,
    /// Blocks (on each die) kept ready by cleaning when idle; 0: no cleaning when idle.
    #[serde(default)]
    pub idle_ready_blocks: u32,
    /// Time without a command after which the drive is idle.
    #[serde(default)]
    pub idle_after_ms: f64,
}

/// Choice of the next block to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The one that was filled first.
    Fifo,
    /// The one with the fewest valid pages.
    Greedy,
    /// The one with the largest age x (1 - u) / 2u at a share u of valid pages (Kawaguchi et al., USENIX 1995).
    CostBenefit,
}

/// Blocks that are written with one bit per cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCache {
    /// Capacity of these blocks.
    pub bytes: u64,
    /// Bits per cell otherwise: such a block holds this many times less.
    pub bits_per_cell: u32,
    /// Reading a page.
    pub read_us: f64,
    /// Programming.
    pub program_us: f64,
}

impl Collection {
    /// Returns the number of blocks kept ready, as cleaning may open a block before it frees one.
    pub(crate) fn ready(&self) -> u32 {
        self.ready_blocks.max(1 + u32::from(self.separate_stream))
    }
}

impl Geometry {
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Returns the number of mapped pages that one read of a die fetches: a page on all planes.
    pub(crate) fn pages_per_read(&self) -> u32 {
        (self.page_bytes * u64::from(self.planes_per_die) / PAGE) as u32
    }

    /// Returns the bytes of all blocks; `None` on overflow.
    pub fn bytes(&self) -> Option<u64> {
        [self.channels, self.dies_per_channel, self.planes_per_die, self.blocks_per_plane, self.pages_per_block]
            .into_iter()
            .try_fold(self.page_bytes, |product, factor| product.checked_mul(u64::from(factor)))
    }
}

impl Flash {
    /// Returns the number of mapped pages visible to the host.
    pub fn logical_pages(&self) -> u64 {
        self.capacity_bytes / PAGE
    }

    pub fn check(&self, name: &str) -> Result<(), ModelError> {
        let wrong =
            |parameter, value, expected| Err(ModelError::Parameter { name: name.into(), parameter, value, expected });
        for (parameter, value) in self.positive() {
            if !(value.is_finite() && value > 0.0) {
                return wrong(parameter, value, "above zero");
            }
        }
        for (parameter, us) in self.times() {
            if !(0.0..=LONGEST_US).contains(&us) {
                return wrong(parameter, us, "0 to 10,000,000 us");
            }
        }
        for (parameter, rate) in [
            ("channel_mib_per_s", self.timing.channel_mib_per_s),
            ("interface_mib_per_s", self.timing.interface_mib_per_s),
        ] {
            if !(0.1..=1e6).contains(&rate) {
                return wrong(parameter, rate, "0.1 to 1,000,000 MiB/s");
            }
        }
        self.check_size(name)?;
        self.check_pages(name)
    }

    fn positive(&self) -> [(&'static str, f64); 10] {
        let geometry = &self.geometry;
        [
            ("capacity_bytes / 4096", self.logical_pages() as f64),
            ("spare_share", self.spare_share),
            ("channels", f64::from(geometry.channels)),
            ("dies_per_channel", f64::from(geometry.dies_per_channel)),
            ("planes_per_die", f64::from(geometry.planes_per_die)),
            ("blocks_per_plane", f64::from(geometry.blocks_per_plane)),
            ("pages_per_block", f64::from(geometry.pages_per_block)),
            ("pages_per_program", f64::from(geometry.pages_per_program)),
            ("page_bytes", geometry.page_bytes as f64),
            ("ready_blocks", f64::from(self.collection.ready_blocks)),
        ]
    }

    fn times(&self) -> Vec<(&'static str, f64)> {
        let (timing, firmware) = (&self.timing, &self.firmware);
        let mut times = vec![
            ("program_us", timing.program_us),
            ("erase_us", timing.erase_us),
            ("firmware.read_us", firmware.read_us),
            ("firmware.read_4k_us", firmware.read_4k_us),
            ("firmware.write_us", firmware.write_us),
            ("firmware.write_page_us", firmware.write_page_us),
            ("idle_after_ms x 1000", self.collection.idle_after_ms * 1e3),
        ];
        times.extend(timing.read_us.iter().map(|us| ("read_us", *us)));
        times.extend(timing.read_4k_us.iter().map(|us| ("read_4k_us", *us)));
        if let Some(cache) = &self.slc_cache {
            times.extend([("slc_cache.read_us", cache.read_us), ("slc_cache.program_us", cache.program_us)]);
        }
        times
    }

    /// Checks sizes that must be multiples of each other.
    fn check_pages(&self, name: &str) -> Result<(), ModelError> {
        let geometry = &self.geometry;
        let malformed = |problem: &str| Err(ModelError::Malformed { name: name.into(), problem: problem.into() });
        if self.timing.read_us.is_empty() || self.timing.read_us.len() != self.timing.read_4k_us.len() {
            return malformed("read_us and read_4k_us need one time for each kind of page, and equally many");
        }
        if geometry.page_bytes < PAGE || !geometry.page_bytes.is_multiple_of(PAGE) {
            return malformed("page_bytes must be a multiple of 4096, the size of a mapped page");
        }
        if !geometry.pages_per_block.is_multiple_of(geometry.pages_per_program) {
            return malformed("pages_per_block must be a multiple of pages_per_program");
        }
        for (what, bytes) in [
            ("largest_command_bytes", self.largest_command_bytes),
            ("channel_transfer_bytes", self.timing.channel_transfer_bytes),
        ] {
            if bytes < PAGE || !bytes.is_multiple_of(PAGE) {
                return malformed(&format!("{what} must be a multiple of 4096"));
            }
        }
        if let Some(cache) = &self.slc_cache {
            let rows = geometry.pages_per_block / geometry.pages_per_program;
            if cache.bits_per_cell < 2 || rows < cache.bits_per_cell {
                return malformed(
                    "slc_cache.bits_per_cell must be 2 or above, and a block must hold that many programs",
                );
            }
        }
        let open = u64::from(geometry.dies()) * self.program_bytes();
        if self.write_buffer_bytes < self.largest_command_bytes.saturating_add(open) {
            return malformed("write_buffer_bytes must hold the largest command and one program of every die");
        }
        Ok(())
    }

    pub fn program_bytes(&self) -> u64 {
        let geometry = &self.geometry;
        geometry.page_bytes * u64::from(geometry.planes_per_die) * u64::from(geometry.pages_per_program)
    }

    /// Returns the blocks of each die without data: those being filled, those kept ready, and one for cleaning to gain.
    pub(crate) fn kept_blocks(&self) -> u32 {
        self.collection.ready().saturating_add(3 + u32::from(self.slc_cache.is_some()))
    }

    fn check_size(&self, name: &str) -> Result<(), ModelError> {
        let geometry = &self.geometry;
        let wanted = self.capacity_bytes as f64 * (1.0 + self.spare_share);
        let mismatch = |physical| {
            Err(ModelError::Geometry { name: name.into(), physical, wanted, capacity_bytes: self.capacity_bytes })
        };
        let Some(physical) = geometry.bytes() else { return mismatch(f64::INFINITY) };
        if (physical as f64 / wanted - 1.0).abs() > ROUNDING || physical / PAGE >= u64::from(u32::MAX) {
            return mismatch(physical as f64);
        }
        let dies = u64::from(geometry.channels) * u64::from(geometry.dies_per_channel);
        if dies.saturating_mul(u64::from(geometry.blocks_per_plane)) > MOST_BLOCKS {
            let problem = format!("channels x dies_per_channel x blocks_per_plane must be at most {MOST_BLOCKS}");
            return Err(ModelError::Malformed { name: name.into(), problem });
        }
        let kept = u64::from(self.kept_blocks());
        let block = physical / u64::from(geometry.blocks_per_plane);
        if physical.saturating_sub(kept.saturating_mul(block)) < self.capacity_bytes {
            let spare = physical.saturating_sub(self.capacity_bytes);
            return Err(ModelError::Spare { name: name.into(), spare, needed: kept.saturating_mul(block) });
        }
        Ok(())
    }
}
