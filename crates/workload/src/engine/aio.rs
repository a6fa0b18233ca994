//! Asynchronous writes of one thread, through io_uring.

use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::RawFd;

/// Entries of the submission queue; the kernel keeps completions beyond twice this number.
const ENTRIES: u32 = 256;

/// Maximum writes in flight; beyond, waits for completions.
const MOST_IN_FLIGHT: usize = 4096;

pub(crate) struct AioQueue {
    ring: IoUring,
    in_flight: usize,
}

impl AioQueue {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { ring: IoUring::new(ENTRIES)?, in_flight: 0 })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Submits one write.
    ///
    /// # Safety
    /// `data` must stay mapped and `descriptor` open until the write is complete; waiting for all writes or dropping the queue
    /// ensures that.
    pub(crate) unsafe fn write(&mut self, descriptor: RawFd, data: &[u8], offset: u64) -> io::Result<()> {
        if self.in_flight >= MOST_IN_FLIGHT {
            self.wait(self.in_flight / 2)?;
        }
        let length = u32::try_from(data.len()).map_err(io::Error::other)?;
        let entry = opcode::Write::new(types::Fd(descriptor), data.as_ptr(), length)
            .offset(offset)
            .build()
            .user_data(u64::from(length));
        loop {
            // SAFETY: the caller keeps buffer and descriptor alive until completion.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                break;
            }
            retry(|| self.ring.submit())?;
        }
        retry(|| self.ring.submit())?;
        self.in_flight += 1;
        Ok(())
    }

    /// Waits until at least `count` writes (or all) are complete.
    pub(crate) fn wait(&mut self, count: usize) -> io::Result<usize> {
        let count = count.min(self.in_flight);
        let mut done = 0;
        let mut failed = None;
        while done < count {
            retry(|| self.ring.submit_and_wait(count - done))?;
            for completion in self.ring.completion() {
                done += 1;
                self.in_flight -= 1;
                let result = completion.result();
                if result < 0 {
                    failed = Some(io::Error::from_raw_os_error(-result));
                } else if (result as u64) < completion.user_data() {
                    failed = Some(io::Error::from_raw_os_error(libc::ENOSPC));
                }
            }
        }
        failed.map_or(Ok(done), Err)
    }
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
            other => return other,
        }
    }
}

impl Drop for AioQueue {
    fn drop(&mut self) {
        // The kernel must release buffers and descriptors before they are dropped; results no longer matter.
        let _ = self.wait(self.in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn writes_complete_and_failures_are_reported() {
        let file = tempfile::tempfile().unwrap();
        let data = vec![7u8; 4096];
        let mut queue = AioQueue::new().unwrap();
        for block in 0..600 {
            unsafe { queue.write(file.as_raw_fd(), &data, block * 4096) }.unwrap();
        }
        let half = queue.wait(300).unwrap();
        assert!(half >= 300 && queue.in_flight() == 600 - half);
        queue.wait(usize::MAX).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 600 * 4096);
        let read_only = std::fs::File::open("/proc/self/status").unwrap();
        unsafe { queue.write(read_only.as_raw_fd(), &data, 0) }.unwrap();
        assert_eq!(queue.wait(1).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
