//! Writes past the kernel's cache (O_DIRECT) beside pages that it keeps of the same file. The kernel drops stale pages after
//! such a write only if the writer waits for it; after asynchronous ones (io_submit(2)) they would stay. So the server has
//! them dropped, between the write and its answer, if a request through the cache came since they were last dropped.
//!
//! Dropping a page waits for a read of it that is under way, and so must not happen on a thread that answers reads.

use crate::fs::TierFs;
use fuser::{INodeNo, Notifier, ReplyWrite};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};

/// A write that is done and not answered.
struct Written {
    ino: u32,
    len: u32,
    reply: ReplyWrite,
}

/// Where direct writes of files with cached pages are answered.
#[derive(Debug, Default)]
pub struct Coherence(OnceLock<Sender<Written>>);

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "write of {} bytes to {}", self.len, self.ino)
    }
}

/// Whether a descriptor with these open(2) flags passes the cache.
pub fn is_direct(flags: i32) -> bool {
    flags & libc::O_DIRECT != 0
}

impl Coherence {
    /// Drops pages by `notifier` from now on, in a thread of its own that ends with this value.
    pub fn start(&self, fs: Arc<TierFs>, notifier: Notifier) {
        let (sender, receiver) = channel::<Written>();
        std::thread::spawn(move || {
            for Written { ino, len, reply } in receiver {
                drop_pages(&fs, &notifier, ino);
                reply.written(len);
            }
        });
        // Whoever came first is as good.
        let _ = self.0.set(sender);
    }

    /// Answers a direct write of `len` bytes, once no page shows what was there before.
    pub fn answer(&self, fs: &TierFs, ino: u32, len: u32, reply: ReplyWrite) {
        let written = Written { ino, len, reply };
        match self.0.get().filter(|_| fs.pages_of(ino) > 0) {
            Some(sender) => {
                if let Err(unsent) = sender.send(written) {
                    unsent.0.reply.written(len);
                }
            }
            None => written.reply.written(len),
        }
    }
}

fn drop_pages(fs: &TierFs, notifier: &Notifier, ino: u32) {
    let seen = fs.pages_of(ino);
    if seen == 0 {
        return;
    }
    match notifier.inval_inode(INodeNo(u64::from(ino)), 0, 0) {
        Ok(()) => fs.pages_dropped(ino, seen),
        Err(error) => tracing::debug!("drop the pages of inode {ino}: {error}"),
    }
}

impl TierFs {
    /// A request may leave pages of a file in the kernel's cache.
    pub(crate) fn note_pages(&self, ino: u32) {
        if let Ok((_, slot)) = self.find(ino) {
            slot.cached.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Such requests since the pages were last dropped.
    fn pages_of(&self, ino: u32) -> u32 {
        self.find(ino).map_or(0, |(_, slot)| slot.cached.load(Ordering::Acquire))
    }

    /// The pages that the first `seen` requests left were dropped.
    fn pages_dropped(&self, ino: u32, seen: u32) {
        if let Ok((_, slot)) = self.find(ino) {
            // Who came meanwhile may have left others.
            let _ = slot.cached.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
