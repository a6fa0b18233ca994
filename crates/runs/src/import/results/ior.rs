//! The output of IOR 3.3 and 4: blocks `Options:` and `Results:` for each test, and a table of all tests at the end.

mod evidence;

use super::ParsedResults;
use super::printed::PrintedNumber;
use crate::import::rules;
use crate::import::{Complaint, printable};
use evidence::{Evidence, all_rules};
use senesce_core::analysis::Better;
use senesce_core::{Measurement, number_of};
use std::collections::BTreeMap;

/// Columns of a result row after its operation, in order (`PrintReducedResult` of IOR).
const COLUMNS: usize = 10;
const MIB: f64 = 1_048_576.0;

#[derive(Debug, Default)]
struct Test {
    options: BTreeMap<String, String>,
    rows: Vec<Row>,
    /// `Max Write` and `Max Read` (MiB/s), if printed.
    most: BTreeMap<&'static str, PrintedNumber>,
    fault: Option<String>,
    /// IOR moved another number of bytes than the options require.
    moved_otherwise: bool,
}

#[derive(Debug, PartialEq)]
struct Row {
    operation: &'static str,
    mib_per_second: PrintedNumber,
    operations_per_second: Option<PrintedNumber>,
    transfer_kib: Option<PrintedNumber>,
    access_seconds: Option<PrintedNumber>,
    seconds: PrintedNumber,
    repetition: u32,
}

#[derive(Debug, PartialEq)]
struct Total {
    operation: &'static str,
    /// Maximum, minimum, mean and deviation of bandwidth (MiB/s) and of operations (1/s), then the mean of seconds;
    /// `None` if IOR stopped early.
    numbers: Option<Vec<PrintedNumber>>,
    /// Bytes that stonewalling left.
    is_stonewalled: bool,
}

#[cfg(test)]
pub(super) fn rules() -> Vec<&'static str> {
    all_rules().map(|rule| rule.name).to_vec()
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Options,
    Results,
    Totals,
}

pub(super) fn read(text: &str) -> Result<ParsedResults, String> {
    let mut found = ParsedResults::default();
    let (mut tests, mut totals, mut part, mut fault) = (Vec::<Test>::new(), Vec::new(), Part::Head, None);
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        part = match line {
            "Options:" => {
                tests.push(Test::default());
                Part::Options
            }
            "Results:" => Part::Results,
            "Summary of all tests:" => Part::Totals,
            _ if line.starts_with("IOR-") && part == Part::Totals => {
                return Err(at("another run of IOR begins: import each separately".into()));
            }
            _ => part,
        };
        match (Complaint::of(line), tests.last_mut()) {
            (Some(Complaint::Invalidates), Some(test)) if part != Part::Totals => test.fault = Some(printable(line)),
            (Some(Complaint::Invalidates), _) => fault = Some(printable(line)),
            (Some(Complaint::Warns), test) => {
                found.caveats.push(format!("IOR warns: {}", printable(line)));
                if let Some(test) = test {
                    test.moved_otherwise |= line.contains("actual aggregate bytes");
                }
            }
            (None, _) => {}
        }
        match (part, tests.last_mut()) {
            (Part::Head, _) => head(line, &mut found),
            (Part::Options, Some(test)) => {
                let pair = line.split_once(':').map(|(name, value)| (printable(name.trim()), printable(value.trim())));
                test.options.extend(pair);
            }
            (Part::Results, Some(test)) => {
                test.rows.extend(row(line).map_err(at)?);
                test.most.extend(largest(line));
            }
            (Part::Totals, _) => totals.extend(total(line).map_err(at)?),
            _ => {}
        }
    }
    if tests.is_empty() {
        return Err("it has no block 'Options:'; it is not the output of IOR (without -O summaryFormat)".into());
    }
    check(&tests, &totals, &mut found)?;
    for (number, test) in tests.iter().enumerate() {
        let several = (tests.len() > 1).then_some(number);
        match test.fault.as_ref().or(fault.as_ref()) {
            Some(fault) => found.caveats.push(format!("test {number}: its numbers do not count: {fault}")),
            None => test.rows.iter().for_each(|row| add(test, row, several, &mut found)),
        }
    }
    Ok(found)
}

/// Parses `Began : DATE`, `Machine : Linux NAME`, `IOR-4.0.0: MPI Coordinated Test of Parallel I/O`.
fn head(line: &str, found: &mut ParsedResults) {
    if line.starts_with("IOR-") && found.environment.0.is_empty() {
        found.environment.put("ior.version", printable(line.split(':').next().unwrap_or(line)));
    }
    for (name, fact) in [("Began", "ior.began"), ("Command line", "ior.command"), ("Machine", "ior.machine")] {
        if let Some((_, value)) = line.split_once(':').filter(|(said, _)| said.trim() == name) {
            found.environment.put(fact, printable(value));
        }
    }
}

fn transfer(word: &str) -> Option<&'static str> {
    ["write", "read"].into_iter().find(|name| *name == word)
}

/// Parses `write 912.40 4282 0.001868 1024.00 256.00 0.001203 0.007473 0.000973 0.008768 0`; `remove` has dashes and
/// does not transfer data.
fn row(line: &str) -> Result<Option<Row>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [operation, numbers @ ..] = words.as_slice() else { return Ok(None) };
    let Some(operation) = transfer(operation).filter(|_| numbers.len() == COLUMNS) else { return Ok(None) };
    let number = |index: usize, name: &str| {
        let word = numbers[index];
        PrintedNumber::of(word)
            .ok_or_else(|| format!("{name} of {operation} is '{}', which is impossible", printable(word)))
    };
    let optional = |index: usize, name: &str| match numbers[index] {
        "NA" | "-" => Ok(None),
        _ => number(index, name).map(Some),
    };
    Ok(Some(Row {
        operation,
        mib_per_second: number(0, "bw(MiB/s)")?,
        operations_per_second: optional(1, "IOPS")?,
        transfer_kib: optional(4, "xfer(KiB)")?,
        access_seconds: optional(6, "wr/rd(s)")?,
        seconds: number(8, "total(s)")?,
        repetition: numbers[9].parse().map_err(|_| format!("'{}' is not a number", printable(numbers[9])))?,
    }))
}

fn largest(line: &str) -> Option<(&'static str, PrintedNumber)> {
    let (name, rest) = line.strip_prefix("Max ")?.split_once(':')?;
    Some((transfer(&name.to_lowercase())?, PrintedNumber::of(rest.split_whitespace().next()?)?))
}

/// Parses `write 912.40 912.40 912.40 0.00 ...`; all `nan` if IOR stopped before the last repetition.
fn total(line: &str) -> Result<Option<Total>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(operation) = words.first().and_then(|word| transfer(word)) else { return Ok(None) };
    let numbers =
        words.get(1..10).ok_or_else(|| format!("the row of {operation} in the table at the end is cut off"))?;
    let is_stonewalled = words.get(11).is_some_and(|word| *word != "NA");
    if numbers.iter().all(|word| word.trim_start_matches('-') == "nan") {
        return Ok(Some(Total { operation, numbers: None, is_stonewalled }));
    }
    let number = |word: &&str| {
        PrintedNumber::of(word)
            .ok_or_else(|| format!("'{}' of {operation} in the table at the end is impossible", printable(word)))
    };
    let numbers = numbers.iter().map(number).collect::<Result<_, _>>()?;
    Ok(Some(Total { operation, numbers: Some(numbers), is_stonewalled }))
}

fn check(tests: &[Test], totals: &[Total], found: &mut ParsedResults) -> Result<(), String> {
    if totals.is_empty() {
        found.caveats.push("the table at the end is missing: the run was cut off, and its sums are not checked".into());
    }
    for operation in ["write", "read"] {
        let mut of_table = totals.iter().filter(|total| total.operation == operation);
        for test in tests {
            let rows: Vec<&Row> = test.rows.iter().filter(|row| row.operation == operation).collect();
            if rows.is_empty() {
                continue;
            }
            let total = of_table.next();
            if total.is_none() && !totals.is_empty() {
                return Err(format!("the table at the end has no row for {operation}"));
            }
            let wanted = test.options.get("repetitions").and_then(|text| text.parse::<usize>().ok());
            if let Some(wanted) = wanted.filter(|wanted| rows.len() < *wanted) {
                let count = rows.len();
                found.caveats.push(format!(
                    "IOR stopped early: it has {count} of {} of {operation}",
                    number_of(wanted, "repetition")
                ));
            }
            if total.is_some_and(|total| total.numbers.is_none()) {
                found
                    .caveats
                    .push(format!("the table at the end has no numbers for {operation} to check the rows against"));
            }
            rules::check(&all_rules(), &Evidence { test, rows, total })?;
        }
        if of_table.next().is_some() {
            return Err(format!("the table at the end has a row of {operation} that no test has"));
        }
    }
    Ok(())
}

fn add(test: &Test, row: &Row, number: Option<usize>, found: &mut ParsedResults) {
    let values = [
        Measurement::new("bandwidth", "bytes/s", Better::Higher, row.mib_per_second.value * MIB)
            .map(Measurement::primary),
        Measurement::new("time", "s", Better::Lower, row.seconds.value),
    ];
    let rate = row.operations_per_second;
    let operations = rate.map(|rate| Measurement::new("operations", "1/s", Better::Higher, rate.value));
    for one in values.into_iter().chain(operations).flatten() {
        let mut one = Measurement { repetition: row.repetition, ..one.under("operation", row.operation) };
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
