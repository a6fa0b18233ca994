//! The last value of each history as metrics for Prometheus.

use super::{ListedRun, MetricHistories, MetricHistory, State};
use senesce_core::circumstances::seconds_since_1970;
use senesce_core::prometheus::{gauge, quoted};

/// Formats the values without time stamps, which text file collectors refuse. The time of a value is a metric of its
/// own.
pub fn prometheus(entries: &[ListedRun], courses: &MetricHistories) -> String {
    let mut text = String::new();
    let count = |state: State| entries.iter().filter(|entry| entry.state == state).count() as f64;
    let states = [State::Complete, State::Partial, State::Damaged, State::Unreadable];
    let counts: Vec<_> =
        states.iter().map(|state| (format!("state={}", quoted(state.word())), count(*state))).collect();
    gauge(&mut text, "history_runs", "Runs in the history.", &counts);
    let of = |value: &dyn Fn(&MetricHistory) -> Option<f64>| {
        let sample = |course: &MetricHistory| Some((labels(course), value(course)?));
        courses.courses.iter().filter_map(sample).collect::<Vec<_>>()
    };
    let last = |course: &MetricHistory| course.points.last().map(|point| (point.value, &entries[point.run]));
    gauge(&mut text, "history_value", "Mean of the last run.", &of(&|course| Some(last(course)?.0)));
    let time = |course: &MetricHistory| Some(seconds_since_1970(last(course)?.1.date.as_deref()?)? as f64);
    gauge(&mut text, "history_time_seconds", "When the last run began, seconds since 1970.", &of(&time));
    let level = |course: &MetricHistory| Some(course.changes.last()?.after);
    gauge(&mut text, "history_level", "Median since the last change point.", &of(&level));
    let changes = |course: &MetricHistory| Some(course.changes.len() as f64);
    gauge(&mut text, "history_changes", "Change points found.", &of(&changes));
    text
}

fn labels(course: &MetricHistory) -> String {
    let key = &course.key;
    let all = [
        ("kind", &key.kind),
        ("setting", &key.setting),
        ("host", &key.host),
        ("metric", &key.metric),
        ("unit", &key.unit),
        ("condition", &key.condition),
    ];
    all.map(|(name, value)| format!("{name}={}", quoted(value))).join(",")
}
