//! What mdtest prints: tables `SUMMARY rate` and, from version 4 on when asked, `SUMMARY time`, over all iterations.

use super::{Found, agrees};
use senesce_core::Measurement;
use senesce_core::analysis::Better;
use std::collections::BTreeMap;

/// Rates and times are printed with three decimals and taken by clocks of different processes.
const ROUNDING: f64 = 0.01;

/// Largest, least, mean and standard deviation over the iterations.
type Statistics = [f64; 4];

/// The tables of one invocation.
#[derive(Debug, Default)]
struct Launch {
    tasks: String,
    iterations: usize,
    rates: BTreeMap<String, Statistics>,
    times: BTreeMap<String, Statistics>,
}

/// Which table a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Rates,
    Times,
}

pub(super) fn read(text: &str) -> Result<Found, String> {
    let mut found = Found::default();
    let (mut launches, mut part) = (Vec::<Launch>::new(), Part::Head);
    for line in text.lines().map(str::trim) {
        if line.starts_with("mdtest-") && line.contains("was launched with") {
            head(line, &mut found);
            launches.push(Launch { tasks: tasks(line), ..Launch::default() });
            part = Part::Head;
        } else if let Some(rest) = line.strip_prefix("SUMMARY rate: (of ") {
            let launch = last(&mut launches);
            launch.iterations = rest.split_whitespace().next().and_then(|count| count.parse().ok()).unwrap_or(0);
            part = Part::Rates;
        } else if line.starts_with("SUMMARY time:") {
            part = Part::Times;
        } else if line.starts_with("-- finished") {
            part = Part::Head;
        } else if let Some((operation, values)) = row(line) {
            let launch = last(&mut launches);
            match part {
                Part::Rates => drop(launch.rates.insert(operation, values)),
                Part::Times => drop(launch.times.insert(operation, values)),
                Part::Head => {}
            }
        }
    }
    for (number, launch) in launches.iter().enumerate() {
        check(launch)?;
        let several = (launches.len() > 1).then_some(number);
        add(launch, several, &mut found);
    }
    if found.measurements.is_empty() {
        return Err("it has no table 'SUMMARY rate'; it is not what mdtest prints".into());
    }
    Ok(found)
}

fn last(launches: &mut Vec<Launch>) -> &mut Launch {
    if launches.is_empty() {
        launches.push(Launch::default());
    }
    launches.last_mut().expect("there is one")
}

/// `mdtest-4.0.0 was launched with 10 total task(s) on 2 node(s)`
fn tasks(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.iter().position(|word| *word == "total").map_or_else(String::new, |at| words[at - 1].to_string())
}

fn head(line: &str, found: &mut Found) {
    found.environment.put("mdtest.version", line.split_whitespace().next().unwrap_or_default());
}

/// `File creation : 439.763 404.632 422.661 14.357`; the colon went with version 4.
fn row(line: &str) -> Option<(String, Statistics)> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != ":").collect();
    let (names, numbers) = words.split_at_checked(words.len().checked_sub(4)?)?;
    let mut values = [0.0; 4];
    for (value, word) in values.iter_mut().zip(numbers) {
        *value = word.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    }
    let name = names.join(" ");
    (!name.is_empty()).then(|| (name.trim_end_matches(':').trim().to_lowercase(), values))
}

/// Least, mean and largest in their order; one iteration has one value; rate times time is the same number of items in all tables.
fn check(launch: &Launch) -> Result<(), String> {
    for (operation, [most, least, mean, deviation]) in &launch.rates {
        let slack = most * 1e-6 + 0.001;
        if *least > mean + slack || *mean > most + slack || *deviation > most - least + slack {
            return Err(format!(
                "{operation}: least {least}, mean {mean}, largest {most}, deviation {deviation} cannot be"
            ));
        }
        if launch.iterations == 1 && most - least > ROUNDING * most {
            return Err(format!("{operation}: one iteration, and rates from {least} to {most}"));
        }
    }
    let items = |operation: &str| {
        let (rate, time) = (launch.rates.get(operation)?, launch.times.get(operation)?);
        (launch.iterations == 1 && rate[2] > 0.0).then_some(rate[2] * time[2])
    };
    if let (Some(created), Some(removed)) = (items("file creation"), items("file removal"))
        && !agrees(created, removed, ROUNDING)
    {
        return Err(format!("rates and times tell of {created:.0} created and {removed:.0} removed files"));
    }
    Ok(())
}

fn add(launch: &Launch, number: Option<usize>, found: &mut Found) {
    // What did not run has a rate of zero.
    for (operation, [most, least, mean, _]) in launch.rates.iter().filter(|(_, values)| values[2] > 0.0) {
        let mut put = |metric: &str, value: f64, primary: bool| {
            let Ok(one) = Measurement::new(metric, "1/s", Better::Higher, value) else { return };
            let one = one.under("operation", operation).under("tasks", &launch.tasks);
            let one = if primary { one.primary() } else { one };
            found.measurements.push(match number {
                Some(number) => one.under("launch", number.to_string()),
                None => one,
            });
        };
        put("rate", *mean, true);
        if launch.iterations > 1 {
            put("rate, least of the iterations", *least, false);
            put("rate, largest of the iterations", *most, false);
        }
    }
    if launch.iterations > 1 {
        found.caveats.push(format!(
            "the file has the mean of {} iterations, not each of them: to judge, import files of single iterations",
            launch.iterations
        ));
    }
}
