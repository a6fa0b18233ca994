//! Cross-checks between IOR's numbers.

use super::{MIB, Row, Test, Total};
use crate::import::results::printed::PrintedNumber;
use crate::import::rules::{Comparisons, Rule, rule};

pub(super) struct Evidence<'a> {
    pub test: &'a Test,
    pub rows: Vec<&'a Row>,
    pub total: Option<&'a Total>,
}

impl Evidence<'_> {
    fn operation(&self) -> &'static str {
        self.rows.first().map_or("", |row| row.operation)
    }

    /// Returns the MiB of an access by all tasks, unless IOR stopped early.
    fn aggregate_mib(&self) -> Option<PrintedNumber> {
        let test = self.test;
        let stonewalled = test.options.keys().any(|name| name.starts_with("stonewall"))
            || self.total.is_some_and(|total| total.is_stonewalled);
        mib(test.options.get("aggregate filesize")?).filter(|_| !stonewalled && !test.moved_otherwise)
    }

    fn bandwidths(&self) -> Vec<PrintedNumber> {
        self.rows.iter().map(|row| row.mib_per_second).collect()
    }

    fn row(&self, row: &Row, column: &str) -> String {
        format!("{column} of {} in repetition {}", row.operation, row.repetition)
    }
}

/// Converts `128 MiB`, `1.50 GiB` or `4096 bytes` to MiB.
fn mib(text: &str) -> Option<PrintedNumber> {
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
    let one = PrintedNumber::of(number)?;
    let rounding = if number.contains('.') { one.rounding * factor } else { 0.0 };
    Some(PrintedNumber { value: one.value * factor, rounding })
}

fn statistics(values: &[PrintedNumber]) -> [(f64, f64); 4] {
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

/// Returns the range of a stated number by values with their own rounding.
fn around((least, most): (f64, f64), rounding: f64) -> (f64, f64) {
    (least - rounding, most + rounding)
}

impl Evidence<'_> {
    fn compare_table(&self, all: &mut Comparisons, unit: &str, from: usize, expected: [(f64, f64); 4]) -> Option<()> {
        let numbers = self.total?.numbers.as_ref()?;
        NAMES.iter().zip(&numbers[from..]).zip(expected).try_for_each(|((name, stated), range)| {
            let what = format!("{name}({unit}) of {}", self.operation());
            all.within(what, stated.value, around(range, stated.rounding))
        })
    }
}

pub(super) fn all_rules<'a>() -> [Rule<Evidence<'a>>; 7] {
    [
        rule("bytes and time", "aggregate filesize and total(s)", 1e-3, 0.0, |evidence, all| {
            let size = evidence.aggregate_mib()?;
            evidence.rows.iter().try_for_each(|row| {
                let range = around(row.mib_per_second.times(row.seconds), size.rounding);
                all.within(evidence.row(row, "bw x total(s)"), size.value, range)
            })
        }),
        rule("operations and bytes", "IOPS, wr/rd(s) and xfer", 5e-3, 0.0, |evidence, all| {
            let size = evidence.aggregate_mib()?;
            for row in &evidence.rows {
                let numbers = row.operations_per_second.zip(row.access_seconds).zip(row.transfer_kib);
                let Some(((rate, time), kib)) = numbers else { continue };
                let (least, most) = rate.times(time);
                let range = (least * kib.least() / 1024.0, most * kib.most() / 1024.0);
                all.within(evidence.row(row, "aggregate filesize"), size.value, around(range, size.rounding));
            }
            Some(())
        }),
        rule("repetitions", "repetitions", 0.0, 0.0, |evidence, all| {
            let wanted = evidence.test.options.get("repetitions")?.parse().ok()?;
            all.within(format!("number of rows of {}", evidence.operation()), evidence.rows.len() as f64, (0.0, wanted))
        }),
        rule("largest bandwidth", "the rows", 1e-4, 0.0, |evidence, all| {
            let stated = evidence.test.most.get(evidence.operation())?;
            let range = around(statistics(&evidence.bandwidths())[0], stated.rounding);
            all.within(format!("Max of {}", evidence.operation()), stated.value, range)
        }),
        rule("bandwidth of the table", "the rows", 5e-4, 0.0, |evidence, all| {
            evidence.compare_table(all, "MiB", 0, statistics(&evidence.bandwidths()))
        }),
        rule("operations of the table", "bandwidth and xfer", 5e-4, 0.0, |evidence, all| {
            let kib = evidence.rows.first()?.transfer_kib.filter(|kib| kib.value > 0.0)?;
            let rate = |(least, most): (f64, f64)| (least * 1024.0 / kib.most(), most * 1024.0 / kib.least());
            evidence.compare_table(all, "OPs", 4, statistics(&evidence.bandwidths()).map(rate))
        }),
        rule("time of the table", "total(s)", 5e-4, 0.0, |evidence, all| {
            let stated = evidence.total?.numbers.as_ref()?[8];
            let seconds: Vec<PrintedNumber> = evidence.rows.iter().map(|row| row.seconds).collect();
            let range = around(statistics(&seconds)[2], stated.rounding);
            all.within(format!("Mean(s) of {}", evidence.operation()), stated.value, range)
        }),
    ]
}
