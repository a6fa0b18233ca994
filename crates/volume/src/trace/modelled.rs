//! Converts a block trace into requests for device models.

use super::request::Operation;
use super::validity::ValidTrace;
use senesce_devmodel::{self as devmodel, request::set_queue_depths};

impl ValidTrace<'_> {
    /// Returns the requests in issue order with their queue depth. Writing zeros moves no data, like a discard.
    /// Commands without sectors and zone actions are left out: these models have no zones.
    pub fn for_models(&self) -> Vec<devmodel::Request> {
        self.with_completions().0
    }

    /// Returns the requests with the completion times; `None` if a completion was not recorded.
    pub fn for_closed_loops(&self) -> Vec<devmodel::simulate::Recorded> {
        let (requests, completions) = self.with_completions();
        let recorded = |(request, completed_ns)| devmodel::simulate::Recorded { request, completed_ns };
        requests.into_iter().zip(completions).map(recorded).collect()
    }

    fn with_completions(&self) -> (Vec<devmodel::Request>, Vec<Option<u64>>) {
        let (mut requests, mut completions) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for request in self.iter() {
            let operation = match request.operation {
                Operation::Read => devmodel::Operation::Read,
                Operation::Write => devmodel::Operation::Write,
                Operation::Flush => devmodel::Operation::Flush,
                Operation::Zone(_) => continue,
                Operation::Other if request.sectors == 0 => continue,
                Operation::Discard | Operation::Other => devmodel::Operation::Discard,
            };
            let place = devmodel::Request::new(operation, request.sector, request.sectors);
            requests.push(devmodel::Request { issue_time_ns: request.issue_ns, ..place });
            completions.push(request.latency_ns.map(|latency| request.issue_ns.saturating_add(latency)));
        }
        set_queue_depths(&mut requests, completions.iter().copied());
        (requests, completions)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockTrace, Request};
    use super::*;

    #[test]
    fn zeroing_is_a_discard_and_commands_are_left_out() {
        let list = [(Operation::Read, 8), (Operation::Other, 16), (Operation::Other, 0), (Operation::Flush, 0)];
        let requests = list.iter().map(|(kind, sectors)| Request::new(*kind, 0, *sectors)).collect();
        let trace = BlockTrace::from_requests("sdx", 0, requests);
        let kinds: Vec<_> = trace.valid().unwrap().for_models().iter().map(|request| request.operation).collect();
        use devmodel::Operation::{Discard, Flush, Read};
        assert_eq!(kinds, [Read, Discard, Flush]);
    }
}
