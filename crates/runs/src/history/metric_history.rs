//! The history of each metric over the runs of one setting on the same machine.

use super::{ListedRun, MeasuredRun, State};
use rayon::prelude::*;
use senesce_core::analysis::Better;
use senesce_core::order::ByNumbers;
use senesce_core::{Measurement, significant};
use senesce_runner::KnownRuns;
use senesce_stats::change_points::{ChangePoint, FALSE_ALARM, change_points};
use senesce_stats::{Trend, mean_of_means, trend};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of last runs searched for a drift: the time grows with the square of their number.
const LONGEST_DRIFT: usize = 1000;

/// Minimum share of a reported drift.
const LEAST_DRIFT: f64 = 0.02;

/// One run of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Its index in the list.
    pub run: usize,
    /// Mean of its values, with equal weight for each image.
    pub value: f64,
    pub values: usize,
}

/// Identifies a history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// The experiment's id or the verb.
    pub kind: String,
    /// Stands for kind and specification.
    pub setting: String,
    /// The machine, and whether the runs were made in a guest on it; empty if unknown.
    pub host: String,
    /// Name of the metric.
    pub metric: String,
    pub unit: String,
    /// Its condition, in words.
    pub condition: String,
}

/// One metric under one condition over all runs of one setting on one machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricHistory {
    /// Its identity.
    #[serde(flatten)]
    pub key: Key,
    /// Which direction is better.
    pub better: Better,
    /// Whether it is a primary metric of its workload.
    pub primary: bool,
    /// The runs, by date.
    pub points: Vec<Point>,
    /// Lasting changes of its level; `index` counts its points.
    pub changes: Vec<ChangePoint>,
    /// Drift since the last change, if significant and above the minimum.
    pub drift: Option<Trend>,
}

impl MetricHistory {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.value).collect()
    }

    pub(crate) fn name(&self) -> String {
        match self.key.condition.is_empty() {
            true => self.key.metric.clone(),
            false => format!("{} [{}]", self.key.metric, self.key.condition),
        }
    }

    pub(crate) fn change_text(&self, change: &ChangePoint) -> String {
        if change.before == 0.0 {
            return format!("changed from 0 to {}", significant(change.after));
        }
        let share = change.after / change.before - 1.0;
        let is_worse = match self.better {
            Better::Higher => share < 0.0,
            Better::Lower => share > 0.0,
            Better::Neither => return format!("changed by {:+.1} %", share * 100.0),
        };
        format!("{} by {:.1} %", if is_worse { "worse" } else { "better" }, share.abs() * 100.0)
    }

    fn found(key: Key, PointsOfMetric { better, primary, points }: PointsOfMetric) -> Self {
        let mut course = Self { key, better, primary, points, changes: Vec::new(), drift: None };
        let values = course.values();
        course.changes = change_points(&values, FALSE_ALARM).unwrap_or_default();
        let since = course.changes.last().map_or(0, |change| change.index);
        let last = &values[since.max(values.len().saturating_sub(LONGEST_DRIFT))..];
        course.drift = trend(last).filter(|drift| drift.text(FALSE_ALARM, LEAST_DRIFT).is_some());
        course
    }

    pub(crate) fn drift_text(&self) -> Option<String> {
        self.drift.as_ref()?.text(FALSE_ALARM, LEAST_DRIFT)
    }
}

/// All histories, and the runs that are in none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricHistories {
    /// By kind, setting, machine, metric and condition.
    pub courses: Vec<MetricHistory>,
    /// Index of a run with unreadable values, and the reason.
    pub unread: Vec<(usize, String)>,
    /// Incomplete runs.
    pub partial: Vec<usize>,
    /// Runs without a date.
    pub undated: Vec<usize>,
    /// Copies of older runs.
    pub copies: Vec<usize>,
}

/// The points of all histories so far. The values of a run are reduced to one point for each of its metrics.
#[derive(Debug, Default)]
pub struct HistoryPoints {
    histories: BTreeMap<Key, PointsOfMetric>,
    runs: usize,
    unread: Vec<(usize, String)>,
    partial: Vec<usize>,
    undated: Vec<usize>,
    complete: Vec<usize>,
}

#[derive(Debug)]
struct PointsOfMetric {
    better: Better,
    primary: bool,
    points: Vec<Point>,
}

impl HistoryPoints {
    /// Adds the next run of a list.
    pub fn add(&mut self, entry: &ListedRun, values: &MeasuredRun) {
        let run = self.runs;
        self.runs += 1;
        match values {
            Err(why) => self.unread.push((run, why.clone())),
            Ok(_) if entry.state != State::Complete => self.partial.push(run),
            Ok(_) if entry.date.is_none() => self.undated.push(run),
            Ok(values) => {
                self.complete.push(run);
                for (key, (first, point)) in points(run, entry, values) {
                    let (better, primary) = (first.better, first.primary);
                    let none = || PointsOfMetric { better, primary, points: Vec::new() };
                    self.histories.entry(key).or_insert_with(none).points.push(point);
                }
            }
        }
    }

    /// Returns the histories of the added runs, which are `entries`. Copies of earlier runs have no points in them.
    pub fn histories(self, entries: &[ListedRun]) -> MetricHistories {
        let mut known = BTreeMap::new();
        let (copies, _): (BTreeSet<usize>, BTreeSet<usize>) =
            self.complete.into_iter().partition(|run| is_copy(&entries[*run], &mut known));
        let mut histories: Vec<_> = self.histories.into_iter().collect();
        for (_, found) in &mut histories {
            found.points.retain(|point| !copies.contains(&point.run));
        }
        histories.retain(|(_, found)| !found.points.is_empty());
        let setting = |key: &Key| [&key.kind, &key.setting, &key.host, &key.metric, &key.unit].map(String::clone);
        histories.sort_by_cached_key(|(key, _)| (setting(key), ByNumbers(key.condition.clone())));
        let courses = histories.into_par_iter().map(|(key, found)| MetricHistory::found(key, found)).collect();
        let (unread, partial, undated) = (self.unread, self.partial, self.undated);
        MetricHistories { courses, unread, partial, undated, copies: copies.into_iter().collect() }
    }
}

impl MetricHistories {
    pub(crate) fn searched(&self) -> usize {
        self.courses.iter().filter(|course| course.points.len() >= LEAST_POINTS).count()
    }

    /// Returns the expected maximum of changes found by chance.
    pub(crate) fn false_alarms(&self) -> f64 {
        self.searched() as f64 * FALSE_ALARM
    }
}

/// Minimum length for a change point, which needs three values on either side.
pub(super) const LEAST_POINTS: usize = 6;

/// Runs by kind and setting.
type KnownOfSettings<'e> = BTreeMap<(&'e Option<String>, &'e Option<String>), KnownRuns<'e>>;

/// Returns whether an earlier run is the same one. Adds it to the known ones.
fn is_copy<'e>(entry: &'e ListedRun, known: &mut KnownOfSettings<'e>) -> bool {
    known.entry((&entry.kind, &entry.setting)).or_default().add(&entry.identity)
}

fn points<'a>(run: usize, entry: &ListedRun, values: &'a [Measurement]) -> BTreeMap<Key, (&'a Measurement, Point)> {
    let text = |fact: &Option<String>| fact.clone().unwrap_or_default();
    let mut images: BTreeMap<Key, (&Measurement, BTreeMap<u32, Vec<f64>>)> = BTreeMap::new();
    for one in values {
        let key = Key {
            kind: text(&entry.kind),
            setting: text(&entry.setting),
            host: entry.machine().unwrap_or_default(),
            metric: one.metric.clone(),
            unit: one.unit.clone(),
            condition: one.condition_text(),
        };
        images
            .entry(key)
            .or_insert_with(|| (one, BTreeMap::new()))
            .1
            .entry(one.image)
            .or_default()
            .push(one.value.get());
    }
    let point = |(key, (first, images)): (Key, (&'a Measurement, BTreeMap<u32, Vec<f64>>))| {
        let images: Vec<Vec<f64>> = images.into_values().collect();
        let (value, values) = (mean_of_means(&images)?, images.iter().map(Vec::len).sum());
        Some((key, (first, Point { run, value, values })))
    };
    images.into_iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::ImportedFile;
    use crate::import::fio::Fio;
    use senesce_core::{Environment, Record};
    use senesce_runner::{Identity, Imported, import};
    use std::path::{Path, PathBuf};

    fn entry(name: &str, date: Option<&str>, state: State) -> ListedRun {
        let text = |text: &str| Some(text.to_string());
        let date = date.map(str::to_string);
        ListedRun {
            run: PathBuf::from(name),
            date,
            kind: text("fio"),
            state,
            ..ListedRun::without_values(Path::new("no such run"), State::Unreadable, String::new())
        }
    }

    fn histories(entries: &[ListedRun], measured: &[MeasuredRun]) -> MetricHistories {
        let mut points = HistoryPoints::default();
        entries.iter().zip(measured).for_each(|(entry, values)| points.add(entry, values));
        points.histories(entries)
    }

    #[test]
    fn history_has_only_complete_runs_with_a_date() {
        let day = |day: u32| format!("2026-01-{day:02}T03:00:00Z");
        let entries = [
            entry("undated", None, State::Complete),
            entry("first", Some(&day(1)), State::Complete),
            entry("interrupted", Some(&day(2)), State::Partial),
            entry("last", Some(&day(3)), State::Complete),
        ];
        let values: Vec<MeasuredRun> = [90.0, 100.0, 5.0, 101.0]
            .map(|value| Ok(vec![Measurement::new("throughput", "1/s", Better::Higher, value).unwrap()]))
            .into();
        let courses = histories(&entries, &values);
        assert_eq!(courses.courses.len(), 1);
        assert_eq!(courses.courses[0].values(), [100.0, 101.0]);
        assert_eq!((&courses.partial[..], &courses.undated[..]), (&[2][..], &[0][..]));
        assert!(courses.copies.is_empty(), "values of few digits may agree by chance");
        let page = super::super::analysis(&entries, &courses, None);
        assert!(
            page.summary
                .ends_with("No metric has the 6 runs of one setting that are needed to detect a change of its level.")
        );
        assert_eq!(page.figures[0].caption, "2 runs are too few to detect a change; 6 are needed.");
        let caveats = page.caveats.join("\n");
        assert!(caveats.contains("interrupted") && caveats.contains("undated"), "{caveats}");
        assert!(!caveats.contains("time of their file"), "{caveats}");
        let by_file = ListedRun { date_from: Some("the time of their file".into()), ..entries[1].clone() };
        let page = super::super::analysis(&[by_file], &histories(&entries[1..2], &values[1..2]), None);
        assert!(page.caveats.join(" ").contains("time of their file, which copying may change"), "{:?}", page.caveats);
        let scraped = super::super::prometheus(&entries[2..3], &histories(&entries[2..3], &values[2..3]));
        assert!(!scraped.contains("history_value{"), "{scraped}");
    }

    #[test]
    fn copy_of_a_run_adds_no_point() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let values = |layout: &str| {
            let one = Measurement::new("discontinuities", "", Better::Lower, 100.0 / 3.0).unwrap();
            vec![one.of_layout(Some(layout.into()))]
        };
        for name in ["first", "repeated"] {
            let spec = ImportedFile { source: "f".into(), crc32: "00000000".into() };
            let (environment, events, caveats) = (Environment::default(), Vec::new(), Vec::new());
            import::<Fio>(&path(name), Imported { spec, environment, events, measurements: values("a"), caveats })
                .unwrap();
        }
        std::fs::create_dir(path("copy")).unwrap();
        for file in std::fs::read_dir(path("first")).unwrap().flatten().filter(|file| file.path().is_file()) {
            std::fs::copy(file.path(), path("copy").join(file.file_name())).unwrap();
        }
        let dated = [("first", 1), ("copy", 2), ("repeated", 3)].map(|(name, day)| {
            let record = Record::open(&path(name)).unwrap();
            let dated = entry(name, Some(&format!("2026-01-0{day}T03:00:00Z")), State::Complete);
            ListedRun { identity: Identity::of(&record, &values("a")), ..dated }
        });
        let courses = histories(&dated, &[0, 1, 2].map(|_| -> MeasuredRun { Ok(values("a")) }));
        assert_eq!(courses.copies, [1]);
        assert_eq!(courses.courses[0].points.len(), 2);
    }
}
