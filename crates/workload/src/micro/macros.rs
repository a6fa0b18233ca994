//! Loads of many operations: a mail load similar to PostMark, and unpacking and removing a source tree.

use super::file_ops::OperationResult;
use crate::error::WorkloadError;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use senesce_core::Seed;
use senesce_core::progress::Progress;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A mail load: files of 500 to 9770 bytes; each transaction reads or appends to one and creates or deletes one (Katz, PostMark:
/// A New File System Benchmark, NetApp TR3022, 1997: its default sizes and mix).
struct Mail {
    name: &'static str,
    files: u64,
    transactions: u64,
}

const MAILS: [Mail; 2] = [
    Mail { name: "postmark_small", files: 500, transactions: 2000 },
    Mail { name: "postmark_large", files: 5000, transactions: 10_000 },
];
const LEAST_BYTES: u64 = 500;
const MOST_BYTES: u64 = 9770;

/// Files of the source tree; sizes are log-normal around the 5 KiB median of source files.
const TREE_FILES: u64 = 2000;
const TREE_DIRECTORIES: u64 = 120;

/// Runs all loads below `folder`.
pub(crate) fn all(
    folder: &Path,
    content: &[u8],
    seed: Seed,
    progress: &dyn Progress,
) -> Result<Vec<OperationResult>, WorkloadError> {
    let mut results = Vec::new();
    for mail in &MAILS {
        progress.say(mail.name);
        let begin = Instant::now();
        mail.run(&folder.join(mail.name), content, &mut seed.stream(mail.name))?;
        results.push(result(mail.name, mail.transactions, begin));
    }
    let tree = folder.join("tree");
    let begin = Instant::now();
    unpack(&tree, content, &mut seed.stream("source tree"))?;
    results.push(result("unpack_tree", TREE_FILES, begin));
    let begin = Instant::now();
    fs::remove_dir_all(&tree).map_err(WorkloadError::io("remove", &tree))?;
    results.push(result("remove_tree", TREE_FILES, begin));
    Ok(results)
}

/// Returns the result of a load, which is one timed run; its time is per transaction or file.
fn result(name: &str, count: u64, begin: Instant) -> OperationResult {
    let each = begin.elapsed().as_secs_f64() * 1e6 / count as f64;
    OperationResult {
        name: name.into(),
        fsync: false,
        iterations: count,
        batches: 1,
        mean_us: each,
        min_us: each,
        max_us: each,
        overhead_percent: 0.0,
    }
}

fn between(generator: &mut Pcg64, low: u64, high: u64) -> u64 {
    low + ((u128::from(generator.next_u64()) * u128::from(high - low)) >> 64) as u64
}

impl Mail {
    fn run(&self, folder: &Path, content: &[u8], generator: &mut Pcg64) -> Result<(), WorkloadError> {
        fs::create_dir_all(folder).map_err(WorkloadError::io("make directory", folder))?;
        let mut next = 0;
        let mut live: Vec<u64> = Vec::new();
        let path = |number: u64| folder.join(number.to_string());
        for _ in 0..self.files {
            live.push(create(&path(next), content, generator).map(|()| next)?);
            next += 1;
        }
        let mut buffer = Vec::new();
        for _ in 0..self.transactions {
            let chosen = live[between(generator, 0, live.len() as u64) as usize];
            if generator.next_u64().is_multiple_of(2) {
                read(&path(chosen), &mut buffer)?;
            } else {
                append(&path(chosen), content, generator)?;
            }
            if generator.next_u64().is_multiple_of(2) || live.len() < 2 {
                create(&path(next), content, generator)?;
                live.push(next);
                next += 1;
            } else {
                let index = between(generator, 0, live.len() as u64) as usize;
                let gone = path(live.swap_remove(index));
                fs::remove_file(&gone).map_err(WorkloadError::io("delete", &gone))?;
            }
        }
        for number in live {
            let gone = path(number);
            fs::remove_file(&gone).map_err(WorkloadError::io("delete", &gone))?;
        }
        Ok(())
    }
}

fn create(path: &Path, content: &[u8], generator: &mut Pcg64) -> Result<(), WorkloadError> {
    let bytes = between(generator, LEAST_BYTES, MOST_BYTES) as usize;
    fs::write(path, &content[..bytes]).map_err(WorkloadError::io("write", path))
}

fn append(path: &Path, content: &[u8], generator: &mut Pcg64) -> Result<(), WorkloadError> {
    let bytes = between(generator, LEAST_BYTES, MOST_BYTES) as usize;
    let file = OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(&content[..bytes])).map_err(WorkloadError::io("append to", path))
}

fn read(path: &Path, buffer: &mut Vec<u8>) -> Result<(), WorkloadError> {
    buffer.clear();
    let file = fs::File::open(path);
    file.and_then(|mut file| file.read_to_end(buffer)).map(drop).map_err(WorkloadError::io("read", path))
}

fn unpack(root: &Path, content: &[u8], generator: &mut Pcg64) -> Result<(), WorkloadError> {
    let mut directories: Vec<PathBuf> = vec![root.into()];
    fs::create_dir_all(root).map_err(WorkloadError::io("make directory", root))?;
    for number in 1..TREE_DIRECTORIES {
        let parent = &directories[between(generator, 0, directories.len().min(20) as u64) as usize];
        let path = parent.join(format!("d{number}"));
        fs::create_dir(&path).map_err(WorkloadError::io("make directory", &path))?;
        directories.push(path);
    }
    for number in 0..TREE_FILES {
        let directory = &directories[(number * TREE_DIRECTORIES / TREE_FILES) as usize];
        let path = directory.join(format!("f{number}.c"));
        // The sum of twelve uniform numbers minus six is approximately standard normal.
        let normal: f64 = (0..12).map(|_| generator.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
        let bytes = ((5.0 * 1024.0) * (1.2 * normal).exp()) as usize;
        fs::write(&path, &content[..bytes.min(content.len())]).map_err(WorkloadError::io("write", &path))?;
    }
    Ok(())
}
