//! What the tier file system costs: its requests against a FUSE file system that does nothing, anticache against bpfs
//! mode, bytes per second, the evictor, a million files. Needs root, /dev/fuse and 2 GiB in /dev/shm.
//!
//! Usage: `tierfs [requests|operations|fileserver|sequential|evictor|many] [ROUNDS or FILES [DISK-FOLDER]]`; all parts
//! without a name.

mod many;
mod modes;
mod nothing;
mod requests;
mod scratch;
mod streams;

use std::error::Error;
use std::path::PathBuf;

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PARTS: [&str; 6] = ["requests", "operations", "fileserver", "sequential", "evictor", "many"];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let chosen = arguments.next();
    if let Some(name) = chosen.as_deref().filter(|name| !PARTS.contains(name)) {
        return Err(format!("there is no part '{name}'; there are {}", PARTS.join(", ")).into());
    }
    let number: Option<usize> = arguments.next().map(|text| text.parse()).transpose()?;
    let disk = arguments.next().map(PathBuf::from);
    for part in PARTS.into_iter().filter(|part| chosen.as_deref().is_none_or(|chosen| chosen == *part)) {
        println!("\n## {part}");
        match part {
            "requests" => {
                requests::run(number.unwrap_or(7), 1)?;
                requests::run(number.unwrap_or(7), 2)?;
            }
            "operations" => modes::operations(number.unwrap_or(9))?,
            "fileserver" => modes::fileserver(number.unwrap_or(7))?,
            "sequential" => streams::sequential(number.unwrap_or(5), 2)?,
            "evictor" => streams::evictor(number.unwrap_or(5), disk.as_deref())?,
            _ => many::run(number.unwrap_or(1_000_000) as u64)?,
        }
    }
    Ok(())
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time of this process, client and server, in seconds.
pub fn cpu_seconds() -> f64 {
    senesce_sys::clock::process_cpu_time().as_secs_f64()
}

/// Private memory of this process, in bytes: without the region, which is a shared mapping.
pub fn private_bytes() -> Outcome<u64> {
    Ok(senesce_sys::memory::anonymous_bytes().ok_or("/proc/self/status has no RssAnon")?)
}
