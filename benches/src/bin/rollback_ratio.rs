//! What it costs to undo 200 MB of writes to a 2 GiB image by trace, against a full sparse copy of the same snapshot.
//! Both are timed alternately in one run, and so is the comparison of all that is allocated with the snapshot's digests; the ratios
//! are those of the medians. Usage: `rollback_ratio FOLDER [ROUNDS]`, where
//! FOLDER should lie on tmpfs and have 2 GiB free.

use senesce_volume::snapshot::{Method, Snapshots, Verify};
use senesce_volume::sparse::{CopyBy, NamedFile, copy};
use senesce_volume::{OpenOptions, TargetSpec, open};
use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const WRITTEN: usize = 200_000_000;
const FILE: usize = 1_000_000;
const DATA: usize = 636_000_000;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: rollback_ratio FOLDER [ROUNDS]")?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let directory = tempfile::tempdir_in(folder)?;
    let path = directory.path().join("a.img");
    let spec = TargetSpec::Image { path, size: Some("2G".parse()?) };
    let target = open(&spec, &OpenOptions::default())?;
    write_files(target.mount_point(), "data", DATA)?;
    target.close()?;

    let mut snapshots = Snapshots::of(&spec, None)?;
    snapshots.create("clean", Method::Copy)?;
    let (mut by_trace, mut compared, mut by_copy, mut restored) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _round in 0..rounds {
        let traced =
            snapshots.run_and_rollback("clean", "", Verify::Auto, |point| Ok(write_files(point, "new", WRITTEN)))?;
        traced.result?.map_err(|error| error.to_string())?;
        if traced.rollback.method != "trace" || !traced.rollback.verified {
            return Err(format!("the rollback was not by trace or not exact: {:?}", traced.rollback).into());
        }
        restored = traced.rollback.restored_bytes;
        by_trace.push(traced.rollback.elapsed_seconds);
        compared.push(traced.rollback.verification.seconds);
        by_copy.push(full_copy(directory.path())?);
    }
    let (trace, compare, full) = (median(&mut by_trace), median(&mut compared), median(&mut by_copy));
    println!(
        "| rollback by trace (s) | comparison (s) | full sparse copy (s) | ratio | with comparison | restored (MB) | rounds |\n\
         |---|---|---|---|---|---|---|"
    );
    let (ratio, both) = (trace / full, (trace + compare) / full);
    let restored = restored / 1_000_000;
    println!("| {trace:.3} | {compare:.3} | {full:.3} | {ratio:.3} | {both:.3} | {restored} | {rounds} |");
    Ok(())
}

fn full_copy(directory: &Path) -> Outcome<f64> {
    let (from, to) = (directory.join("a.img.snapshots/clean.img"), directory.join("copy.img"));
    let source = File::open(&from)?;
    let begin = Instant::now();
    let copied = File::create(&to)?;
    copy(
        NamedFile { file: &source, path: &from },
        NamedFile { file: &copied, path: &to },
        source.metadata()?.len(),
        CopyBy::Kernel,
    )?;
    copied.sync_all()?;
    let seconds = begin.elapsed().as_secs_f64();
    fs::remove_file(to)?;
    Ok(seconds)
}

fn write_files(folder: &Path, name: &str, bytes: usize) -> Outcome<()> {
    let content: Vec<u8> = (0..FILE).map(|index| (index * 31 % 251) as u8).collect();
    for number in 0..bytes / FILE {
        fs::write(folder.join(format!("{name}{number}")), &content)?;
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
