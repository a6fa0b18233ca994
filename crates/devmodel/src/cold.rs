//! A cold store behind a network: latency to the first byte, rate per request, number of concurrent requests.

use crate::Device;
use crate::hdd::per_byte;
use crate::request::Request;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of a cold store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdStore {
    /// Capacity.
    pub capacity_bytes: u64,
    /// Time to the first byte, or to the acknowledgement of a write without data.
    pub first_byte_ms: f64,
    /// Rate of one request, decimal megabytes per second.
    pub mb_per_s: f64,
    /// Requests served concurrently; others wait.
    pub connections: u32,
}

impl ColdStore {
    pub(crate) fn start(&self) -> ColdStoreState {
        ColdStoreState { store: self.clone(), opened: BinaryHeap::new() }
    }
}

/// For each opened connection the time when it becomes free, ns, earliest first.
#[derive(Debug, Clone)]
pub(crate) struct ColdStoreState {
    store: ColdStore,
    opened: BinaryHeap<Reverse<u64>>,
}

impl ColdStoreState {
    /// Returns when a request with this arrival time starts: on a free connection, a new one, or the first to become
    /// free.
    fn begin(&mut self, at_ns: u64) -> u64 {
        let may_open = self.opened.len() < self.store.connections.max(1) as usize;
        match self.opened.peek() {
            Some(Reverse(free_ns)) if *free_ns <= at_ns || !may_open => {
                self.opened.pop().map_or(at_ns, |first| first.0.max(at_ns))
            }
            _ => at_ns,
        }
    }
}

impl Device for ColdStoreState {
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64 {
        let bytes = if request.moves_data() { request.bytes() } else { 0 };
        let service = self.store.first_byte_ms * 1e6 + per_byte(bytes, self.store.mb_per_s);
        let end = self.begin(at_ns).saturating_add(service.ceil() as u64);
        self.opened.push(Reverse(end));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Operation;
    use proptest::prelude::*;

    fn store(connections: u32) -> ColdStore {
        ColdStore { capacity_bytes: 1 << 40, first_byte_ms: 150.0, mb_per_s: 87.0, connections }
    }

    fn read(sectors: u32) -> Request {
        Request::new(Operation::Read, 0, sectors)
    }

    proptest! {
        /// Compares with a table of the time when each connection becomes free.
        #[test]
        fn number_of_connections_limits_concurrency(
            connections in 1u32..6, requests in prop::collection::vec((1u32..2000, 0u64..200_000_000), 0..40)
        ) {
            let (mut state, mut free, mut now) = (store(connections).start(), vec![0; connections as usize], 0);
            for (sectors, pause) in requests {
                now += pause;
                let request = read(sectors);
                let service = (150e6 + per_byte(request.bytes(), 87.0)).ceil() as u64;
                let first = free.iter_mut().min().unwrap();
                *first = (*first).max(now) + service;
                prop_assert_eq!(state.serve(&request, now), *first);
            }
        }
    }

    #[test]
    fn unused_connections_take_no_memory() {
        let mut state = store(u32::MAX).start();
        let ends: Vec<u64> = (0..100).map(|_| state.serve(&read(8), 7)).collect();
        assert!(ends.iter().all(|end| *end == ends[0]));
        assert_eq!(state.opened.len(), 100);
    }
}
