//! Steps of a run that are done in guests of their own, so that a result depends on nothing else. As many run at a time as
//! there are processors.

use super::{GuestJob, GuestSpec, record_of_guest};
use senesce_core::interrupt::Interrupt;
use senesce_core::{ExitCode, Failure, Seed};
use senesce_runner::{Context, Run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// What a guest does: a step of a run as it is specified there.
pub struct PoolJob<R: Run> {
    /// Folder of the guest below `guests` in the run's folder.
    pub name: String,
    pub guest: GuestSpec,
    pub spec: R::Spec,
}

/// Returns the number of guests that run at a time.
pub fn guests_at_a_time() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

type EndedStep<R> = (<R as Run>::Step, Result<Vec<<R as Run>::Event>, Failure>);

/// Guests of a run. Those still running at its end are waited for.
pub struct GuestPool<R: Run> {
    running: Vec<(R::Step, JoinHandle<()>)>,
    ended: Vec<EndedStep<R>>,
    sender: Sender<EndedStep<R>>,
    receiver: Receiver<EndedStep<R>>,
}

impl<R: Run> Default for GuestPool<R> {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self { running: Vec::new(), ended: Vec::new(), sender, receiver }
    }
}

impl<R: Run<Step: Send, Event: Send>> GuestPool<R> {
    /// Does `step` in a guest and records its events. Meanwhile, steps that are open after it run; their events are kept until
    /// they are asked for.
    ///
    /// # Errors
    /// The step failed, or its guest did; an interrupt.
    pub fn run(
        &mut self,
        spec: &R::Spec,
        step: &R::Step,
        job: impl Fn(&R::Step) -> PoolJob<R>,
        context: &mut Context<'_, R>,
    ) -> Result<(), Failure> {
        let open = R::next(spec, context.recorded())?;
        let processors = guests_at_a_time();
        context.run_together(processors.min(open.len()));
        let open = open.into_iter().map(|planned| planned.step);
        let mut waiting = std::iter::once(step.clone()).chain(open);
        loop {
            while self.running.len() < processors
                && let Some(next) = waiting.find(|next| !self.has(next))
            {
                self.start(next.clone(), job(&next), context);
            }
            if let Some(at) = self.ended.iter().position(|(ended, _)| ended == step) {
                let (_, events) = self.ended.swap_remove(at);
                events?.into_iter().for_each(|event| context.record(event));
                return Ok(());
            }
            self.wait()?;
        }
    }

    fn has(&self, step: &R::Step) -> bool {
        self.running.iter().any(|(running, _)| running == step) || self.ended.iter().any(|(ended, _)| ended == step)
    }

    fn start(&mut self, step: R::Step, job: PoolJob<R>, context: &Context<'_, R>) {
        let share = context.path().join("guests").join(&job.name);
        let (sender, interrupt, seed) = (self.sender.clone(), context.interrupt.clone(), context.seed);
        let own = step.clone();
        let run = move || {
            // A thread that panicked would never be waited for to an end.
            let events = catch_unwind(AssertUnwindSafe(|| events_of(&job, seed, &own, share, &interrupt)))
                .unwrap_or_else(|_| Err(Failure::new(ExitCode::RunFailed, "the thread of a guest panicked")));
            // The receiver is gone only if the run ended.
            let _ = sender.send((own, events));
        };
        self.running.push((step, thread::spawn(run)));
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let gone = |_| Failure::new(ExitCode::RunFailed, "no guest runs");
        let ended = self.receiver.recv().map_err(gone)?;
        if let Some(at) = self.running.iter().position(|(running, _)| *running == ended.0) {
            self.running.swap_remove(at);
        }
        self.ended.push(ended);
        Ok(())
    }
}

impl<R: Run> Drop for GuestPool<R> {
    fn drop(&mut self) {
        for (_, thread) in self.running.drain(..) {
            let _ = thread.join();
        }
    }
}

fn events_of<R: Run>(
    job: &PoolJob<R>,
    seed: Seed,
    step: &R::Step,
    share: PathBuf,
    interrupt: &Interrupt,
) -> Result<Vec<R::Event>, Failure> {
    let steps = std::slice::from_ref(step);
    let work = GuestJob { spec: &job.spec, seed, steps: Some(steps), share };
    let (recorded, _) = record_of_guest::<R>(&job.guest, &work, interrupt)?;
    if recorded.is_done(step) {
        return Ok(recorded.events().cloned().collect());
    }
    let reason = recorded.failures().into_iter().map(|(_, reason)| reason.to_string()).next_back();
    Err(Failure::new(ExitCode::RunFailed, reason.unwrap_or_else(|| "the guest recorded no result".into())))
}
