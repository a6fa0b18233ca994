//! A disk drive: seek, rotation, transfer, read-ahead.
//!
//! Linear density is constant, so the transfer rate falls with the radius from the outer to the inner edge. Let k = inner rate /
//! outer rate and f the fraction of the capacity before an address. The radius is r = sqrt(1 - f (1 - k^2)), because equal areas
//! hold equal capacity. The rate there is outer rate * r, and the arm's position is (1 - r) / (1 - k). The time to stream from
//! address 0 to f is S(f) = capacity / outer rate * 2 (1 - r) / (1 - k^2). The platter's angle below an address is the fraction
//! of S in rotations. A stream therefore never waits, and every other access waits for its sector.
//!
//! Not modelled: reordering by the drive, its write cache, track and cylinder skew beyond the sustained rate.

use crate::request::{Operation, Request, SECTOR};
use crate::{Device, SeekCurve};
use serde::{Deserialize, Serialize};

/// Parameters of a disk drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// Capacity.
    pub capacity_bytes: u64,
    /// Rotations per minute.
    pub rpm: f64,
    /// Sustained rate at the outer edge, decimal megabytes per second.
    pub outer_mb_per_s: f64,
    /// Sustained rate at the inner edge.
    pub inner_mb_per_s: f64,
    /// Time per command in the controller.
    pub command_us: f64,
    /// Additional settling time of the arm before a write.
    pub write_settle_ms: f64,
    /// Read-ahead into the buffer after a read, bytes.
    pub read_ahead_bytes: u64,
    /// Interface rate for buffered data.
    pub interface_mb_per_s: f64,
    /// Seek time by distance.
    pub seek: SeekCurve,
}

impl Hdd {
    /// Radius below an address, 1 at the outer edge.
    fn radius(&self, address: u64) -> f64 {
        let fraction = (address as f64 / self.capacity_bytes as f64).min(1.0);
        let ratio = self.inner_mb_per_s / self.outer_mb_per_s;
        (1.0 - fraction * (1.0 - ratio * ratio)).sqrt()
    }

    /// Nanoseconds to stream from address 0 to `address`.
    fn stream_ns(&self, address: u64) -> f64 {
        let address = address.min(self.capacity_bytes);
        let whole = self.capacity_bytes as f64 / (self.outer_mb_per_s * 1e6) * 1e9;
        let ratio = self.inner_mb_per_s / self.outer_mb_per_s;
        if ratio >= 1.0 {
            return whole * (address as f64 / self.capacity_bytes as f64);
        }
        whole * 2.0 * (1.0 - self.radius(address)) / (1.0 - ratio * ratio)
    }

    pub(crate) fn rotation_ns(&self) -> f64 {
        60e9 / self.rpm
    }

    /// Nanoseconds to move the arm between two addresses; zero within a track.
    fn seek_ns(&self, from: u64, to: u64) -> f64 {
        if (self.stream_ns(from) - self.stream_ns(to)).abs() < self.rotation_ns() {
            return 0.0;
        }
        let ratio = self.inner_mb_per_s / self.outer_mb_per_s;
        let distance = if ratio >= 1.0 {
            from.abs_diff(to) as f64 / self.capacity_bytes as f64
        } else {
            (self.radius(from) - self.radius(to)).abs() / (1.0 - ratio)
        };
        self.seek.ms(distance.min(1.0)) * 1e6
    }

    /// Address below the arm at a position, 0 at the outer edge and 1 at the inner one.
    pub(crate) fn address_at(&self, position: f64) -> u64 {
        let ratio = self.inner_mb_per_s / self.outer_mb_per_s;
        let share = match ratio >= 1.0 {
            true => position,
            false => (1.0 - (1.0 - position * (1.0 - ratio)).powi(2)) / (1.0 - ratio * ratio),
        };
        (share.clamp(0.0, 1.0) * self.capacity_bytes as f64) as u64
    }

    /// Returns a drive at rest above address 0.
    pub(crate) fn start(&self) -> HddState {
        HddState { drive: self.clone(), free_at: 0.0, position: 0, reading: false }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct HddState {
    drive: Hdd,
    /// When the head finished its last request, ns.
    free_at: f64,
    /// Address after that request.
    position: u64,
    reading: bool,
}

impl HddState {
    fn mechanical(&self, request: &Request, at: f64) -> f64 {
        let drive = &self.drive;
        let settle = if request.operation == Operation::Write { drive.write_settle_ms * 1e6 } else { 0.0 };
        let seek = drive.seek_ns(self.position, request.offset());
        let settle = if seek > 0.0 { settle } else { 0.0 };
        let ready = at.max(self.free_at) + drive.command_us * 1e3 + seek + settle;
        let rotation = drive.rotation_ns();
        let wait = (drive.stream_ns(request.offset()) - ready).rem_euclid(rotation);
        // A wait less than a nanosecond short of a rotation is a rounding error.
        let wait = if rotation - wait < 1.0 { 0.0 } else { wait };
        ready + wait + self.transfer_ns(request)
    }

    /// Returns the completion time of an access just ahead of the head, which continues the stream; otherwise `None`.
    fn streaming(&self, request: &Request, at: f64) -> Option<f64> {
        let reads_on = request.operation == Operation::Read && self.reading;
        let ahead = request.offset().checked_sub(self.position)?;
        let reach = if reads_on { self.drive.read_ahead_bytes } else { 0 };
        if ahead > reach || (!reads_on && at > self.free_at) {
            return None;
        }
        let passed = self.free_at + self.drive.stream_ns(request.end()) - self.drive.stream_ns(self.position);
        let from_buffer = at + self.drive.command_us * 1e3 + per_byte(request.bytes(), self.drive.interface_mb_per_s);
        Some(if reads_on { passed.max(from_buffer) } else { passed })
    }

    fn transfer_ns(&self, request: &Request) -> f64 {
        self.drive.stream_ns(request.end()) - self.drive.stream_ns(request.offset())
    }
}

impl Device for HddState {
    fn serve(&mut self, request: &Request, at_ns: u64) -> u64 {
        let at = at_ns as f64;
        // A trace of a larger device wraps around.
        let start_sector = request.start_sector % (self.drive.capacity_bytes / SECTOR).max(1);
        let request = &Request { start_sector, ..*request };
        if !request.moves_data() {
            self.free_at = self.free_at.max(at) + self.drive.command_us * 1e3;
            self.reading = false;
            return self.free_at.ceil() as u64;
        }
        let mechanical = self.mechanical(request, at);
        let completion = self.streaming(request, at).map_or(mechanical, |streamed| streamed.min(mechanical));
        self.free_at = completion;
        self.position = request.end();
        self.reading = request.operation == Operation::Read;
        completion.ceil() as u64
    }
}

/// Nanoseconds for `bytes` at decimal megabytes per second.
pub(crate) fn per_byte(bytes: u64, mb_per_s: f64) -> f64 {
    bytes as f64 / mb_per_s * 1e3
}
