//! How much of a bare program's speed the workload engine reaches: fileserver, webserver and varmail at their default
//! thread counts, against threads that issue the same system calls in the same order and do nothing else. The two are
//! run alternately; a ratio is the median over the rounds of that round's ratio, so that a machine whose speed drifts
//! does not decide it. Processor time per operation, user and system together, is less
//! disturbed by other programs than the rate. Usage: `workload_ratio DIRECTORY [SECONDS [ROUNDS]]`.

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_volume::ClaimedDirectory;
use senesce_workload::engine::conduct::process_cpu_seconds;
use senesce_workload::fileset::{Layout, Population};
use senesce_workload::{Bench, Length, Options, builtin};
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: workload_ratio DIRECTORY [SECONDS [ROUNDS]]")?;
    let seconds: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let only = arguments.next();
    println!(
        "| personality | ops/s, engine | bare | ratio | CPU us per op, engine | bare | ratio | rounds (ops/s, engine/bare) |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for name in ["fileserver", "webserver", "varmail"]
        .into_iter()
        .filter(|name| only.as_deref().is_none_or(|only| only == *name))
    {
        let (mut engine, mut bare) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let order = if round % 2 == 0 { [true, false] } else { [false, true] };
            for of_engine in order {
                let speed = run(name, Path::new(&directory), Duration::from_secs_f64(seconds), of_engine)?;
                if of_engine { engine.push(speed) } else { bare.push(speed) }
            }
        }
        let pairs = engine
            .iter()
            .zip(&bare)
            .map(|(a, b)| format!("{:.0}/{:.0}", a.operations_per_second, b.operations_per_second));
        let pairs: Vec<String> = pairs.collect();
        let rates = [&engine, &bare].map(|side| median(side, |speed| speed.operations_per_second));
        let costs = [&engine, &bare].map(|side| median(side, |speed| speed.cpu_us_per_operation));
        println!(
            "| {name} | {:.0} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} | {} |",
            rates[0],
            rates[1],
            median_of(pairs_of(&engine, &bare, |engine, bare| {
                engine.operations_per_second / bare.operations_per_second
            })),
            costs[0],
            costs[1],
            median_of(pairs_of(&engine, &bare, |engine, bare| bare.cpu_us_per_operation / engine.cpu_us_per_operation)),
            pairs.join(", ")
        );
    }
    Ok(())
}

struct Speed {
    operations_per_second: f64,
    cpu_us_per_operation: f64,
}

fn median(speeds: &[Speed], of: fn(&Speed) -> f64) -> f64 {
    median_of(speeds.iter().map(of).collect())
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pairs_of(engine: &[Speed], bare: &[Speed], of: fn(&Speed, &Speed) -> f64) -> Vec<f64> {
    engine.iter().zip(bare).map(|(engine, bare)| of(engine, bare)).collect()
}

/// Populates anew and runs one side.
fn run(name: &str, directory: &Path, time: Duration, engine: bool) -> Outcome<Speed> {
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
    let cpu_seconds = result.user_cpu_seconds + result.system_cpu_seconds;
    Ok(Speed {
        operations_per_second: result.ops_per_second,
        cpu_us_per_operation: cpu_seconds * 1e6 / result.ops as f64,
    })
}

/// Which files exist, with the least bookkeeping that still gives the same order of files: two rotors and a flag each.
struct Files {
    paths: Vec<CString>,
    sizes: Vec<u64>,
    states: Vec<AtomicU8>,
    rotor: AtomicUsize,
    missing_rotor: AtomicUsize,
}

const MISSING: u8 = 0;
const EXISTS: u8 = 1;
const TAKEN: u8 = 2;

impl Files {
    /// The next existing file in rotation.
    fn next(&self) -> usize {
        loop {
            let index = self.rotor.fetch_add(1, Ordering::Relaxed) % self.states.len();
            if self.states[index].load(Ordering::Relaxed) == EXISTS {
                return index;
            }
        }
    }

    /// The next file in that state, which only the caller may now change.
    fn take(&self, state: u8) -> usize {
        let rotor = if state == EXISTS { &self.rotor } else { &self.missing_rotor };
        loop {
            let index = rotor.fetch_add(1, Ordering::Relaxed) % self.states.len();
            let taken = self.states[index].compare_exchange(state, TAKEN, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return index;
            }
        }
    }
}

struct Thread {
    root: File,
    log_root: Option<File>,
    log_path: CString,
    files: Arc<Files>,
    memory: Vec<u8>,
    state: u64,
    log: Option<OwnedFd>,
}

const CALL: usize = 1 << 20;

impl Thread {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((u128::from(self.state) * u128::from(below)) >> 64) as u64
    }

    /// Opens the next existing file; one that another thread deletes at this moment is passed over.
    fn open(&self, flags: OFlags) -> Outcome<OwnedFd> {
        loop {
            let path = &*self.files.paths[self.files.next()];
            match rustix::fs::openat(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty()) {
                Err(rustix::io::Errno::NOENT) => {}
                other => return Ok(other?),
            }
        }
    }

    fn create(&mut self) -> Outcome<(OwnedFd, u64)> {
        let index = self.files.take(MISSING);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.root, &*self.files.paths[index], flags, Mode::from_raw_mode(0o666))?;
        self.files.states[index].store(EXISTS, Ordering::Relaxed);
        Ok((file, self.files.sizes[index]))
    }

    fn delete(&mut self) -> Outcome<()> {
        let index = self.files.take(EXISTS);
        rustix::fs::unlinkat(&self.root, &*self.files.paths[index], AtFlags::empty())?;
        self.files.states[index].store(MISSING, Ordering::Relaxed);
        Ok(())
    }

    fn stat(&mut self) -> Outcome<()> {
        match rustix::fs::statat(&self.root, &*self.files.paths[self.files.next()], AtFlags::empty()) {
            Ok(_) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        let offset = self.random((self.memory.len() / bytes) as u64) as usize * bytes;
        &mut self.memory[offset..offset + bytes]
    }

    fn write_whole(&mut self, file: &OwnedFd, size: u64) -> Outcome<()> {
        let length = (size as usize).clamp(1, CALL);
        let mut left = size;
        let buffer = self.buffer(CALL);
        while left > 0 {
            rustix::io::write(file, &buffer[..length])?;
            left = left.saturating_sub(length as u64);
        }
        Ok(())
    }

    fn read_whole(&mut self, file: &OwnedFd) -> Outcome<()> {
        rustix::fs::seek(file, SeekFrom::Start(0))?;
        let buffer = self.buffer(CALL);
        while rustix::io::read(file, &mut *buffer)? > 0 {}
        Ok(())
    }

    fn append(&mut self, file: &OwnedFd) -> Outcome<()> {
        let bytes = self.random(16 << 10) as usize;
        if bytes > 0 {
            rustix::fs::seek(file, SeekFrom::End(0))?;
            let buffer = self.buffer(bytes);
            rustix::io::write(file, &*buffer)?;
        }
        Ok(())
    }

    fn fileserver(&mut self) -> Outcome<u64> {
        let (file, size) = self.create()?;
        self.write_whole(&file, size)?;
        drop(file);
        let file = self.open(OFlags::RDWR)?;
        self.append(&file)?;
        drop(file);
        let file = self.open(OFlags::RDWR)?;
        self.read_whole(&file)?;
        drop(file);
        self.delete()?;
        self.stat()?;
        Ok(11)
    }

    fn webserver(&mut self) -> Outcome<u64> {
        for _ in 0..10 {
            let file = self.open(OFlags::RDONLY)?;
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
        let file = self.open(OFlags::RDWR)?;
        self.read_whole(&file)?;
        self.append(&file)?;
        rustix::fs::fsync(&file)?;
        drop(file);
        let file = self.open(OFlags::RDWR)?;
        self.read_whole(&file)?;
        Ok(13)
    }
}

fn bare(name: &str, directory: &Path, layouts: &[Layout], time: Duration) -> Outcome<Speed> {
    let layout = &layouts[0];
    let strings = |layout: &Layout| -> Vec<CString> {
        layout.file_paths().into_iter().filter_map(|path| CString::new(path).ok()).collect()
    };
    let count = match name {
        "fileserver" => 50,
        "webserver" => 100,
        _ => 16,
    };
    let files = Files {
        paths: strings(layout),
        sizes: layout.files.iter().map(|file| file.size).collect(),
        states: layout.files.iter().map(|_| AtomicU8::new(MISSING)).collect(),
        rotor: AtomicUsize::new(0),
        missing_rotor: AtomicUsize::new(0),
    };
    layout.existing.iter().for_each(|index| files.states[*index as usize].store(EXISTS, Ordering::Relaxed));
    let files = Arc::new(files);
    let (stop, go, total) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut handles = Vec::new();
    for number in 0..count {
        let mut thread = Thread {
            root: File::open(directory.join(&layout.spec.name))?,
            log_root: layouts.get(1).map(|log| File::open(directory.join(&log.spec.name))).transpose()?,
            log_path: layouts.get(1).map(|log| strings(log).remove(0)).unwrap_or_default(),
            files: files.clone(),
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
    let (start, cpu) = (Instant::now(), process_cpu_seconds());
    go.store(true, Ordering::Release);
    std::thread::sleep(time);
    let (operations, elapsed, cpu) =
        (total.load(Ordering::Relaxed) as f64, start.elapsed(), added(process_cpu_seconds()) - added(cpu));
    stop.store(true, Ordering::Relaxed);
    for handle in handles {
        handle.join().map_err(|_| "a thread panicked")??;
    }
    Ok(Speed {
        operations_per_second: operations / elapsed.as_secs_f64(),
        cpu_us_per_operation: cpu * 1e6 / operations,
    })
}

fn added((user, system): (f64, f64)) -> f64 {
    user + system
}
