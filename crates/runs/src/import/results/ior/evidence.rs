//! Cross-checks between IOR's numbers.

use super::{MIB, Row, Test, Total};
use crate::import::results::printed::Printed;
use crate::import::rules::{Compared, Rule};

pub(super) struct Evidence<'a> {
    pub test: &'a Test,
    pub rows: Vec<&'a Row>,
    pub total: Option<&'a Total>,
}

impl Evidence<'_> {
    fn operation(&self) -> &'static str {
        self.rows.first().map_or("", |row| row.operation)
    }

    /// MiB of an access by all tasks, unless IOR stopped early.
    fn aggregate_mib(&self) -> Option<Printed> {
        let test = self.test;
        let stonewalled = test.options.keys().any(|name| name.starts_with("stonewall"))
            || self.total.is_some_and(|total| total.is_stonewalled);
        mib(test.options.get("aggregate filesize")?).filter(|_| !stonewalled && !test.moved_otherwise)
    }

    fn bandwidths(&self) -> Vec<Printed> {
        self.rows.iter().map(|row| row.mib_per_second).collect()
    }

    fn row(&self, row: &Row, column: &str) -> String {
        format!("{column} of {} in repetition {}", row.operation, row.repetition)
    }
}

/// `128 MiB`, `1.50 GiB`, `4096 bytes` in MiB.
fn mib(text: &str) -> Option<Printed> {
    let (number, unit) = text.split_once(' ')?;
    let factor = match unit.trim() {
        "bytes" => 1.0 / MIB,
        "KiB" => 1.0 / 1024.0,
        "MiB" => 1.0,
        "GiB" => 1024.0,
        "TiB" => 1_048_576.0,
        _ => return None,
    };
    // IOR prints whole numbers exactly, others with two decimals.
    let one = Printed::of(number)?;
    let rounding = if number.contains('.') { one.rounding * factor } else { 0.0 };
    Some(Printed { value: one.value * factor, rounding })
}

fn statistics(values: &[Printed]) -> [(f64, f64); 4] {
    let plain: Vec<f64> = values.iter().map(|one| one.value).collect();
    let rounding = values.iter().map(|one| one.rounding).fold(0.0, f64::max);
    let mean = senesce_stats::mean(&plain).unwrap_or_default();
    let squares: f64 = plain.iter().map(|value| (value - mean).powi(2)).sum();
    let of = |pick: fn(f64, f64) -> f64| plain.iter().copied().reduce(pick).unwrap_or_default();
    // IOR divides by the number of values.
    let deviation = (squares / plain.len().max(1) as f64).sqrt();
    [of(f64::max), of(f64::min), mean, deviation].map(|value| (value - rounding, value + rounding))
}

const NAMES: [&str; 4] = ["Max", "Min", "Mean", "StdDev"];

fn of_table(evidence: &Evidence<'_>, unit: &str, from: usize, expected: &[(f64, f64)]) -> Vec<Compared> {
    let Some(numbers) = evidence.total.and_then(|total| total.numbers.as_ref()) else { return Vec::new() };
    let compared = |((name, stated), (least, most)): ((&&str, &Printed), &(f64, f64))| {
        let what = format!("{name}({unit}) of {}", evidence.operation());
        Compared::within(what, stated.value, least - stated.rounding, most + stated.rounding)
    };
    NAMES.iter().zip(&numbers[from..]).zip(expected).map(compared).collect()
}

pub(super) fn all_rules<'a>() -> [Rule<Evidence<'a>>; 7] {
    [
        Rule {
            name: "bytes and time",
            witness: "aggregate filesize and total(s)",
            share: 1e-3,
            rounding: 0.0,
            of: |evidence| {
                let Some(size) = evidence.aggregate_mib() else { return Vec::new() };
                let of = |row: &&Row| {
                    let (least, most) = row.mib_per_second.times(row.seconds);
                    Compared::within(
                        evidence.row(row, "bw x total(s)"),
                        size.value,
                        least - size.rounding,
                        most + size.rounding,
                    )
                };
                evidence.rows.iter().map(of).collect()
            },
        },
        Rule {
            name: "operations and bytes",
            witness: "IOPS, wr/rd(s) and xfer",
            share: 5e-3,
            rounding: 0.0,
            of: |evidence| {
                let Some(size) = evidence.aggregate_mib() else { return Vec::new() };
                let of = |row: &&Row| {
                    let (rate, time, kib) = (row.operations_per_second?, row.access_seconds?, row.transfer_kib?);
                    let (least, most) = rate.times(time);
                    let size = Compared::within(
                        evidence.row(row, "aggregate filesize"),
                        size.value,
                        least * kib.least() / 1024.0 - size.rounding,
                        most * kib.most() / 1024.0 + size.rounding,
                    );
                    Some(size)
                };
                evidence.rows.iter().filter_map(of).collect()
            },
        },
        Rule {
            name: "repetitions",
            witness: "repetitions",
            share: 0.0,
            rounding: 0.0,
            of: |evidence| {
                let wanted = evidence.test.options.get("repetitions").and_then(|text| text.parse().ok());
                let stated = format!("number of rows of {}", evidence.operation());
                let count = |wanted| Compared::within(stated, evidence.rows.len() as f64, 0.0, wanted);
                wanted.map(count).into_iter().collect()
            },
        },
        Rule {
            name: "largest bandwidth",
            witness: "the rows",
            share: 1e-4,
            rounding: 0.0,
            of: |evidence| {
                let Some(stated) = evidence.test.most.get(evidence.operation()) else { return Vec::new() };
                let (least, most) = statistics(&evidence.bandwidths())[0];
                let what = format!("Max of {}", evidence.operation());
                vec![Compared::within(what, stated.value, least - stated.rounding, most + stated.rounding)]
            },
        },
        Rule {
            name: "bandwidth of the table",
            witness: "the rows",
            share: 5e-4,
            rounding: 0.0,
            of: |evidence| of_table(evidence, "MiB", 0, &statistics(&evidence.bandwidths())),
        },
        Rule {
            name: "operations of the table",
            witness: "bandwidth and xfer",
            share: 5e-4,
            rounding: 0.0,
            of: |evidence| {
                let Some(kib) = evidence.rows.first().and_then(|row| row.transfer_kib).filter(|kib| kib.value > 0.0)
                else {
                    return Vec::new();
                };
                let rate = |(least, most): (f64, f64)| (least * 1024.0 / kib.most(), most * 1024.0 / kib.least());
                of_table(evidence, "OPs", 4, &statistics(&evidence.bandwidths()).map(rate))
            },
        },
        Rule {
            name: "time of the table",
            witness: "total(s)",
            share: 5e-4,
            rounding: 0.0,
            of: |evidence| {
                let Some(numbers) = evidence.total.and_then(|total| total.numbers.as_ref()) else { return Vec::new() };
                let seconds: Vec<Printed> = evidence.rows.iter().map(|row| row.seconds).collect();
                let (least, most) = statistics(&seconds)[2];
                let (stated, what) = (numbers[8], format!("Mean(s) of {}", evidence.operation()));
                vec![Compared::within(what, stated.value, least - stated.rounding, most + stated.rounding)]
            },
        },
    ]
}
