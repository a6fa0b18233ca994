//! The engine's own user CPU time per flowop: the personalities against the null back end, which does nothing.
//! Usage: `workload_cpu [SECONDS]`.

use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Silent;
use senesce_volume::ClaimedDirectory;
use senesce_workload::{Bench, Execution, Length, Options, builtin};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(3.0), |text| text.parse())?;
    let directory = std::env::temp_dir().join(format!("senesce-workload-cpu-{}", std::process::id()));
    println!("| personality | threads | flowops | user CPU us per flowop |\n|---|---|---|---|");
    for (name, threads) in
        [("fileserver", 1), ("webserver", 1), ("varmail", 1), ("fileserver", 50), ("webserver", 100), ("varmail", 16)]
    {
        let claimed = ClaimedDirectory::claim(&directory, None)?;
        let set = BTreeMap::from([
            ("nthreads".to_string(), threads.to_string()),
            ("nfiles".to_string(), "100000".to_string()),
        ]);
        let workload = builtin(name, 1.0, &set)?;
        let options = Options {
            length: Some(Length::Time(Duration::from_secs_f64(seconds))),
            execution: Execution::Null,
            interval: Some(Duration::from_secs(60)),
            ..Options::default()
        };
        let interrupt = Interrupt::new();
        let result = Bench::prepare(&workload, &claimed, options, &Silent, &interrupt)?
            .run(&claimed, &Silent, &interrupt)?
            .repetition;
        if let Some(reason) = &result.reason {
            eprintln!("{name} with {threads} threads: {reason}");
        }
        println!("| {name} | {threads} | {} | {:.3} |", result.ops, result.user_cpu_seconds * 1e6 / result.ops as f64);
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
