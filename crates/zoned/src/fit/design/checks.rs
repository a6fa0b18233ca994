//! Check points, to which nothing is fitted: other sizes, depths, numbers of zones and concurrent commands.

use super::Maker;
use crate::fit::probe::Probe;
use crate::job::{Activity, ActorSpec};
use crate::sim::HostPath;
use senesce_core::Bytes;

pub(crate) fn checks(maker: &Maker) -> Vec<Probe> {
    let mut probes = Vec::new();
    for (kib, zones) in [(4, 2), (4, 3), (8, 2), (16, 2), (32, 4), (256, 2)] {
        let actor = ActorSpec { bs: Bytes::kib(kib), zones: maker.written(zones), ..ActorSpec::new(Activity::Write) };
        probes.push(maker.single_actor(
            &format!("write {kib} KiB in {zones} zones"),
            HostPath::Direct,
            actor,
            "0.iops 0.mean 0.p95",
        ));
    }
    for (kib, depth) in [(4, 2), (4, 8), (8, 2), (16, 2), (64, 4)] {
        let actor =
            ActorSpec { bs: Bytes::kib(kib), qd: depth, zones: maker.written(1), ..ActorSpec::new(Activity::Append) };
        let name = format!("append {kib} KiB at depth {depth}");
        probes.push(maker.single_actor(&name, HostPath::Direct, actor, "0.iops 0.mean 0.p95"));
    }
    for (kib, depth) in [(4, 2), (4, 24), (4, 96), (8, 4), (16, 4), (32, 2), (64, 8)] {
        probes.push(maker.random_reads(kib, depth, HostPath::Direct, "0.iops 0.mean 0.p95"));
    }
    for path in [HostPath::None, HostPath::MqDeadline] {
        probes.push(maker.random_reads(4, 4, path, "0.iops 0.mean"));
        probes.push(maker.one_writer(Activity::Write, 32, path, "0.mean"));
    }
    for (kib, depth) in [(4, 16), (8, 4), (16, 8), (32, 2)] {
        probes.push(maker.stream(kib << 10, depth, HostPath::Direct, "0.iops"));
    }
    for (op, share) in
        [(Activity::Reset, 0.25), (Activity::Reset, 0.75), (Activity::Finish, 0.25), (Activity::Finish, 0.75)]
    {
        probes.push(maker.commands(op, Some(share), 20, "0.mean"));
    }
    for (depth, rate) in [(1, 500), (4, 250), (8, 750), (32, 250)] {
        probes.push(maker.reads_with(depth, rate, "0.mean 0.p95"));
    }
    let reads = ActorSpec { qd: 8, zones: maker.read(8), jobs: Some(1), ..ActorSpec::new(Activity::RandomRead) };
    probes.push(maker.concurrent_with_resets(reads, 25, 1.0, "0.iops 0.mean"));
    probes.push(maker.concurrent_with_resets(maker.writers(3), 25, 1.0, "0.iops 1.mean"));
    probes
}
