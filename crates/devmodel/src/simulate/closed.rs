//! Closed-loop replay: keeps the host's think times, each starting when the model completes a request.

use super::outcome::Account;
use super::{Before, Checked, Command, CompletedRequest, Immediate, Options, Outcome, Queue, bring};
use crate::error::ModelError;
use crate::model::{DeviceModel, Parameters};
use crate::request::Request;
use crate::ssd::Drive;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request and its recorded completion time, ns since the start of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub request: Request,
    /// `None`: incomplete at the end of the recording.
    pub completed_ns: Option<u64>,
}

/// Index of the request whose completion triggers this one, and the think time in ns after that completion.
type Dependence = Option<(usize, u64)>;

/// Returns what each request depends on: the request that completed last before it was issued. The first ones depend on
/// none.
fn dependences(trace: &[Recorded]) -> Vec<Dependence> {
    let mut open = BinaryHeap::new();
    let mut last = None;
    let depends = |(index, one): (usize, &Recorded)| {
        while let Some(Reverse((completed, _))) =
            open.peek().copied().filter(|Reverse((at, _))| *at <= one.request.issue_time_ns)
        {
            last = open.pop().map(|Reverse((_, other))| (other, completed));
        }
        open.extend(one.completed_ns.map(|completed| Reverse((completed, index))));
        last.map(|(other, completed)| (other, one.request.issue_time_ns - completed))
    };
    trace.iter().enumerate().map(depends).collect()
}

/// Simulates a trace in a closed loop: the time between the completion of the request that it depends on and its own issue is as
/// recorded. The host's own time is unchanged; a host that behaves differently on a faster or slower device is not modelled.
/// Ignores `options.pacing`.
pub fn simulate_closed(
    model: &DeviceModel,
    history: impl IntoIterator<Item = Request>,
    trace: &[Recorded],
    options: &Options,
) -> Result<Outcome, ModelError> {
    match &model.parameters {
        Parameters::FlashSsd(flash) => {
            let mut queue = Immediate::new(Drive::new(flash));
            bring(&mut queue.device, options, model)?;
            history.into_iter().for_each(|request| queue.device.prepare_request(&request));
            let before = (queue.device.counters(), queue.device.map().erases().collect::<Vec<_>>());
            let account = run(model, trace, options, &mut queue)?;
            Ok(account.finish(model, Some((&queue.device, before))))
        }
        Parameters::Disk(disk) => Ok(run(model, trace, options, &mut disk.start())?.finish(model, None)),
        _ => Ok(run(model, trace, options, &mut Immediate::new(model.start()))?.finish(model, None)),
    }
}

fn run(
    model: &DeviceModel,
    trace: &[Recorded],
    options: &Options,
    queue: &mut impl Queue,
) -> Result<Account, ModelError> {
    debug_assert!(!matches!(options.before, Before::Overwritten(rounds) if rounds < 0.0));
    let mut account = Account::new(options.window_ns);
    let mut checked = Checked { model, index: 0, before_ns: 0 };
    let mut done: Vec<Option<u64>> = vec![None; trace.len()];
    let mut announce = |finished: &CompletedRequest, done: &mut Vec<Option<u64>>| {
        done[finished.index as usize] = Some(finished.done_ns);
        account.add(finished);
    };
    let first = trace.first().map_or(0, |one| one.request.issue_time_ns);
    let mut now = 0;
    for (one, dependence) in trace.iter().zip(dependences(trace)) {
        checked.check(&one.request)?;
        let at = match dependence {
            Some((other, think_ns)) => {
                while done[other].is_none() {
                    let Some(finished) = queue.next() else { break };
                    announce(&finished, &mut done);
                }
                done[other].unwrap_or(now).saturating_add(think_ns)
            }
            None => one.request.issue_time_ns - first,
        };
        now = now.max(at);
        queue.submit(&Command::from(one.request), now);
    }
    while let Some(finished) = queue.next() {
        announce(&finished, &mut done);
    }
    Ok(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(issue_time_ns: u64, place: u64, completed_ns: u64) -> Recorded {
        let request = Request { issue_time_ns, ..Request::read_bytes(place * 4096, 4096) };
        Recorded { request, completed_ns: Some(completed_ns) }
    }

    #[test]
    fn a_request_waits_for_the_last_completion_before_it() {
        let trace = [read(0, 0, 100), read(10, 1, 50), read(60, 2, 90), read(120, 3, 200)];
        assert_eq!(dependences(&trace), [None, None, Some((1, 10)), Some((0, 20))]);
    }

    #[test]
    fn think_times_are_kept_and_latencies_are_modelled() {
        let model = DeviceModel::builtin("850-evo").unwrap();
        let options = Options::default();
        // Depth one, 1 ms of think time after each request, for any recorded latency.
        let of = |latency: u64| -> Vec<Recorded> {
            (0..100).map(|n| read(n * (1_000_000 + latency), n * 50, n * (1_000_000 + latency) + latency)).collect()
        };
        let [fast, slow] =
            [of(10_000), of(5_000_000)].map(|trace| simulate_closed(&model, [], &trace, &options).unwrap());
        assert_eq!(fast.seconds, slow.seconds);
        let busy = fast.read.as_ref().unwrap().mean_ns * 100.0 * 1e-9;
        assert!((fast.seconds - 0.099 - busy).abs() < 1e-6, "{} {busy}", fast.seconds);
        assert_eq!(fast.requests, 100);
    }
}
