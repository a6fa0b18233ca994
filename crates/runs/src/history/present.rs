//! Tables and figures of a history.

use super::metric_history::LEAST_POINTS;
use super::{BaselineComparison, ListedRun, MetricHistories, MetricHistory, State, baseline};
use senesce_core::analysis::{Analysis, Axis, Figure, FigureKind, Mark, Series, Table};
use senesce_core::{Rows, number_of};
use senesce_stats::change_points::{ChangePoint, FALSE_ALARM};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MOST_FIGURES: usize = 60;

pub fn list(entries: &[ListedRun]) -> Value {
    json!(entries)
}

pub fn runs_table(entries: &[ListedRun]) -> Table {
    Rows::of(entries)
        .column("date (UTC)", |entry| entry.date.as_deref().map(minute))
        .column("host", ListedRun::machine)
        .column("label", |entry| &entry.label)
        .column("senesce commit", |entry| entry.commit.as_deref().map(short))
        .column("kernel", |entry| &entry.kernel)
        .column("kind", |entry| &entry.kind)
        .column("verdict", |entry| {
            if entry.state == State::Complete {
                entry.verdict.clone()
            } else {
                format!("{}: {}", entry.state.word(), entry.verdict)
            }
        })
        .column("run", |entry| entry.run.display().to_string())
        .table("runs", "Runs")
}

/// Shortens `2026-11-22T21:43:58Z` to `2026-11-22 21:43`.
fn minute(date: &str) -> String {
    date.get(..16).unwrap_or(date).replace('T', " ")
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

pub(crate) fn history_table(entries: &[ListedRun], courses: &MetricHistories) -> Table {
    let columns = ["metric", "condition", "of", "host", "runs", "median", "last", "unit", "since"];
    let mut table = Table::new("courses", "Every metric over its runs", &columns);
    for course in &courses.courses {
        let Some(last) = course.points.last() else { continue };
        table.row((
            &course.key.metric,
            &course.key.condition,
            setting(course),
            &course.key.host,
            course.points.len(),
            senesce_stats::median(&course.values()),
            &last.value,
            &course.key.unit,
            course.changes.last().map(|change| place(entries, course, change)),
        ));
    }
    table
}

fn setting(course: &MetricHistory) -> String {
    format!("{} {}", course.key.kind, course.key.setting)
}

fn place(entries: &[ListedRun], course: &MetricHistory, change: &ChangePoint) -> String {
    course.points.get(change.index).map_or_else(String::new, |point| run_text(&entries[point.run]))
}

fn run_text(entry: &ListedRun) -> String {
    let date = entry.date.as_deref().map(minute);
    let words: Vec<String> =
        [date, entry.label.clone(), entry.commit.as_deref().map(|commit| short(commit).to_string())]
            .into_iter()
            .flatten()
            .collect();
    if words.is_empty() { entry.name() } else { words.join(", ") }
}

fn changes(entries: &[ListedRun], courses: &MetricHistories) -> Table {
    let columns = ["metric", "condition", "of", "host", "change", "before", "after", "unit", "first run", "begun", "p"];
    let mut table = Table::new("changes", "Lasting changes of the level of a metric", &columns);
    let found = courses.courses.iter().flat_map(|course| course.changes.iter().map(move |change| (course, change)));
    for (course, change) in found {
        let run = course.points.get(change.index).map(|point| entries[point.run].name());
        table.row((
            &course.key.metric,
            &course.key.condition,
            setting(course),
            &course.key.host,
            course.change_text(change),
            &change.before,
            &change.after,
            &course.key.unit,
            run,
            place(entries, course, change),
            &change.p,
        ));
    }
    table
}

fn drifts(courses: &MetricHistories) -> Table {
    let columns = ["metric", "condition", "of", "host", "drift since the last change"];
    let mut table = Table::new("drifts", "Metrics that drift", &columns);
    for course in &courses.courses {
        if let Some(text) = course.drift_text() {
            let key = &course.key;
            table.row((&key.metric, &key.condition, setting(course), &key.host, text));
        }
    }
    table
}

pub fn analysis(
    entries: &[ListedRun],
    courses: &MetricHistories,
    against: Option<(&str, &[BaselineComparison])>,
) -> Analysis {
    let of_baseline = against.map(|(name, found)| baseline::table(name, entries, found));
    let tables = of_baseline.into_iter().chain([
        changes(entries, courses),
        drifts(courses),
        history_table(entries, courses),
        runs_table(entries),
    ]);
    let mut result = json!({"runs": list(entries), "courses": courses.courses, "false_alarms": courses.false_alarms()});
    if let Some((name, found)) = against {
        result["baseline"] = json!({"name": name, "found": baseline::json(entries, found)});
    }
    let figures = drawn(courses).into_iter().enumerate().map(|(index, course)| figure(index, entries, course));
    Analysis {
        title: "History".into(),
        summary: summary(entries, courses),
        figures: figures.collect(),
        tables: tables.filter(|table| !table.rows.is_empty()).collect(),
        findings: Vec::new(),
        caveats: caveats(entries, courses),
        result,
    }
}

fn summary(entries: &[ListedRun], courses: &MetricHistories) -> String {
    let dates: Vec<String> = entries.iter().filter_map(|entry| entry.date.as_deref().map(minute)).collect();
    let span = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) => format!(" from {first} to {last}"),
        _ => String::new(),
    };
    let guests = match entries.iter().filter(|entry| entry.guest.is_some()).count() {
        0 => String::new(),
        count => format!(", {count} of them in a guest"),
    };
    let (entries, hosts) = (number_of(entries.len(), "run"), number_of(machines(entries).len(), "machine"));
    format!("{entries}{span} on {hosts}{guests}. {}", changes_text(courses))
}

/// Returns the names of the machines; a guest counts to its host.
pub(super) fn machines(entries: &[ListedRun]) -> BTreeSet<&str> {
    entries.iter().filter_map(|entry| entry.host.as_deref()).collect()
}

fn changes_text(courses: &MetricHistories) -> String {
    if courses.searched() == 0 {
        return format!(
            "No metric has the {LEAST_POINTS} runs of one setting that are needed to detect a change of its level."
        );
    }
    let changed = courses.courses.iter().filter(|course| !course.changes.is_empty()).count();
    let (searched, by_chance) = (number_of(courses.searched(), "history"), courses.false_alarms());
    format!(
        "The level changed in {changed} of {searched} with enough runs; if nothing had changed, at \
         most {by_chance:.1} would show a change."
    )
}

fn caveats(entries: &[ListedRun], courses: &MetricHistories) -> Vec<String> {
    let mut caveats = Vec::new();
    if let Some((first, why)) = courses.unread.first() {
        let name = entries[*first].name();
        caveats
            .push(format!("{} could not be read; the first is {name}: {why}", number_of(courses.unread.len(), "run")));
    }
    let left_out = [
        (&courses.partial, "not complete"),
        (&courses.undated, "without a date"),
        (&courses.copies, "copies of older runs"),
    ];
    for (left_out, why) in left_out {
        if let Some(first) = left_out.first() {
            let (count, name) = (number_of(left_out.len(), "run"), entries[*first].name());
            caveats.push(format!("not in any history, because {why}: {count}, the first of which is {name}"));
        }
    }
    let by_file: Vec<_> = entries.iter().filter(|entry| entry.date_from.is_some()).collect();
    if let Some(first) = by_file.first() {
        caveats.push(format!(
            "dated by the time of their file, which copying may change, so their order may be wrong: {}, the first of \
             which is {}",
            number_of(by_file.len(), "run"),
            first.name()
        ));
    }
    let drawable = courses.courses.iter().filter(|course| is_drawable(course)).count();
    if drawable > MOST_FIGURES {
        caveats.push(format!(
            "{MOST_FIGURES} of {drawable} histories are drawn, those with changes first; the table has all"
        ));
    }
    caveats
}

fn is_drawable(course: &MetricHistory) -> bool {
    course.points.len() > 1
}

fn drawn(courses: &MetricHistories) -> Vec<&MetricHistory> {
    let largest = |course: &MetricHistory| {
        let share = |change: &ChangePoint| ((change.after - change.before) / change.before).abs();
        course.changes.iter().map(share).fold(0.0, f64::max)
    };
    let mut drawn: Vec<&MetricHistory> = courses.courses.iter().filter(|course| is_drawable(course)).collect();
    drawn.sort_by(|a, b| {
        let rest = |course: &MetricHistory| (course.drift.is_none(), !course.primary);
        largest(b).total_cmp(&largest(a)).then_with(|| rest(a).cmp(&rest(b)))
    });
    drawn.truncate(MOST_FIGURES);
    drawn
}

fn figure(index: usize, entries: &[ListedRun], course: &MetricHistory) -> Figure {
    let at = |index: usize| (index + 1) as f64;
    let values = course.points.iter().enumerate().map(|(index, point)| (at(index), point.value)).collect();
    let mut series = vec![Series {
        labels: course.points.iter().map(|point| run_text(&entries[point.run])).collect(),
        ..Series::new("run", Mark::Measured, values)
    }];
    if !course.changes.is_empty() {
        series.push(Series::new("median between changes", Mark::Measured, levels(course)));
    }
    let key = &course.key;
    let host = if key.host.is_empty() { String::new() } else { format!(" on {}", key.host) };
    Figure {
        id: format!("course-{index}"),
        title: course.name(),
        caption: caption(entries, course),
        device: format!("{}{host}", setting(course)),
        better: course.better,
        kind: FigureKind::Lines {
            x: Axis::linear("Run, by date"),
            y: Axis::linear(&if key.unit.is_empty() {
                key.metric.clone()
            } else {
                format!("{} ({})", key.metric, key.unit)
            }),
            series,
        },
    }
}

fn levels(course: &MetricHistory) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut begin = 1.0;
    for change in &course.changes {
        let end = change.index as f64 + 0.5;
        points.extend([(begin, change.before), (end, change.before)]);
        begin = end;
    }
    let last = course.changes.last().map(|change| change.after);
    points.extend(last.map(|level| [(begin, level), (course.points.len() as f64, level)]).into_iter().flatten());
    points
}

fn caption(entries: &[ListedRun], course: &MetricHistory) -> String {
    let change = |change: &ChangePoint| {
        let (words, number) = (course.change_text(change), change.index + 1);
        format!("{words} from run {number} on ({}; p {:.1e}).", place(entries, course, change), change.p)
    };
    let mut words: Vec<String> = course.changes.iter().map(change).collect();
    words.extend(course.drift_text().map(|drift| format!("Since the last change it {drift}.")));
    if course.points.len() < LEAST_POINTS {
        words.push(match course.points.len() {
            1 => format!("One run is too few to detect a change; {LEAST_POINTS} are needed."),
            few => format!("{few} runs are too few to detect a change; {LEAST_POINTS} are needed."),
        });
    } else if words.is_empty() {
        words.push(format!("No change was found (false-alarm rate: {:.0} % per history).", FALSE_ALARM * 100.0));
    }
    words.join(" ")
}
