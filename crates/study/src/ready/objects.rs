//! `objects`: puts small objects into a store of files, durably with their names, reads them whole, and deletes some.

use super::{ReadySetup, failed, wrong};
use rand::Rng;
use senesce_core::analysis::Better;
use senesce_core::seed::DEFAULT_SEED;
use senesce_core::{Failure, Measurement};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Operations at scale 1: of ten, five put, four read and one deletes.
const OPERATIONS: f64 = 4000.0;

/// Minimum size of an object (bytes), and how often it may double: all magnitudes are equally likely.
const LEAST: u64 = 512;
const DOUBLINGS: u64 = 7;

const DIRECTORIES: u64 = 256;

pub(super) fn run(place: &ReadySetup<'_>) -> Result<Vec<Measurement>, Failure> {
    let operations = place.count(OPERATIONS, 20);
    let mut rng = DEFAULT_SEED.stream("study/ready/objects");
    let mut store = Store::make(place.folder, &mut rng)?;
    place.progress.phase("objects", u64::from(operations), "operations");
    let begun = Instant::now();
    for operation in 0..operations {
        match operation % 10 {
            0..5 => store.put(&mut rng)?,
            9 => store.delete(&mut rng)?,
            _ => store.read(&mut rng)?,
        }
        if operation % 64 == 0 {
            place.check_interrupt()?;
            place.progress.position(u64::from(operation), "");
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    store.check()?;
    Ok(vec![
        Measurement::new("object operations", "operations/s", Better::Higher, f64::from(operations) / seconds)?,
        Measurement::new("object time", "s", Better::Lower, seconds)?,
    ])
}

struct Store<'a> {
    folder: &'a Path,
    content: Vec<u8>,
    objects: BTreeMap<u64, usize>,
    made: u64,
}

impl<'a> Store<'a> {
    fn make(folder: &'a Path, rng: &mut impl Rng) -> Result<Self, Failure> {
        for directory in 0..DIRECTORIES {
            let path = folder.join(format!("{directory:02x}"));
            fs::create_dir(&path).map_err(failed("make directory", &path))?;
        }
        let mut content = vec![0; (LEAST << DOUBLINGS) as usize];
        rng.fill_bytes(&mut content);
        Ok(Self { folder, content, objects: BTreeMap::new(), made: 0 })
    }

    fn path(&self, number: u64) -> PathBuf {
        // Consecutive objects get distant names.
        let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.folder.join(format!("{:02x}/{hash:016x}", (hash >> 32) % DIRECTORIES))
    }

    fn any(&self, rng: &mut impl Rng) -> Option<(u64, usize)> {
        let wanted = rng.next_u64() % self.made.max(1);
        let next = self.objects.range(wanted..).next().or_else(|| self.objects.iter().next());
        next.map(|(number, size)| (*number, *size))
    }

    fn put(&mut self, rng: &mut impl Rng) -> Result<(), Failure> {
        let magnitude = LEAST << (rng.next_u64() % DOUBLINGS);
        let size = (magnitude + rng.next_u64() % magnitude) as usize;
        let (number, path, new) = (self.made, self.path(self.made), self.folder.join("incoming"));
        let written = File::create_new(&new).and_then(|mut file| {
            file.write_all(&number.to_le_bytes())?;
            file.write_all(&self.content[8..size])?;
            file.sync_data()
        });
        written.map_err(failed("write", &new))?;
        fs::rename(&new, &path).map_err(failed("rename", &new))?;
        let directory = path.parent().unwrap_or(self.folder);
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed("sync", directory))?;
        self.objects.insert(number, size);
        self.made += 1;
        Ok(())
    }

    fn read(&self, rng: &mut impl Rng) -> Result<(), Failure> {
        let Some((number, size)) = self.any(rng) else { return Ok(()) };
        let path = self.path(number);
        let found = fs::read(&path).map_err(failed("read", &path))?;
        match found.strip_prefix(&number.to_le_bytes()) == Some(&self.content[8..size]) {
            true => Ok(()),
            false => Err(wrong(format!("{} does not contain the stored object", path.display()))),
        }
    }

    fn delete(&mut self, rng: &mut impl Rng) -> Result<(), Failure> {
        let Some((number, _)) = self.any(rng) else { return Ok(()) };
        let path = self.path(number);
        fs::remove_file(&path).map_err(failed("remove", &path))?;
        self.objects.remove(&number);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        let (mut count, mut bytes) = (0, 0);
        for directory in 0..DIRECTORIES {
            let path = self.folder.join(format!("{directory:02x}"));
            for entry in fs::read_dir(&path).map_err(failed("list", &path))? {
                let found = entry.and_then(|entry| entry.metadata()).map_err(failed("look into", &path))?;
                (count, bytes) = (count + 1, bytes + found.len() as usize);
            }
        }
        let expected = (self.objects.len(), self.objects.values().sum::<usize>());
        match (count, bytes) == expected {
            true => Ok(()),
            false => Err(wrong(format!("the store has {count} objects of {bytes} bytes instead of {expected:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::Silent;
    use senesce_core::interrupt::Interrupt;

    #[test]
    fn store_has_exactly_the_remaining_objects() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new();
        let place = ReadySetup { folder: directory.path(), scale: 0.05, progress: &Silent, interrupt: &interrupt };
        let found = run(&place).unwrap();
        assert!((found[0].value.get() * found[1].value.get() - 200.0).abs() < 1e-6);
        let objects =
            || fs::read_dir(directory.path()).unwrap().flat_map(|one| fs::read_dir(one.unwrap().path()).unwrap());
        assert_eq!(objects().count(), 100 - 20);
    }

    #[test]
    fn lost_or_altered_object_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = DEFAULT_SEED.stream("test");
        let mut store = Store::make(directory.path(), &mut rng).unwrap();
        store.put(&mut rng).unwrap();
        store.read(&mut rng).unwrap();
        store.check().unwrap();
        fs::write(store.path(0), "other").unwrap();
        assert!(store.read(&mut rng).is_err() && store.check().is_err());
        fs::remove_file(store.path(0)).unwrap();
        assert!(store.read(&mut rng).is_err() && store.check().is_err());
    }
}
