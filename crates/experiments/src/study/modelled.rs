//! From a block trace to the requests that device models time.

use senesce_devmodel::request::{Operation, Request, set_queue_depths};
use senesce_target::BlockTrace;
use senesce_target::Operation as Traced;

/// The requests of a trace in issue order, with the queue depth that they met.
pub fn requests(trace: &BlockTrace) -> Vec<Request> {
    let mut traced: Vec<senesce_target::Request> = trace.iter().collect();
    traced.sort_by_key(|request| request.issue_ns);
    let mut requests: Vec<Request> = traced.iter().filter_map(request).collect();
    let kept = traced.iter().filter(|one| request(one).is_some());
    set_queue_depths(&mut requests, kept.map(|one| one.latency_ns.map(|latency| one.issue_ns + latency)));
    requests
}

fn request(traced: &senesce_target::Request) -> Option<Request> {
    let operation = match traced.operation {
        Traced::Read => Operation::Read,
        Traced::Write => Operation::Write,
        Traced::Discard => Operation::Discard,
        Traced::Flush => Operation::Flush,
        _ => return None,
    };
    Some(Request { issue_time_ns: traced.issue_ns, ..Request::new(operation, traced.sector, traced.sectors) })
}
