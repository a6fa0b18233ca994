//! A channel between controller and dies: carries pages of reads and the data of programs. Reads take precedence
//! between two pages of a program's data.

/// Times are nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    read_free: u64,
    /// When the data of all programs have crossed, if no more reads come.
    load_end: u64,
    delayed: u64,
    page: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    ends: u64,
    delayed_before: u64,
}

impl Channel {
    /// Creates a channel; `page` is the time in ns for one page of a program's data.
    pub(crate) fn new(page: u64) -> Self {
        Self { read_free: 0, load_end: 0, delayed: 0, page: page.max(1) }
    }

    /// Sends the page of a read for `time` ns; returns when it has crossed.
    #[inline]
    pub(crate) fn read(&mut self, now: u64, time: u64) -> u64 {
        let mut start = now.max(self.read_free);
        if self.load_end > start {
            start += (self.load_end - start) % self.page;
            self.load_end += time;
            self.delayed += time;
        }
        self.read_free = start + time;
        self.read_free
    }

    /// Queues a program's data, which take `time` ns.
    pub(crate) fn load(&mut self, now: u64, time: u64) -> Load {
        self.load_end = now.max(self.read_free).max(self.load_end) + time;
        Load { ends: self.load_end, delayed_before: self.delayed }
    }

    /// Returns when these data will have crossed, as far as known.
    pub(crate) fn end_of(&self, load: &Load) -> u64 {
        load.ends + (self.delayed - load.delayed_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_waits_for_current_page_and_delays_the_rest() {
        let mut channel = Channel::new(10);
        let load = channel.load(100, 50);
        assert_eq!(channel.end_of(&load), 150);
        assert_eq!(channel.read(113, 7), 127, "the page ends at 120");
        assert_eq!(channel.end_of(&load), 157);
        assert_eq!(channel.read(127, 7), 134, "the next read follows at once");
        let behind = channel.load(130, 20);
        assert_eq!((channel.end_of(&load), channel.end_of(&behind)), (164, 184));
        assert_eq!(channel.read(200, 7), 207, "an idle channel serves at once");
        assert_eq!(channel.end_of(&behind), 184);
    }
}
