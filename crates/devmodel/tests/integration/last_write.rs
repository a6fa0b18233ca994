//! Compares a copy in the order of last writes with the whole history.

use rand_pcg::rand_core::Rng;
use senesce_core::Seed;
use senesce_devmodel::last_write::{BLOCK, LastWrites, Order};
use senesce_devmodel::ssd::{Drive, Flash, Hint, fast24};
use senesce_devmodel::{Operation, Request};

fn small_drive(blocks_per_plane: u32) -> Flash {
    let mut flash = fast24::drive_of_the_study().unwrap();
    flash.geometry.blocks_per_plane = blocks_per_plane;
    let physical = flash.geometry.bytes().unwrap();
    flash.spare_share = 0.12;
    flash.capacity_bytes = (physical as f64 / 1.12) as u64 / 4096 * 4096;
    flash.check("small").unwrap();
    flash
}

#[derive(Debug, Clone, Copy)]
enum History {
    /// Files are created and removed, 4 to 512 KiB each, using the first free blocks.
    Churn,
    /// A few hundred files grow in turn, 4 to 64 KiB at a time, and are removed when they are large.
    Growth,
    /// Files are created once, then their blocks are overwritten in place.
    Overwrites,
}

/// Runs of blocks of each remaining file.
struct Aged {
    trace: Vec<Request>,
    files: Vec<Vec<u64>>,
}

struct Allocator {
    free: Vec<bool>,
    from: usize,
}

impl Allocator {
    fn take(&mut self, count: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        while taken.len() < count {
            if self.free[self.from] {
                self.free[self.from] = false;
                taken.push(self.from as u64);
            }
            self.from = (self.from + 1) % self.free.len();
        }
        taken
    }
}

fn requests(operation: Operation, blocks: &[u64]) -> Vec<Request> {
    let runs = blocks.chunk_by(|a, b| a + 1 == *b);
    // Requests of at most 128 KiB.
    let pieces = runs.flat_map(|run| run.chunks(32));
    pieces.map(|piece| Request::of_bytes(operation, piece[0] * BLOCK, piece.len() as u64 * BLOCK)).collect()
}

fn aged(history: History, bytes: u64, seed: u64) -> Aged {
    let blocks = (bytes / BLOCK) as usize;
    let mut random = Seed(seed).stream("devmodel/tests/last-write");
    let mut below = |limit: usize| (random.next_u64() % limit as u64) as usize;
    let mut space = Allocator { free: vec![true; blocks], from: 0 };
    let (mut trace, mut files, mut written, mut used): (Vec<Request>, Vec<Vec<u64>>, usize, usize) = Default::default();
    while written < 3 * blocks {
        let full = used > blocks * 7 / 10;
        match history {
            History::Churn if !full => {
                let file = space.take(1 + below(128));
                trace.extend(requests(Operation::Write, &file));
                (written, used) = (written + file.len(), used + file.len());
                files.push(file);
            }
            History::Growth if !full => {
                if files.len() < 300 {
                    files.push(Vec::new());
                }
                let number = below(files.len());
                let more = space.take(1 + below(16));
                trace.extend(requests(Operation::Write, &more));
                (written, used) = (written + more.len(), used + more.len());
                files[number].extend(more);
            }
            History::Overwrites if full => {
                let number = below(files.len());
                let file = &files[number];
                let at = below(file.len());
                let piece = &file[at..file.len().min(at + 1 + below(16))];
                trace.extend(requests(Operation::Write, piece));
                written += piece.len();
            }
            History::Overwrites => {
                let file = space.take(64 + below(512));
                trace.extend(requests(Operation::Write, &file));
                (written, used) = (written + file.len(), used + file.len());
                files.push(file);
            }
            History::Churn | History::Growth => {
                for _ in 0..20 {
                    let file = files.swap_remove(below(files.len()));
                    trace.extend(requests(Operation::Discard, &file));
                    used -= file.len();
                    file.iter().for_each(|block| space.free[*block as usize] = true);
                }
            }
        }
    }
    files.retain(|file| !file.is_empty());
    Aged { trace, files }
}

/// Seconds to read all files with sequential requests of 128 KiB per file, `depth` at a time.
fn read_seconds(mut drive: Drive, files: &[Vec<u64>], depth: usize) -> f64 {
    drive.rest();
    let trace: Vec<Request> = files.iter().flat_map(|file| requests(Operation::Read, file)).collect();
    let trace: Vec<Request> = trace.into_iter().map(|one| Request { queue_depth: depth as u32, ..one }).collect();
    senesce_devmodel::replay::busy_ns(&mut drive, &trace) as f64 * 1e-9
}

fn replayed(flash: &Flash, trace: impl IntoIterator<Item = Request>) -> Drive {
    let mut drive = Drive::new(flash);
    let mut now = 0;
    for request in trace {
        now = drive.serve_hinted(&request, Hint::None, now);
    }
    drive
}

#[test]
fn copy_in_last_write_order_reads_like_the_original() {
    let mut worst: f64 = 0.0;
    let mut least_of_address: f64 = 1.0;
    for (history, seed) in [(History::Churn, 1), (History::Growth, 2), (History::Overwrites, 3)] {
        let flash = small_drive(128);
        let aged = aged(history, flash.capacity_bytes, seed);
        let mut writes = LastWrites::new(flash.capacity_bytes);
        aged.trace.iter().for_each(|request| writes.record(request));
        let copy = |order| {
            let runs = writes.runs(order, flash.largest_command_bytes);
            replayed(&flash, runs.into_iter().map(|run| run.request(flash.capacity_bytes)))
        };
        let (whole, last, address) =
            (replayed(&flash, aged.trace.clone()), copy(Order::LastWrite), copy(Order::Address));
        for depth in [1, 4, 16] {
            let [whole, last, address] =
                [&whole, &last, &address].map(|drive| read_seconds(drive.clone(), &aged.files, depth));
            let (last, address) = (last / whole - 1.0, address / whole - 1.0);
            println!("{history:?} depth {depth}: last-write {:+.2} %, address {:+.2} %", last * 100.0, address * 100.0);
            worst = worst.max(last.abs());
            least_of_address = least_of_address.min(address);
        }
    }
    assert!(worst < 0.02, "{worst}");
    assert!(least_of_address < -0.04, "a copy by address makes the drive young again: {least_of_address}");
}

#[test]
fn steady_state_copy_matches_random_overwriting() {
    use senesce_devmodel::last_write::{Run, steady_state};
    use senesce_devmodel::ssd::amplification::desnoyers;
    use senesce_devmodel::ssd::parameters::Policy;
    let mut flash = small_drive(256);
    (flash.collection.policy, flash.collection.separate_stream) = (Policy::Fifo, false);
    let blocks = flash.capacity_bytes / BLOCK;
    let mut random = Seed(9).stream("devmodel/tests/steady-state");
    // Every block once, in an order without runs.
    let runs: Vec<Run> = (0..blocks).map(|number| Run { block: number * 1_000_003 % blocks, blocks: 1 }).collect();
    let mut amplification = |runs: &[Run], rounds: f64| {
        let mut drive = Drive::new(&flash);
        runs.iter().for_each(|run| drive.prepare_request(&run.request(flash.capacity_bytes)));
        let mut overwrite = |share: f64, drive: &mut Drive| {
            let writes = (share * blocks as f64) as u64;
            drive.prepare((0..writes).map(|_| random.next_u64() % blocks), Hint::None);
            drive.counters()
        };
        let before = overwrite(rounds, &mut drive);
        let after = overwrite(0.05, &mut drive);
        1.0 + (after.moved_pages - before.moved_pages) as f64 / (after.host_pages - before.host_pages) as f64
    };
    // Blocks that cleaning keeps ready or fills contain no old data.
    let ratio = (1.0 + flash.spare_share) * (256.0 - 3.0) / 256.0;
    let (young, old) = (amplification(&runs, 0.0), amplification(&steady_state(&runs, ratio, Seed(1)), 0.0));
    let overwritten = amplification(&runs, 3.0);
    println!(
        "young {young:.2}, one pass {old:.2}, three rounds of overwriting {overwritten:.2}, formula {:.2}",
        desnoyers(ratio)
    );
    assert!(young < 1.1, "{young}");
    assert!((old / overwritten - 1.0).abs() < 0.1, "{old} against {overwritten}");
}
