//! Comparison of runs: first what differs in their environments, then every metric under every condition, in words.

mod present;

use crate::measurements;
use senesce_core::analysis::{Analysis, Better};
use senesce_core::failure::ExitCode;
use senesce_core::{Failure, Measurement, Record, Seed};
use senesce_stats::{Direction, Judgement, Outcome, holm, judge, noise_floor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is asked of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A slower metric counts as a regression from this change on (fraction).
    pub fail_on_regression: Option<f64>,
    /// Compare although kind, target class or engine differ.
    pub allow_different: bool,
    /// Noise floor (fraction) where the reference runs cannot give one.
    pub least_noise: f64,
}

/// One metric under one condition.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its first measurement: metric, unit, direction, condition.
    pub what: Measurement,
    /// Values of the runs in question, one group per image.
    pub sample: Vec<Vec<f64>>,
    /// Values of the reference.
    pub reference: Vec<Vec<f64>>,
    /// Ratio, p, noise floor, outcome; `None` where no direction is better.
    pub judgement: Option<Judgement>,
    /// p after Holm over the whole comparison.
    pub adjusted_p: Option<f64>,
    /// Left out of the gate because times mean nothing under emulation.
    pub emulated: bool,
    /// A regression under `fail_on_regression`.
    pub regression: bool,
}

/// A whole comparison.
#[derive(Debug)]
pub struct Comparison {
    /// Names of the runs in question.
    pub sample: Vec<PathBuf>,
    /// Names of the reference runs.
    pub reference: Vec<PathBuf>,
    /// Facts that differ: name, reference, sample.
    pub environment: Vec<(String, Value, Value)>,
    /// Settings that differ, in words.
    pub settings: Vec<String>,
    /// Metrics.
    pub rows: Vec<Row>,
    /// Warnings to show first.
    pub caveats: Vec<String>,
    /// What is asked.
    pub options: Options,
}

impl Comparison {
    /// 0; 1 when a regression was found or, under a gate, nothing could be judged.
    pub fn exit_code(&self) -> ExitCode {
        let judged = |row: &&Row| !row.emulated && row.judgement.as_ref().is_some_and(is_valid);
        let gate = self.options.fail_on_regression.is_some();
        let nothing = gate && self.rows.iter().filter(judged).count() == 0;
        if nothing || self.rows.iter().any(|row| row.regression) { ExitCode::Negative } else { ExitCode::Done }
    }

    /// Tables and figures.
    pub fn analysis(&self) -> Analysis {
        present::analysis(self)
    }
}

fn is_valid(judgement: &Judgement) -> bool {
    !matches!(judgement.outcome, Outcome::Invalid(_))
}

/// Compares the runs in `sample` with those in `reference`; each run counts as one more image.
pub fn compare(sample: &[Record], reference: &[Record], options: &Options) -> Result<Comparison, Failure> {
    let (Some(first), Some(base)) = (sample.first(), reference.first()) else {
        return Err(Failure::usage("a comparison needs two runs at least: senesce compare REFERENCE RUN"));
    };
    let all: Vec<&Record> = sample.iter().chain(reference).collect();
    let mut caveats = comparable(&all, options)?;
    caveats.extend(all.iter().filter(|record| record.is_partial()).map(|record| {
        format!("{} is partial: what follows holds for the part that was recorded", record.path.display())
    }));
    let emulated = all.iter().any(|record| !record.environment.caveats().is_empty());
    if emulated {
        caveats.push("taken in the lab guest: times and rates are shown but not judged, layout is".into());
    }
    let rows = rows(&groups(sample)?, &groups(reference)?, emulated, options);
    if rows.is_empty() {
        return Err(Failure::usage("the runs have no metric under the same condition in common; nothing to compare"));
    }
    Ok(Comparison {
        sample: sample.iter().map(|record| record.path.clone()).collect(),
        reference: reference.iter().map(|record| record.path.clone()).collect(),
        environment: base.environment.differences(&first.environment),
        settings: base.plan.differences(&first.plan),
        rows,
        caveats,
        options: options.clone(),
    })
}

/// What makes runs incomparable: refused, or a caveat where the user insists.
fn comparable(records: &[&Record], options: &Options) -> Result<Vec<String>, Failure> {
    let base = records[records.len() - 1];
    let mut differences = Vec::new();
    for record in records {
        for (what, of) in [("kind", kind as fn(&Record) -> String), ("target class", target_class), ("engine", engine)]
        {
            let (ours, theirs) = (of(record), of(base));
            if ours != theirs {
                differences.push(format!(
                    "{what}: {ours} ({}) against {theirs} ({})",
                    record.path.display(),
                    base.path.display()
                ));
            }
        }
    }
    differences.sort();
    differences.dedup();
    if differences.is_empty() || options.allow_different {
        return Ok(differences.into_iter().map(|text| format!("compared although they differ in {text}")).collect());
    }
    Err(Failure::usage(format!(
        "the runs are not comparable: {}; to compare them anyway say --even-if-different",
        differences.join("; ")
    )))
}

fn kind(record: &Record) -> String {
    record.plan.kind.clone()
}

fn engine(record: &Record) -> String {
    record.plan.settings.get("engine").cloned().unwrap_or_else(|| "-".into())
}

/// Memory, image, device or directory, from the name of the target.
fn target_class(record: &Record) -> String {
    let fact = |name: &str| record.environment.0.get(name).and_then(Value::as_str).unwrap_or_default();
    let name = fact("target.name");
    let in_memory = fact("image.in_memory") == "true";
    match name {
        "" => "-".into(),
        name if name.starts_with("memory:") || in_memory => "image in memory".into(),
        name if name.starts_with("image:") => "image file".into(),
        name if name.starts_with("/dev/") => "device".into(),
        _ => "directory".into(),
    }
}

type Key = (String, String, BTreeMap<String, String>);
type Groups = BTreeMap<Key, (Measurement, BTreeMap<(usize, u32), Vec<f64>>)>;

fn groups(records: &[Record]) -> Result<Groups, Failure> {
    let mut all = Groups::new();
    for (run, record) in records.iter().enumerate() {
        for one in measurements::of(record)? {
            let key = (one.metric.clone(), one.unit.clone(), one.condition.clone());
            let (image, value) = (one.image, one.value);
            let entry = all.entry(key).or_insert_with(|| (one, BTreeMap::new()));
            entry.1.entry((run, image)).or_default().push(value);
        }
    }
    Ok(all)
}

fn rows(sample: &Groups, reference: &Groups, emulated: bool, options: &Options) -> Vec<Row> {
    let mut rng = Seed(0).stream("compare/bootstrap");
    let mut rows: Vec<Row> = Vec::new();
    for (key, (what, groups)) in reference {
        let Some((_, ours)) = sample.get(key) else { continue };
        let (ours, theirs): (Vec<_>, Vec<_>) = (ours.values().cloned().collect(), groups.values().cloned().collect());
        let direction = match what.better {
            Better::Higher => Some(Direction::HigherIsBetter),
            Better::Lower => Some(Direction::LowerIsBetter),
            Better::Neither => None,
        };
        let floor = floor_of(&theirs).unwrap_or(0.0).max(options.least_noise);
        let judgement = direction.map(|direction| judge(&ours, &theirs, direction, floor, &mut rng));
        let emulated = emulated && measurements::is_timing(what);
        let regression = !emulated && judgement.as_ref().is_some_and(|judged| is_regression(judged, options));
        let what = what.clone();
        rows.push(Row { what, sample: ours, reference: theirs, judgement, adjusted_p: None, emulated, regression });
    }
    adjust(&mut rows);
    rows
}

/// The machine's own noise, like with like: runs (or images) of the reference against each other, or the odd against the
/// even repetitions of a single one.
fn floor_of(groups: &[Vec<f64>]) -> Option<f64> {
    if let [single] = groups {
        let half = |parity: usize| single.iter().copied().skip(parity).step_by(2).collect::<Vec<_>>();
        return (single.len() >= 4).then(|| noise_floor(&[(half(0), half(1))])).flatten();
    }
    let pairs: Vec<_> = groups.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    noise_floor(&pairs)
}

fn is_regression(judgement: &Judgement, options: &Options) -> bool {
    let change = judgement.ratio.map_or(0.0, |ratio| (ratio.value - 1.0).abs());
    judgement.outcome == Outcome::Slower && options.fail_on_regression.is_some_and(|limit| change > limit)
}

fn adjust(rows: &mut [Row]) {
    let tested: Vec<usize> = (0..rows.len()).filter(|&index| p_of(&rows[index]).is_some()).collect();
    let p_values: Vec<f64> = tested.iter().filter_map(|&index| p_of(&rows[index])).collect();
    for (index, p) in tested.into_iter().zip(holm(&p_values)) {
        rows[index].adjusted_p = Some(p);
    }
}

fn p_of(row: &Row) -> Option<f64> {
    row.judgement.as_ref()?.p
}

/// Reads `5%` or `0.05` as a fraction.
pub fn parse_share(text: &str) -> Result<f64, Failure> {
    let wrong = || Failure::usage(format!("'{text}' is not a share: write 5% or 0.05"));
    let (number, divisor) = text.trim().strip_suffix('%').map_or((text.trim(), 1.0), |number| (number.trim(), 100.0));
    let share = number.parse::<f64>().map_err(|_| wrong())? / divisor;
    if (0.0..=10.0).contains(&share) { Ok(share) } else { Err(wrong()) }
}
