//! Version histories for deduplication: a generated one that resembles a project's, or directories of the user.

use crate::error::{StoreError, io};
use rand::{Rng, RngExt};
use senesce_core::Seed;
use std::path::{Path, PathBuf};

/// Files of one version: path and content, in order.
pub(crate) type Version = Vec<(String, Vec<u8>)>;

/// An edited project.
///
/// Text files have approximately log-normal sizes around 6 KiB. From version to version a tenth of them is edited by inserting,
/// deleting and replacing lines; a few files are added or removed. In addition there are three large files that change in typical
/// ways: a growing log, a database with pages overwritten in place, and an archive whose members are replaced by ones of another
/// size.
#[derive(Debug)]
pub struct Project {
    random: rand_pcg::Pcg64,
    words: Vec<String>,
    text: Vec<(String, Vec<String>)>,
    log: Vec<u8>,
    database: Vec<u8>,
    archive: Vec<Vec<u8>>,
    made: usize,
}

impl Project {
    /// Creates `files` text files and three large files of about `large_bytes` each.
    pub fn new(seed: Seed, files: usize, large_bytes: usize) -> Self {
        let mut random = seed.stream("objstore/versions");
        let words = (0..2000).map(|_| word(&mut random)).collect();
        let database = bytes(&mut random, large_bytes);
        let archive = (0..64).map(|_| bytes(&mut random, large_bytes / 64)).collect();
        let mut project = Self { random, words, text: Vec::new(), log: Vec::new(), database, archive, made: 0 };
        for _ in 0..files {
            project.add_file();
        }
        project.grow_log(large_bytes);
        project
    }

    pub fn version(&self) -> Version {
        let mut version: Version =
            self.text.iter().map(|(path, lines)| (path.clone(), lines.concat().into_bytes())).collect();
        version.push(("large/log".into(), self.log.clone()));
        version.push(("large/database".into(), self.database.clone()));
        version.push(("large/archive".into(), self.archive.concat()));
        version
    }

    pub fn edit(&mut self) {
        let count = self.text.len();
        for _ in 0..count.div_ceil(10) {
            let file = self.random.random_range(0..self.text.len());
            self.edit_text(file);
        }
        for _ in 0..count.div_ceil(100) {
            self.add_file();
            let gone = self.random.random_range(0..self.text.len());
            self.text.remove(gone);
        }
        self.grow_log(self.log.len() / 20);
        const PAGE: usize = 8192;
        for _ in 0..(self.database.len() / PAGE).div_ceil(50) {
            let start = self.random.random_range(0..=self.database.len().saturating_sub(PAGE));
            let end = (start + PAGE).min(self.database.len());
            self.random.fill(&mut self.database[start..end]);
        }
        for _ in 0..2 {
            let member = self.random.random_range(0..self.archive.len());
            let size = self.archive[member].len();
            let size = self.random.random_range(size / 2..=size * 3 / 2);
            self.archive[member] = bytes(&mut self.random, size);
        }
    }

    fn add_file(&mut self) {
        // exp(N(mu, sigma)) with sigma near 1.2 by the sum of twelve uniforms.
        let normal: f64 = (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0;
        let lines = ((150.0 * (1.2 * normal).exp()) as usize).clamp(1, 20_000);
        let content = (0..lines).map(|_| self.line()).collect();
        let path = format!("d{}/f{}", self.made % 31, self.made);
        self.made += 1;
        self.text.push((path, content));
    }

    fn edit_text(&mut self, file: usize) {
        for _ in 0..self.random.random_range(1..5) {
            let length = self.text[file].1.len();
            let at = self.random.random_range(0..=length);
            let removed = self.random.random_range(0..8).min(length - at);
            let added: Vec<String> = (0..self.random.random_range(0..8)).map(|_| self.line()).collect();
            self.text[file].1.splice(at..at + removed, added);
        }
    }

    fn line(&mut self) -> String {
        let count = self.random.random_range(0..12);
        let mut line = "    ".repeat(self.random.random_range(0..4));
        for _ in 0..count {
            // Squaring favours the first words, as in natural languages.
            let pick = self.random.random::<f64>().powi(2);
            line.push_str(&self.words[(pick * self.words.len() as f64) as usize]);
            line.push(' ');
        }
        line.push('\n');
        line
    }

    fn grow_log(&mut self, by: usize) {
        let until = self.log.len() + by;
        while self.log.len() < until {
            let line = format!("{:012} {}", self.log.len(), self.line());
            self.log.extend_from_slice(line.as_bytes());
        }
    }
}

fn word(random: &mut impl Rng) -> String {
    (0..random.random_range(2..10)).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
}

fn bytes(random: &mut impl Rng, count: usize) -> Vec<u8> {
    let mut data = vec![0; count];
    random.fill_bytes(&mut data);
    data
}

/// Returns the sorted paths of the regular files below a directory.
pub fn files_below(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(io("list", &folder))? {
            let entry = entry.map_err(io("list", &folder))?;
            let kind = entry.file_type().map_err(io("read the type of", &entry.path()))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_share_content_and_are_reproducible() {
        let mut project = Project::new(Seed(1), 100, 100_000);
        let first = project.version();
        project.edit();
        let second = project.version();
        assert_eq!(first, Project::new(Seed(1), 100, 100_000).version());
        let same = second.iter().filter(|file| first.contains(file)).count();
        assert!((80..101).contains(&same), "{same} of {} files are the same", second.len());
    }
}
