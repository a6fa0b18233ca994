//! Zone commands alone.

use super::{Block, Maker};
use crate::fit::probe::{Probe, Work};
use crate::fit::singles;
use crate::job::{Activity, ActorSpec};
use crate::sim::HostPath;

impl Maker {
    /// Resets or finishes of zones that are filled to a share; `None`: zones as they are, each once.
    pub(super) fn commands(&self, op: Activity, share: Option<f64>, rounds: u32, kept: &str) -> Probe {
        let actor = ActorSpec {
            zones: self.written(4),
            jobs: Some(1),
            occupancy: share,
            count: Some(u64::from(rounds)),
            ..ActorSpec::new(op)
        };
        let name = format!("{} of zones that are full to {}", op.name(), share.unwrap_or(0.0));
        self.single_actor(&name, HostPath::Direct, actor, kept)
    }

    fn one_block(&self) -> f64 {
        1.0 / self.geometry.capacity_blocks as f64
    }

    /// Returns the number of resets or finishes of zones that must be written first.
    fn few(&self) -> u32 {
        if self.simulated { self.effort.rounds } else { self.effort.rounds.div_ceil(5) }
    }
}

pub(crate) fn single_commands(maker: &Maker) -> Block {
    let (zone, rounds, block_bytes) = (maker.first, maker.effort.rounds, maker.block);
    let kept: Vec<&str> = singles::NAMES.to_vec();
    let probe = Probe::new("single commands", Work::Singles { zone, rounds, block_bytes }, &kept.join(" "));
    let constants = [
        "write.opening_write_us",
        "write.opening_append_us",
        "write.reopening_us",
        "write.refusal_us",
        "zones.open_us",
        "zones.close_us",
        "zones.reset_untouched_us",
        "zones.finish_empty_us",
    ];
    Block { name: "single commands".into(), constants: constants.map(str::to_string).into(), probes: vec![probe] }
}

/// Resets by fill level. Their spread shows in percentiles, which need many resets; on simulated drives they are cheap.
pub(crate) fn resets(maker: &Maker) -> Block {
    let rounds = if maker.simulated { maker.effort.rounds * 10 } else { maker.few() };
    let of = |share, kept| maker.commands(Activity::Reset, Some(share), rounds, kept);
    let all = "0.mean 0.p50 0.p95";
    let probes = vec![of(maker.one_block(), all), of(0.5, all), of(1.0, all)];
    let constants = ["zones.reset_us", "zones.reset_per_4k_ns", "zones.reset_open_us", "zones.spread"];
    Block { name: "resets".into(), constants: constants.map(str::to_string).into(), probes }
}

pub(crate) fn finishes(maker: &Maker) -> Block {
    let of = |share, kept| maker.commands(Activity::Finish, Some(share), maker.few(), kept);
    // The rare long finish of an almost full zone needs many samples; on simulated drives they are cheap.
    let rounds = if maker.simulated { maker.effort.rounds * 10 } else { maker.few() };
    let almost = maker.commands(Activity::Finish, Some(0.999), rounds, "0.mean 0.p50 0.p95 0.low");
    let almost = maker.often(10, almost);
    let probes = vec![of(maker.one_block(), "0.mean"), of(0.5, "0.mean"), of(0.9, "0.mean"), almost];
    let constants = [
        "zones.finish_us",
        "zones.finish_per_4k_ns",
        "zones.finish_tail_fast_us",
        "zones.finish_tail_slow_us",
        "zones.finish_tail_slow_share",
    ];
    Block { name: "finishes".into(), constants: constants.map(str::to_string).into(), probes }
}
