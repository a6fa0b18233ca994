//! A model's curves and constants in nanoseconds, with lookup by size in one step.

use super::model::{Curve, Model, PathModel, WriteModel, at, ns};
use crate::command::Operation;

/// Path from the program to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostPath {
    /// User-space driver; the same as passthrough on a real drive, which has none.
    #[default]
    Direct,
    /// The kernel's NVMe passthrough.
    Passthrough,
    /// Block layer without scheduler.
    None,
    /// Block layer with mq-deadline.
    MqDeadline,
}

impl HostPath {
    pub const ALL: [Self; 4] = [Self::Direct, Self::Passthrough, Self::None, Self::MqDeadline];

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Passthrough => "passthrough",
            Self::None => "none",
            Self::MqDeadline => "mq-deadline",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name() == name)
    }

    /// Returns whether commands, including appends, bypass the block layer.
    pub fn bypasses_block_layer(self) -> bool {
        matches!(self, Self::Direct | Self::Passthrough)
    }

    /// Parameters of this path; `None`: not covered by the model.
    pub(crate) fn model(self, model: &Model) -> Option<&PathModel> {
        match self {
            Self::Direct => Some(&model.host.direct),
            Self::Passthrough => model.host.passthrough.as_ref(),
            Self::None => Some(&model.host.none),
            Self::MqDeadline => Some(&model.host.mq_deadline),
        }
    }
}

/// Sizes are looked up in steps of 512 B up to 1 MiB; larger ones use the last entry.
const STEP_SHIFT: u32 = 9;
const STEPS: usize = 2049;

/// Times of one data command by size, in nanoseconds.
#[derive(Debug)]
pub(crate) struct SizeTable(Box<[u64]>);

impl SizeTable {
    pub(crate) fn new(curve: &Curve) -> Self {
        let kib = |step: usize| (step << STEP_SHIFT) as f64 / 1024.0;
        Self((0..STEPS).map(|step| ns(at(curve, kib(step)))).collect())
    }

    #[inline]
    pub(crate) fn get(&self, bytes: u32) -> u64 {
        let step = (bytes >> STEP_SHIFT) as usize;
        self.0[step.min(STEPS - 1)]
    }
}

#[derive(Debug)]
pub(crate) struct WriteTiming {
    pub controller: SizeTable,
    /// Latency besides queueing, without jitter.
    pub fixed: SizeTable,
    /// Time of the engine for small blocks; 0: not used.
    pub engine: SizeTable,
    small_delay: SizeTable,
    /// Time to open another group of small blocks; 0: not grouped.
    pub regroup: SizeTable,
    pub opening: u64,
}

#[derive(Debug)]
pub(crate) struct Phases {
    period: u64,
    slow_until: u64,
    slow: u64,
    fast: u64,
}

impl Phases {
    fn new(model: &WriteModel) -> Self {
        let (share, slow) = (model.small_block_slow_share, model.small_block_slow);
        // The mean rate is unchanged: share / slow + (1 - share) / fast = 1.
        let fast = (1.0 - share) / (1.0 - share / slow);
        let period = ns(model.small_block_phase_ms * 1000.0);
        let slow_until = (period as f64 * share) as u64;
        Self { period, slow_until, slow: (slow * 1000.0) as u64, fast: (fast * 1000.0) as u64 }
    }

    #[inline]
    pub(crate) fn engine(&self, now: u64, time: u64) -> u64 {
        if self.period == 0 {
            return time;
        }
        time * if now % self.period < self.slow_until { self.slow } else { self.fast } / 1000
    }
}

#[derive(Debug)]
pub(crate) struct Timing {
    pub write: WriteTiming,
    pub append: WriteTiming,
    pub jitter: u64,
    /// Transfer in picoseconds per byte, exact for 4 KiB.
    pub transfer_ps_per_byte: u64,
    /// Transfer of one piece, after which reads are served.
    pub transfer_piece: u64,
    pub phases: Phases,
    pub group: u64,
    pub reopening: u64,
    pub refusal: u64,
    /// A read without dies, channel and link.
    pub read_fixed: u64,
    pub submit: u64,
    pub reap: u64,
    merged: u64,
    merged_limit: SizeTable,
    pub delay: SizeTable,
    /// Small writes are merged in pairs if a page of them takes at most this long.
    pub part_within: u64,
    /// Number of waiting writes for one merge: of small ones, and of whole ones if several zones are written.
    pub merge_waiting: f64,
    pub part_share: f64,
    /// Maximum bytes of a merged write; `None`: no merging.
    pub merge_limit: Option<u32>,
}

impl Timing {
    pub(crate) fn new(model: &Model, block_bytes: u32, way: &PathModel) -> Self {
        let write = &model.write;
        Self {
            write: WriteTiming::new(write, block_bytes, Operation::Write),
            append: WriteTiming::new(write, block_bytes, Operation::Append),
            jitter: ns(write.jitter_us),
            transfer_ps_per_byte: (write.transfer_us_per_kib * 1e6 / 1024.0).round() as u64,
            transfer_piece: ns(write.transfer_us_per_kib * f64::from(write.transfer_piece_kib)).max(1),
            phases: Phases::new(write),
            group: ns(write.small_block_group_us),
            reopening: ns(write.reopening_us),
            refusal: ns(write.refusal_us),
            read_fixed: ns(model.read.fixed_us),
            submit: ns(way.submit_us),
            reap: ns(way.reap_us),
            merged: ns(way.merged_us),
            merged_limit: SizeTable::new(&way.merged_limit_us),
            delay: SizeTable::new(&way.delay_us),
            part_within: ns(way.part_within_us),
            merge_waiting: way.merge_waiting,
            part_share: way.part_share,
            merge_limit: way.merges_writes.then_some(way.merge_limit_kib << 10),
        }
    }

    /// Returns the additional time for merging `commands` into another one, now of `bytes`.
    pub(crate) fn merging(&self, commands: u64, bytes: u32) -> u64 {
        (commands * self.merged).min(self.merged_limit.get(bytes))
    }
}

impl WriteTiming {
    /// Returns the additional delay of a merged write of `bytes` that consists of parts of `part_bytes` for the engine.
    pub(crate) fn small_delay(&self, part_bytes: u32, bytes: u32) -> u64 {
        let engine = self.engine.get(part_bytes) > 0 && self.engine.get(bytes) == 0;
        if engine { self.small_delay.get(part_bytes) } else { 0 }
    }

    fn new(model: &WriteModel, block_bytes: u32, operation: Operation) -> Self {
        let append = operation == Operation::Append;
        let choose = |for_write, for_append| if append { for_append } else { for_write };
        let small = block_bytes < 4096;
        let jitter = model.jitter_us;
        let fixed = choose(&model.fixed_write_us, &model.fixed_append_us);
        let delay = &model.small_block_delay_us;
        let engine = choose(&model.small_block_engine_write_us, &model.small_block_engine_append_us);
        let mut table = SizeTable::new(fixed);
        for (step, entry) in table.0.iter_mut().enumerate() {
            let kib = (step << STEP_SHIFT) as f64 / 1024.0;
            *entry = ns(at(fixed, kib) - jitter + if small { at(delay, kib) } else { 0.0 });
        }
        let none = Curve::new();
        let grouped = |(kib, delay): &(f64, f64)| (*kib, if *delay > 0.0 { model.small_block_regroup_us } else { 0.0 });
        Self {
            controller: SizeTable::new(choose(&model.controller_write_us, &model.controller_append_us)),
            fixed: table,
            small_delay: SizeTable::new(if small { delay } else { &none }),
            engine: SizeTable::new(if small { engine } else { &none }),
            regroup: SizeTable::new(&if small { delay.iter().map(grouped).collect() } else { Curve::new() }),
            opening: ns(if append { model.opening_append_us } else { model.opening_write_us }),
        }
    }
}
