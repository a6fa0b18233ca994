//! The tier file system of two commits, in turns. Three arms a round: before, now, before again, each round beginning with another
//! one. `core` measures processor time of operations without FUSE; `fuse` the time of calls on a mount.

mod sides;

use std::path::{Path, PathBuf};
use std::time::Instant;

/// Nanoseconds, by operation.
pub type Times = Vec<Vec<f64>>;

const CORE: [&str; 12] = [
    "create",
    "create, 200 names in a directory",
    "look up",
    "attributes",
    "write 4 KiB, new",
    "write 4 KiB, over",
    "write 8 B, over",
    "write 128 KiB, over",
    "read 4 KiB",
    "chmod",
    "rename",
    "unlink",
];
const FUSE: [&str; 6] = ["create", "write 4 KiB, new", "write 4 KiB, over", "fsync", "chmod", "unlink"];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or("core".into());
    let threads = if part == "fuse" { number(arguments.next(), 2) } else { 0 };
    let rounds = number(arguments.next(), 11);
    let room = PathBuf::from(format!("/dev/shm/before-and-now-{}", std::process::id()));
    std::fs::create_dir_all(room.join("mount")).expect("make a folder in /dev/shm");
    let names: &[&str] = if part == "fuse" { &FUSE } else { &CORE };
    let mut arms: [Times; 3] = std::array::from_fn(|_| vec![Vec::new(); names.len()]);
    for turn in 0..3 * rounds {
        let arm = (turn + turn / 3) % 3;
        let mut times = vec![Vec::new(); names.len()];
        match (part.as_str(), arm) {
            ("fuse", 1) => sides::now::fuse(&room, threads, &mut times),
            ("fuse", _) => sides::before::fuse(&room, threads, &mut times),
            (_, 1) => sides::now::core(&mut times),
            _ => sides::before::core(&mut times),
        }
        arms[arm].iter_mut().zip(&times).for_each(|(all, times)| all.push(quantile(times, 0.5)));
    }
    std::fs::remove_dir_all(&room).expect("remove the folder");
    print(names, &arms);
}

fn number(argument: Option<String>, otherwise: usize) -> usize {
    argument.map_or(otherwise, |text| text.parse().expect("a number"))
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn print(names: &[&str], arms: &[Times; 3]) {
    println!("| operation | before (us) | now (us) | now / before | its quartiles | before again / before |");
    println!("|---|---|---|---|---|---|");
    for (index, name) in names.iter().enumerate() {
        let us = |arm: usize| quantile(&arms[arm][index], 0.5) / 1e3;
        let ratios = |arm: usize| -> Vec<f64> {
            arms[arm][index].iter().zip(&arms[0][index]).map(|(time, before)| time / before).collect()
        };
        let (now, again) = (ratios(1), ratios(2));
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(&now, share));
        let again = quantile(&again, 0.5);
        println!("| {name} | {:.2} | {:.2} | {middle:.3} | {low:.3} to {high:.3} | {again:.3} |", us(0), us(1));
    }
}

/// Times `count` calls in ten parts by the processor time of this thread: what others take of the machine does not count.
pub fn calls<T>(times: &mut Vec<f64>, count: usize, mut call: impl FnMut(usize) -> T) {
    for part in 0..10 {
        let (start, numbers) = (thread_ns(), part * count / 10..(part + 1) * count / 10);
        let some = numbers.len() as f64;
        numbers.for_each(|number| drop(std::hint::black_box(call(number))));
        times.push((thread_ns() - start) / some);
    }
}

fn thread_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

pub fn drive(mount: &Path, times: &mut Times) {
    use std::fs::{File, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{FileExt, PermissionsExt};
    const FILES: usize = 500;
    let data = [7; 4096];
    let mut timed = |column: usize, call: &mut dyn FnMut() -> std::io::Result<()>| {
        let start = Instant::now();
        call().expect("a call on the mount");
        times[column].push(start.elapsed().as_nanos() as f64);
    };
    let mut files = Vec::new();
    for number in 0..FILES {
        let path = mount.join(format!("f{number}"));
        let mut made = None;
        timed(0, &mut || {
            made = Some(File::options().write(true).create_new(true).open(&path)?);
            Ok(())
        });
        let mut file = made.expect("it was made");
        (0..8).for_each(|_| timed(1, &mut || file.write_all(&data)));
        (0..8).for_each(|block| timed(2, &mut || file.write_all_at(&data, block * 3 % 8 * 4096)));
        timed(3, &mut || file.sync_all());
        files.push((path, file));
    }
    for (path, file) in files {
        timed(4, &mut || file.set_permissions(Permissions::from_mode(0o600)));
        drop(file);
        timed(5, &mut || std::fs::remove_file(&path));
    }
}
