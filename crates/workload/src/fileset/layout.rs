//! Directory tree, names and sizes of a file set, drawn exactly as Filebench does: same recursion, same gamma sampler, same
//! generators in their unseeded states.

use crate::error::WorkloadError;
use crate::model::random::{NumberSource, RandomVariable, knuth_gamma};
use crate::model::{Drand48, FilesetSpec, GlibcRand, Value, Workload};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use senesce_core::machine::memory_available;
use senesce_core::{Bytes, Seed};
use std::collections::BTreeMap;

/// Maximum directory depth; deeper paths would exceed `PATH_MAX`.
const MAX_DEPTH: u32 = 400;

/// Parent's index (itself for the root), and number in the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directory {
    pub parent: u32,
    /// Number in the parent; the name is this with eight digits.
    pub serial: u32,
}

/// Directory's index, number there, and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    pub directory: u32,
    pub serial: u32,
    pub size: u64,
}

#[derive(Debug, Clone)]
pub struct Layout {
    pub spec: FilesetSpec,
    /// The first is the root of the file set.
    pub directories: Vec<Directory>,
    pub files: Vec<File>,
    pub leaf_directories: Vec<Directory>,
    /// Total size of all files, including those that do not exist at the start.
    pub bytes: u64,
    /// Files that exist at the start, in the order in which they are written.
    pub existing: Vec<u32>,
    pub existing_leaf_directories: Vec<u32>,
}

/// Generators shared by all file sets of a workload during drawing.
pub struct Population<'a> {
    randoms: &'a [RandomVariable],
    drand48: Drand48,
    rand: GlibcRand,
    order: Pcg64,
    own: BTreeMap<usize, Drand48>,
    seeded: BTreeMap<usize, Pcg64>,
    seed: Seed,
}

impl<'a> Population<'a> {
    /// Creates the generators. Without `population_seed` they start in Filebench's states; with it they give another
    /// population. `seed` replaces values that Filebench takes from the clock.
    pub fn new(workload: &'a Workload, seed: Seed, population_seed: Option<u64>) -> Self {
        let state = population_seed.map_or(0, |seed| (seed << 16) | 0x330E);
        Self {
            randoms: &workload.randoms,
            drand48: Drand48::with_state(state),
            rand: GlibcRand::with_seed(population_seed.map_or(1, |seed| seed as u32)),
            order: seed.stream("workload/population order"),
            own: BTreeMap::new(),
            seeded: BTreeMap::new(),
            seed,
        }
    }

    /// Draws every file set, the last defined first, as Filebench does. The result is in order of definition.
    pub fn draw(mut self, filesets: &[FilesetSpec]) -> Result<Vec<Layout>, WorkloadError> {
        let mut layouts = Vec::new();
        for spec in filesets.iter().rev() {
            layouts.push(self.fileset(spec)?);
        }
        layouts.reverse();
        Ok(layouts)
    }

    fn value(&mut self, value: Value) -> f64 {
        match value {
            Value::Constant(number) => number as f64,
            Value::Random(index) => self.sample(index, None),
        }
    }

    fn sample(&mut self, index: usize, mean: Option<f64>) -> f64 {
        let mut variable = self.randoms[index].clone();
        variable.mean = mean.unwrap_or(variable.mean);
        match variable.source {
            NumberSource::SharedDrand48 => variable.sample(&mut || self.drand48.next_f64()),
            NumberSource::OwnErand48(seed) => {
                let own = self.own.entry(index).or_insert_with(|| Drand48::with_state(seed));
                variable.sample(&mut || own.next_f64())
            }
            NumberSource::Seeded => {
                let name = format!("workload/population/{}", variable.name);
                let generator = self.seeded.entry(index).or_insert_with(|| self.seed.stream(&name));
                variable.sample(&mut || (generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
            }
        }
    }

    fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        mean / shape * knuth_gamma(shape, &mut || self.drand48.next_f64())
    }

    fn fileset(&mut self, spec: &FilesetSpec) -> Result<Layout, WorkloadError> {
        let entries = self.value(spec.entries) as u64;
        let leafdirs = self.value(spec.leafdirs) as u64;
        check_memory(spec, entries.saturating_add(leafdirs))?;
        let mean_width = match spec.dirwidth {
            Value::Constant(width) => width as f64,
            Value::Random(index) => self.randoms[index].mean.trunc(),
        };
        let mean_depth = ((entries + leafdirs) as f64).ln() / mean_width.ln();
        let mut tree = Tree {
            population: self,
            mean_width,
            mean_depth,
            entries,
            leafdirs,
            layout: Layout {
                spec: spec.clone(),
                directories: Vec::new(),
                files: Vec::new(),
                leaf_directories: Vec::new(),
                bytes: 0,
                existing: Vec::new(),
                existing_leaf_directories: Vec::new(),
            },
        };
        tree.directory(None, 1, 0)?;
        let mut layout = tree.layout;
        layout.existing = self.preallocate(layout.files.len(), spec.prealloc_percent);
        layout.existing_leaf_directories = self.preallocate(layout.leaf_directories.len(), spec.prealloc_percent);
        Ok(layout)
    }

    /// Selects the entries that exist at the start: visits all in random order, and `rand()` keeps the given share.
    fn preallocate(&mut self, count: usize, percent: u64) -> Vec<u32> {
        let refused = crate::model::random::RAND_MAX * (100 - percent.min(100)) / 100;
        let mut order: Vec<u32> = (0..count as u32).collect();
        for last in (1..order.len()).rev() {
            let other = (u128::from(self.order.next_u64()) * (last as u128 + 1)) >> 64;
            order.swap(last, other as usize);
        }
        order.retain(|_| u64::from(self.rand.next()) >= refused);
        order
    }
}

/// Maximum memory of an entry: its position and size, its number among those of the start, its path, and the engine's lists of
/// existing and free entries.
const ENTRY_BYTES: u64 = 160;

/// Refuses a file set that does not fit in memory, before drawing it.
fn check_memory(spec: &FilesetSpec, entries: u64) -> Result<(), WorkloadError> {
    if entries > u64::from(u32::MAX) {
        return Err(WorkloadError::Usage(format!("file set '{}' has more than 2^32 entries", spec.name)));
    }
    let needed = Bytes(entries * ENTRY_BYTES);
    match memory_available() {
        Some(available) if needed > available => Err(WorkloadError::Missing {
            what: format!(
                "memory for file set '{}': its {entries} entries take {needed}, but {available} are available; it",
                spec.name
            ),
            remedy: "lower entries or leafdirs, or use --scale".into(),
        }),
        _ => Ok(()),
    }
}

struct Tree<'a, 'b> {
    population: &'a mut Population<'b>,
    mean_width: f64,
    mean_depth: f64,
    entries: u64,
    leafdirs: u64,
    layout: Layout,
}

impl Tree<'_, '_> {
    fn files_missing(&self) -> bool {
        (self.layout.files.len() as u64) < self.entries
    }

    fn leafdirs_missing(&self) -> bool {
        (self.layout.leaf_directories.len() as u64) < self.leafdirs
    }

    fn directory(&mut self, parent: Option<u32>, serial: u32, depth: u32) -> Result<(), WorkloadError> {
        let depth = depth + 1;
        if depth > MAX_DEPTH {
            return Err(WorkloadError::Usage(format!(
                "file set '{}': its directories nest more than {MAX_DEPTH} deep; raise dirwidth",
                self.layout.spec.name
            )));
        }
        let index = self.layout.directories.len() as u32;
        self.layout.directories.push(Directory { parent: parent.unwrap_or(index), serial });
        let (drawn_depth, width) = self.depth_and_width();
        let leaf = parent.is_some() && f64::from(depth) >= drawn_depth;
        let fits = |number: u32| parent.is_none() || f64::from(number) < width + 1.0;
        let mut number = 1;
        while fits(number) && self.files_missing() {
            if leaf {
                self.file(index, number);
            } else {
                self.directory(Some(index), number, depth)?;
            }
            number += 1;
        }
        // Filebench starts again at 1 and makes files and leaf directories of the same name.
        let used = number - 1;
        let mut number = 1;
        while fits(number) && self.leafdirs_missing() {
            if leaf {
                self.layout.leaf_directories.push(Directory { parent: index, serial: used + number });
            } else {
                self.directory(Some(index), used + number, depth)?;
            }
            number += 1;
        }
        Ok(())
    }

    /// Returns the depth at which this directory holds files, and its width; the depth is drawn first.
    fn depth_and_width(&mut self) -> (f64, f64) {
        let shape = self.layout.spec.dirgamma as f64 / 1000.0;
        let depth = match self.layout.spec.dirdepth {
            Some(index) => self.population.sample(index, Some(self.mean_depth)).trunc(),
            None if shape > 0.0 => self.population.gamma(shape, self.mean_depth).trunc(),
            None => self.mean_depth.trunc(),
        };
        let width = match self.layout.spec.dirwidth {
            Value::Random(index) => self.population.sample(index, None),
            Value::Constant(_) if shape > 0.0 => self.population.gamma(shape, self.mean_width),
            Value::Constant(_) => self.mean_width,
        };
        (if depth == 0.0 { 1.0 } else { depth }, if width == 0.0 { 1.0 } else { width })
    }

    fn file(&mut self, directory: u32, serial: u32) {
        let size = self.population.value(self.layout.spec.size) as u64;
        self.layout.bytes += size;
        self.layout.files.push(File { directory, serial, size });
    }
}

impl Layout {
    /// Returns the path of a directory below the root of the file set; empty for the root.
    #[cfg(test)]
    pub(crate) fn directory_path(&self, index: u32) -> String {
        let mut parts = Vec::new();
        let mut index = index as usize;
        while index != 0 {
            let directory = self.directories[index];
            parts.push(format!("{:08}", directory.serial));
            index = directory.parent as usize;
        }
        parts.reverse();
        parts.join("/")
    }

    /// Returns the paths of all directories in index order.
    pub(crate) fn directory_paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = Vec::with_capacity(self.directories.len());
        for (index, directory) in self.directories.iter().enumerate() {
            let path =
                if index == 0 { String::new() } else { below(&paths[directory.parent as usize], directory.serial) };
            paths.push(path);
        }
        paths
    }

    pub fn file_paths(&self) -> Vec<String> {
        let directories = self.directory_paths();
        self.files.iter().map(|file| below(&directories[file.directory as usize], file.serial)).collect()
    }

    /// Returns the paths of all leaf directories in index order.
    pub(crate) fn leaf_directory_paths(&self) -> Vec<String> {
        let directories = self.directory_paths();
        self.leaf_directories.iter().map(|leaf| below(&directories[leaf.parent as usize], leaf.serial)).collect()
    }

    pub(crate) fn existing_bytes(&self) -> u64 {
        self.existing.iter().map(|index| self.files[*index as usize].size).sum()
    }
}

fn below(directory: &str, serial: u32) -> String {
    if directory.is_empty() { format!("{serial:08}") } else { format!("{directory}/{serial:08}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;
    use proptest::prelude::*;

    fn draw(name: &str) -> Vec<Layout> {
        let workload = builtin(name, 1.0, &BTreeMap::new()).unwrap();
        Population::new(&workload, Seed(42), None).draw(&workload.filesets).unwrap()
    }

    fn megabytes(layout: &Layout) -> String {
        format!("{:.3}", layout.bytes as f64 / 1024.0 / 1024.0)
    }

    /// Totals printed in public Filebench logs; `data/filebench/populate_check.csv`.
    #[test]
    fn populations_agree_with_filebench_to_the_digit() {
        let table = include_str!("../../data/filebench/populate_check.csv");
        let mut checked = 0;
        for line in table.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let (name, fileset) = cells[0].split_once(' ').unwrap_or((cells[0], "bigfileset"));
            let fileset = fileset.split(' ').next().unwrap_or("bigfileset");
            let layouts = draw(name);
            let layout = layouts.iter().find(|layout| layout.spec.name == fileset).unwrap();
            assert_eq!(layout.files.len().to_string(), cells[1], "{line}");
            assert_eq!(layout.directories.len().to_string(), cells[2], "{line}");
            assert_eq!(megabytes(layout), cells[3], "{line}");
            checked += 1;
        }
        assert_eq!(checked, 3);
        assert_eq!(megabytes(&draw("webserver")[1]), "0.002");
    }

    #[test]
    fn paths_are_eight_digits_per_level() {
        let layouts = draw("varmail");
        assert_eq!(layouts[0].file_paths()[0], "00000001/00000001");
        assert_eq!(layouts[0].directory_path(1), "00000001");
    }

    #[test]
    fn different_population_seed_gives_different_population() {
        let workload = builtin("varmail", 1.0, &BTreeMap::new()).unwrap();
        let total = |seed| Population::new(&workload, Seed(1), seed).draw(&workload.filesets).unwrap()[0].bytes;
        assert_ne!(total(None), total(Some(1)));
        assert_ne!(total(Some(2)), total(Some(1)));
        assert_eq!(total(Some(2)), total(Some(2)));
    }

    #[test]
    fn eighty_percent_exist_at_the_start() {
        let layout = &draw("fileserver")[0];
        let share = layout.existing.len() as f64 / layout.files.len() as f64;
        assert!((0.78..0.82).contains(&share), "{share}");
    }

    #[test]
    fn file_set_larger_than_memory_is_refused_before_drawing() {
        for entries in ["4000000000", "9223372036854775807"] {
            let text = format!("define fileset name=a, path=$dir, entries={entries}, size=4k, dirwidth=20, leafdirs=7");
            let workload = Workload::parse("w.f", &text, &BTreeMap::new()).unwrap();
            let error = Population::new(&workload, Seed(1), None).draw(&workload.filesets).unwrap_err().to_string();
            assert!(error.contains("file set 'a'"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn filesets_have_the_requested_files(entries in 0u64..3000, width in 2u64..200, leafdirs in 0u64..50, gamma in 0u64..4000) {
            let text = format!(
                "define fileset name=a, path=$dir, entries={entries}, size=4k, dirwidth={width}, leafdirs={leafdirs}, dirgamma={gamma}, prealloc=50"
            );
            let workload = Workload::parse("p.f", &text, &BTreeMap::new()).unwrap();
            let layout = Population::new(&workload, Seed(1), None).draw(&workload.filesets).unwrap().remove(0);
            prop_assert_eq!(layout.files.len() as u64, entries);
            prop_assert_eq!(layout.leaf_directories.len() as u64, leafdirs);
            let mut paths = layout.file_paths();
            paths.extend(layout.leaf_directory_paths());
            paths.extend(layout.directory_paths());
            let total = paths.len();
            paths.sort();
            paths.dedup();
            prop_assert_eq!(paths.len(), total);
        }
    }
}
