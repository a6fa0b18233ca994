//! The state of the adapter, and the extended attributes, some of which are commands.

use super::answer::{done, xattr};
use super::linger::{Answering, Linger};
use super::new_file::NewFiles;
use crate::format::ROOT_INO;
use crate::fs::TierFs;
use fuser::{ReplyEmpty, ReplyXattr, Request};
use rustix::io::Errno;
use std::sync::Arc;

/// Extended attribute of the root that returns the counters (`tier stats`).
pub const STATS_XATTR: &str = "senesce.tier";
/// Extended attribute of the root that starts a scrub when set (`tier check`).
pub const SCRUB_XATTR: &str = "senesce.tier.scrub";

pub struct Adapter {
    pub(super) fs: Arc<TierFs>,
    linger: Arc<Linger>,
    pub(super) new_files: NewFiles,
}

impl Adapter {
    /// Creates the adapter; `linger` controls how threads wait for requests.
    pub fn new(fs: Arc<TierFs>, linger: Arc<Linger>) -> Self {
        Self { fs, linger, new_files: NewFiles::on_this_kernel(false) }
    }

    pub(super) fn serve(&self) -> Answering<'_> {
        self.linger.answering(&self.fs)
    }

    /// Starts a scrub for root or the user of the server.
    fn start_scrub(&self, request: &Request) -> Result<(), Errno> {
        if request.uid() != 0 && request.uid() != rustix::process::geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        self.fs.caretaker().want_scrub();
        Ok(())
    }

    /// Sets an extended attribute to a value. That of the root which starts a scrub is not stored.
    pub(super) fn set_attribute(
        &self,
        request: &Request,
        ino: u32,
        name: &[u8],
        (value, flags): (&[u8], i32),
        reply: ReplyEmpty,
    ) {
        if name == SCRUB_XATTR.as_bytes() && ino == ROOT_INO {
            return done(self.start_scrub(request), reply);
        }
        if name.starts_with(b"system.") || name == STATS_XATTR.as_bytes() {
            return reply.error(fuser::Errno::EOPNOTSUPP);
        }
        let (create, replace) = (flags & libc::XATTR_CREATE != 0, flags & libc::XATTR_REPLACE != 0);
        done(self.serve().set_xattr(ino, name, value, create, replace), reply);
    }

    /// Replies with an extended attribute; that of the root which has the counters is not stored.
    pub(super) fn reply_attribute(&self, ino: u32, name: &[u8], size: u32, reply: ReplyXattr) {
        let fs = self.serve();
        if name.starts_with(b"system.") {
            return reply.error(fuser::Errno::EOPNOTSUPP);
        }
        let value = if name == STATS_XATTR.as_bytes() && ino == ROOT_INO {
            serde_json::to_vec(&fs.stats()).map_err(|_| Errno::IO)
        } else {
            fs.get_xattr(ino, name)
        };
        xattr(value, size, reply);
    }
}
