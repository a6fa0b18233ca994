//! Probes of the flash's throughput and of concurrent commands.

use super::{Block, Maker};
use crate::fit::probe::Probe;
use crate::job::{Activity, ActorSpec, Preparation, PrepareStep, Rate, Span};
use senesce_core::Bytes;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| name.to_string()).collect()
}

impl Maker {
    /// Returns the factor of a probe's duration: few reads in flight give few samples per second; many are slow to
    /// simulate.
    fn for_depth(&self, depth: u32) -> f64 {
        match depth {
            _ if !self.simulated => 1.0,
            1 => 2.0,
            2..=8 => 1.0,
            9..=16 => 0.5,
            _ => 0.25,
        }
    }

    /// Returns a probe of random reads of 4 KiB next to one writer of 128 KiB.
    pub(super) fn reads_with(&self, depth: u32, mib_per_s: u64, kept: &str) -> Probe {
        let reader =
            ActorSpec { qd: depth, zones: self.read(8), jobs: Some(1), ..ActorSpec::new(Activity::RandomRead) };
        let writer = ActorSpec {
            bs: Bytes::kib(128),
            zones: self.written(8),
            jobs: Some(1),
            rate: Some(Rate(Bytes::mib(mib_per_s))),
            ..ActorSpec::new(Activity::Write)
        };
        let name = format!("randread 4 KiB at depth {depth} next to a writer of {mib_per_s} MiB/s");
        let times = self.for_depth(depth);
        self.often(8, self.together(&name, vec![reader, writer], self.effort.seconds * times, kept))
    }

    /// Returns a probe of the same reads next to unlimited writers. Nearly all dies program all the time, so almost
    /// every read meets a program.
    fn reads_with_writers(&self, depth: u32, kept: &str) -> Probe {
        let reader =
            ActorSpec { qd: depth, zones: self.read(8), jobs: Some(1), ..ActorSpec::new(Activity::RandomRead) };
        let name = format!("randread 4 KiB at depth {depth} next to writers of 128 KiB");
        let seconds = self.effort.seconds * self.for_depth(depth);
        self.often(8, self.together(&name, vec![reader, self.writers(4)], seconds, kept))
    }

    /// Returns a probe of an actor next to `per_second` resets. They reset full zones, each once, or zones that are
    /// filled to a share before each reset.
    pub(super) fn concurrent_with_resets(&self, actor: ActorSpec, per_second: u32, to: f64, kept: &str) -> Probe {
        let resetter = ActorSpec {
            zones: self.reset(),
            jobs: Some(1),
            occupancy: (to < 1.0).then_some(to),
            rate: Some(Rate(Bytes(self.geometry.capacity_bytes() * u64::from(per_second)))),
            ..ActorSpec::new(Activity::Reset)
        };
        let times = if actor.op.reads() { self.for_depth(actor.qd) } else { 1.0 };
        let seconds = (f64::from(self.others) / f64::from(per_second)).min(self.effort.seconds * times);
        let name = format!(
            "{} {} at depth {} next to {per_second} resets/s{}",
            actor.op.name(),
            actor.bs,
            actor.qd * actor.jobs.unwrap_or(1),
            if to < 1.0 { format!(" of zones that are full to {to}") } else { String::new() }
        );
        let before = if actor.op.reads() { PrepareStep::Fill } else { PrepareStep::Reset };
        let filled = if to < 1.0 { PrepareStep::Reset } else { PrepareStep::Fill };
        let prepared = [(before, actor.zones), (filled, resetter.zones)];
        let mut probe = self.together(&name, vec![actor, resetter], seconds, kept);
        if let crate::fit::probe::Work::Job(job) = &mut probe.work {
            job.prepare = Some(prepared.map(|(step, zones)| Preparation { step, zones, to: 1.0 }).into());
        }
        self.often(8, probe)
    }

    /// Appends `mib` MiB at once, to one zone after the other with pauses in between.
    fn bursts(&self, mib: u64) -> Probe {
        let actor = |number: u32| ActorSpec {
            name: format!("burst {number}"),
            bs: Bytes::kib(128),
            qd: 4,
            zones: crate::job::Zones::Range(self.first + number, self.first + number + 1),
            start: Span::seconds(0.2 * f64::from(number)),
            count: Some(mib * 8),
            ..ActorSpec::new(Activity::Append)
        };
        let actors: Vec<ActorSpec> = (0..self.half).map(actor).collect();
        let kept: Vec<String> = (0..self.half).map(|number| format!("{number}.iops")).collect();
        let mut probe = self.together(&format!("append {mib} MiB at once"), actors, 0.0, &kept.join(" "));
        if let crate::fit::probe::Work::Job(job) = &mut probe.work {
            job.ramp = Span::default();
        }
        self.often(8, self.opened(probe))
    }

    /// Returns unlimited writers of 128 KiB.
    pub(super) fn writers(&self, count: u32) -> ActorSpec {
        let zones = self.written(count);
        ActorSpec { bs: Bytes::kib(128), zones, jobs: Some(zones.count()), ..ActorSpec::new(Activity::Write) }
    }
}

pub(crate) fn flash(maker: &Maker) -> Block {
    let mut probes = vec![maker.together("write 128 KiB in 4 zones", vec![maker.writers(4)], 2.0, "0.iops")];
    probes.extend([10, 12, 14, 16, 20, 24].map(|mib| maker.bursts(mib)));
    let reader = ActorSpec { qd: 4, zones: maker.read(8), jobs: Some(1), ..ActorSpec::new(Activity::RandomRead) };
    // Writes to one zone may be reordered on the way to a real drive.
    let op = if maker.simulated { Activity::Write } else { Activity::Append };
    let zones = maker.written(if maker.simulated { 4 } else { 8 });
    // A read waits for commands in flight beyond the window: if slightly more than the window is in flight, most of it
    // is window.
    probes.extend([48, 128].map(|qd| {
        let writers = ActorSpec { bs: Bytes::kib(256), qd, zones, jobs: Some(zones.count()), ..ActorSpec::new(op) };
        let name = format!("randread 4 KiB at depth 4 next to unlimited {}s of 256 KiB at depth {qd}", op.name());
        maker.often(8, maker.together(&name, vec![reader.clone(), writers], maker.effort.seconds, "0.mean"))
    }));
    let constants = names(&["flash.program_us", "flash.buffer_kib", "flash.window_kib"]);
    Block { name: "programs and buffer".into(), constants, probes }
}

/// Progress of appends to one zone next to writers.
pub(crate) fn appends(maker: &Maker) -> Block {
    let writers = ActorSpec {
        zones: crate::job::Zones::Range(maker.first, maker.first + maker.half.max(2) - 1),
        ..ActorSpec::new(Activity::Write)
    };
    let last = maker.first + maker.half.max(2) - 1;
    let appends =
        ActorSpec { qd: 16, zones: crate::job::Zones::Range(last, last + 1), ..ActorSpec::new(Activity::Append) };
    let probe =
        maker.together("append 4 KiB at depth 16 next to writers", vec![appends, writers], 0.5, "0.iops 1.iops");
    Block { name: "appends to one zone".into(), constants: names(&["write.appends_per_zone"]), probes: vec![probe] }
}

pub(crate) fn reads_with_writes(maker: &Maker) -> Block {
    // A single read meets one segment of one program. Percentiles separate first segments from later ones.
    let mut probes = vec![maker.reads_with(1, 750, "0.mean 0.p50 0.p75 0.p95 0.p99")];
    probes.push(maker.reads_with(16, 750, "0.mean 0.p50 0.p95"));
    probes.push(maker.reads_with(4, 500, "0.mean 0.p50 0.p95 0.p99"));
    probes.push(maker.reads_with(64, 1000, "0.mean 0.p50 1.iops"));
    // If every read meets a program, reads near the end of a segment wait only for the suspension.
    probes.extend([4, 16].map(|depth| maker.reads_with_writers(depth, "0.mean 0.p05 0.p10 0.p20 0.p50 0.p95 1.iops")));
    let constants =
        names(&["flash.first_segment_us", "flash.segment_us", "flash.suspend_us", "flash.gap_us", "flash.redo_us"]);
    Block { name: "reads next to writes".into(), constants, probes }
}

pub(crate) fn resets(maker: &Maker) -> Block {
    let reads = |qd| ActorSpec { qd, zones: maker.read(8), jobs: Some(1), ..ActorSpec::new(Activity::RandomRead) };
    let mut probes = vec![
        maker.concurrent_with_resets(reads(1), 30, 1.0, "0.mean 0.p50 0.p75 0.p95 0.p99"),
        maker.concurrent_with_resets(reads(1), 50, 1.0, "0.mean 0.p50 0.p75 0.p95 0.p99"),
        maker.concurrent_with_resets(reads(16), 30, 1.0, "0.iops"),
        maker.concurrent_with_resets(reads(64), 50, 1.0, "0.iops"),
        maker.concurrent_with_resets(maker.writers(4), 15, 1.0, "0.iops 1.mean"),
        maker.concurrent_with_resets(maker.writers(4), 30, 1.0, "0.iops 1.mean"),
        maker.concurrent_with_resets(maker.writers(4), 50, 1.0, "0.iops 1.mean"),
    ];
    if maker.simulated {
        // Programs have not settled when the next reset comes. Filling zones in between would add a writer on a real
        // drive.
        let short = [(60, 0.5), (100, 0.25)];
        probes
            .extend(short.map(|(rate, to)| maker.concurrent_with_resets(maker.writers(4), rate, to, "0.iops 1.mean")));
    }
    let constants = names(&[
        "flash.erase_pulse_us",
        "flash.erase_pulse_period_us",
        "zones.reset_stops_programs_per_4k_ns",
        "zones.reset_slowdown_under_writes",
        "zones.reset_settle_us",
    ]);
    Block { name: "commands next to resets".into(), constants, probes }
}
