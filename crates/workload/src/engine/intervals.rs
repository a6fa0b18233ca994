//! Intervals of a run, and the start of a steady state.

use super::measure::Sample;
use crate::model::FlowopKind;
use crate::result::Interval;
use senesce_stats::steady::{STEADY_INTERVALS, is_steady};
use std::collections::VecDeque;

pub(crate) struct IntervalSeries<'a> {
    names: &'a [(String, FlowopKind)],
    begin: Sample,
    /// Recent samples with their times in seconds, oldest first: enough for the start of a steady state.
    recent: VecDeque<(f64, Sample)>,
    pub intervals: Vec<Interval>,
}

impl<'a> IntervalSeries<'a> {
    pub(crate) fn new(names: &'a [(String, FlowopKind)], begin: Sample) -> Self {
        Self { names, recent: VecDeque::from([(0.0, begin.clone())]), begin, intervals: Vec::new() }
    }

    pub(crate) fn last_seconds(&self) -> f64 {
        self.recent.back().map_or(0.0, |(seconds, _)| *seconds)
    }

    pub(crate) fn close(&mut self, seconds: f64, sample: Sample) -> &Interval {
        let (last_seconds, last) =
            self.recent.back().map_or((0.0, &self.begin), |(seconds, sample)| (*seconds, sample));
        let interval = sample.since(last).interval(self.names, seconds, seconds - last_seconds);
        self.recent.push_back((seconds, sample));
        if self.recent.len() > STEADY_INTERVALS + 1 {
            self.recent.pop_front();
        }
        self.intervals.push(interval);
        &self.intervals[self.intervals.len() - 1]
    }

    pub(crate) fn is_steady(&self) -> bool {
        let rates: Vec<f64> = self.intervals.iter().map(|interval| interval.ops_per_second).collect();
        is_steady(&rates)
    }

    /// Returns all counters, with the elapsed time.
    pub(crate) fn whole(&self) -> (Sample, f64) {
        self.between(0.0, &self.begin)
    }

    /// Counters of the last [`STEADY_INTERVALS`], with their duration and start.
    pub(crate) fn steady(&self) -> (Sample, f64, f64) {
        let (begin, sample) = self.recent.front().map_or((0.0, &self.begin), |(seconds, sample)| (*seconds, sample));
        let (counted, seconds) = self.between(begin, sample);
        (counted, seconds, begin)
    }

    fn between(&self, begin: f64, first: &Sample) -> (Sample, f64) {
        let (end, last) = self.recent.back().map_or((0.0, &self.begin), |(seconds, sample)| (*seconds, sample));
        (last.since(first), end - begin)
    }
}
