//! The domain of a model: marks actors for which it computes values that are not validated.

use super::HostPath;
use super::model::Model;
use crate::job::{Activity, CheckedActor, CheckedJob};

/// Sequential reads beyond this depth are not modelled.
const DEEPEST_STREAM: u32 = 64;

/// Maximum bytes per write measured next to smaller writes.
const LARGEST_OVERTAKEN: u64 = 64 << 10;
/// Maximum bytes per write measured next to reads.
const LARGEST_WRITE_BESIDE_READS: u64 = 128 << 10;

/// Up to this number of workers with depth 1, the rate was limited by the measuring host.
const FEW_WRITERS: u32 = 2;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OutsideDomain {
    pub all: Option<String>,
    pub rates: Option<String>,
    pub latencies: Option<String>,
}

pub(crate) fn outside(model: &Model, checked: &CheckedJob, block_bytes: u32) -> Vec<OutsideDomain> {
    let of = |actor: &CheckedActor| OutsideDomain {
        all: reads(model, checked, actor, block_bytes),
        rates: few_writers(checked, actor).or_else(|| larger_than_others(checked, actor)),
        latencies: latencies(checked, actor),
    };
    checked.actors.iter().map(of).collect()
}

fn reads(model: &Model, checked: &CheckedJob, actor: &CheckedActor, block_bytes: u32) -> Option<String> {
    let heavy = |actor: &CheckedActor| actor.spec.op.streams_writes() && actor.spec.bs.0 > LARGEST_WRITE_BESIDE_READS;
    if actor.spec.op == Activity::RandomRead && checked.actors.iter().any(heavy) {
        return Some("reads next to writes above 128 KiB: their waiting time is known to a factor of 2".into());
    }
    if actor.spec.op != Activity::SequentialRead {
        return None;
    }
    let way = checked.job.path.model(model);
    let why = if model.read.stream.is_none() {
        "the model has no read-ahead"
    } else if way.is_none_or(|way| way.stream_us.is_empty()) {
        "read-ahead was not measured over this path"
    } else if checked.workers() > 1 {
        "the drive reads ahead of one stream, and its behaviour next to other commands is not modelled"
    } else if actor.spec.qd > DEEPEST_STREAM {
        "read-ahead at depths above 64 is not modelled"
    } else if block_bytes >= 4096 {
        "read-ahead was measured with blocks of 512 B only"
    } else {
        return None;
    };
    Some(format!("sequential reads: {why}"))
}

fn has_concurrent_changes(checked: &CheckedJob, actor: &CheckedActor) -> bool {
    checked.actors.iter().any(|other| other.spec.name != actor.spec.name && !other.spec.op.reads())
}

/// Warns about few writers: concurrent commands were measured through the kernel's passthrough. It takes about 4 us
/// more per command than the user-space driver of the other tables. With one or two writers that is most of the
/// difference.
fn few_writers(checked: &CheckedJob, actor: &CheckedActor) -> Option<String> {
    let measured = checked.job.path == HostPath::Passthrough;
    (!measured && is_few(actor) && actor.spec.rate.is_none() && has_concurrent_changes(checked, actor)).then(|| {
        "one or two writes in flight next to other writes or zone commands were measured by passthrough only, whose host takes \
             about 4 us more per command than this path; use --path passthrough"
            .into()
    })
}

/// Requests that do not fit the buffer are overtaken by smaller ones; how often was measured only with rate-limited
/// writers (t13).
fn larger_than_others(checked: &CheckedJob, actor: &CheckedActor) -> Option<String> {
    let is_smaller = |other: &CheckedActor| other.spec.op.streams_writes() && other.spec.bs.0 < actor.spec.bs.0;
    let is_overtaken = actor.spec.op.streams_writes() && checked.actors.iter().any(is_smaller);
    (is_overtaken && (actor.spec.rate.is_none() || actor.spec.bs.0 > LARGEST_OVERTAKEN)).then(|| {
        "writes next to smaller ones: how often these overtake a larger one was measured only up to 64 KiB with a rate, so the error may be \
             large"
            .into()
    })
}

fn is_few(actor: &CheckedActor) -> bool {
    actor.spec.op.streams_writes() && actor.jobs * actor.spec.qd <= FEW_WRITERS
}

/// Warns about latencies: a real drive assigns programs of a zone to a fixed die, the model to the next free one.
/// Writers with a low rate wait longer than modelled.
fn latencies(checked: &CheckedJob, actor: &CheckedActor) -> Option<String> {
    if !actor.spec.op.streams_writes() || !has_concurrent_changes(checked, actor) {
        return None;
    }
    if actor.spec.rate.is_some() {
        return Some(
            "latencies of a rate-limited writer next to other writes or zone commands: means are known to a factor of 1.9, most 95th percentiles \
             to 50 %, some to a factor of 4"
                .into(),
        );
    }
    (!is_few(actor)).then(|| {
        "writes and appends next to other writes or zone commands: most 95th percentiles are known to a third, some to a factor of 2, means to a quarter".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ActorSpec, Job, Rate, Span, Zones};
    use crate::run::{check_on, open_sim};
    use senesce_core::{Bytes, Seed};

    fn of(actors: Vec<ActorSpec>) -> Vec<OutsideDomain> {
        let model = Model::load("zn540").unwrap();
        let actors = actors.into_iter().map(|actor| ActorSpec { time: Some(Span::seconds(1.0)), ..actor }).collect();
        let job = Job::of(actors);
        let checked = check_on(&mut open_sim(&model, &job, Seed(1)).unwrap(), &job).unwrap();
        outside(&model, &checked, 4096)
    }

    #[test]
    fn values_not_measured_over_this_path_are_marked() {
        let writes = |zones| ActorSpec { zones: Zones::Count(zones), ..ActorSpec::new(Activity::Write) };
        let resets = || ActorSpec {
            zones: Zones::Count(5),
            jobs: Some(1),
            occupancy: Some(1.0),
            ..ActorSpec::new(Activity::Reset)
        };
        assert_eq!(of(vec![writes(1)]), [OutsideDomain::default()], "alone");
        let few = of(vec![writes(2), resets()]);
        assert!(few[0].rates.is_some() && few[0].latencies.is_none() && few[1] == OutsideDomain::default(), "{few:?}");
        let many = of(vec![writes(4), resets()]);
        assert!(many[0].rates.is_none() && many[0].latencies.is_some(), "{many:?}");
        let slow = ActorSpec { rate: Some(Rate(Bytes::mib(10))), ..writes(1) };
        let slow = of(vec![writes(4), ActorSpec { name: "slow".into(), ..slow }]);
        assert!(slow[1].latencies.as_ref().unwrap().contains("rate-limited") && slow[1].rates.is_none(), "{slow:?}");
        let read = of(vec![ActorSpec::new(Activity::RandomRead), writes(4)]);
        assert_eq!(read[1], OutsideDomain::default(), "reads change nothing");
    }
}
