//! Replays a trace back to back.

use crate::Device;
use crate::error::ModelError;
use crate::model::{DeviceModel, Parameters};
use crate::request::Request;
use crate::simulate::history_of_reads;
use crate::ssd::Drive;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The modelled time of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// The device.
    pub device: String,
    /// Seconds that the device is busy.
    pub seconds: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Seconds per GiB moved; none for a trace that moves nothing.
    pub seconds_per_gib: Option<f64>,
}

impl DeviceModel {
    /// Returns the seconds that the device is busy with the trace, in issue order. Pauses of the host are ignored: a
    /// request is issued once the number of open requests allows its queue depth. On a drive with a flash translation
    /// layer, data that the trace reads but does not write are first written in address order.
    pub fn seconds(&self, trace: &[Request]) -> Result<f64, ModelError> {
        let history = match &self.parameters {
            Parameters::FlashSsd(_) => history_of_reads(trace),
            _ => Vec::new(),
        };
        self.seconds_after(&history, trace)
    }

    /// Works like [`Self::seconds`], but after a history of requests, which takes no time. Only drives with a flash
    /// translation layer have a state that depends on it.
    pub fn seconds_after(&self, history: &[Request], trace: &[Request]) -> Result<f64, ModelError> {
        self.holds(trace)?;
        let busy_ns = match &self.parameters {
            Parameters::FlashSsd(flash) => {
                let mut drive = Drive::new(flash);
                history.iter().for_each(|request| drive.prepare_request(request));
                busy_ns(&mut drive, trace)
            }
            _ => busy_ns(&mut *self.start(), trace),
        };
        Ok(busy_ns as f64 * 1e-9)
    }

    /// Works like [`Self::seconds`], but also returns the bytes and the seconds per GiB.
    pub fn time(&self, trace: &[Request]) -> Result<Modelled, ModelError> {
        let seconds = self.seconds(trace)?;
        let bytes = trace.iter().filter(|request| request.moves_data()).map(Request::bytes).sum();
        let seconds_per_gib = (bytes > 0).then(|| seconds / (bytes as f64 / (1u64 << 30) as f64));
        Ok(Modelled { device: self.name.clone(), seconds, bytes, seconds_per_gib })
    }
}

/// Nanoseconds until the last request of the trace is complete.
pub fn busy_ns(device: &mut dyn Device, trace: &[Request]) -> u64 {
    let mut open = BinaryHeap::new();
    let (mut now, mut last) = (0, 0);
    for request in trace {
        while open.len() >= request.queue_depth.max(1) as usize {
            let Some(Reverse(completion)) = open.pop() else { break };
            now = now.max(completion);
        }
        let completion = device.serve(request, now);
        last = last.max(completion);
        open.push(Reverse(completion));
    }
    last
}

/// Operations per second of a closed loop on the modelled device: the slower of device and host limits the rate, so the loop
/// takes max(device busy, measured time). `None` if both times are zero.
pub fn closed_loop_rate(operations: u64, device_busy_seconds: f64, measured_seconds: f64) -> Option<f64> {
    let seconds = device_busy_seconds.max(measured_seconds);
    (seconds > 0.0).then(|| operations as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Operation;

    /// Every request takes 100 ns at any depth.
    struct Fixed;

    impl Device for Fixed {
        fn serve(&mut self, _request: &Request, at_ns: u64) -> u64 {
            at_ns + 100
        }
    }

    #[test]
    fn a_replay_keeps_the_queue_depth() {
        let trace = |queue_depth| [Request { queue_depth, ..Request::new(Operation::Read, 0, 8) }; 12];
        assert_eq!(busy_ns(&mut Fixed, &trace(1)), 1200);
        assert_eq!(busy_ns(&mut Fixed, &trace(4)), 300);
        assert_eq!(busy_ns(&mut Fixed, &[]), 0);
    }

    #[test]
    fn the_slower_of_device_and_host_sets_the_pace() {
        assert_eq!(closed_loop_rate(100, 4.0, 1.0), Some(25.0));
        assert_eq!(closed_loop_rate(100, 0.1, 2.0), Some(50.0));
        assert_eq!(closed_loop_rate(100, 0.0, 0.0), None);
    }
}
