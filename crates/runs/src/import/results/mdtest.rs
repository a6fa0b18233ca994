//! The output of mdtest: tables `SUMMARY rate` and, optionally from version 4 on, `SUMMARY time`, over all iterations.

use super::ParsedResults;
use crate::import::rules::{self, Rule, mean_range, rule, squares_range};
use crate::import::{Complaint, printable};
use senesce_core::Measurement;
use senesce_core::analysis::Better;
use std::collections::BTreeMap;

type Statistics = [f64; 4];

#[derive(Debug, Default)]
struct Launch {
    tasks: String,
    iterations: usize,
    rates: BTreeMap<String, Statistics>,
    times: BTreeMap<String, Statistics>,
    fault: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Rates,
    Times,
}

const RULES: [Rule<Launch>; 4] = [
    rule("mean of iterations", "Max, Min and the number of iterations", 1e-6, 0.002, |launch, all| {
        let count = if launch.iterations == 0 { f64::INFINITY } else { launch.iterations as f64 };
        launch.rates.iter().try_for_each(|(operation, [most, least, mean, _])| {
            all.within(format!("Mean of {operation}"), *mean, mean_range(count, *least, *most))
        })
    }),
    rule("deviation of iterations", "Max, Min, Mean and the number of iterations", 1e-3, 0.01, |launch, all| {
        let count = launch.iterations as f64;
        launch.rates.iter().try_for_each(|(operation, [most, least, mean, stated])| {
            let (low, high) = squares_range(count, *least, *mean, *most);
            // Versions before 3.4 divide by the number of iterations, later ones by one less.
            let range = match launch.iterations {
                0 => (0.0, most - least),
                1 => (0.0, 0.0),
                _ => ((low / count).sqrt(), (high / (count - 1.0)).sqrt()),
            };
            all.within(format!("Std Dev of {operation}"), *stated, range)
        })
    }),
    rule("one iteration", "Min of one iteration", 0.01, 0.001, |launch, all| {
        let mut rates = launch.rates.iter().filter(|_| launch.iterations == 1);
        rates.try_for_each(|(operation, [most, least, ..])| all.equal(format!("Max of {operation}"), *most, *least))
    }),
    rule("created and removed files", "rate x time of removals", 0.01, 0.0, |launch, all| {
        let items = |operation: &str| {
            let (rate, time) = (launch.rates.get(operation)?, launch.times.get(operation)?);
            (launch.iterations == 1 && rate[2] > 0.0).then_some(rate[2] * time[2])
        };
        all.equal("rate x time of creations", items("file creation"), items("file removal")?)
    }),
];

#[cfg(test)]
pub(super) fn rules() -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.name).collect()
}

pub(super) fn read(text: &str) -> Result<ParsedResults, String> {
    let mut found = ParsedResults::default();
    let (mut launches, mut part) = (Vec::<Launch>::new(), Part::Head);
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        if line.starts_with("mdtest-") && line.contains("was launched with") {
            head(line, &mut found);
            launches.push(Launch { tasks: tasks(line), ..Launch::default() });
            part = Part::Head;
        } else if line.starts_with("SUMMARY rate") {
            last(&mut launches).iterations =
                iterations(line).ok_or_else(|| at("it has no number of iterations".into()))?;
            part = Part::Rates;
        } else if line.starts_with("SUMMARY time") {
            part = Part::Times;
        } else if line.starts_with("-- finished") {
            part = Part::Head;
        } else if let Some(complaint) = Complaint::of(line) {
            match complaint {
                Complaint::Invalidates => last(&mut launches).fault = Some(printable(line)),
                Complaint::Warns => found.caveats.push(format!("mdtest warns: {}", printable(line))),
            }
        } else if part != Part::Head
            && let Some((operation, values)) = row(line).map_err(at)?
        {
            let launch = last(&mut launches);
            let table = if part == Part::Rates { &mut launch.rates } else { &mut launch.times };
            if table.insert(operation, values).is_some() {
                return Err(at("this operation already has a row: import each run separately".into()));
            }
        }
    }
    if launches.iter().all(|launch| launch.rates.is_empty()) {
        return Err("it has no table 'SUMMARY rate'; it is not the output of mdtest".into());
    }
    for (number, launch) in launches.iter().enumerate() {
        rules::check(&RULES, launch)?;
        let several = (launches.len() > 1).then_some(number);
        match &launch.fault {
            Some(fault) => found.caveats.push(format!("launch {number}: its numbers do not count: {fault}")),
            None => add(launch, several, &mut found),
        }
    }
    Ok(found)
}

fn last(launches: &mut Vec<Launch>) -> &mut Launch {
    if launches.is_empty() {
        launches.push(Launch::default());
    }
    launches.last_mut().expect("there is one")
}

fn iterations(line: &str) -> Option<usize> {
    line.split_once("(of ")?.1.split_whitespace().next()?.parse().ok().filter(|count| *count > 0)
}

fn tasks(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find(|two| two[1] == "total").map_or_else(String::new, |two| printable(two[0]))
}

fn head(line: &str, found: &mut ParsedResults) {
    found.environment.put("mdtest.version", printable(line.split_whitespace().next().unwrap_or_default()));
}

/// Parses `File creation : 439.763 404.632 422.661 14.357`; the colon went with version 4. With
/// `--show-perrank-statistics` maximum, minimum and mean of the ranks precede those of the iterations.
fn row(line: &str) -> Result<Option<(String, Statistics)>, String> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != ":").collect();
    let is_name = |word: &&&str| word.starts_with(char::is_alphabetic) && word.parse::<f64>().is_err();
    let (names, numbers) = words.split_at(words.iter().take_while(is_name).count());
    let name = printable(names.join(" ").trim_end_matches(':').trim()).to_lowercase();
    if !["directory", "file", "tree"].iter().any(|kind| name.starts_with(kind)) {
        return Ok(None);
    }
    let of_iterations = match numbers.len() {
        4 => numbers,
        7 => &numbers[3..],
        count => return Err(format!("'{name}' has {count} numbers instead of 4 or 7")),
    };
    let mut values = [0.0; 4];
    for (value, word) in values.iter_mut().zip(of_iterations) {
        let number = word.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        *value = number.ok_or_else(|| format!("'{name}': '{}' cannot be", printable(word)))?;
    }
    Ok(Some((name, values)))
}

fn add(launch: &Launch, number: Option<usize>, found: &mut ParsedResults) {
    // An operation that did not run has a rate of zero.
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
            "the file has only the mean of {} iterations: for a verdict, import files of single iterations",
            launch.iterations
        ));
    }
}
