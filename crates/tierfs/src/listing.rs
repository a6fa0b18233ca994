use crate::dir::first_position;
use crate::error::FsResult;
use crate::fs::TierFs;
use crate::record::{DirEntry, UNIT, scan_block};
use crate::tree::Cursor;
use rustix::io::Errno;

impl TierFs {
    /// Calls `visit(entry, name, next)` for the entries from `cookie` on until it returns `false`; `next` is the cookie of the
    /// following entry. Cookies stay valid while entries come and go. Cookie 0 is the start; `.` and `..` come first.
    pub fn read_directory(
        &self,
        ino: u32,
        cookie: u64,
        visit: &mut dyn FnMut(DirEntry, &[u8], u64) -> bool,
    ) -> FsResult<()> {
        let directory = self.directory(ino)?;
        let names = directory.state.read();
        let parent = directory.parent.load(std::sync::atomic::Ordering::Relaxed);
        let kind = crate::format::entry_kind(libc::S_IFDIR);
        for (at, (target, name)) in [(ino, &b"."[..]), (parent, &b".."[..])].into_iter().enumerate() {
            let entry = DirEntry { ino: target, kind, position: 0 };
            if cookie <= at as u64 && !visit(entry, name, at as u64 + 1) {
                return Ok(());
            }
        }
        let from = cookie.saturating_sub(2);
        let first_block = from / u64::from(first_position(1));
        let mut cursor = Cursor::new(&self.region, names.root);
        for index in first_block..u64::from(names.blocks) {
            let block = cursor.get(index);
            if block.is_hole() {
                continue;
            }
            if !block.is_resident() {
                return Err(Errno::IO);
            }
            let skip = from.saturating_sub(u64::from(first_position(index as u32))) as usize * UNIT;
            let mut pass = |entry: DirEntry, name: &[u8]| visit(entry, name, u64::from(entry.position) + 3);
            match scan_block(&self.region, block.address(), first_position(index as u32), skip, &mut pass) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(_) => {
                    self.region.note_damage();
                    return Err(Errno::IO);
                }
            }
        }
        Ok(())
    }

    /// Lists a directory like [`read_directory`](Self::read_directory), with attributes. Takes one reference of every
    /// entry passed on, as a lookup does, except `.` and `..`.
    pub(crate) fn read_directory_plus(
        &self,
        ino: u32,
        cookie: u64,
        visit: &mut dyn FnMut(&crate::Attr, &[u8], u64) -> bool,
    ) -> FsResult<()> {
        let mut failed = None;
        self.read_directory(ino, cookie, &mut |entry, name, next| {
            let attr = match self.get_attr(entry.ino) {
                Ok(attr) => attr,
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            };
            let passed = visit(&attr, name, next);
            if passed && name != b"." && name != b".." {
                self.table.slot(entry.ino).lookups.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            passed
        })?;
        failed.map_or(Ok(()), Err)
    }
}
