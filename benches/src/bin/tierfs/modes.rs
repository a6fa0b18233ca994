//! What anticache costs over bpfs mode where everything is hot. bpfs mode is measured twice: the second time is the noise.

use crate::scratch::Scratch;
use crate::{Outcome, cpu_seconds, median};
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_core::{Bytes, Seed};
use senesce_tierfs::Mode;
use senesce_volume::ClaimedDirectory;
use senesce_workload::micro::operations::OPERATIONS;
use senesce_workload::micro::{FileOpsOptions, file_ops};
use senesce_workload::{Bench, Length, Options, builtin};
use std::collections::BTreeMap;
use std::time::Duration;

const SUBJECTS: [Mode; 3] = [Mode::Bpfs, Mode::Anticache, Mode::Bpfs];
const THREADS: usize = 2;

/// Every file operation: all subjects are mounted, and take turns within each operation.
pub fn operations(rounds: usize) -> Outcome<()> {
    let mut mounted = Vec::new();
    for (number, mode) in SUBJECTS.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("modes-{number}"))?;
        scratch.make(Bytes::mib(192))?;
        let server = scratch.serve(mode, THREADS)?;
        mounted.push((ClaimedDirectory::claim(&scratch.mount(), None)?, server, scratch));
    }
    println!("\n{rounds} rounds; medians in us, and of the ratios of rounds\n");
    println!("| operation | bpfs | anticache | anticache / bpfs | bpfs again / bpfs |\n|---|---|---|---|---|");
    let (mut cost, mut noise) = (Vec::new(), Vec::new());
    for operation in OPERATIONS.iter().filter(|operation| operation.name != "empty") {
        let mut times = [const { Vec::new() }; 3];
        for turn in 0..3 * rounds {
            let subject = (turn + turn / 3) % 3;
            let options = FileOpsOptions {
                operations: vec![operation.name.into()],
                sync: vec![false],
                time: Duration::from_millis(10),
                macros: false,
                seed: Seed(42),
                ..FileOpsOptions::default()
            };
            let measured = file_ops(&mounted[subject].0, &options, &Silent, &Interrupt::new())?;
            times[subject].extend(measured.operations.iter().map(|result| result.mean_us));
        }
        let [bpfs, anticache, again] = &times;
        let (ratio, itself) = (ratio_by_round(anticache, bpfs), ratio_by_round(again, bpfs));
        println!("| {} | {:.1} | {:.1} | {ratio:.3} | {itself:.3} |", operation.name, median(bpfs), median(anticache));
        cost.push(ratio);
        noise.push(itself);
    }
    println!("| **median** | | | {:.3} | {:.3} |", median(&cost), median(&noise));
    println!("| **greatest** | | | {:.3} | {:.3} |", greatest(&cost), greatest(&noise));
    for (directory, server, _room) in mounted {
        drop(directory);
        server.stop()?;
    }
    Ok(())
}

/// Median of the ratios of rounds, in which both took turns: what lasts longer than a round does not count.
fn ratio_by_round(times: &[f64], reference: &[f64]) -> f64 {
    let ratios: Vec<f64> = times.iter().zip(reference).map(|(time, reference)| time / reference).collect();
    median(&ratios)
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// The fileserver personality with fewer files; rounds of the three subjects in turn, each on a fresh file system.
pub fn fileserver(rounds: usize) -> Outcome<()> {
    const FILES: &str = "2000";
    const TIME: Duration = Duration::from_secs(3);
    let overrides = BTreeMap::from([("nfiles".into(), FILES.into()), ("memsize".into(), "1m".into())]);
    let workload = builtin("fileserver", 1.0, &overrides)?;
    let scratch = Scratch::new("fileserver")?;
    let (mut rates, mut cpu) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for turn in 0..3 * rounds {
        let subject = (turn + turn / 3) % 3;
        scratch.make(Bytes::mib(768))?;
        let server = scratch.serve(SUBJECTS[subject], THREADS)?;
        let directory = ClaimedDirectory::claim(&scratch.mount(), None)?;
        let options = Options { length: Some(Length::Time(TIME)), ..Options::default() };
        let interrupt = Interrupt::new();
        let bench = Bench::prepare(&workload, &directory, options, &Silent, &interrupt)?;
        let before = cpu_seconds();
        let result = bench.run(&directory, &Silent, &interrupt)?.repetition;
        let spent = cpu_seconds() - before;
        if !result.valid {
            return Err(format!("fileserver: {}", result.reason.unwrap_or_default()).into());
        }
        rates[subject].push(result.ops_per_second);
        cpu[subject].push(spent * 1e6 / (result.ops_per_second * TIME.as_secs_f64()));
        drop(directory);
        server.stop()?;
    }
    println!("\nfileserver, {FILES} files, 50 threads, {rounds} rounds of {} s; medians\n", TIME.as_secs());
    println!("| | bpfs | anticache | anticache / bpfs | bpfs again / bpfs |\n|---|---|---|---|---|");
    for (what, lists) in [("operations/s", &rates), ("processor time per operation (us)", &cpu)] {
        let [bpfs, anticache, again] = lists.each_ref().map(|list| median(list));
        println!("| {what} | {bpfs:.1} | {anticache:.1} | {:.3} | {:.3} |", anticache / bpfs, again / bpfs);
    }
    Ok(())
}
