//! Many threads and a permanently active evictor.

use super::*;
use std::time::{Duration, Instant};

fn word(rng: &mut impl Rng, below: u64) -> u64 {
    rng.next_u64() % below
}

/// Every word of a block holds its file, index and a stamp, so that torn or foreign blocks are detected.
fn stamped(file: u64, index: u64, stamp: u64) -> Vec<u8> {
    let value = file << 48 | index << 24 | stamp;
    value.to_le_bytes().repeat(BLOCK / 8)
}

fn check_block(data: &[u8], file: u64, index: u64) {
    let first = u64::from_le_bytes(data[..8].try_into().unwrap());
    assert!(data.chunks(8).all(|word| word == first.to_le_bytes()), "torn block {index} of file {file}");
    assert!(first == 0 || first >> 24 == file << 24 | index, "block {index} of file {file} holds {first:#x}");
}

fn work(fs: &TierFs, files: &[u32], seed: u64) {
    const BLOCKS: u64 = 64;
    let mut rng = Seed(seed).stream("tierfs/threads");
    for step in 0..20_000 {
        let file = word(&mut rng, files.len() as u64);
        let (ino, index) = (files[file as usize], word(&mut rng, BLOCKS));
        match word(&mut rng, 400) {
            0..=199 => {
                fs.write(ino, index * BLOCK as u64, &stamped(file, index, step), false)
                    .unwrap_or_else(|e| panic!("{e} {:?}", fs.stats()));
            }
            200..=390 => {
                let mut data = vec![0; 4 * BLOCK];
                let got = fs.read(ino, index * BLOCK as u64, &mut data).unwrap();
                for (at, block) in data[..got].chunks_exact(BLOCK).enumerate() {
                    check_block(block, file, index + at as u64);
                }
            }
            391 => {
                fs.set_attr(ino, &SetAttr { size: Some(index * BLOCK as u64), ..Default::default() }).unwrap();
            }
            _ => {
                let name = format!("t{seed}-{}", step % 5);
                let ino = self::file(fs, ROOT_INO, &name);
                fs.write(ino, 0, &[1; 3 * BLOCK], false).unwrap();
                fs.rename(ROOT_INO, name.as_bytes(), ROOT_INO, format!("r{seed}").as_bytes(), false).unwrap();
                fs.forget(ino, 1);
            }
        }
    }
}

fn storm(promotion: Promotion) {
    let cold = SimCold::default();
    let options =
        Options { threshold: Bytes::kib(256), period: Duration::from_millis(1), promotion, ..Default::default() };
    let fs = Arc::new(open_image(&empty_image(400, 4000), &cold, &options).unwrap());
    let files: Vec<u32> = (0..6).map(|n| file(&fs, ROOT_INO, &format!("f{n}"))).collect();
    std::thread::scope(|scope| {
        let evictor = scope.spawn(|| fs.run_evictor());
        let (fs, files) = (&fs, &files);
        let workers: Vec<_> = (0..4).map(|seed| scope.spawn(move || work(fs, files, seed))).collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        fs.evictor().shut_down();
        evictor.join().unwrap();
        assert!(ended.iter().all(Result::is_ok));
    });
    let stats = fs.stats();
    assert!(stats.evicted > 1000 && stats.fetched > 100, "{stats:?}");
    let before = dump(&fs).unwrap();
    let used = fs.stats();
    fs.close();
    let mut image = vec![0; 400 * BLOCK];
    // SAFETY: the file system is closed.
    unsafe { fs.region.read(0, &mut image) };
    let report = check_image(&image);
    assert_eq!((report.resident_blocks, report.cold_blocks), (used.resident_blocks, used.cold_blocks));
    let again = open_image(&image, &cold, &options).unwrap();
    assert_eq!(dump(&again).unwrap(), before);
    assert_eq!(again.stats().free_blocks, used.free_blocks);
}

#[test]
fn no_torn_reads_during_eviction() {
    storm(Promotion::Always);
}

#[test]
fn no_torn_reads_with_promotion_at_the_second_access() {
    storm(Promotion::Second);
}

#[test]
fn the_evictor_wakes_whenever_the_threshold_is_passed() {
    const THRESHOLD: u64 = 8;
    let options =
        Options { threshold: Bytes(THRESHOLD * BLOCK as u64), period: Duration::from_micros(1), ..Default::default() };
    let fs = open_image(&empty_image(400, 4000), &SimCold::default(), &options).unwrap();
    let ino = file(&fs, ROOT_INO, "f");
    std::thread::scope(|scope| {
        scope.spawn(|| fs.run_evictor());
        let all_evicted = (0..2000).all(|round| {
            let wrote = fs.write(ino, 0, &vec![round as u8; (THRESHOLD as usize + 1) * BLOCK], false);
            let deadline = Instant::now() + Duration::from_secs(30);
            while fs.stats().resident_blocks > THRESHOLD && Instant::now() < deadline {
                std::thread::yield_now();
            }
            wrote.is_ok() && fs.stats().resident_blocks <= THRESHOLD
        });
        fs.evictor().shut_down();
        assert!(all_evicted, "{:?}", fs.stats());
    });
}
