//! Generates a repository with realistic commits. Most commits change one or two files, some many. A few files change often.
//! Files are added more often than deleted, and text changes by lines.

use super::program::Git;
use rand::RngExt;
use rand_pcg::Pcg64;
use senesce_core::failure::failed;
use senesce_core::interrupt::Interrupt;
use senesce_core::{Failure, Seed};
use senesce_runs::tree::check;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

const FOLDERS: u64 = 24;
/// 2020-01-01 UTC; commits are an hour apart.
const EPOCH: u64 = 1_577_836_800;

struct History {
    random: Pcg64,
    files: Vec<(String, Vec<String>)>,
    made: u64,
}

impl History {
    fn new(seed: Seed, files: u64) -> Self {
        let mut history = Self { random: seed.stream("history"), files: Vec::new(), made: 0 };
        for _ in 0..files {
            history.add();
        }
        history
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        for _ in 0..self.random.random_range(1..=9u32) {
            let _ = write!(line, "{:x} ", self.random.random_range(0..1u64 << 36));
        }
        line
    }

    /// Adds a file and returns its index. Line counts spread over three powers of ten: many short files, few long ones.
    fn add(&mut self) -> usize {
        let lines = 10f64.powf(self.random.random_range(0.7..3.3)) as usize;
        let folder = self.random.random_range(0..FOLDERS);
        let path = format!("part{:02}/section{}/file{:05}.txt", folder / 4, folder % 4, self.made);
        self.made += 1;
        let lines = (0..lines).map(|_| self.line()).collect();
        self.files.push((path, lines));
        self.files.len() - 1
    }

    fn edit(&mut self, index: usize) {
        let count = self.random.random_range(1..=12);
        let fresh: Vec<String> = (0..count).map(|_| self.line()).collect();
        let lines = &mut self.files[index].1;
        let at = self.random.random_range(0..=lines.len());
        let end = (at + self.random.random_range(0..=count)).min(lines.len());
        drop(lines.splice(at..end, fresh));
    }

    fn change(&mut self) -> (Vec<usize>, Option<String>) {
        let many = self.random.random_bool(0.05);
        let count = match many {
            true => self.files.len() / 20 + 1,
            false => 1 + (-2.0 * self.random.random_range(f64::EPSILON..1.0).ln()) as usize,
        };
        let deleted = (self.files.len() > 8 && self.random.random_bool(0.08)).then(|| {
            let index = self.random.random_range(0..self.files.len());
            self.files.swap_remove(index).0
        });
        let mut changed: Vec<usize> = (0..count)
            .map(|_| {
                // The cube puts half of the edits on an eighth of the files.
                let place = self.random.random_range(0.0..1.0f64).powi(3) * self.files.len() as f64;
                (place as usize).min(self.files.len() - 1)
            })
            .collect();
        changed.sort_unstable();
        changed.dedup();
        for index in changed.clone() {
            self.edit(index);
        }
        if self.random.random_bool(0.3) {
            changed.push(self.add());
        }
        (changed, deleted)
    }

    fn commit(
        &self,
        out: &mut impl Write,
        number: u64,
        changed: &[usize],
        deleted: Option<&str>,
    ) -> std::io::Result<()> {
        let time = EPOCH + number * 3600;
        writeln!(out, "commit refs/heads/main\ncommitter Senesce <senesce@localhost> {time} +0000")?;
        let message = format!("Change {number}");
        writeln!(out, "data {}\n{message}", message.len())?;
        if let Some(path) = deleted {
            writeln!(out, "D {path}")?;
        }
        for index in changed {
            let (path, lines) = &self.files[*index];
            let content = lines.join("\n");
            writeln!(out, "M 100644 inline {path}\ndata {}\n{content}", content.len())?;
        }
        writeln!(out)
    }
}

pub(crate) fn generate(
    git: &Git,
    folder: &Path,
    seed: Seed,
    files: u64,
    commits: u64,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed("empty", folder))?;
    }
    fs::create_dir_all(folder).map_err(failed("make directory", folder))?;
    let stream = folder.join("history");
    let mut out = BufWriter::new(File::create(&stream).map_err(failed("create", &stream))?);
    let mut history = History::new(seed, files);
    let all: Vec<usize> = (0..history.files.len()).collect();
    history.commit(&mut out, 0, &all, None).map_err(failed("write", &stream))?;
    for number in 1..commits {
        check(interrupt)?;
        let (changed, deleted) = history.change();
        history.commit(&mut out, number, &changed, deleted.as_deref()).map_err(failed("write", &stream))?;
    }
    out.flush().map_err(failed("write", &stream))?;
    drop(out);
    git.run(folder, &["init", "-q", "--initial-branch=main"], interrupt)?;
    git.import(folder, &stream)?;
    fs::remove_file(&stream).map_err(failed("remove", &stream))
}
