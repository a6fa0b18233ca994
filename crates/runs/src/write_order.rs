//! The order of the last writes of an image, four bytes a block, kept next to it; and copies made in that order.
//!
//! On flash the order of writes determines the die of a block, so a copy of an image without it loses its age.

use senesce_core::output::{self, Format, Replace};
use senesce_core::{Bytes, Failure, Seed, input};
use senesce_devmodel::last_write::{BLOCK, LastWrites, Order, Run, steady_state};
use senesce_devmodel::{Operation, Request};
use senesce_volume::images::{CopyReport, copy_in_order};
use senesce_volume::sparse::Range;
use senesce_volume::{BlockTrace, MountedTarget, TargetError, TraceSession};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

const MAGIC: &str = "senesce-write-order-1";
const HASH: usize = 32;
const LARGEST: u64 = 128 << 10;

/// The header before the numbers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    image_bytes: u64,
    /// Last modification of the image, nanoseconds since 1970.
    image_altered_ns: u64,
    blocks: u64,
}

/// Returns `IMAGE.order`.
pub(crate) fn path_of(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".order");
    name.into()
}

fn identity(image: &Path) -> Result<(u64, u64), Failure> {
    let found = image.metadata().map_err(senesce_core::failure::failed("inspect", image))?;
    let altered = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok((found.len(), altered.map_or(0, |time| time.as_nanos() as u64)))
}

pub fn save(order: &LastWrites, image: &Path) -> Result<PathBuf, Failure> {
    let (image_bytes, image_altered_ns) = identity(image)?;
    let head = Head { format: MAGIC.into(), image_bytes, image_altered_ns, blocks: order.order().len() as u64 };
    let mut bytes = serde_json::to_vec(&head).map_err(|error| Failure::usage(error.to_string()))?;
    bytes.push(b'\n');
    bytes.reserve(order.order().len() * 4 + HASH);
    order.order().iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    let hash = blake3::hash(&bytes);
    bytes.extend(hash.as_bytes());
    let path = path_of(image);
    output::write(&path, Format::Json, &bytes, Replace::SameFormat)?;
    Ok(path)
}

pub fn check(image: &Path) -> Result<(), Failure> {
    Ok(output::check(&path_of(image), Format::Json, b"{", Replace::SameFormat)?)
}

pub fn load(image: &Path) -> Result<LastWrites, Failure> {
    let (head, order) = read(image)?;
    if identity(image)? != (head.image_bytes, head.image_altered_ns) {
        return Err(Failure::usage(format!(
            "{} was changed after its order of writes was recorded, so the order does not fit; age it again, or copy \
             it with --order address",
            image.display()
        )));
    }
    Ok(order)
}

fn read(image: &Path) -> Result<(Head, LastWrites), Failure> {
    let path = path_of(image);
    let bytes = input::regular(&path).map_err(|error| {
        let message = senesce_core::failure::errno_message(&error);
        Failure::usage(format!(
            "read {}: {message}; the order of last writes is recorded by `senesce age image:FILE --data write \
             --record-order`, or made from traces with --history",
            path.display()
        ))
    })?;
    of_bytes(&bytes).ok_or_else(|| Failure::usage(format!("{} is damaged; age the image again", path.display())))
}

fn of_bytes(bytes: &[u8]) -> Option<(Head, LastWrites)> {
    let line = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&bytes[..line]).ok().filter(|head: &Head| head.format == MAGIC)?;
    let end = bytes.len().checked_sub(HASH).filter(|end| *end > line)?;
    let numbers = &bytes[line + 1..end];
    if blake3::hash(&bytes[..end]).as_bytes() != &bytes[end..] || numbers.len() as u64 != head.blocks.checked_mul(4)? {
        return None;
    }
    let order = numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect();
    Some((head, LastWrites::from_order(order)))
}

#[derive(Debug)]
pub struct Recording {
    session: TraceSession,
    order: LastWrites,
}

impl Recording {
    /// Starts to record; `earlier` is the recorded order of the same image.
    pub fn begin(target: &MountedTarget, earlier: Option<LastWrites>) -> Result<Self, Failure> {
        let device = target.block_device_info().ok_or_else(|| {
            Failure::usage("--record-order: the target is not on a block device; use this option with images")
        })?;
        target.spec().path().map_or(Ok(()), check)?;
        let order = earlier.unwrap_or_else(|| LastWrites::new(device.size().0));
        Ok(Self { session: TraceSession::start(&device)?, order })
    }

    pub fn end(self) -> Result<LastWrites, TargetError> {
        let (trace, mut order) = (self.session.stop()?, self.order);
        trace.valid()?.for_models().iter().for_each(|request| order.record(request));
        Ok(order)
    }
}

pub fn of_traces(image: &Path, traces: &[PathBuf]) -> Result<LastWrites, Failure> {
    let mut order = LastWrites::new(identity(image)?.0);
    for path in traces {
        let trace: BlockTrace = crate::simulated::load(path)?;
        let bytes = order.order().len() as u64 * BLOCK;
        for request in trace.valid()?.for_models() {
            let moves = matches!(request.operation, Operation::Write | Operation::Discard);
            if moves && request.end() > bytes {
                return Err(Failure::usage(format!(
                    "{}: a request ends at byte {}, but the image has {}; the trace belongs to another image",
                    path.display(),
                    request.end(),
                    Bytes(bytes)
                )));
            }
            order.record(&request);
        }
    }
    Ok(order)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copying {
    pub order: Order,
    /// Physical over logical size of the drive, less one, to bring its spare area into the steady state of random
    /// overwriting.
    pub steady_state: Option<f64>,
    pub seed: Seed,
}

/// Copies an image in an order. Data without a recorded write (from mkfs) comes first, in the order of addresses. With
/// a steady state every block is written, the empty ones first.
pub fn copy(
    image: &Path,
    to: &Path,
    writes: &LastWrites,
    copying: &Copying,
    erase: Option<&str>,
) -> Result<CopyReport, Failure> {
    let pieces = |data: &[Range], size: u64| {
        let whole = [Range { start: 0, end: size }];
        let ranges = if copying.steady_state.is_some() { &whole } else { data };
        Ok(sequence(writes, ranges, size, copying))
    };
    Ok(copy_in_order(image, to, erase, pieces)?)
}

pub(crate) fn sequence(writes: &LastWrites, ranges: &[Range], size: u64, copying: &Copying) -> Vec<Range> {
    let mut all = LastWrites::new(size);
    for range in ranges {
        all.record(&Request::of_bytes(Operation::Write, range.start, range.length()));
    }
    // Only blocks with data: written blocks that are holes now were discarded by other means.
    let held: Vec<bool> = all.order().iter().map(|number| *number != 0).collect();
    let number = |(block, held): (usize, &bool)| {
        let recorded = writes.order().get(block).copied().unwrap_or(0);
        match (held, recorded) {
            (false, _) => 0,
            (true, 0) => 1,
            (true, number) => number.saturating_add(1),
        }
    };
    let order = LastWrites::from_order(held.iter().enumerate().map(number).collect());
    let runs = order.runs(copying.order, LARGEST);
    let runs =
        copying.steady_state.map_or_else(|| runs.clone(), |spare| steady_state(&runs, 1.0 + spare, copying.seed));
    let range = |run: &Run| Range { start: run.block * BLOCK, end: ((run.block + run.blocks) * BLOCK).min(size) };
    runs.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(order: &mut LastWrites, block: u64, blocks: u64) {
        order.record(&Request::of_bytes(Operation::Write, block * BLOCK, blocks * BLOCK));
    }

    /// Returns the writes of an image: blocks 0 and 1 have initial data, 6 and 7 were written first, then 4.
    fn written() -> LastWrites {
        let mut order = LastWrites::new(8 * BLOCK);
        write(&mut order, 6, 2);
        write(&mut order, 4, 1);
        order
    }

    fn blocks(pieces: &[Range]) -> Vec<(u64, u64)> {
        pieces.iter().map(|piece| (piece.start / BLOCK, piece.length() / BLOCK)).collect()
    }

    const COPYING: Copying = Copying { order: Order::LastWrite, steady_state: None, seed: Seed(1) };

    #[test]
    fn initial_data_comes_first_then_last_writes_in_order() {
        let data = [Range { start: 0, end: 2 * BLOCK }, Range { start: 4 * BLOCK, end: 8 * BLOCK }];
        let last = sequence(&written(), &data, 8 * BLOCK, &COPYING);
        // Block 5, which has initial data, and 6 and 7 after it are one piece.
        assert_eq!(blocks(&last), [(0, 2), (5, 3), (4, 1)]);
        let address = sequence(&written(), &data, 8 * BLOCK, &Copying { order: Order::Address, ..COPYING });
        assert_eq!(blocks(&address), [(0, 2), (4, 4)]);
        assert_eq!(blocks(&sequence(&written(), &data[..1], 8 * BLOCK, &COPYING)), [(0, 2)]);
    }

    #[test]
    fn order_of_changed_image_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("old.img");
        std::fs::write(&image, vec![1; 8 * BLOCK as usize]).unwrap();
        assert!(load(&image).unwrap_err().to_string().contains("--record-order"));
        let path = save(&written(), &image).unwrap();
        assert_eq!(load(&image).unwrap().order(), written().order());
        check(&image).unwrap();
        std::fs::rename(&path, directory.path().join("kept")).unwrap();
        std::fs::write(&path, "Dear diary, ").unwrap();
        assert_eq!(check(&image).unwrap_err().exit_code(), senesce_core::ExitCode::Refused);
        std::fs::rename(directory.path().join("kept"), &path).unwrap();
        let mut damaged = std::fs::read(&path).unwrap();
        let last = damaged.len() - 40;
        damaged[last] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        assert!(load(&image).unwrap_err().to_string().contains("is damaged"));
        save(&written(), &image).unwrap();
        std::fs::write(&image, vec![2; 9 * BLOCK as usize]).unwrap();
        assert!(load(&image).unwrap_err().to_string().contains("was changed after"));
    }

    #[test]
    fn a_copy_in_any_order_is_the_same_image() {
        let directory = tempfile::tempdir().unwrap();
        let (image, copied) = (directory.path().join("old.img"), directory.path().join("copy.img"));
        let content: Vec<u8> = (0..64 * BLOCK).map(|at| (at / 7 % 251) as u8).collect();
        std::fs::write(&image, &content).unwrap();
        let mut order = LastWrites::new(64 * BLOCK);
        (0..32).for_each(|number| write(&mut order, number * 13 % 64, 1));
        for copying in
            [COPYING, Copying { order: Order::Address, ..COPYING }, Copying { steady_state: Some(0.1), ..COPYING }]
        {
            let report = copy(&image, &copied, &order, &copying, Some(&copied.display().to_string())).unwrap();
            assert_eq!(std::fs::read(&copied).unwrap(), content, "{copying:?}");
            let more = report.written_bytes as f64 / content.len() as f64;
            assert!((more - 1.0 - copying.steady_state.unwrap_or(0.0)).abs() < 0.03, "{copying:?}: {more}");
        }
    }
}
