//! The values of a benchmark under the conditions that its claims name.

use super::Event;
use super::bench::BenchmarkRun;
use crate::on_model::Host;
use senesce_core::{Better, Measurement};

const RATE: &str = "operations per second";

/// Returns the values of an event. Values of emulated drives have their own metric names, so that only real drives and
/// models decide claims.
pub(crate) fn of(event: &Event, emulated: bool) -> Vec<Measurement> {
    match event {
        Event::Measured(measured) if emulated => {
            let named = |one: Measurement| Measurement { metric: format!("{} in the guest", one.metric), ..one };
            measured.measurements().into_iter().map(|one| named(one).under_emulation()).collect()
        }
        Event::Measured(measured) => measured.measurements(),
        Event::OnModel(found) if found.timed.host == Host::Scaled && found.timed.problems.is_empty() => {
            let one =
                found.ops_per_second.and_then(|rate| Measurement::new(RATE, "operations/s", Better::Higher, rate).ok());
            let one = one.map(|one| one.under("setup", &*found.setup).under("benchmark", &*found.benchmark).modelled());
            one.map(|one| Measurement { repetition: found.repeat, ..one }).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

impl BenchmarkRun {
    /// Returns rate and latencies; nothing for operations that did not run.
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let rate = (self.operations > 0).then_some((RATE, "operations/s", self.ops_per_second));
        let reads = self
            .reads
            .map(|reads| [("read latency p50", "us", reads.p50_us), ("read latency p99", "us", reads.p99_us)]);
        let writes = self
            .writes
            .map(|writes| [("write latency p50", "us", writes.p50_us), ("write latency p99", "us", writes.p99_us)]);
        let values = rate.into_iter().chain(reads.into_iter().flatten()).chain(writes.into_iter().flatten());
        let one = |(metric, unit, value)| {
            let better = if unit == "us" { Better::Lower } else { Better::Higher };
            let one = Measurement::new(metric, unit, better, value).ok()?;
            let one = one.under("setup", &*self.setup).under("benchmark", &*self.benchmark);
            Some(Measurement { repetition: self.repeat, ..one })
        };
        values.filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ZnsRocksdb;
    use super::super::analysis::tests::measured;
    use super::super::bench::BENCHMARKS;
    use super::super::output::Percentiles;
    use super::*;
    use senesce_claims::{ClaimSet, Facts, decide, untested};
    use senesce_core::{Level, Verdict};
    use senesce_runner::Run;

    fn set() -> ClaimSet {
        ClaimSet::parse(ZnsRocksdb::CLAIMS, ZnsRocksdb::PUBLISHED).unwrap()
    }

    fn values(repeats: u32) -> Vec<Measurement> {
        let latency = Percentiles { p50_us: 5.0, p95_us: 10.0, p99_us: 20.0, max_us: 90.0, count: 7 };
        let setups = [("zenfs-zns", 4.0), ("f2fs-zns", 3.0), ("f2fs-conventional", 2.0), ("xfs-conventional", 1.0)];
        let mut found = Vec::new();
        for (setup, rate) in setups {
            for benchmark in BENCHMARKS {
                for repeat in 0..repeats {
                    let rate = rate * (1.0 + f64::from(repeat) * 1e-3);
                    let mut one = BenchmarkRun { repeat, ..measured(setup, benchmark, rate) };
                    (one.reads, one.writes) = (Some(latency), Some(latency));
                    found.extend(one.measurements());
                }
            }
        }
        found
    }

    #[test]
    fn every_claim_finds_its_values() {
        assert_eq!(untested(&set(), &values(1)), Vec::<String>::new());
    }

    fn verdict(repeats: u32, facts: &Facts) -> Verdict {
        let found = decide(&set(), &values(repeats), facts);
        found.into_iter().find(|finding| finding.id == "overwrite-order").unwrap().verdict
    }

    #[test]
    fn single_values_and_emulated_drives_decide_nothing() {
        let real = Facts::of(Level::Paper);
        assert_eq!(verdict(1, &real), Verdict::Undecided);
        assert_eq!(verdict(5, &real), Verdict::Supported);
        let mut environment = senesce_core::Environment::default();
        environment.put("vm.accelerator", "kvm");
        assert_eq!(verdict(5, &crate::guest_drives::facts(&environment, real)), Verdict::NotTestable);
    }
}
