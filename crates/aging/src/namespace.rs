//! The live files as paths, and their digest.

use crate::planner::{File, Planner};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::ops::Range;

/// A live file with its path relative to the aged directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveFile {
    pub path: String,
    pub file: File,
}

/// The live files sorted by path: 4 bytes per file in addition to the planner.
pub struct Namespace<'a> {
    planner: &'a Planner,
    order: Vec<u32>,
}

impl Planner {
    pub fn namespace(&self) -> Namespace<'_> {
        let ranks = self.plan().directories().ranks();
        let every = 0..ranks.len() as u32;
        self.sorted(&ranks, &every, self.files_live() as usize)
    }

    /// Computes SHA-256 over one line "path size birth" per live file, sorted by path. Needs memory for 1/`PIECES` of
    /// the namespace, or for its largest directory.
    pub fn namespace_sha256(&self) -> String {
        let ranks = self.plan().directories().ranks();
        let mut files = vec![0; ranks.len()];
        self.live().iter().for_each(|record| files[ranks[record.directory as usize] as usize] += 1);
        let piece = (self.files_live() as usize).div_ceil(PIECES);
        let (mut digest, mut from) = (Sha256::new(), 0);
        while from < files.len() {
            let (mut to, mut held) = (from + 1, files[from]);
            while to < files.len() && held + files[to] <= piece {
                held += files[to];
                to += 1;
            }
            self.sorted(&ranks, &(from as u32..to as u32), held).digest(&mut digest);
            from = to;
        }
        in_hex(digest)
    }

    fn sorted(&self, ranks: &[u32], which: &Range<u32>, files: usize) -> Namespace<'_> {
        let live = self.live();
        let rank = |index: &u32| ranks[live.record(*index).directory as usize];
        let mut order: Vec<u32> = Vec::with_capacity(files);
        order.extend(live.indices().filter(|index| which.contains(&rank(index))));
        order.sort_unstable_by_key(|index| (rank(index), live.record(*index).birth()));
        Namespace { planner: self, order }
    }
}

const PIECES: usize = 8;

fn in_hex(digest: Sha256) -> String {
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Namespace<'_> {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn file(&self, place: usize) -> File {
        self.planner.file(self.planner.live().record(self.order[place]))
    }

    pub fn files(&self) -> impl Iterator<Item = LiveFile> + '_ {
        let tree = self.planner.plan().directories();
        let mut prefix = (u32::MAX, String::new());
        (0..self.len()).map(move |place| {
            let file = self.file(place);
            if file.directory != prefix.0 {
                prefix = (file.directory, tree.path(file.directory));
            }
            LiveFile { path: prefix.1.clone() + &file.name(), file }
        })
    }

    pub(crate) fn places(&self, directories: u32) -> Vec<Range<usize>> {
        let mut places = vec![0..0; directories as usize];
        for place in 0..self.len() {
            let of = &mut places[self.file(place).directory as usize];
            *of = if of.start == of.end { place..place + 1 } else { of.start..place + 1 };
        }
        places
    }

    fn digest(&self, digest: &mut Sha256) {
        let mut line = String::new();
        for LiveFile { path, file } in self.files() {
            line.clear();
            // Writing to a String cannot fail.
            let _ = writeln!(line, "{path} {} {}", file.size, file.birth);
            digest.update(line.as_bytes());
        }
    }
}
