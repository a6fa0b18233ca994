//! Throughput of the chunkers on one core, in CPU time: `cargo run --release -p senesce-benches --bin chunkers`.

use senesce_objstore::chunker::{self, ChunkerSpec};

const BYTES: usize = 256 << 20;
const ROUNDS: usize = 5;
const SPECS: [&str; 9] = [
    "rolling-sum:256:4096",
    "rolling-sum:4096:1024",
    "rolling-sum:4096:16384",
    "rolling-sum:32768:16384",
    "rolling-sum:32768:16384:reset",
    "rolling-sum:4096:10000",
    "fastcdc:4K",
    "fastcdc:16K",
    "fastcdc:64K",
];

fn main() {
    let mut data = vec![0; BYTES];
    chunker::study::XorShift::study().fill(&mut data);
    println!("| chunker | chunks | GB/s, best of {ROUNDS} | GB/s, median |\n|-|-|-|-|");
    let specs: Vec<ChunkerSpec> = SPECS.iter().map(|text| text.parse().expect("a constant")).collect();
    let mut seconds = vec![Vec::new(); specs.len()];
    let mut chunks = vec![0; specs.len()];
    for _ in 0..ROUNDS {
        for (index, spec) in specs.iter().enumerate() {
            let start = cpu_seconds();
            let mut chunker = spec.build();
            chunks[index] = count(chunker.as_mut(), &data);
            seconds[index].push(cpu_seconds() - start);
        }
    }
    for (index, spec) in specs.iter().enumerate() {
        seconds[index].sort_by(f64::total_cmp);
        let rate = |time: f64| BYTES as f64 / 1e9 / time;
        println!(
            "| {spec} | {} | {:.2} | {:.2} |",
            chunks[index],
            rate(seconds[index][0]),
            rate(seconds[index][ROUNDS / 2])
        );
    }
}

fn count(chunker: &mut dyn chunker::Chunker, data: &[u8]) -> usize {
    let mut rest = data;
    let mut chunks = 0;
    while let Some(length) = chunker.cut(rest, true) {
        rest = &rest[length..];
        chunks += 1;
    }
    chunks
}

fn cpu_seconds() -> f64 {
    senesce_sys::clock::thread_cpu_time().as_secs_f64()
}
