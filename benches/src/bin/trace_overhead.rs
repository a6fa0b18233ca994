//! What a block trace costs: direct random reads of 4 KiB from a loop device in memory, with and without a recording, in
//! alternation. The rates are ninth deciles over the slices: what a busy machine left undisturbed. Usage: `trace_overhead [SECONDS [ROUNDS [THREADS]]]`.

use rand::Rng;
use rustix::fs::OFlags;
use senesce_core::Seed;
use senesce_volume::{BlockDevice, OpenOptions, TraceSession, open};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const BLOCK: usize = 4096;
fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(9), |text| text.parse())?;
    let threads: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let target = open(&"memory:512M".parse()?, &OpenOptions::default())?;
    std::fs::write(target.mount_point().join("data"), vec![7; 400 << 20])?;
    target.sync()?;
    let device = target.block_device_info().ok_or("no block device")?;
    let time = Duration::from_secs_f64(seconds);
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let order = if round % 2 == 0 { [false, true] } else { [true, false] };
        let mut pair = [0.0; 2];
        for traced in order {
            pair[usize::from(traced)] = rate(&device, time, threads, traced)?;
        }
        without.push(pair[0]);
        with.push(pair[1]);
        ratios.push(pair[1] / pair[0]);
    }
    target.close()?;
    let (fast_without, fast_with) = (ninth_decile(&mut without), ninth_decile(&mut with));
    let pairs = (1.0 - median(&mut ratios)) * 100.0;
    println!(
        "| threads | slices | reads/s without | with trace | fewer | fewer, median of pairs |\n|---|---|---|---|---|---|"
    );
    let fewer = (1.0 - fast_with / fast_without) * 100.0;
    println!(
        "| {threads} | {rounds} of {seconds} s | {fast_without:.0} | {fast_with:.0} | {fewer:.1} % | {pairs:.1} % |"
    );
    Ok(())
}

/// Reads per second; the recording is checked to hold every one of them.
fn rate(device: &BlockDevice, time: Duration, threads: u64, traced: bool) -> Outcome<f64> {
    let session = traced.then(|| TraceSession::start(device)).transpose()?;
    let begin = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|number| {
            let (path, size) = (device.path().to_path_buf(), device.size().0);
            std::thread::spawn(move || read_randomly(&path, size, time, number))
        })
        .collect();
    let mut reads = 0;
    for worker in workers {
        reads += worker.join().map_err(|_| "a reader failed")??;
    }
    let rate = reads as f64 / begin.elapsed().as_secs_f64();
    if let Some(trace) = session.map(TraceSession::stop).transpose()?
        && (trace.lost_events() > 0 || (trace.len() as u64) < reads)
    {
        return Err(format!("{} of {reads} reads recorded, {} lost", trace.len(), trace.lost_events()).into());
    }
    Ok(rate)
}

fn read_randomly(path: &std::path::Path, size: u64, time: Duration, number: u64) -> Outcome<u64> {
    let file = File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path)?;
    let mut memory = vec![0u8; 2 * BLOCK];
    let shift = memory.as_ptr().align_offset(BLOCK);
    let buffer = &mut memory[shift..shift + BLOCK];
    let mut random = Seed(42).child(&number.to_string()).stream("bench/trace-overhead");
    let (begin, mut reads) = (Instant::now(), 0);
    while begin.elapsed() < time {
        for _ in 0..16 {
            file.read_exact_at(buffer, random.next_u64() % (size / BLOCK as u64) * BLOCK as u64)?;
            reads += 1;
        }
    }
    Ok(reads)
}

/// What a slice reaches that other work on the machine disturbs little.
fn ninth_decile(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 9 / 10]
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
