//! Sequential reads: the drive reads ahead of one stream and serves it from its buffer. Reads of another zone or
//! position end the stream; a new one begins with the second consecutive read.

use super::model::{Curve, PathModel, StreamModel, at, ns};
use super::timing::SizeTable;

/// Maximum distinguished depth.
const DEPTHS: usize = 513;

#[derive(Debug)]
pub(crate) struct Stream {
    zone: u32,
    next_block: u64,
    pub flying: u32,
    last_done: u64,
    latency: SizeTable,
    service: SizeTable,
    by_depth: Box<[u64]>,
    by_depth_below: u32,
    broken_above: SizeTable,
    broken: Curve,
    large: u32,
    large_factor: Curve,
}

impl Stream {
    pub(crate) fn new(model: &StreamModel, way: &PathModel) -> Self {
        Self {
            zone: u32::MAX,
            next_block: 0,
            flying: 0,
            last_done: 0,
            latency: SizeTable::new(&model.latency_us),
            service: SizeTable::new(&way.stream_us),
            by_depth: (0..DEPTHS).map(|depth| ns(at(&way.stream_by_depth_us, depth as f64))).collect(),
            by_depth_below: model.by_depth_below_kib << 10,
            broken_above: SizeTable::new(&model.broken_above),
            broken: model.broken_us.clone(),
            large: model.large_kib << 10,
            large_factor: model.large_factor.clone(),
        }
    }

    /// Returns whether a read continues the stream; updates the expected position.
    #[inline]
    pub(crate) fn follows(&mut self, zone: u32, block: u64, blocks: u64) -> bool {
        let follows = self.zone == zone && self.next_block == block;
        (self.zone, self.next_block) = (zone, block + blocks);
        follows
    }

    pub(crate) fn answer(&mut self, now: u64, bytes: u32) -> u64 {
        self.flying += 1;
        let in_flight_kib = f64::from(self.flying) * f64::from(bytes) / 1024.0;
        let above = self.broken_above.get(bytes);
        let service = if above > 0 && u64::from(self.flying) * 1000 > above {
            ns(at(&self.broken, in_flight_kib))
        } else if bytes < self.by_depth_below {
            self.by_depth[(self.flying as usize).min(DEPTHS - 1)]
        } else if bytes >= self.large {
            (self.service.get(bytes) as f64 * at(&self.large_factor, in_flight_kib)) as u64
        } else {
            self.service.get(bytes)
        };
        self.last_done = (now + self.latency.get(bytes)).max(self.last_done + service);
        self.last_done
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::*;

    #[test]
    fn second_stream_ends_the_first() {
        let model = Model::load("zn540").unwrap();
        let mut stream = Stream::new(model.read.stream.as_ref().unwrap(), &model.host.direct);
        assert!(!stream.follows(3, 0, 8) && stream.follows(3, 8, 8));
        assert!(!stream.follows(4, 100, 8) && !stream.follows(3, 16, 8));
        assert!(stream.follows(3, 24, 8));
    }

    #[test]
    fn many_small_reads_break_the_stream() {
        let model = Model::load("zn540").unwrap();
        let rate = |depth: u32, bytes: u32| {
            let mut stream = Stream::new(model.read.stream.as_ref().unwrap(), &model.host.direct);
            (0..1000).fold(0, |_, _| {
                stream.flying = depth - 1;
                stream.answer(0, bytes)
            })
        };
        assert!(rate(8, 512) > 5 * rate(4, 512));
        assert!(rate(8, 4096) <= rate(4, 4096));
    }
}
