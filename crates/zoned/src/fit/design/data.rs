//! Reads, writes and appends alone, over each path to the drive.

use super::{Block, Maker};
use crate::fit::probe::{Probe, Work};
use crate::job::{Activity, ActorSpec, Rate};
use crate::sim::HostPath;
use senesce_core::Bytes;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| name.to_string()).collect()
}

/// Slower than any realistic flash, so that the buffer never fills.
const UNHURRIED: Rate = Rate(Bytes(300 << 20));

impl Maker {
    /// Writes or appends of `kib` KiB at depth 1 in one zone. From 8 KiB on the rate is limited, because the flash
    /// could be the bottleneck.
    pub(super) fn one_writer(&self, op: Activity, kib: u64, path: HostPath, kept: &str) -> Probe {
        let rate = (kib > 4).then_some(UNHURRIED);
        let actor = ActorSpec { bs: Bytes::kib(kib), zones: self.written(1), rate, ..ActorSpec::new(op) };
        let kept = if rate.is_some() { "0.mean" } else { kept };
        self.opened(self.single_actor(&format!("{} {kib} KiB alone", op.name()), path, actor, kept))
    }

    /// Returns a probe of the maximum number of zones that can be written concurrently, `depth` in each.
    fn all_zones(&self, op: Activity, kib: u64, depth: u32, count: Option<u64>, kept: &str) -> Probe {
        let actor = ActorSpec { bs: Bytes::kib(kib), qd: depth, zones: self.written(8), count, ..ActorSpec::new(op) };
        let words = if count.is_some() { ", a burst" } else { "" };
        let name = format!("{} {kib} KiB in {} zones at depth {depth}{words}", op.name(), actor.zones.count());
        self.opened(self.single_actor(&name, HostPath::Direct, actor, kept))
    }

    pub(super) fn random_reads(&self, kib: u64, depth: u32, path: HostPath, kept: &str) -> Probe {
        self.random_bytes(&format!("randread {kib} KiB at depth {depth}"), kib << 10, depth, path, kept)
    }

    /// Returns a probe of random reads. Queueing of reads shows only in long runs: the deeper, the longer the dies'
    /// queues stay uneven.
    fn random_bytes(&self, name: &str, bytes: u64, depth: u32, path: HostPath, kept: &str) -> Probe {
        let (bs, zones, jobs) = (Bytes(bytes), self.read(8), Some(1));
        let count = Some(self.effort.commands * if (24..256).contains(&depth) { 2 } else { 1 });
        let actor = ActorSpec { bs, qd: depth, zones, jobs, count, ..ActorSpec::new(Activity::RandomRead) };
        self.often(if depth == 1 { 5 } else { 20 }, self.single_actor(name, path, actor, kept))
    }

    pub(super) fn stream(&self, bytes: u64, depth: u32, path: HostPath, kept: &str) -> Probe {
        let actor =
            ActorSpec { bs: Bytes(bytes), qd: depth, zones: self.read(1), ..ActorSpec::new(Activity::SequentialRead) };
        self.single_actor(&format!("seqread {} at depth {depth}", Bytes(bytes)), path, actor, kept)
    }

    fn in_small_blocks(&self, mut probe: Probe) -> Probe {
        if let Work::Job(job) = &mut probe.work {
            job.lbaf = Some(512);
        }
        probe.key.push_str(", blocks of 512 B");
        probe
    }
}

/// Returns the probes for command processor, transfer, remaining latency of writes, and host time.
pub(crate) fn writes(maker: &Maker) -> Block {
    let mut probes = Vec::new();
    for op in [Activity::Write, Activity::Append] {
        let depth = if op == Activity::Append { 4 } else { 1 };
        probes.push(maker.one_writer(op, 4, HostPath::Direct, "0.iops 0.mean 0.p95"));
        probes.extend([8, 16, 128].map(|kib| maker.one_writer(op, kib, HostPath::Direct, "0.mean")));
        probes.push(maker.all_zones(op, 4, depth, None, "0.iops"));
        // From 8 KiB on only a burst that fits the buffer is not limited by the flash.
        probes.push(maker.all_zones(op, 8, depth, Some(40), "0.iops 0.mean"));
    }
    let constants = names(&[
        "host.direct.reap_us",
        "write.controller_write_us@4",
        "write.controller_write_us@8",
        "write.controller_append_us@4",
        "write.controller_append_us@8",
        "write.transfer_us_per_kib",
        "write.fixed_write_us@4",
        "write.fixed_write_us@8",
        "write.fixed_write_us@16",
        "write.fixed_append_us@4",
        "write.fixed_append_us@8",
        "write.fixed_append_us@16",
        "write.jitter_us",
    ]);
    Block { name: "writes and appends".into(), constants, probes }
}

pub(crate) fn reads(maker: &Maker) -> Block {
    let mut probes = vec![maker.random_reads(4, 1, HostPath::Direct, "0.mean 0.p05 0.p95 0.low")];
    for (kib, depth) in [
        (4, 8),
        (4, 16),
        (4, 32),
        (4, 64),
        (4, 128),
        (8, 1),
        (8, 32),
        (16, 1),
        (16, 16),
        // As many as the link does not slow: waiting for channels shows how long they are busy.
        (16, 24),
        (16, 256),
        (64, 1),
        (128, 1),
        (128, 64),
    ] {
        let kept = if depth == 1 { "0.mean" } else { "0.iops" };
        probes.push(maker.random_reads(kib, depth, HostPath::Direct, kept));
    }
    let mut constants = names(&[
        "read.fixed_us",
        "read.sense_fast_us",
        "read.sense_slow_us",
        "read.fast_share",
        "read.channel_us@4",
        "read.channel_us@8",
        "read.channel_us@16",
        "read.channel_us_per_kib",
        "read.link_us",
        "read.link_us_per_kib",
    ]);
    if maker.small {
        // Reads of less than a page leave the link idle, so they show best how long dies and channels are busy.
        constants.push("read.channel_us@0.5".into());
        for (depth, kept) in [(1, "0.mean"), (16, "0.iops"), (64, "0.iops"), (128, "0.iops")] {
            let name = format!("randread 512 B at depth {depth}");
            probes.push(maker.in_small_blocks(maker.random_bytes(&name, 512, depth, HostPath::Direct, kept)));
        }
    }
    Block { name: "random reads".into(), constants, probes }
}

/// Returns the probes for the additional cost of a path other than the direct one.
pub(crate) fn host(maker: &Maker, path: HostPath) -> Block {
    let word = path.name().replace('-', "_");
    let mut constants = vec![format!("host.{word}.reap_us")];
    let knots: &[&str] =
        if path == HostPath::Passthrough { &["4", "8", "64"] } else { &["4", "8", "8.5", "16", "64", "128"] };
    constants.extend(knots.iter().map(|knot| format!("host.{word}.delay_us@{knot}")));
    let mut probes = vec![maker.one_writer(Activity::Write, 4, path, "0.iops 0.mean")];
    probes.extend([8, 12, 16, 64, 128].map(|kib| maker.one_writer(Activity::Write, kib, path, "0.mean")));
    if path != HostPath::Passthrough {
        constants.extend(["link_us", "link_us_per_kib"].map(|name| format!("host.{word}.{name}")));
        probes.extend([16, 128].map(|kib| maker.random_reads(kib, 256, path, "0.iops")));
    }
    Block { name: format!("the path {}", path.name()), constants, probes }
}

pub(crate) fn streams(maker: &Maker, path: HostPath) -> Block {
    let word = path.name().replace('-', "_");
    let kib = |kib: u64, depth: u32, kept: &str| maker.stream(kib << 10, depth, path, kept);
    let mut probes: Vec<Probe> = [8, 16, 32].map(|bs| kib(bs, 16, "0.iops")).into();
    probes.extend([(64, 32), (128, 16)].map(|(bs, depth)| kib(bs, depth, "0.iops")));
    let mut constants: Vec<String> = [8, 16, 32, 64, 128].map(|knot| format!("host.{word}.stream_us@{knot}")).into();
    let depths: &[u32] = match path {
        HostPath::Direct => &[4, 8, 64, 512],
        HostPath::None => &[4, 8, 16, 32, 128, 512],
        _ => &[4, 8, 16, 32, 512],
    };
    constants.extend(depths.iter().map(|depth| format!("host.{word}.stream_by_depth_us@{depth}")));
    probes.extend(depths.iter().map(|depth| kib(4, *depth, "0.iops")));
    if path == HostPath::Direct {
        probes.extend([4, 8, 16, 32, 64, 128].map(|bs| kib(bs, 1, "0.mean")));
        constants.extend([4, 8, 16, 32, 64, 128].map(|knot| format!("read.stream.latency_us@{knot}")));
        probes.extend([2, 4, 8, 16].map(|depth| kib(64, depth, "0.iops")));
        constants.extend([128, 256, 512, 1024].map(|knot| format!("read.stream.large_factor@{knot}")));
    }
    Block { name: format!("sequential reads, {}", path.name()), constants, probes }
}

pub(crate) fn small_blocks(maker: &Maker) -> Block {
    let mut probes = Vec::new();
    for (op, depth) in [(Activity::Write, 1), (Activity::Append, 2)] {
        for bytes in [512, 1024, 2048, 4096, 6144] {
            let actor = ActorSpec { bs: Bytes(bytes), qd: depth, zones: maker.written(8), ..ActorSpec::new(op) };
            let name = format!("{} {bytes} B in {} zones", op.name(), actor.zones.count());
            let kept = if bytes == 512 { "0.iops 0.p50 0.p95 0.low" } else { "0.iops" };
            probes.push(maker.in_small_blocks(maker.single_actor(&name, HostPath::Direct, actor, kept)));
        }
        for bytes in [4096, 6144] {
            let actor = ActorSpec { bs: Bytes(bytes), zones: maker.written(1), ..ActorSpec::new(op) };
            let name = format!("{} {bytes} B alone", op.name());
            probes.push(maker.in_small_blocks(maker.single_actor(&name, HostPath::Direct, actor, "0.mean")));
        }
    }
    let knots = ["0.5", "1", "2", "2.001", "7.999"];
    let mut constants: Vec<String> = knots.map(|knot| format!("write.small_block_engine_write_us@{knot}")).into();
    constants.extend(knots.map(|knot| format!("write.small_block_engine_append_us@{knot}")));
    constants.extend(["2.001", "7.999"].map(|knot| format!("write.small_block_delay_us@{knot}")));
    constants.extend(names(&["write.small_block_slow", "write.small_block_slow_share"]));
    Block { name: "blocks of 512 B, writes and appends".into(), constants, probes }
}

pub(crate) fn small_streams(maker: &Maker) -> Block {
    let probes = [512, 1024, 2048].map(|bytes| maker.stream(bytes, 1, HostPath::Direct, "0.mean"));
    let probes = probes.map(|probe| maker.in_small_blocks(probe)).into();
    let constants = ["0.5", "1", "2"].map(|knot| format!("read.stream.latency_us@{knot}")).into();
    Block { name: "blocks of 512 B, reads".into(), constants, probes }
}
