//! A cold store reached over a network: a time to the first byte, a rate per request, a number of requests at once.

use crate::Device;
use crate::hdd::per_byte;
use crate::request::Request;
use serde::{Deserialize, Serialize};

/// Parameters of a cold store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdStore {
    /// Capacity.
    pub capacity_bytes: u64,
    /// From the request to the first byte, or to the acknowledgement of a write without data.
    pub first_byte_ms: f64,
    /// Rate of one request, decimal megabytes per second.
    pub mb_per_s: f64,
    /// Requests that are served at the same time; others wait.
    pub connections: u32,
}

impl ColdStore {
    /// An idle store.
    pub fn start(&self) -> ColdStoreState {
        ColdStoreState { store: self.clone(), connections: vec![0; self.connections.max(1) as usize] }
    }
}

/// A cold store in some state: when each connection is free, ns.
#[derive(Debug, Clone)]
pub struct ColdStoreState {
    store: ColdStore,
    connections: Vec<u64>,
}

impl Device for ColdStoreState {
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64 {
        let bytes = if request.moves_data() { request.bytes() } else { 0 };
        let service = self.store.first_byte_ms * 1e6 + per_byte(bytes, self.store.mb_per_s);
        let Some(connection) = self.connections.iter_mut().min() else { return at_ns };
        *connection = (*connection).max(at_ns) + service.ceil() as u64;
        *connection
    }
}
