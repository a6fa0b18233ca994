//! SQLite: sqlite_append.c and sqlite_contiguous.c of the artifact.
//!
//! A row of about 16,396 bytes takes four overflow pages of 4,092 bytes and 489 bytes in a leaf of the table (file format of
//! SQLite, "cell payload overflow pages"), so a leaf holds eight. An insert without a journal rewrites page 1, the leaf of the
//! index and the leaf of the table, and appends the overflow pages; every eighth appends a leaf and rewrites its parent.

use super::{File, Rates, State, Volume};
use crate::ssd::Flash;
use crate::ssd::parameters::PAGE;

const ROWS: u64 = 10_000;
const ROWS_PER_LEAF: u64 = 8;
const OVERFLOW_PAGES: u64 = 4;
const DUMMY_BYTES: u64 = 100 << 10;
/// The artifact divides this by the time of the scan.
const SCANNED_MIB: f64 = 156.25;
/// Read-ahead of the page cache, the kernel's default; the next window is requested when the reader enters one.
const WINDOW_BYTES: u64 = 128 << 10;

pub(super) fn rates(flash: &Flash, offset: u32) -> Rates {
    let published_ns = SCANNED_MIB / super::Workload::Sqlite.published()[0] * 1e9;
    let mut contiguous = written(flash, State::Contiguous, offset);
    let pages = (contiguous.1.bytes() / PAGE) as f64;
    // The time increases with the host's share, so bisection works.
    let (mut low, mut high) = (0.0, published_ns / pages);
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        match scan(&mut contiguous, middle) < published_ns {
            true => low = middle,
            false => high = middle,
        }
        contiguous.0.drive.rest();
    }
    let host_ns = high;
    let states = [State::Contiguous, State::Fragmented, State::Placed].map(|state| {
        let mut written = written(flash, state, offset);
        (SCANNED_MIB / scan(&mut written, host_ns) * 1e9, written.0.drive.collision_index())
    });
    Rates { mib_per_s: states.map(|state| state.0), host_ns, collision_index: states.map(|state| state.1) }
}

fn written(flash: &Flash, state: State, offset: u32) -> (Volume, File) {
    let mut volume = Volume::new(flash, state, offset);
    let (mut database, mut dummy) = (File::default(), File::default());
    // Page 1, the root of the table and of its index, a first leaf of each.
    volume.append(&mut database, 5 * PAGE);
    if state == State::Contiguous {
        volume.append(&mut database, (ROWS * OVERFLOW_PAGES + ROWS / ROWS_PER_LEAF) * PAGE);
        return (volume, database);
    }
    let mut leaf = 3 * PAGE;
    for row in 0..ROWS {
        volume.overwrite(&database, 0, PAGE);
        volume.overwrite(&database, 4 * PAGE, PAGE);
        if row % ROWS_PER_LEAF == ROWS_PER_LEAF - 1 {
            volume.overwrite(&database, PAGE, PAGE);
            volume.append(&mut database, (OVERFLOW_PAGES + 1) * PAGE);
            leaf = database.bytes() - PAGE;
        } else {
            volume.overwrite(&database, leaf, PAGE);
            volume.append(&mut database, OVERFLOW_PAGES * PAGE);
        }
        volume.append(&mut dummy, DUMMY_BYTES);
    }
    (volume, database)
}

/// Reads the file through read-ahead: each page is used for `page_ns` once its request is complete, and the next window is
/// requested when the reader reaches the first page of one. Returns the nanoseconds.
fn scan((volume, file): &mut (Volume, File), page_ns: f64) -> f64 {
    let mut window: Vec<(usize, u64)> = volume.read_runs(file, 0, WINDOW_BYTES, 0).collect();
    let mut now = 0.0f64;
    for ahead in (WINDOW_BYTES..file.bytes() + WINDOW_BYTES).step_by(WINDOW_BYTES as usize) {
        now = now.max(window.first().map_or(0.0, |run| run.1 as f64));
        let next = volume.read_runs(file, ahead.min(file.bytes()), WINDOW_BYTES, now as u64).collect();
        for (pages, done) in std::mem::replace(&mut window, next) {
            now = now.max(done as f64) + pages as f64 * page_ns;
        }
    }
    now
}
