//! What IOR 3.3 and 4 print: a block `Options:` and `Results:` for each test, and a table over all of them at the end.

use super::{Found, agrees};
use senesce_core::Measurement;
use senesce_core::analysis::Better;
use std::collections::BTreeMap;

/// A row of results is printed with four digits at least.
const ROUNDING: f64 = 5e-4;

/// Columns of a row of results behind its operation, in order (`PrintReducedResult` of IOR).
const COLUMNS: usize = 9;

/// One test: its options and its rows.
#[derive(Debug, Default)]
struct Test {
    options: BTreeMap<String, String>,
    rows: Vec<Row>,
}

/// One access of one repetition.
#[derive(Debug, PartialEq)]
struct Row {
    operation: String,
    mib_per_second: f64,
    operations_per_second: Option<f64>,
    seconds: f64,
    repetition: u32,
}

/// A row of the table at the end.
#[derive(Debug, PartialEq)]
struct Total {
    operation: String,
    most: f64,
    least: f64,
    mean: f64,
}

/// Where in the text a line stands.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Options,
    Results,
    Totals,
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let mut found = Found::default();
    let (mut tests, mut totals, mut part) = (Vec::<Test>::new(), Vec::new(), Part::Head);
    for line in text.lines().map(str::trim) {
        match line {
            "Options:" => {
                tests.push(Test::default());
                part = Part::Options;
            }
            "Results:" => part = Part::Results,
            "Summary of all tests:" => part = Part::Totals,
            _ => {}
        }
        if line.starts_with("ERROR") || line.starts_with("ior ERROR") {
            return Err(format!("IOR reports an error ({line}): its numbers do not count"));
        }
        if line.starts_with("WARNING") || line.starts_with("ior WARNING") {
            found.caveats.push(format!("IOR warns: {line}"));
        }
        match (part, tests.last_mut()) {
            (Part::Head, _) => head(line, &mut found),
            (Part::Options, Some(test)) => {
                test.options
                    .extend(line.split_once(':').map(|(name, value)| (name.trim().into(), value.trim().into())));
            }
            (Part::Results, Some(test)) => test.rows.extend(row(line)),
            (Part::Totals, _) => totals.extend(total(line)),
            _ => {}
        }
    }
    if tests.is_empty() {
        return Err("it has no block 'Options:'; it is not what IOR prints (without -O summaryFormat)".into());
    }
    check(&tests, &totals, &mut found)?;
    for (number, test) in tests.iter().enumerate() {
        let several = (tests.len() > 1).then_some(number);
        test.rows.iter().for_each(|row| add(test, row, several, &mut found));
    }
    Ok(found)
}

/// `Began : DATE`, `Machine : Linux NAME`, `IOR-4.0.0: MPI Coordinated Test of Parallel I/O`.
fn head(line: &str, found: &mut Found) {
    if line.starts_with("IOR-") && found.environment.0.is_empty() {
        found.environment.put("ior.version", line.split(':').next().unwrap_or(line));
    }
    for (name, fact) in [("Began", "ior.began"), ("Command line", "ior.command"), ("Machine", "ior.machine")] {
        if let Some((_, value)) = line.split_once(':').filter(|(said, _)| said.trim() == name) {
            found.environment.put(fact, value);
        }
    }
}

/// `write 912.40 4282 0.001868 1024.00 256.00 0.001203 0.007473 0.000973 0.008768 0`; `remove` has dashes and is no transfer.
fn row(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [operation, numbers @ ..] = words.as_slice() else { return None };
    if !["write", "read"].contains(operation) || numbers.len() != COLUMNS + 1 {
        return None;
    }
    let number = |index: usize| numbers[index].parse::<f64>().ok().filter(|number| number.is_finite());
    Some(Row {
        operation: (*operation).to_string(),
        mib_per_second: number(0)?,
        operations_per_second: number(1),
        seconds: number(8)?,
        repetition: numbers[9].parse().ok()?,
    })
}

/// `write 912.40 912.40 912.40 0.00 ...`
fn total(line: &str) -> Option<Total> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let operation = words.first().filter(|word| ["write", "read"].contains(*word))?;
    let number = |index: usize| words.get(index)?.parse::<f64>().ok();
    Some(Total { operation: (*operation).to_string(), most: number(1)?, least: number(2)?, mean: number(3)? })
}

/// The rows against the table at the end, test by test.
fn check(tests: &[Test], totals: &[Total], found: &mut Found) -> Result<(), String> {
    if totals.is_empty() {
        found.caveats.push("the table at the end is missing: the run was cut off, and its sums are not checked".into());
        return Ok(());
    }
    for operation in ["write", "read"] {
        let of_tests: Vec<Vec<f64>> = tests
            .iter()
            .map(|test| {
                test.rows.iter().filter(|row| row.operation == operation).map(|row| row.mib_per_second).collect()
            })
            .filter(|values: &Vec<f64>| !values.is_empty())
            .collect();
        let totals: Vec<&Total> = totals.iter().filter(|total| total.operation == operation).collect();
        if of_tests.len() != totals.len() {
            return Err(format!("{} tests {operation}, the table at the end has {}", of_tests.len(), totals.len()));
        }
        for (values, total) in of_tests.iter().zip(totals) {
            let of = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or_default();
            let ours = [of(f64::max), of(f64::min), senesce_stats::mean(values).unwrap_or_default()];
            for (name, (ours, said)) in
                ["Max", "Min", "Mean"].into_iter().zip(ours.into_iter().zip([total.most, total.least, total.mean]))
            {
                if !agrees(ours, said, ROUNDING) {
                    return Err(format!("{name} of {operation} is {said} MiB/s, that of its rows is {ours} MiB/s"));
                }
            }
        }
    }
    Ok(())
}

fn add(test: &Test, row: &Row, number: Option<usize>, found: &mut Found) {
    let values = [
        Measurement::new("bandwidth", "bytes/s", Better::Higher, row.mib_per_second * 1_048_576.0)
            .map(Measurement::primary),
        Measurement::new("time", "s", Better::Lower, row.seconds),
    ];
    let operations = row.operations_per_second.map(|rate| Measurement::new("operations", "1/s", Better::Higher, rate));
    for one in values.into_iter().chain(operations).flatten() {
        let mut one = Measurement { repetition: row.repetition, ..one.under("operation", &row.operation) };
        for name in ["tasks", "xfersize", "blocksize", "access", "api"] {
            if let Some(value) = test.options.get(name) {
                one = one.under(name, value);
            }
        }
        found.measurements.push(match number {
            Some(number) => one.under("test", number.to_string()),
            None => one,
        });
    }
}
