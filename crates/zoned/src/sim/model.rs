//! Drive models: TOML files under `data/zoned/` with a parameter for every mechanism.

mod check;
mod file;

pub use file::FitSource;

use super::HostPath;
use crate::error::ZonedError;
use crate::geometry::{Geometry, LbaFormat};
use serde::{Deserialize, Serialize};

/// Times are microseconds if the name ends in `_us`, sizes KiB if it ends in `_kib`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name, as in `sim:NAME`.
    pub name: String,
    /// Description of the drive.
    pub description: String,
    /// Measurements that the parameters were fitted to.
    pub fitted_to: Vec<String>,
    /// Zones and limits.
    pub geometry: GeometryModel,
    /// Paths from the host to the drive.
    pub host: HostModel,
    /// Commands that write.
    pub write: WriteModel,
    /// Commands that read.
    pub read: ReadModel,
    /// Dies, channels and programs.
    pub flash: FlashModel,
    /// Zone commands; absent for a conventional drive.
    pub zones: Option<ZoneModel>,
    /// Garbage collection; absent for a zoned drive.
    pub garbage: Option<GarbageModel>,
    /// Source of the constants, if they were fitted to measurements of one drive.
    #[serde(default)]
    pub fit: Option<FitSource>,
}

/// Zones and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometryModel {
    /// Zones, or regions of a conventional drive.
    pub zones: u32,
    /// From one zone's start to the next one's.
    pub zone_size_mib: u64,
    /// Writable part of a zone.
    pub zone_capacity_mib: u64,
    /// Conventional zones at the start of a zoned drive: without write pointer, the whole zone size is writable.
    #[serde(default)]
    pub conventional_zones: u32,
    /// Open limit, 0: none.
    pub max_open: u32,
    /// Active limit, 0: none.
    pub max_active: u32,
    /// Bytes per block of each format; the last one is the default.
    pub formats: Vec<u32>,
    /// Maximum KiB of a read or write.
    pub transfer_limit_kib: u32,
    /// Maximum KiB of an append; 0: no append.
    pub append_limit_kib: u32,
}

/// A path from the program to the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathModel {
    /// Processor time to submit one command, part of its latency.
    pub submit_us: f64,
    /// Processor time to take one completion, before the next submission.
    pub reap_us: f64,
    /// Further delay of a command, by size.
    pub delay_us: Curve,
    /// Reads per command on the link of this path, if it is slower than the drive's own.
    pub link_us: f64,
    /// As above, per KiB.
    pub link_us_per_kib: f64,
    /// Reads of a stream that is read ahead: time of each, by size.
    #[serde(default)]
    pub stream_us: Curve,
    /// The same for small reads, by the number in flight instead of KiB.
    #[serde(default)]
    pub stream_by_depth_us: Curve,
    /// One write per zone is in flight, and waiting ones are merged (Linux mq-deadline's zone write lock).
    #[serde(default)]
    pub merges_writes: bool,
    /// Largest merged write.
    #[serde(default)]
    pub merge_limit_kib: u32,
    /// Writes of less than a page are merged at most in pairs, and only if a page of them takes no longer than this.
    #[serde(default)]
    pub part_within_us: f64,
    /// Number of waiting small writes at which half of them are paired. If several zones are written, one of this
    /// number of waiting writes is merged. 0: all are merged.
    #[serde(default)]
    pub merge_waiting: f64,
    /// Maximum share of pairs.
    #[serde(default)]
    pub part_share: f64,
    /// Additional time of a merged write per merged command.
    #[serde(default)]
    pub merged_us: f64,
    /// Upper limit of that time, by size: beyond it, merging overlaps with the previous write.
    #[serde(default)]
    pub merged_limit_us: Curve,
}

/// All paths to the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostModel {
    /// User-space driver.
    pub direct: PathModel,
    /// The kernel's NVMe passthrough; absent if not measured.
    #[serde(default)]
    pub passthrough: Option<PathModel>,
    /// Block layer without scheduler.
    pub none: PathModel,
    /// Block layer with mq-deadline.
    pub mq_deadline: PathModel,
}

/// (KiB, microseconds) points, linear between them and constant outside.
pub(crate) type Curve = Vec<(f64, f64)>;

/// Commands that write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteModel {
    /// Work of a write in the command processor, by size.
    pub controller_write_us: Curve,
    /// Work of an append in the command processor, by size.
    pub controller_append_us: Curve,
    /// Transfer of data to the drive.
    pub transfer_us_per_kib: f64,
    /// Piece size of a write's transfer: a read's data wait for the current piece.
    pub transfer_piece_kib: u32,
    /// Remaining latency of a write, by size; includes the mean of the jitter.
    pub fixed_write_us: Curve,
    /// Remaining latency of an append, by size; includes the mean of the jitter.
    pub fixed_append_us: Curve,
    /// Mean of the exponential part of the latency.
    pub jitter_us: f64,
    /// First write to a zone that it opens.
    pub opening_write_us: f64,
    /// First append to a zone that it opens.
    pub opening_append_us: f64,
    /// First write to a closed zone.
    pub reopening_us: f64,
    /// With blocks below 4 KiB: a serial engine merges small writes; its time per write, by size.
    pub small_block_engine_write_us: Curve,
    /// The same for appends.
    pub small_block_engine_append_us: Curve,
    /// Slowdown factor of this engine for part of the time; it is faster otherwise, so that its mean rate is unchanged.
    /// 1: constant.
    pub small_block_slow: f64,
    /// Share of the slow time, 0 to 0.9.
    pub small_block_slow_share: f64,
    /// Period of the slow times; 0: none.
    pub small_block_phase_ms: f64,
    /// With blocks below 4 KiB: delay of a write or append, by size.
    pub small_block_delay_us: Curve,
    /// With blocks below 4 KiB: how long a group of delayed writes stays open for the next one.
    pub small_block_group_us: f64,
    /// Time to open another group.
    pub small_block_regroup_us: f64,
    /// Appends to one zone that are processed at a time; others wait. 0: any number.
    pub appends_per_zone: u32,
    /// Time of a refused command.
    pub refusal_us: f64,
}

/// Commands that read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadModel {
    /// Latency without dies, channel and link.
    pub fixed_us: f64,
    /// Sensing a page: fast kind.
    pub sense_fast_us: f64,
    /// Sensing a page: slow kind.
    pub sense_slow_us: f64,
    /// Share of the fast kind.
    pub fast_share: f64,
    /// Channel time by size.
    pub channel_us: Curve,
    /// Channel time per KiB beyond the curve.
    pub channel_us_per_kib: f64,
    /// Link time per command.
    pub link_us: f64,
    /// Link time per KiB.
    pub link_us_per_kib: f64,
    /// Read-ahead; absent if the drive has none.
    #[serde(default)]
    pub stream: Option<StreamModel>,
}

/// Read-ahead of one sequential stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamModel {
    /// Latency of a single read, without the path to the drive.
    pub latency_us: Curve,
    /// Reads below this size take the time given by depth.
    pub by_depth_below_kib: u32,
    /// The stream breaks when more reads are in flight than this, by their size in KiB; 0: never.
    pub broken_above: Curve,
    /// Time of each read of a broken stream, by KiB in flight.
    pub broken_us: Curve,
    /// Reads of at least this size delay each other.
    pub large_kib: u32,
    /// Factor by which they take longer, by KiB in flight.
    pub large_factor: Curve,
}

/// Dies, channels and programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashModel {
    /// Dies.
    pub dies: u32,
    /// Channels.
    pub channels: u32,
    /// Data of one program on one die.
    pub unit_kib: u32,
    /// Data released from the buffer at a time, the first as the program starts; a divisor of `unit_kib`.
    pub release_kib: u32,
    /// Time between such releases within one half of a program's data.
    #[serde(default)]
    pub release_us: f64,
    /// Time from the first release of the first half to that of the second half, for programs of several passes.
    #[serde(default)]
    pub second_half_us: f64,
    /// Dies of every stripe that hold parity.
    pub parity_dies: u32,
    /// Crossing the channel, per KiB of a program's data; between two pages the channel serves reads.
    pub load_us_per_kib: f64,
    /// Time of an uninterrupted program, once its data are on the die.
    pub program_us: f64,
    /// Relative variation of program times; keeps dies out of step.
    pub program_spread: f64,
    /// Time after its start during which a program cannot be interrupted.
    pub first_segment_us: f64,
    /// Length of later segments that cannot be interrupted.
    pub segment_us: f64,
    /// Relative variation of the segments of one program.
    pub segment_spread: f64,
    /// From the end of a segment until a die begins the first read.
    pub suspend_us: f64,
    /// Time for reads between two segments; at least one read is served.
    pub gap_us: f64,
    /// Work that an interrupted program has to repeat.
    pub redo_us: f64,
    /// During a reset, length of an erase pulse of a die, during which reads wait.
    pub erase_pulse_us: f64,
    /// Time between such pulses.
    pub erase_pulse_period_us: f64,
    /// Buffer for data on their way to the dies.
    pub buffer_kib: u32,
    /// Data of accepted commands that wait for the buffer; beyond it, reads wait behind them.
    pub window_kib: u32,
}

/// Zone commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneModel {
    /// Open.
    pub open_us: f64,
    /// Close.
    pub close_us: f64,
    /// Reset of a zone that was never opened since its last reset.
    pub reset_untouched_us: f64,
    /// Reset of an opened zone, without the time for its data.
    pub reset_us: f64,
    /// Additional reset time per written 4 KiB.
    pub reset_per_4k_ns: f64,
    /// Additional time of a reset of an open, partly written zone.
    pub reset_open_us: f64,
    /// Minimum data for `reset_open_us`.
    pub reset_open_from_kib: u32,
    /// How long a reset keeps programs from starting, per written 4 KiB.
    pub reset_stops_programs_per_4k_ns: f64,
    /// Factor by which a reset takes longer when every die is programming.
    pub reset_slowdown_under_writes: f64,
    /// Time after a reset until all dies program again and the next reset is slowed down in full.
    pub reset_settle_us: f64,
    /// Finish of a zone without data.
    pub finish_empty_us: f64,
    /// Finish, before and after the padding.
    pub finish_us: f64,
    /// Padding without concurrent commands, per 4 KiB.
    pub finish_per_4k_ns: f64,
    /// An unwritten rest of at most this size is padded at once.
    pub finish_tail_kib: u32,
    /// Finish of such a zone: fast kind.
    pub finish_tail_fast_us: f64,
    /// Finish of such a zone: slow kind.
    pub finish_tail_slow_us: f64,
    /// Share of the slow kind.
    pub finish_tail_slow_share: f64,
    /// Relative spread of reset, finish (a tenth of it), open and close: standard deviation of an exponential part.
    pub spread: f64,
}

/// Garbage collection of a conventional drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GarbageModel {
    /// Erased space of a fresh drive.
    pub fresh_free_mib: u64,
    /// Collection starts below this much erased space.
    pub start_below_mib: u64,
    /// Collection ends above this much erased space.
    pub stop_above_mib: u64,
    /// Valid share of the blocks that are collected.
    pub valid_share: f64,
    /// Programs of the collector in flight.
    pub window: u32,
    /// Additional time for the collector's read before a program.
    pub read_us: f64,
}

impl Model {
    /// Returns the error for a path that the model does not cover.
    pub(crate) fn lacks(&self, path: HostPath) -> ZonedError {
        let known: Vec<&str> =
            HostPath::ALL.into_iter().filter(|path| path.model(self).is_some()).map(HostPath::name).collect();
        ZonedError::Usage(format!(
            "sim:{} does not support path {}; it supports {}",
            self.name,
            path.name(),
            known.join(", ")
        ))
    }

    /// Returns the geometry; `None` selects the default format.
    pub fn geometry(&self, block_bytes: Option<u32>) -> Result<Geometry, ZonedError> {
        let model = &self.geometry;
        let block_bytes = block_bytes.unwrap_or(*model.formats.last().unwrap_or(&4096));
        if !model.formats.contains(&block_bytes) {
            let known: Vec<String> = model.formats.iter().map(u32::to_string).collect();
            return Err(ZonedError::Usage(format!(
                "sim:{} has no LBA format of {block_bytes} B; it has {} B",
                self.name,
                known.join(" B and ")
            )));
        }
        let per_mib = (1 << 20) / u64::from(block_bytes);
        let formats = model.formats.iter().enumerate();
        Ok(Geometry {
            name: format!("sim:{}", self.name),
            zoned: self.zones.is_some(),
            zones: model.zones,
            block_bytes,
            zone_blocks: model.zone_size_mib * per_mib,
            capacity_blocks: model.zone_capacity_mib * per_mib,
            max_open: model.max_open,
            max_active: model.max_active,
            transfer_limit: model.transfer_limit_kib << 10,
            append_limit: model.append_limit_kib << 10,
            formats: formats
                .map(|(index, bytes)| LbaFormat { index: index as u8, block_bytes: *bytes, metadata_bytes: 0 })
                .collect(),
        })
    }
}

/// Converts microseconds to nanoseconds.
pub(crate) fn ns(microseconds: f64) -> u64 {
    (microseconds * 1000.0).round().max(0.0) as u64
}

/// Returns the value of a curve at `kib`; 0 for an empty curve.
pub(crate) fn at(curve: &Curve, kib: f64) -> f64 {
    let Some(first) = curve.first() else { return 0.0 };
    if kib <= first.0 {
        return first.1;
    }
    for pair in curve.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if kib <= x1 {
            return y0 + (y1 - y0) * (kib - x0) / (x1 - x0);
        }
    }
    curve[curve.len() - 1].1
}

#[cfg(test)]
mod tests;
