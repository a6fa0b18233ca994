//! The assumed variation between single runs, which one run per side cannot show.

use super::{Options, Row};
use senesce_core::circumstances::lost_to_others;
use senesce_core::{Measurement, Record, number_of};
use serde_json::Value;

/// Two runs of the same plan on dedicated hardware differ by at most this share.
const ALIKE: f64 = 0.02;
/// The same for times and rates in a virtual machine. Its share of the host varies from run to run, and it sees only
/// the stolen time of that. Measured with pairs of equal runs (benches/results/study.md).
const IN_VIRTUAL_MACHINE: f64 = 0.2;
/// Tail latencies may double, because the few slow operations may be those that other load delayed; from the same
/// measurement.
const OF_TAILS: f64 = 1.0;

/// Shares (fractions) by which two single runs of the same plan may differ.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BetweenRuns {
    is_said: bool,
    all: f64,
    times: f64,
    /// Maximum share of CPU time that other processes took during one of the runs.
    lost: f64,
}

impl BetweenRuns {
    pub(crate) fn of(records: &[&Record], options: &Options) -> Self {
        let is_virtual = |record: &&Record| record.environment.0.get("machine.virtual") == Some(&Value::Bool(true));
        let usual = if records.iter().any(is_virtual) { IN_VIRTUAL_MACHINE } else { ALIKE };
        let lost = records.iter().filter_map(|record| lost_to_others(&record.environment));
        Self {
            is_said: options.noise.is_some(),
            all: options.noise.unwrap_or(ALIKE),
            times: options.noise.unwrap_or(usual),
            lost: lost.fold(0.0, f64::max),
        }
    }

    /// Returns the slowdown of a run without that CPU time. It counts twice: threads wait for one another, so that each
    /// also loses the time of the others.
    fn slower(&self) -> f64 {
        2.0 * self.lost / (1.0 - self.lost)
    }

    fn is_tail_of_others(&self, what: &Measurement) -> bool {
        what.is_timing() && what.beyond().is_some_and(|beyond| self.lost > beyond)
    }

    pub(crate) fn of_row(&self, what: &Measurement) -> f64 {
        match (what.is_timing(), self.is_tail_of_others(what)) {
            (false, _) => self.all,
            (true, false) => self.times.max(self.slower()),
            (true, true) => self.times.max(self.slower()) + OF_TAILS,
        }
    }

    pub(crate) fn assumed(&self, rows: &[Row]) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let (all, times) = (percent(self.all), percent(self.times));
        let share = match (self.is_said, self.times > self.all && has_times(rows)) {
            (true, _) => format!("{all} (--noise)"),
            (false, false) => format!("{all} (override with --noise)"),
            (false, true) => {
                format!(
                    "{all}, and {times} for times and rates, because they come from a virtual machine (override with \
                     --noise)"
                )
            }
        };
        format!(
            "one run against one: the difference from run to run is assumed to be {share}, not measured; give several \
             runs of each side to measure it"
        )
    }

    pub(crate) fn caveats(&self, rows: &[Row]) -> Vec<String> {
        let is_single = |row: &&Row| row.is_testable() && row.what.is_timing() && row.runs.contains(&1);
        let single: Vec<&Row> = rows.iter().filter(is_single).collect();
        let taken = format!("other processes took up to {:.1} % of the CPU time during a run", self.lost * 100.0);
        let remedy = "measure on an idle machine, in turn (--until-decided), or compare several runs of each side";
        let mut caveats = Vec::new();
        if self.slower() > self.times && !single.is_empty() {
            caveats.push(format!(
                "{taken}: times and rates of single runs are assumed to differ by {:.0} %; {remedy}",
                100.0 * self.slower()
            ));
        }
        if single.iter().any(|row| self.is_tail_of_others(&row.what)) {
            caveats.push(format!(
                "{taken}: the few operations that are slower than a percentile may be those that waited for a \
                 processor, and percentiles of single runs are assumed to differ by a factor of at least {:.0}; \
                 {remedy}",
                1.0 + OF_TAILS
            ));
        }
        caveats
    }
}

/// Returns whether any value is a measured time: modelled values do not depend on the load.
fn has_times(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.what.is_timing())
}

/// Counts runs of this program without a record of CPU contention; imported runs never have one.
pub(super) fn unknown(records: &[&Record], rows: &[Row]) -> Option<String> {
    let watched = records.iter().filter(|record| record.environment.0.contains_key("run.during.busy_percent"));
    let count = watched.filter(|record| lost_to_others(&record.environment).is_none()).count();
    (count > 0 && has_times(rows))
        .then(|| format!("{} without a record of CPU contention: nothing is added for it", number_of(count, "run")))
}
