//! The time that the remaining steps of a run take.

use crate::context::Context;
use crate::{Planned, Run};
use senesce_core::machine::time_is_virtual;
use senesce_core::progress::KNOWN_SHARE;

pub(crate) struct StepProgress<'a> {
    pub number: usize,
    pub count: usize,
    pub seconds_left: f64,
    pub pace: &'a mut Pace,
}

/// Seconds of steps after which their pace is known.
const PACE_SECONDS: f64 = 5.0;

/// Estimated and actual seconds of the completed steps.
#[derive(Default)]
pub(crate) struct Pace {
    /// Sums over as many steps as run at a time: the first one waits for the work of all, the others end at once.
    batches: Vec<(f64, f64)>,
    /// Those of the batch that is not complete, and the number of its steps.
    begun: (f64, f64, usize),
}

impl Pace {
    fn add(&mut self, estimated: f64, taken: f64, together: usize) {
        let (all_estimated, all_taken, steps) = self.begun;
        self.begun = (all_estimated + estimated, all_taken + taken, steps + 1);
        if self.begun.2 >= together {
            let (estimated, taken, _) = std::mem::take(&mut self.begun);
            self.batches.push((estimated, taken));
        }
    }

    /// Returns the estimated seconds of the completed batches.
    fn estimated(&self) -> f64 {
        self.batches.iter().map(|(estimated, _)| estimated).sum()
    }

    /// Returns actual over estimated seconds: the median, weighted by the estimates, so that one slow batch changes it
    /// little. `None` while too little is measured.
    fn factor(&self) -> Option<f64> {
        let mut all: Vec<(f64, f64)> = self.batches.iter().copied().filter(|(estimated, _)| *estimated > 0.0).collect();
        if all.iter().map(|(_, taken)| taken).sum::<f64>() <= PACE_SECONDS {
            return None;
        }
        all.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let half = self.estimated() / 2.0;
        let mut before = 0.0;
        for (estimated, taken) in &all {
            before += estimated;
            if before >= half {
                return Some(taken / estimated);
            }
        }
        None
    }
}

impl StepProgress<'_> {
    pub(crate) fn note(&mut self, estimated: f64, taken: f64, together: usize) {
        self.seconds_left -= estimated;
        self.pace.add(estimated, taken, together);
    }

    /// Counts a step that is done already.
    pub(crate) fn skip(&mut self, estimated: f64) {
        self.number += 1;
        self.seconds_left -= estimated;
    }

    /// Returns the seconds left at the pace of the steps so far. 0 while that is unknown: an estimate can be off
    /// tenfold. Virtual time is not that of the user.
    fn left(&self) -> f64 {
        let done = self.pace.estimated();
        let is_known = done >= KNOWN_SHARE * (done + self.seconds_left) && !time_is_virtual();
        self.pace.factor().filter(|_| is_known).map_or(0.0, |factor| self.seconds_left * factor)
    }

    pub(crate) fn begin<R: Run>(&mut self, planned: &Planned<R::Step>, context: &Context<'_, R>) {
        self.number += 1;
        let text = match planned.target.as_str() {
            "" | "-" => planned.action.clone(),
            target => format!("{} [{target}]", planned.action),
        };
        context.progress.step(self.number, self.count, &text, self.left());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_does_not_jump_if_steps_run_in_pairs() {
        let mut pace = Pace::default();
        let mut course = StepProgress { number: 0, count: 6, seconds_left: 60.0, pace: &mut pace };
        let mut left = Vec::new();
        for _ in 0..3 {
            for taken in [30.0, 0.0] {
                course.note(10.0, taken, 2);
                left.push(course.left());
            }
        }
        assert_eq!(left, [0.0, 60.0, 45.0, 30.0, 15.0, 0.0], "a pair takes 30 s");
    }

    #[test]
    fn time_left_is_unknown_after_one_percent() {
        let mut pace = Pace::default();
        let mut course = StepProgress { number: 0, count: 100, seconds_left: 1000.0, pace: &mut pace };
        course.note(10.0, 70.0, 1);
        assert_eq!(course.left(), 0.0);
        (0..9).for_each(|_| course.note(10.0, 20.0, 1));
        assert_eq!(course.left(), 1800.0);
    }

    #[test]
    fn time_left_follows_the_pace() {
        let mut pace = Pace::default();
        let mut course = StepProgress { number: 0, count: 8, seconds_left: 80.0, pace: &mut pace };
        assert_eq!(course.left(), 0.0);
        course.note(10.0, 4.0, 1);
        assert_eq!(course.left(), 0.0, "too short for a pace");
        course.note(10.0, 20.0, 1);
        course.note(10.0, 20.0, 1);
        assert_eq!(course.left(), 100.0, "twice as slow as estimated");
        course.note(10.0, 400.0, 1);
        assert_eq!(course.left(), 80.0, "one slow step changes nothing");
        let later = StepProgress { number: 0, count: 1, seconds_left: 5.0, pace: &mut pace };
        assert_eq!(later.left(), 10.0, "the pace holds for the steps that a study adds");
    }
}
