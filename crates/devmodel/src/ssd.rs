//! Solid-state drives. [`Flash`] has a flash translation layer: the order of writing decides where data are. [`Ssd`] does not.
//!
//! [`Ssd`] has a controller that processes one command after another, parallel flash units, and one interface. Writes cost the
//! same as on a fresh drive, without garbage collection.

pub mod alignment;
pub mod amplification;
mod bus;
mod closed;
mod collisions;
pub(crate) mod drive;
pub mod fast24;
mod flash;
pub(crate) mod map;
mod mapping_cache;
pub mod parameters;
mod sized;

pub use drive::{Drive, Hint};
pub use parameters::Flash;

use crate::Device;
use crate::hdd::per_byte;
use crate::request::{Operation, Request};
use serde::{Deserialize, Serialize};

/// Parameters of a solid-state drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Capacity.
    pub capacity_bytes: u64,
    /// Controller time per read command; its inverse bounds the rate of random reads.
    pub read_command_us: f64,
    /// Controller time per write, discard or flush command.
    pub write_command_us: f64,
    /// Time of one flash unit to read one stripe.
    pub read_us: f64,
    /// Time until a write is safe in the drive's buffer.
    pub write_us: f64,
    /// Flash units that work at the same time.
    pub parallel_units: u32,
    /// Adjacent bytes on one unit.
    pub stripe_bytes: u64,
    /// Interface or flash rate for reads, decimal megabytes per second.
    pub read_mb_per_s: f64,
    /// The same for writes.
    pub write_mb_per_s: f64,
}

impl Ssd {
    pub(crate) fn start(&self) -> SsdState {
        let units = vec![0.0; self.parallel_units.max(1) as usize];
        SsdState { drive: self.clone(), controller_free: 0.0, interface_free: 0.0, units }
    }
}

/// Times are ns.
#[derive(Debug, Clone)]
pub(crate) struct SsdState {
    drive: Ssd,
    controller_free: f64,
    interface_free: f64,
    units: Vec<f64>,
}

impl SsdState {
    /// Returns when the first and the last stripe of a read have left the flash.
    fn read_flash(&mut self, request: &Request, commanded: f64) -> (f64, f64) {
        let stripe = self.drive.stripe_bytes.max(1);
        let (mut first, mut last) = (f64::INFINITY, commanded);
        for number in request.offset() / stripe..request.end().div_ceil(stripe) {
            let unit = (number % self.units.len() as u64) as usize;
            let ready = self.units[unit].max(commanded) + self.drive.read_us * 1e3;
            self.units[unit] = ready;
            first = first.min(ready);
            last = last.max(ready);
        }
        (first.min(last), last)
    }
}

impl Device for SsdState {
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64 {
        let is_read = request.operation == Operation::Read;
        let command_us = if is_read { self.drive.read_command_us } else { self.drive.write_command_us };
        let commanded = self.controller_free.max(at_ns as f64) + command_us * 1e3;
        self.controller_free = commanded;
        if !request.moves_data() {
            return commanded.ceil() as u64;
        }
        let (first, last, rate) = if is_read {
            let (first, last) = self.read_flash(request, commanded);
            (first, last, self.drive.read_mb_per_s)
        } else {
            let buffered = commanded + self.drive.write_us * 1e3;
            (buffered, buffered, self.drive.write_mb_per_s)
        };
        let transferred = self.interface_free.max(first) + per_byte(request.bytes(), rate);
        self.interface_free = transferred;
        transferred.max(last).ceil() as u64
    }
}
