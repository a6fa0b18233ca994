//! Simulates a trace on a device, request by request: latencies, bandwidth over time, internal events.

mod closed;
mod outcome;
mod queue;

pub use closed::{Recorded, simulate_closed};
pub use outcome::Outcome;
pub(crate) use queue::opened;
pub(crate) use queue::{CompletedRequest, Queue};

use crate::error::ModelError;
use crate::model::{DeviceModel, Parameters};
use crate::request::{Operation, Request, SECTOR};
use crate::ssd::parameters::PAGE;
use crate::ssd::{Drive, Hint};
use outcome::Account;
use queue::Immediate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    pub request: Request,
    pub hint: Hint,
}

impl From<Request> for Command {
    fn from(request: Request) -> Self {
        Self { request, hint: Hint::None }
    }
}

impl From<&Request> for Command {
    fn from(request: &Request) -> Self {
        (*request).into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pacing {
    /// Once the number of open requests allows its queue depth: ignores pauses of the host.
    #[default]
    QueueDepth,
    /// Once at most this number is open; 0 counts as 1.
    Depth(u32),
    /// At their issue times: keeps pauses, and a slow device falls behind.
    IssueTime,
}

/// Initial state of a solid-state drive with a flash translation layer; others ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Before {
    #[default]
    Empty,
    /// Completely written in address order.
    Filled,
    Overwritten(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    pub pacing: Pacing,
    pub before: Before,
    /// Minimum length of a window of the bandwidth over time, ns; 0: one millisecond. Doubled until there are at most 4096
    /// windows.
    pub window_ns: u64,
    /// Selects the positions of [`Before::Overwritten`].
    pub seed: u64,
}

/// Simulates the trace. It is deterministic: equal arguments give equal results.
pub fn simulate<C: Into<Command>>(
    model: &DeviceModel,
    trace: impl IntoIterator<Item = C>,
    options: &Options,
) -> Result<Outcome, ModelError> {
    simulate_each(model, trace, options, |_| ())
}

/// Works like [`simulate`], but calls `each` for every request once its completion time is known.
pub fn simulate_each<C: Into<Command>>(
    model: &DeviceModel,
    trace: impl IntoIterator<Item = C>,
    options: &Options,
    each: impl FnMut(&CompletedRequest),
) -> Result<Outcome, ModelError> {
    simulate_after(model, [], trace, options, each)
}

/// Works like [`simulate_each`], but after a history: requests that a drive with a flash translation layer served
/// before the trace. They take no time and follow [`Options::before`]. Other devices have no state that depends on it.
pub fn simulate_after<C: Into<Command>>(
    model: &DeviceModel,
    history: impl IntoIterator<Item = Request>,
    trace: impl IntoIterator<Item = C>,
    options: &Options,
    each: impl FnMut(&CompletedRequest),
) -> Result<Outcome, ModelError> {
    match &model.parameters {
        Parameters::FlashSsd(flash) => {
            let mut queue = Immediate::new(Drive::new(flash));
            bring(&mut queue.device, options, model)?;
            let mut checked = Checked { model, index: 0, before_ns: 0 };
            for request in history {
                checked.check(&Request { issue_time_ns: 0, ..request })?;
                queue.device.prepare_request(&request);
            }
            let before = (queue.device.counters(), queue.device.map().erases().collect::<Vec<_>>());
            let account = run(model, trace, options, &mut queue, each)?;
            Ok(account.finish(model, Some((&queue.device, before))))
        }
        Parameters::Disk(disk) => {
            let account = run(model, trace, options, &mut disk.start(), each)?;
            Ok(account.finish(model, None))
        }
        _ => {
            let account = run(model, trace, options, &mut Immediate::new(model.start()), each)?;
            Ok(account.finish(model, None))
        }
    }
}

/// Writes, in address order, the pages that a trace reads before writing them: the history of a drive if nothing else is known.
pub fn history_of_reads(trace: &[Request]) -> Vec<Request> {
    let mut pages = std::collections::BTreeMap::new();
    for request in trace {
        let is_read = match request.operation {
            Operation::Read => true,
            Operation::Write => false,
            Operation::Discard | Operation::Flush => continue,
        };
        for page in request.offset() / PAGE..request.end().div_ceil(PAGE) {
            pages.entry(page).or_insert(is_read);
        }
    }
    let read = pages.into_iter().filter_map(|(page, read)| read.then_some(page));
    read.map(|page| Request::of_bytes(Operation::Write, page * PAGE, PAGE)).collect()
}

fn bring(drive: &mut Drive, options: &Options, model: &DeviceModel) -> Result<(), ModelError> {
    let pages = model.capacity_bytes() / PAGE;
    let rounds = match options.before {
        Before::Empty => return Ok(()),
        Before::Filled => 0.0,
        Before::Overwritten(rounds) if rounds.is_finite() && (0.0..=1000.0).contains(&rounds) => rounds,
        Before::Overwritten(rounds) => {
            let problem = format!("{rounds} rounds of overwriting before the trace are out of range; use 0 to 1000");
            return Err(ModelError::Options { device: model.name.clone(), problem });
        }
    };
    drive.prepare(0..pages, Hint::None);
    use rand_pcg::rand_core::Rng;
    let mut random = senesce_core::Seed(options.seed).stream("devmodel/simulate/overwritten");
    let place = |_| ((u128::from(random.next_u64()) * u128::from(pages)) >> 64) as u64;
    let writes: u64 = (rounds * pages as f64) as u64;
    drive.prepare((0..writes).map(place), Hint::None);
    Ok(())
}

fn run<C: Into<Command>>(
    model: &DeviceModel,
    trace: impl IntoIterator<Item = C>,
    options: &Options,
    queue: &mut impl Queue,
    mut each: impl FnMut(&CompletedRequest),
) -> Result<Account, ModelError> {
    let mut account = Account::new(options.window_ns);
    let mut checked = Checked { model, index: 0, before_ns: 0 };
    let mut announce = |finished: &CompletedRequest, open: &mut u64| {
        *open -= 1;
        account.add(finished);
        each(finished);
    };
    let (mut now, mut open, mut first) = (0u64, 0u64, None);
    for command in trace {
        let command = command.into();
        checked.check(&command.request)?;
        let start = *first.get_or_insert(command.request.issue_time_ns);
        let depth = match options.pacing {
            Pacing::QueueDepth => Some(command.request.queue_depth),
            Pacing::Depth(depth) => Some(depth),
            Pacing::IssueTime => None,
        };
        if let Some(depth) = depth {
            while open >= u64::from(depth.max(1)) {
                let Some(finished) = queue.next() else { break };
                now = now.max(finished.done_ns);
                announce(&finished, &mut open);
            }
        } else {
            now = command.request.issue_time_ns - start;
            while let Some(finished) = queue.next_before(now) {
                announce(&finished, &mut open);
            }
        }
        queue.submit(&command, now);
        open += 1;
    }
    while let Some(finished) = queue.next() {
        announce(&finished, &mut open);
    }
    Ok(account)
}

impl DeviceModel {
    pub(crate) fn holds(&self, trace: &[Request]) -> Result<(), ModelError> {
        (0..).zip(trace).try_for_each(|(index, request)| self.check_end(index, request))
    }

    fn check_end(&self, index: u64, request: &Request) -> Result<(), ModelError> {
        let end = request.start_sector.saturating_add(u64::from(request.sectors)).saturating_mul(SECTOR);
        // A flush has no position.
        if request.operation == Operation::Flush || end <= self.capacity_bytes() {
            return Ok(());
        }
        Err(ModelError::Outside {
            index,
            operation: request.operation.word(),
            end,
            device: self.name.clone(),
            capacity_bytes: self.capacity_bytes(),
        })
    }
}

/// Checks that a trace is sorted and fits.
struct Checked<'a> {
    model: &'a DeviceModel,
    index: u64,
    before_ns: u64,
}

impl Checked<'_> {
    fn check(&mut self, request: &Request) -> Result<(), ModelError> {
        let index = self.index;
        self.index += 1;
        self.model.check_end(index, request)?;
        let before_ns = std::mem::replace(&mut self.before_ns, request.issue_time_ns);
        if request.issue_time_ns < before_ns {
            return Err(ModelError::Backwards { index, time_ns: request.issue_time_ns, before_ns });
        }
        Ok(())
    }
}
