//! What the experiments on the anti-caching file system share: the file systems that are compared, and their rounds.

pub mod costs;
pub mod interleave;
pub mod results;
pub mod sizes;
pub mod subject;

use senesce_core::{Failure, Parameter, ParameterKind, RunContext, Seed, Settings};
use senesce_tierfs::Latency;
use subject::{Kind, Setup, Subject};

/// Size of the region.
pub const MEMORY: Parameter = Parameter {
    name: "memory",
    help: "size of the memory region, and of ext4's image",
    kind: ParameterKind::Size,
    defaults: ["128M", "512M", "2G"],
};
/// Threshold of the evictor.
pub const THRESHOLD: Parameter = Parameter {
    name: "threshold",
    help: "bytes of files in memory above which blocks are evicted",
    kind: ParameterKind::Size,
    defaults: ["40M", "40M", "40M"],
};
/// Period of the evictor.
pub const PERIOD: Parameter = Parameter {
    name: "period",
    help: "time between two looks of the evictor",
    kind: ParameterKind::Duration,
    defaults: ["10ms", "10ms", "10ms"],
};
/// Threads of the servers.
pub const THREADS: Parameter = Parameter {
    name: "threads",
    help: "threads of a tier file system that answer the kernel",
    kind: ParameterKind::Integer { min: 1, max: 64 },
    defaults: ["2", "2", "2"],
};
/// Latency of the cold store.
pub const COLD_LATENCY: Parameter = Parameter {
    name: "cold-latency",
    help: "modelled latency of the cold store: ssd, hdd, microseconds, or none",
    kind: ParameterKind::Text,
    defaults: ["ssd", "ssd", "ssd"],
};
/// Rounds over all subjects.
pub const ROUNDS: Parameter = Parameter {
    name: "rounds",
    help: "rounds over all file systems, each in another order",
    kind: ParameterKind::Integer { min: 1, max: 1000 },
    defaults: ["2", "5", "15"],
};

/// The setup that the parameters ask for, as far as the experiment declares them.
pub fn setup(settings: &Settings) -> Result<Setup, Failure> {
    let latency = match settings.text("cold-latency") {
        "none" | "" => None,
        text => Some(Latency::parse(text)?),
    };
    Ok(Setup {
        memory: settings.size("memory")?,
        threshold: settings.size("threshold").unwrap_or(senesce_core::Bytes::mib(40)),
        period: settings.duration("period").unwrap_or(std::time::Duration::from_millis(10)),
        threads: settings.integer("threads")? as usize,
        latency,
    })
}

/// Runs `body` on one subject and takes it down again.
pub fn with_subject<T>(
    kind: Kind,
    setup: &Setup,
    body: impl FnOnce(&Subject) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let subject = Subject::start(kind, setup)?;
    let result = body(&subject);
    let stopped = subject.stop();
    let value = result?;
    stopped.map(|()| value)
}

/// Calls `body(round, kind)` for every round and kind that `done` does not hold yet; the order of the kinds is drawn
/// anew in every round.
pub fn rounds(
    kinds: &[Kind],
    rounds: u64,
    seed: Seed,
    done: &[(u64, String)],
    context: &mut RunContext<'_>,
    mut body: impl FnMut(&mut RunContext<'_>, u64, Kind) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for round in 0..rounds {
        let mut order = kinds.to_vec();
        shuffle(&mut order, seed, &format!("tier/order/{round}"));
        for kind in order {
            if done.iter().any(|(at, name)| *at == round && name == kind.name()) {
                continue;
            }
            context.check_interrupt()?;
            context.progress.say(&format!("round {} of {rounds}: {}", round + 1, kind.name()));
            body(context, round, kind)?;
        }
    }
    Ok(())
}

/// Rounds and subjects that earlier parts of this run completed, from events of `kind`.
pub fn done(context: &RunContext<'_>, kind: &str) -> Vec<(u64, String)> {
    let events = context.directory.earlier_events().iter().filter(|event| event.kind == kind);
    events.filter_map(|event| serde_json::from_value(event.data.clone()).ok()).collect()
}

/// Records that a subject's round is complete.
pub fn mark_done(context: &mut RunContext<'_>, kind: &str, round: u64, subject: Kind) -> Result<(), Failure> {
    Ok(context.directory.append(kind, &(round, subject.name()))?)
}

/// Fisher and Yates' shuffle with a named stream.
pub fn shuffle<T>(list: &mut [T], seed: Seed, stream: &str) {
    use rand::Rng;
    let mut rng = seed.stream(stream);
    for last in (1..list.len()).rev() {
        list.swap(last, (rng.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_fixed_permutations() {
        let mut list: Vec<u32> = (0..8).collect();
        shuffle(&mut list, Seed(42), "tier/order/0");
        assert_eq!(list, GOLDEN);
        list.sort_unstable();
        assert_eq!(list, (0..8).collect::<Vec<_>>());
    }

    const GOLDEN: [u32; 8] = [4, 5, 6, 7, 3, 0, 2, 1];
}
