//! The requests of all devices of one file system, as if the devices were concatenated.

use super::packed::BlockTrace;
use super::request::Request;
use super::session::TraceSession;
use crate::block_device::BlockDevice;
use crate::device_stat::DeviceStat;
use crate::error::TargetError;

#[derive(Debug)]
pub struct TraceSessions(Vec<TraceSession>);

impl TraceSessions {
    pub fn start(devices: &[BlockDevice]) -> Result<Self, TargetError> {
        devices.iter().map(TraceSession::start).collect::<Result<_, _>>().map(Self)
    }

    /// Ends the recordings. The sectors of a device follow those of the devices before it; times are relative to the
    /// first recording.
    pub fn stop(self) -> Result<BlockTrace, TargetError> {
        let stopped = self.0.into_iter().map(|session| Ok((session.start_ns(), session.stop()?)));
        let mut traces: Vec<(u64, BlockTrace)> = stopped.collect::<Result<_, TargetError>>()?;
        if traces.len() == 1 {
            return Ok(traces.remove(0).1);
        }
        Ok(joined(&traces))
    }
}

fn joined(traces: &[(u64, BlockTrace)]) -> BlockTrace {
    let first_ns = traces.iter().map(|(start_ns, _)| *start_ns).min().unwrap_or(0);
    let (mut requests, mut names, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sectors_before, mut counted) = (0, Some(DeviceStat::default()));
    for (start_ns, trace) in traces {
        let place = |request: Request| Request {
            issue_ns: request.issue_ns + (start_ns - first_ns),
            sector: request.sector.saturating_add(sectors_before),
            ..request
        };
        requests.extend(trace.iter().map(place));
        names.push(trace.device());
        problems.extend(trace.problems().iter().cloned());
        counted = counted.zip(trace.device_stat()).map(|(sum, one)| sum.and(&one));
        sectors_before += trace.device_bytes() / 512;
    }
    let mut all = BlockTrace::from_requests(&names.join("+"), sectors_before * 512, requests);
    all.set_account(counted, problems);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Operation;

    #[test]
    fn sectors_of_second_device_follow_the_first() {
        let request = |sector, issue_ns| Request { issue_ns, ..Request::new(Operation::Read, sector, 8) };
        let trace = |name: &str, requests| {
            let mut trace = BlockTrace::from_requests(name, 1 << 20, requests);
            trace.set_account(Some(DeviceStat { reads: 1, read_bytes: 4096, ..DeviceStat::default() }), Vec::new());
            trace
        };
        let joined = joined(&[(1000, trace("a", vec![request(16, 50)])), (1010, trace("b", vec![request(16, 10)]))]);
        let found: Vec<(u64, u64)> = joined.iter().map(|request| (request.sector, request.issue_ns)).collect();
        assert_eq!(found, [(16 + 2048, 20), (16, 50)]);
        assert_eq!((joined.device(), joined.device_bytes()), ("a+b", 2 << 20));
        assert_eq!(joined.device_stat().map(|stat| (stat.reads, stat.read_bytes)), Some((2, 8192)));
        assert!(joined.is_valid());
    }
}
