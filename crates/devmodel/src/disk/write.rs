//! Writes to the write cache and to the platter.

use super::DiskState;
use super::layout::SectorPosition;

#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub start: u64,
    pub end: u64,
    pub since_ns: f64,
    pub place: SectorPosition,
}

impl DiskState {
    pub(super) fn write_through(
        &mut self,
        start: u64,
        end: u64,
        place: &SectorPosition,
        arrives: Option<f64>,
        at: f64,
    ) -> f64 {
        if let Some(reading) = self.reading {
            let reached = self.reached(at);
            self.segments.extend(reading.segment, reached);
        }
        let (last, end_ns) = self.layout.end_from(place, start, end);
        let arrives = arrives.unwrap_or_else(|| self.arrives(&self.here(at), place, true));
        let done = arrives + (end_ns - place.stream_ns);
        self.reading = None;
        self.segments.forget(start, end);
        self.moved(last, end_ns, done);
        done
    }

    pub(super) fn write_to_cache(&mut self, start: u64, end: u64, place: &SectorPosition, at: f64) -> f64 {
        let mut at = at;
        while self.pending_bytes > 0 && self.pending_bytes + (end - start) > self.disk.write_cache_bytes {
            self.write_one(self.free_ns);
            at = at.max(self.free_ns);
        }
        let done = self.through_cache(self.disk.write_us, end - start, at);
        self.interface_free_ns = done;
        self.segments.forget(start, end);
        self.pending_bytes += end - start;
        match self.pending.back_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.pending.push_back(Pending { start, end, since_ns: done, place: *place }),
        }
        self.fill_pending_window();
        done
    }

    /// Writes one cached request to the platter: the one that the head reaches first.
    fn write_one(&mut self, from: f64) {
        let Some(first) = self.pending.front() else { return };
        let begin = first.since_ns.max(from);
        let (best, arrives) = self.choose_write(begin);
        let Some(write) = self.pending.remove(best) else { return };
        self.pending_window.remove(best);
        self.fill_pending_window();
        self.pending_bytes -= write.end - write.start;
        self.write_through(write.start, write.end, &write.place, Some(arrives), begin);
    }

    fn fill_pending_window(&mut self) {
        let window = &mut self.pending_window;
        while let (false, Some(write)) = (window.is_full(), self.pending.get(window.len())) {
            window.push(&self.rough, &write.place, write.start, true, false);
        }
    }

    /// Returns the cached write that the head reaches first, among those present at `begin`, and when.
    fn choose_write(&mut self, begin: f64) -> (usize, f64) {
        #[cfg(test)]
        if self.is_plain {
            return self.choose_write_plainly(begin);
        }
        // They are kept in order of arrival.
        let mut among = self.pending_window.len();
        while self.pending[among - 1].since_ns > begin {
            among -= 1;
        }
        let here = self.here(begin);
        let view = self.rough.view(&here, self.head_ns, &(0..0));
        self.pending_window.estimate_steps(&self.rough, &view, among);
        self.pending_window.first(&self.rough, &view, |number| self.arrives(&here, &self.pending[number].place, true))
    }

    pub(super) fn write_while_idle(&mut self, until: f64) -> bool {
        let mut has_written = false;
        // They are kept in order of arrival.
        while let Some(earliest) = self.pending.front() {
            let begin = earliest.since_ns.max(self.free_ns);
            if begin >= until {
                break;
            }
            self.write_one(begin);
            has_written = true;
        }
        has_written
    }

    pub(super) fn write_all(&mut self) {
        while !self.pending.is_empty() {
            self.write_one(self.free_ns);
        }
    }
}
