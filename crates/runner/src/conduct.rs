//! The one runner: identity and directory, environment, resume, interrupt, failure, retry, finish.

use crate::analyse::{analyse, spec_of};
use crate::context::{Context, interrupted};
use crate::reasons::counted;
use crate::recorded::{Common, DoneStep, FailedStep, Recorded, RecordedEvent};
use crate::step_progress::{Pace, StepProgress};
use crate::{Planned, Run};
use senesce_core::circumstances::Watch;
use senesce_core::interrupt::{Interrupt, set_last_words};
use senesce_core::resume::{self, continue_with};
use senesce_core::{
    Analysis, Environment, ExitCode, Failure, Level, Peers, Plan, Progress, Record, RunDirectory, Seed, Silent,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

/// Options for conducting a run; none of them shapes its result.
pub struct Conduct<'a> {
    pub out: Option<PathBuf>,
    /// Parent of run directories without `out`.
    pub runs: PathBuf,
    /// Run again in a new directory. With `out`, a complete run there is refused, not replaced.
    pub again: bool,
    /// Path or serial number of a target that may be erased.
    pub erase: Option<String>,
    /// The level whose defaults the specification uses, for the text of claims.
    pub scale: Option<Level>,
    /// The only steps to do, in the notation of their kind; none: all. For a part of a run on another machine.
    pub only: Option<Vec<Value>>,
    pub progress: &'a dyn Progress,
    pub interrupt: &'a Interrupt,
    /// The other processes of the run.
    pub peers: Option<&'a dyn Peers>,
}

impl Conduct<'static> {
    /// Returns how to conduct a run into directory `out` that shows no progress and ignores interrupts.
    pub fn quietly(out: &Path) -> Self {
        static NEVER: LazyLock<Interrupt> = LazyLock::new(Interrupt::new);
        Self {
            out: Some(out.into()),
            runs: PathBuf::new(),
            again: false,
            erase: None,
            scale: None,
            only: None,
            progress: &Silent,
            interrupt: &NEVER,
            peers: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was complete before; nothing was done.
    WasDone,
    Done,
    /// Number of failed steps; the same command does them again.
    Failed(usize),
    /// The user ended it; the same command continues it or starts it over.
    Interrupted,
}

#[derive(Debug)]
pub struct Outcome {
    pub path: PathBuf,
    pub analysis: Analysis,
    pub state: State,
    /// The exit code if the run is done.
    pub verdict: ExitCode,
    /// Whether it starts over if it was interrupted.
    pub starts_over: bool,
    /// The command that continues it.
    pub continued_by: String,
    /// Why steps failed, and the number of steps; the most frequent reason first.
    pub reasons: Vec<(String, usize)>,
    /// Whether each reason was shown when its step failed.
    pub reasons_shown: bool,
}

impl Outcome {
    pub fn exit_code(&self) -> ExitCode {
        match self.state {
            State::WasDone | State::Done => self.verdict,
            State::Failed(_) => ExitCode::RunFailed,
            State::Interrupted => ExitCode::Interrupted,
        }
    }

    /// Returns the message for a run that the user interrupted.
    pub fn interrupted_words(&self) -> String {
        interrupted_words(&self.path, self.starts_over, &self.continued_by)
    }
}

/// Makes a plan of a specification, without steps yet.
pub fn new_plan<R: Run>(spec: &R::Spec, seed: Seed) -> Result<Plan, Failure> {
    Plan::of_spec(R::KIND, seed, spec)
        .map_err(|error| Failure::usage(format!("the specification cannot be stored: {error}")))
}

/// Does the remaining steps of a run, analyses its record and completes it. Fails for an invalid specification or
/// directory, missing requirements, a refusal, or a failed step if the kind stops after one.
pub fn conduct<R: Run>(spec: &R::Spec, seed: Seed, how: &Conduct<'_>) -> Result<Outcome, Failure> {
    let plan = Plan { scale: how.scale, ..R::plan(spec, seed)? };
    let path = how.out.clone().unwrap_or_else(|| default_path(&how.runs, &plan, how.again));
    let needed = R::needs(spec).check();
    if !path.join("plan.toml").exists() {
        needed.as_ref().map_err(Failure::again)?;
    }
    let here = Environment::capture();
    let directory = RunDirectory::open(&path, &plan, &here)?;
    if directory.is_finished() {
        return stored::<R>(path, how);
    }
    needed?;
    let mut context: Context<'_, R> = Context {
        progress: how.progress,
        interrupt: how.interrupt,
        peers: how.peers,
        seed,
        erase: how.erase.clone(),
        recorded: Recorded::of(&Record::open(&path)?)?,
        made_images: Vec::new(),
        directory,
        pending: Vec::new(),
        together: 1,
        last_words: None,
    };
    update_last_words(spec, how, &mut context);
    warn_of_changes(&here, &mut context)?;
    let watch = Watch::begin();
    let state = execute(spec, how, &mut context);
    set_last_words("interrupted");
    let noted = context.directory.add_environment(&watch.facts());
    let state = match state {
        Ok(state) => state,
        Err(failure) if failure.exit_code() == ExitCode::Interrupted => {
            context.note(Common::Interrupted)?;
            State::Interrupted
        }
        Err(failure) => {
            let refused = is_refused(&failure, &context);
            if refused {
                context.remove_made_images();
            }
            // Images that were made and removed again need no description.
            let is_gone = |common: &Common| matches!(common, Common::OwnImage(image) if !image.path.exists());
            match holds_only(&context, refused, is_gone) {
                true => context.directory.discard(),
                false => context.directory.discard_if_empty(),
            }
            return Err(failure);
        }
    };
    noted?;
    let mut directory = context.directory;
    directory.sync()?;
    let starts_over = (R::SPECIAL.starts_over)(spec, &context.recorded);
    let outcome = match outcome::<R>(path, state, how) {
        // It was interrupted before there was anything to analyse.
        Err(_) if state == State::Interrupted => {
            let path = directory.path();
            let words = interrupted_words(path, starts_over, &continued_by::<R>(path, how));
            return Err(Failure::new(ExitCode::Interrupted, words));
        }
        other => other?,
    };
    if state == State::Done && how.only.is_none() {
        directory.finish(&outcome.analysis.result)?;
    }
    Ok(outcome)
}

/// Sets the message of an interruption that ends the process at once. A finished step changes it, because the next run
/// continues after it.
fn update_last_words<R: Run>(spec: &R::Spec, how: &Conduct<'_>, context: &mut Context<'_, R>) {
    let starts_over = (R::SPECIAL.starts_over)(spec, &context.recorded);
    if context.last_words != Some(starts_over) {
        let path = context.path();
        set_last_words(&interrupted_words(path, starts_over, &continued_by::<R>(path, how)));
        context.last_words = Some(starts_over);
    }
}

/// Warns if a run continues under another kernel, program or machine: its parts cannot be distinguished afterwards.
fn warn_of_changes<R: Run>(here: &Environment, context: &mut Context<'_, R>) -> Result<(), Failure> {
    if context.directory.earlier_events().is_empty() {
        return Ok(());
    }
    let began = context.recorded.environment.only(here);
    let changes: Vec<String> =
        began.differences(here).iter().map(|(name, then, now)| format!("{name} was {then}, is {now}")).collect();
    match changes.is_empty() {
        true => Ok(()),
        false => context
            .note(Common::Caveat(format!("the run was continued in a changed environment: {}", changes.join("; ")))),
    }
}

fn interrupted_words(path: &Path, starts_over: bool, command: &str) -> String {
    let over = if starts_over { ", but the next run starts from the beginning" } else { "" };
    format!("interrupted; the record {} is kept{over}\nhint: {}", path.display(), continue_with(command))
}

/// Returns the result of a complete run, unless the user asked for another.
fn stored<R: Run>(path: PathBuf, how: &Conduct<'_>) -> Result<Outcome, Failure> {
    if !how.again {
        return outcome::<R>(path, State::WasDone, how);
    }
    Err(Failure::usage(format!(
        "{} holds a complete run, and --again does not replace it\n\
         hint: name another --out, or remove the run first: {}",
        path.display(),
        resume::command("runs rm", &path)
    )))
}

/// Returns the command that continues the run in `path`.
fn continued_by<R: Run>(path: &Path, how: &Conduct<'_>) -> String {
    match R::SPECIAL.resumed_by {
        Some(verb) => resume::command(verb, path),
        None => resume::same_command(how.out.is_none().then_some(path)),
    }
}

fn outcome<R: Run>(path: PathBuf, state: State, how: &Conduct<'_>) -> Result<Outcome, Failure> {
    let record = Record::open(&path)?;
    let (spec, recorded) = (spec_of::<R>(&record)?, Recorded::of(&record)?);
    let (verdict, starts_over) = (R::exit_code(&spec, &recorded), (R::SPECIAL.starts_over)(&spec, &recorded));
    let reasons = counted(recorded.failures().into_iter().map(|(_, reason)| reason));
    let continued_by = continued_by::<R>(&path, how);
    let reasons_shown = how.progress.shows();
    let analysis = analyse::<R>(&record)?;
    Ok(Outcome { analysis, path, state, verdict, starts_over, continued_by, reasons, reasons_shown })
}

fn execute<R: Run>(spec: &R::Spec, how: &Conduct<'_>, context: &mut Context<'_, R>) -> Result<State, Failure> {
    let mut session = R::begin(spec, context)?;
    context.keep_pending()?;
    let done = all_steps(&mut session, spec, how, context);
    let ended = session.end(spec, context).and_then(|()| context.keep_pending());
    if let Err(failure) = &ended {
        fail(None, failure, 0.0, context)?;
    }
    let failed = done?;
    ended?;
    if context.recorded.failures().iter().any(|(step, _)| step.is_none()) {
        context.note(Common::Recovered)?;
    }
    Ok(if failed == 0 { State::Done } else { State::Failed(failed) })
}

/// Does all remaining steps; returns the number of failures.
fn all_steps<R: Run>(
    session: &mut R,
    spec: &R::Spec,
    how: &Conduct<'_>,
    context: &mut Context<'_, R>,
) -> Result<usize, Failure> {
    let only = how.only.as_deref();
    let (mut failed, mut pace, mut begun): (Vec<R::Step>, Pace, usize) = (Vec::new(), Pace::default(), 0);
    loop {
        (R::SPECIAL.before_next)(spec, context)?;
        let mut left = R::next(spec, &context.recorded)?;
        left.retain(|planned| !failed.contains(&planned.step) && is_selected(&planned.step, only));
        leave_out_what_cannot_be_done(spec, &mut left, context)?;
        if left.is_empty() {
            return Ok(failed.len());
        }
        let total: f64 = left.iter().map(|planned| planned.seconds).sum();
        let count = begun + left.len();
        let mut course = StepProgress { number: begun, count, seconds_left: total, pace: &mut pace };
        for planned in left {
            // An earlier step may have done it on another machine too.
            if context.recorded.is_done(&planned.step) {
                course.skip(planned.seconds);
                continue;
            }
            context.check_interrupt()?;
            course.begin(&planned, context);
            let begun = Instant::now();
            let outcome = session.step(spec, &planned.step, context);
            course.note(planned.seconds, begun.elapsed().as_secs_f64(), std::mem::replace(&mut context.together, 1));
            match outcome {
                Ok(()) => {
                    // Another machine that did several steps has recorded this one already.
                    if !context.is_done_or_pending(&planned.step) {
                        let done = DoneStep { step: value_of(&planned.step), seconds: begun.elapsed().as_secs_f64() };
                        context.push_common(Common::Done(done));
                    }
                    context.keep_pending()?;
                    update_last_words(spec, how, context);
                }
                Err(failure) => {
                    context.pending.clear();
                    if failure.exit_code() == ExitCode::Interrupted || context.interrupt.requested() {
                        return Err(interrupted());
                    }
                    fail(Some(&planned.step), &failure, begun.elapsed().as_secs_f64(), context)?;
                    if !R::GOES_ON {
                        return Err(failure);
                    }
                    context.progress.say(&format!("{} failed: {failure}", planned.action));
                    failed.push(planned.step);
                }
            }
        }
        begun = count;
    }
}

/// Skips the steps whose needs the machine does not meet, and records the caveat of each once.
fn leave_out_what_cannot_be_done<R: Run>(
    spec: &R::Spec,
    left: &mut Vec<Planned<R::Step>>,
    context: &mut Context<'_, R>,
) -> Result<(), Failure> {
    let mut lacking = BTreeSet::new();
    left.retain(|planned| match (R::SPECIAL.step_needs)(spec, &planned.step) {
        Some((needs, without)) if !needs.are_met() => {
            lacking.insert(without);
            false
        }
        _ => true,
    });
    let said = context.recorded.caveats();
    lacking
        .into_iter()
        .filter(|message| !said.iter().any(|one| one == message))
        .for_each(|message| context.caveat(message));
    context.keep_pending()
}

fn is_selected<S: serde::Serialize>(step: &S, only: Option<&[Value]>) -> bool {
    only.is_none_or(|only| only.contains(&value_of(step)))
}

fn value_of<S: serde::Serialize>(step: &S) -> Value {
    serde_json::to_value(step).unwrap_or(Value::Null)
}

/// Returns whether the run is refused before its work. That is not a part of a record.
fn is_refused<R: Run>(failure: &Failure, context: &Context<'_, R>) -> bool {
    let is_refusal = matches!(failure.exit_code(), ExitCode::Usage | ExitCode::Refused | ExitCode::Missing);
    let have_ended = context.peers.is_some_and(|peers| peers.have_ended());
    let is_image = |common: &Common| matches!(common, Common::OwnImage(_));
    is_refusal && !R::GOES_ON && !have_ended && holds_only(context, true, is_image)
}

/// Returns whether all events are among some common ones, and, if `preparation`, those that prepare the run.
fn holds_only<R: Run>(context: &Context<'_, R>, preparation: bool, common: impl Fn(&Common) -> bool) -> bool {
    context.recorded.entries.iter().all(|(_, entry)| match entry {
        RecordedEvent::Own(event) => preparation && (R::SPECIAL.prepares)(event),
        RecordedEvent::Common(one) => common(one),
    })
}

fn fail<R: Run>(
    step: Option<&R::Step>,
    failure: &Failure,
    seconds: f64,
    context: &mut Context<'_, R>,
) -> Result<(), Failure> {
    if is_refused(failure, context) {
        return Ok(());
    }
    // An end that all peers know is in the record already.
    if context.peers.is_some_and(|peers| peers.have_ended()) {
        return Ok(());
    }
    context.note(Common::Failed(FailedStep { step: step.map(value_of), reason: failure.to_string(), seconds }))
}

/// Returns `RUNS/KIND-HASH`: the same plan finds its own directory again. With `again`, the first free `-2`, `-3` ...
pub fn default_path(runs: &Path, plan: &Plan, again: bool) -> PathBuf {
    let base = format!("{}-{:08x}", plan.kind, plan.identity());
    let first = runs.join(&base);
    if !again || !first.exists() {
        return first;
    }
    (2..).map(|number| runs.join(format!("{base}-{number}"))).find(|path| !path.exists()).unwrap_or(first)
}
