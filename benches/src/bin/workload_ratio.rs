//! How much of a bare program's speed the workload engine reaches: fileserver, webserver and varmail at their default
//! thread counts, against threads that issue the same system calls in the same order and do nothing else. The two are
//! run alternately; the ratio is that of the medians. Usage: `workload_ratio DIRECTORY [SECONDS [ROUNDS]]`.

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_target::ClaimedDirectory;
use senesce_workload::fileset::{Layout, Population};
use senesce_workload::{Bench, Length, Options, builtin};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::ffi::CString;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: workload_ratio DIRECTORY [SECONDS [ROUNDS]]")?;
    let seconds: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let only = arguments.next();
    println!("| personality | engine ops/s | bare ops/s | ratio | rounds (engine / bare) |\n|---|---|---|---|---|");
    for name in ["fileserver", "webserver", "varmail"]
        .into_iter()
        .filter(|name| only.as_deref().is_none_or(|only| only == *name))
    {
        let (mut engine, mut bare) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let order = if round % 2 == 0 { [true, false] } else { [false, true] };
            for of_engine in order {
                let rate = run(name, Path::new(&directory), Duration::from_secs_f64(seconds), of_engine)?;
                if of_engine { engine.push(rate) } else { bare.push(rate) }
            }
        }
        let pairs: Vec<String> = engine.iter().zip(&bare).map(|(a, b)| format!("{a:.0}/{b:.0}")).collect();
        let (a, b) = (median(&mut engine), median(&mut bare));
        println!("| {name} | {a:.0} | {b:.0} | {:.3} | {} |", a / b, pairs.join(", "));
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Populates anew and runs one side; operations per second.
fn run(name: &str, directory: &Path, time: Duration, engine: bool) -> Outcome<f64> {
    let claimed = ClaimedDirectory::claim(directory, None)?;
    let workload = builtin(name, 1.0, &BTreeMap::new())?;
    let options = Options { length: Some(Length::Time(time)), ..Options::default() };
    let interrupt = Interrupt::new();
    let bench = Bench::prepare(&workload, &claimed, options, &Silent, &interrupt)?;
    if !engine {
        let layouts = Population::new(&workload, options.seed, None).draw(&workload.filesets)?;
        return bare(name, directory, &layouts, time);
    }
    let result = bench.run(&claimed, &Silent, &interrupt)?.repetition;
    if !result.valid {
        return Err(format!("{name}: {}", result.reason.unwrap_or_default()).into());
    }
    Ok(result.ops_per_second)
}

/// What one bare thread needs: its own share of the files, so that nothing is shared but the kernel.
struct Thread {
    root: File,
    log_root: Option<File>,
    log_path: CString,
    paths: Arc<Vec<CString>>,
    sizes: Arc<Vec<u64>>,
    existing: VecDeque<u32>,
    missing: VecDeque<u32>,
    position: usize,
    memory: Vec<u8>,
    state: u64,
    log: Option<std::os::fd::OwnedFd>,
}

const CALL: usize = 1 << 20;

impl Thread {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((u128::from(self.state) * u128::from(below)) >> 64) as u64
    }

    fn next(&mut self) -> u32 {
        self.position = if self.position + 1 >= self.existing.len() { 0 } else { self.position + 1 };
        self.existing[self.position]
    }

    fn open(&self, index: u32, flags: OFlags) -> Outcome<std::os::fd::OwnedFd> {
        Ok(rustix::fs::openat(
            &self.root,
            &*self.paths[index as usize],
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o666),
        )?)
    }

    fn create(&mut self) -> Outcome<(std::os::fd::OwnedFd, u32)> {
        let index = self.missing.pop_front().ok_or("no missing file")?;
        let file = self.open(index, OFlags::RDWR | OFlags::CREATE)?;
        self.existing.push_back(index);
        Ok((file, index))
    }

    fn delete(&mut self) -> Outcome<()> {
        let index = self.existing.pop_front().ok_or("no file")?;
        rustix::fs::unlinkat(&self.root, &*self.paths[index as usize], AtFlags::empty())?;
        self.missing.push_back(index);
        Ok(())
    }

    fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        let offset = self.random((self.memory.len() / bytes) as u64) as usize * bytes;
        &mut self.memory[offset..offset + bytes]
    }

    fn write_whole(&mut self, file: &std::os::fd::OwnedFd, size: u64) -> Outcome<()> {
        let length = (size as usize).clamp(1, CALL);
        let mut left = size;
        let buffer = self.buffer(CALL);
        while left > 0 {
            rustix::io::write(file, &buffer[..length])?;
            left = left.saturating_sub(length as u64);
        }
        Ok(())
    }

    fn read_whole(&mut self, file: &std::os::fd::OwnedFd) -> Outcome<()> {
        rustix::fs::seek(file, SeekFrom::Start(0))?;
        let buffer = self.buffer(CALL);
        while rustix::io::read(file, &mut *buffer)? > 0 {}
        Ok(())
    }

    fn append(&mut self, file: &std::os::fd::OwnedFd) -> Outcome<()> {
        let bytes = self.random(16 << 10) as usize;
        if bytes > 0 {
            rustix::fs::seek(file, SeekFrom::End(0))?;
            let buffer = self.buffer(bytes);
            rustix::io::write(file, &*buffer)?;
        }
        Ok(())
    }

    fn fileserver(&mut self) -> Outcome<u64> {
        let (file, index) = self.create()?;
        let size = self.sizes[index as usize];
        self.write_whole(&file, size)?;
        drop(file);
        let index = self.next();
        let file = self.open(index, OFlags::RDWR)?;
        self.append(&file)?;
        drop(file);
        let index = self.next();
        let file = self.open(index, OFlags::RDWR)?;
        self.read_whole(&file)?;
        drop(file);
        self.delete()?;
        let index = self.next();
        rustix::fs::statat(&self.root, &*self.paths[index as usize], AtFlags::empty())?;
        Ok(11)
    }

    fn webserver(&mut self) -> Outcome<u64> {
        for _ in 0..10 {
            let index = self.next();
            let file = self.open(index, OFlags::RDONLY)?;
            self.read_whole(&file)?;
        }
        if self.log.is_none() {
            let root = self.log_root.as_ref().ok_or("no log")?;
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            self.log = Some(rustix::fs::openat(root, &*self.log_path, flags, Mode::empty())?);
        }
        if let Some(log) = self.log.take() {
            self.append(&log)?;
            self.log = Some(log);
        }
        Ok(31)
    }

    fn varmail(&mut self) -> Outcome<u64> {
        self.delete()?;
        let (file, _) = self.create()?;
        self.append(&file)?;
        rustix::fs::fsync(&file)?;
        drop(file);
        let index = self.next();
        let file = self.open(index, OFlags::RDWR)?;
        self.read_whole(&file)?;
        self.append(&file)?;
        rustix::fs::fsync(&file)?;
        drop(file);
        let index = self.next();
        let file = self.open(index, OFlags::RDWR)?;
        self.read_whole(&file)?;
        Ok(13)
    }
}

fn bare(name: &str, directory: &Path, layouts: &[Layout], time: Duration) -> Outcome<f64> {
    let layout = &layouts[0];
    let strings = |layout: &Layout| -> Vec<CString> {
        layout.file_paths().into_iter().filter_map(|path| CString::new(path).ok()).collect()
    };
    let (paths, sizes) =
        (Arc::new(strings(layout)), Arc::new(layout.files.iter().map(|file| file.size).collect::<Vec<_>>()));
    let count = match name {
        "fileserver" => 50,
        "webserver" => 100,
        _ => 16,
    };
    let mut exists = vec![false; paths.len()];
    layout.existing.iter().for_each(|index| exists[*index as usize] = true);
    let (stop, go, total) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut handles = Vec::new();
    for number in 0..count {
        let own = |state: bool| {
            let exists = &exists;
            (0..exists.len())
                .filter(move |index| index % count == number && exists[*index] == state)
                .map(|index| index as u32)
        };
        let (existing, missing): (VecDeque<u32>, VecDeque<u32>) = (own(true).collect(), own(false).collect());
        let mut thread = Thread {
            root: File::open(directory.join(&layout.spec.name))?,
            log_root: layouts.get(1).map(|log| File::open(directory.join(&log.spec.name))).transpose()?,
            log_path: layouts.get(1).map(|log| strings(log).remove(0)).unwrap_or_default(),
            paths: paths.clone(),
            sizes: sizes.clone(),
            position: existing.len() / 2,
            existing,
            missing,
            memory: vec![0x5a; 10 << 20],
            state: number as u64 + 1,
            log: None,
        };
        let (stop, go, total, name) = (stop.clone(), go.clone(), total.clone(), name.to_string());
        handles.push(std::thread::spawn(move || -> Outcome<()> {
            while !go.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            while !stop.load(Ordering::Relaxed) {
                let done = match name.as_str() {
                    "fileserver" => thread.fileserver()?,
                    "webserver" => thread.webserver()?,
                    _ => thread.varmail()?,
                };
                total.fetch_add(done, Ordering::Relaxed);
            }
            Ok(())
        }));
    }
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    go.store(true, Ordering::Release);
    std::thread::sleep(time);
    let (operations, elapsed) = (total.load(Ordering::Relaxed), start.elapsed());
    stop.store(true, Ordering::Relaxed);
    for handle in handles {
        handle.join().map_err(|_| "a thread panicked")??;
    }
    Ok(operations as f64 / elapsed.as_secs_f64())
}
