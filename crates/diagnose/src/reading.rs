//! The time to read every file of a tree, one after the other, on a modelled drive.
//!
//! A reader reads each file from its first byte to its last and then the next one, as `tar` or `grep -r` does. The
//! kernel's read-ahead turns that into requests of at most 128 KiB (`read_ahead_kb`,
//! Documentation/ABI/stable/sysfs-block). Two of them are in flight: the awaited one and the one ahead, but never
//! across the border of two files. Metadata are not read: they are the same whatever happens to the data.

use rayon::prelude::*;
use senesce_devmodel::{Device, DeviceModel, Request};
use senesce_layout::{FileRuns, Run};
use serde::{Deserialize, Serialize};

/// Maximum bytes of one request.
pub(crate) const READ_AHEAD: u64 = 128 << 10;

/// The order in which files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As the directories list them, depth first: `find`, `tar`, `grep -r`.
    #[default]
    Readdir,
    /// Sorted by path: programs that sort, `ls -R`, `rsync`.
    Path,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Readdir => "readdir",
            Self::Path => "path",
        }
    }

    pub fn of(self, files: &FileRuns) -> Vec<u32> {
        match self {
            Self::Readdir => (0..files.len() as u32).collect(),
            Self::Path => files.by_path(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cost {
    pub seconds: f64,
    /// Nanoseconds by index of file: from the end of the previous file to its own end.
    pub file_ns: Vec<u64>,
}

/// Seconds for three placements.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// As the files lie.
    pub now: f64,
    /// After an ideal defragmentation of files.
    pub ideal: f64,
    /// After everything was copied out and back in the order of reading.
    pub rewritten: f64,
}

struct Reader {
    device: Box<dyn Device>,
    /// In ns: when the next request may be issued, and the completions of the previous one and of the one before it.
    now: u64,
    last: u64,
    before: u64,
}

impl Reader {
    fn new(model: &DeviceModel) -> Self {
        Self { device: model.start(), now: 0, last: 0, before: 0 }
    }

    fn run(&mut self, run: Run) {
        let mut at = run.start;
        while at < run.end() {
            let bytes = READ_AHEAD.min(run.end() - at);
            self.now = self.now.max(self.before);
            let completion = self.device.serve(&Request::read_bytes(at, bytes), self.now);
            self.before = self.last;
            self.last = self.last.max(completion);
            at += bytes;
        }
    }

    fn end_of_file(&mut self) -> u64 {
        self.now = self.last;
        self.before = self.last;
        self.last
    }
}

pub(crate) fn cost(model: &DeviceModel, files: &FileRuns, order: &[u32], moved: impl Fn(usize) -> bool) -> Cost {
    let mut reader = Reader::new(model);
    let mut file_ns = vec![0; files.len()];
    let mut cursor = lowest(files);
    let mut ended = 0;
    for &index in order {
        let runs = files.of(index as usize);
        let length = length(runs);
        match runs.last() {
            None => {}
            Some(_) if moved(index as usize) => {
                reader.run(Run { start: cursor, length });
                cursor += length;
            }
            Some(last) => {
                runs.iter().for_each(|run| reader.run(*run));
                cursor = last.end();
            }
        }
        let end = reader.end_of_file();
        file_ns[index as usize] = end - ended;
        ended = end;
    }
    Cost { seconds: ended as f64 * 1e-9, file_ns }
}

/// Computes the cost for files with the given runs: of `files` files those in `order` are read.
pub(crate) fn cost_where<'a>(
    model: &DeviceModel,
    files: usize,
    order: &[u32],
    runs: impl Fn(usize) -> &'a [Run],
) -> Cost {
    let mut reader = Reader::new(model);
    let mut file_ns = vec![0; files];
    let mut ended = 0;
    for &index in order {
        runs(index as usize).iter().for_each(|run| reader.run(*run));
        let end = reader.end_of_file();
        file_ns[index as usize] = end - ended;
        ended = end;
    }
    Cost { seconds: ended as f64 * 1e-9, file_ns }
}

/// Modelled seconds of reading every file once, with the references that separate the causes of slow reads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadTimes {
    /// Copied out and back in the order of reading.
    pub in_order: f64,
    /// Created once in the order of birth, one after the other.
    pub created: f64,
    /// Every file in one piece at the address of its first block.
    pub whole: f64,
    /// As the files lie.
    pub aged: f64,
}

impl ReadTimes {
    /// Computes the seconds of each placement. `order`: files as they are read; `births`: as they were created.
    pub fn of(model: &DeviceModel, files: &FileRuns, order: &[u32], births: &[u32]) -> Self {
        let runs: Vec<&[Run]> = (0..files.len()).map(|file| files.of(file)).collect();
        Self::of_runs(model, &runs, order, births)
    }

    fn of_runs(model: &DeviceModel, files: &[&[Run]], order: &[u32], births: &[u32]) -> Self {
        let reference = |runs: Vec<Run>| cost_where(model, files.len(), order, |file| &runs[file..=file]).seconds;
        let (in_order, created) =
            rayon::join(|| reference(in_sequence(files, order)), || reference(in_sequence(files, births)));
        let (whole, aged) = rayon::join(
            || reference(in_one_piece(files)),
            || cost_where(model, files.len(), order, |file| files[file]).seconds,
        );
        Self { in_order, created, whole, aged }
    }

    /// Returns the time of a read over that of a read of the same files created once.
    pub fn age_factor(&self) -> f64 {
        self.aged / self.created
    }

    /// Returns the time of a read over that without churn because files are at other addresses, each in one piece.
    pub fn placement_factor(&self) -> f64 {
        self.whole / self.created
    }

    /// Returns the time of a read in the order of creation over that in the order of reading.
    pub fn order_factor(&self) -> f64 {
        self.created / self.in_order
    }

    /// Returns the time of a read over that with whole files at the same addresses.
    pub fn pieces_factor(&self) -> f64 {
        self.aged / self.whole
    }
}

/// Lays files one after the other, from the lowest address with data.
fn in_sequence(files: &[&[Run]], sequence: &[u32]) -> Vec<Run> {
    let mut runs = vec![Run { start: 0, length: 0 }; files.len()];
    let mut cursor = files.iter().flat_map(|runs| runs.iter()).map(|run| run.start).min().unwrap_or(0);
    for &file in sequence {
        let run = Run { start: cursor, length: length(files[file as usize]) };
        cursor = run.end();
        runs[file as usize] = run;
    }
    runs
}

fn in_one_piece(files: &[&[Run]]) -> Vec<Run> {
    let whole = |runs: &&[Run]| Run { start: runs.first().map_or(0, |run| run.start), length: length(runs) };
    files.iter().map(whole).collect()
}

pub(crate) fn length(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.length).sum()
}

pub(crate) fn lowest(files: &FileRuns) -> u64 {
    (0..files.len())
        .into_par_iter()
        .filter_map(|file| files.of(file).iter().map(|run| run.start).min())
        .min()
        .unwrap_or(0)
}

pub(crate) fn highest(files: &FileRuns) -> u64 {
    let ends = |file| files.of(file).iter().map(Run::end).max();
    (0..files.len()).into_par_iter().filter_map(ends).max().unwrap_or(0)
}

/// Computes three costs. The first is that of the files at their present addresses. The second is after an ideal
/// defragmentation. Each fragmented file is then in one piece directly after the file read before it; the others are
/// unchanged. The third has all files in one sequence in the order of reading, from the lowest address with data.
pub(crate) fn costs(model: &DeviceModel, files: &FileRuns, order: &[u32]) -> [Cost; 3] {
    let now = || cost(model, files, order, |_| false);
    let ideal = || cost(model, files, order, |file| files.of(file).len() > 1);
    let (now, (ideal, rewritten)) = rayon::join(now, || rayon::join(ideal, || cost(model, files, order, |_| true)));
    [now, ideal, rewritten]
}

pub(crate) fn seconds(model: &DeviceModel, files: &FileRuns, order: &[u32]) -> Seconds {
    let [now, ideal, rewritten] = costs(model, files, order).map(|cost| cost.seconds);
    Seconds { now, ideal, rewritten }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 1 << 20;

    fn times(files: &[&[Run]], births: &[u32]) -> ReadTimes {
        let order: Vec<u32> = (0..files.len() as u32).collect();
        ReadTimes::of_runs(&DeviceModel::builtin("st500dm002").unwrap(), files, &order, births)
    }

    #[test]
    fn whole_files_in_reading_order_cost_nothing_more() {
        let files: Vec<[Run; 1]> = (0..20).map(|file| [Run { start: file * FILE, length: FILE }]).collect();
        let files: Vec<&[Run]> = files.iter().map(|runs| &runs[..]).collect();
        let births: Vec<u32> = (0..20).collect();
        let ReadTimes { in_order, created, whole, aged } = times(&files, &births);
        assert!(in_order > 0.0 && [created, whole, aged] == [in_order; 3]);
    }

    #[test]
    fn order_and_pieces_are_separate_factors() {
        let (half, far) = (FILE / 2, 100 << 30);
        let files: Vec<[Run; 2]> =
            (0..20).map(|file| [file * FILE, far + file * FILE].map(|start| Run { start, length: half })).collect();
        let files: Vec<&[Run]> = files.iter().map(|runs| &runs[..]).collect();
        let in_pieces = times(&files, &(0..20).collect::<Vec<u32>>());
        assert!(in_pieces.order_factor() == 1.0 && in_pieces.pieces_factor() > 1.2, "{in_pieces:?}");
        let scattered: Vec<u32> = (0..20).map(|file| file * 7 % 20).collect();
        let out_of_order = times(&files, &scattered);
        assert!(out_of_order.order_factor() > 1.2, "{out_of_order:?}");
        assert_eq!(out_of_order.pieces_factor(), in_pieces.pieces_factor());
    }
}
