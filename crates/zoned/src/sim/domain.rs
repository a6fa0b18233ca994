//! What a model does not know: actors whose numbers it computes but cannot answer for.

use super::model::Model;
use crate::job::{Activity, CheckedActor, CheckedJob};

/// Depths of sequential reads beyond this are not modelled.
const DEEPEST_STREAM: u32 = 64;

/// Bytes per write beside which reads were measured in full.
const LARGEST_WRITE_BESIDE_READS: u64 = 128 << 10;

/// For each actor of a job, why its result is outside of the model; `None`: it is inside.
pub fn outside(model: &Model, checked: &CheckedJob, block_bytes: u32) -> Vec<Option<String>> {
    let heavy = |actor: &CheckedActor| actor.spec.op.streams_writes() && actor.spec.bs.0 > LARGEST_WRITE_BESIDE_READS;
    let beside_heavy_writes = checked.actors.iter().any(heavy);
    let reason = |actor: &CheckedActor| {
        if actor.spec.op == Activity::RandomRead && beside_heavy_writes {
            return Some(
                "reads beside writes above 128 KiB: how long they wait behind them is known to a factor of 2".into(),
            );
        }
        if actor.spec.op != Activity::SequentialRead {
            return None;
        }
        let why = if model.read.stream.is_none() {
            "the model has no read-ahead"
        } else if checked.workers() > 1 {
            "the drive reads ahead of one stream, and how it does so beside other commands is not modelled"
        } else if actor.spec.qd > DEEPEST_STREAM {
            "read-ahead at depths above 64 is not modelled"
        } else if block_bytes >= 4096 {
            "read-ahead was measured with blocks of 512 B only"
        } else {
            return None;
        };
        Some(format!("sequential reads: {why}"))
    };
    checked.actors.iter().map(reason).collect()
}
