//! The parts of a run that few kinds need.

use crate::{Context, Needs, Recorded, Run};
use senesce_core::Failure;

/// The extra needs of one step, and the caveat of a record without it ("measured without ...").
type StepNeeds<R> = fn(&<R as Run>::Spec, &<R as Run>::Step) -> Option<(Needs, &'static str)>;

/// The parts of a run that few kinds need. A kind sets its own and takes the others from [`Special::NONE`].
pub struct Special<R: Run> {
    /// If the machine does not meet the needs, the step is left out.
    pub step_needs: StepNeeds<R>,
    /// Returns what a run of this user leaves out of the plan of root, for `--dry-run`.
    pub left_out: fn(&R::Spec) -> Option<String>,
    /// Called before each [`Run::next`] of an execution: records decisions that follow from the record so far, such as an
    /// interim analysis.
    pub before_next: fn(&R::Spec, &mut Context<'_, R>) -> Result<(), Failure>,
    /// Whether the same command starts an interrupted run from the beginning instead of continuing it.
    pub starts_over: fn(&R::Spec, &Recorded<R>) -> bool,
    /// Whether an event belongs to the preparation: a run that is refused after it leaves no record.
    pub prepares: fn(&R::Event) -> bool,
    /// Verb that continues a run by its directory, such as `age --resume`; `None`: the command of the run.
    pub resumed_by: Option<&'static str>,
    /// Whether reports list claims that the run cannot test. A run that does not reproduce an experiment has little use
    /// for them; its JSON result has all.
    pub lists_untestable: bool,
    /// Entries of the result whose numbers are not measurements of the run, at any depth: the machine, a requested length.
    pub not_measured: &'static [&'static str],
}

impl<R: Run> Special<R> {
    /// Nothing special: a run starts over if no step is done.
    pub const NONE: Self = Self {
        step_needs: |_, _| None,
        left_out: |_| None,
        before_next: |_, _| Ok(()),
        starts_over: |_, recorded| !recorded.has_done_a_step(),
        prepares: |_| false,
        resumed_by: None,
        lists_untestable: true,
        not_measured: &[],
    };
}
