//! Times block traces on device models, request by request.

use crate::import::block_trace::split_device;
use crate::trace::TRACE_FILE;
use senesce_core::failure::{failed, failed_to_open};
use senesce_core::{Failure, Record, input};
use senesce_devmodel::simulate::{history_of_reads, simulate_after, simulate_closed};
use senesce_devmodel::{DeviceModel, Options, Outcome, Request};
use senesce_volume::BlockTrace;
use senesce_volume::trace::blkparse;
use std::io::Read;
use std::path::Path;

/// Reads a file of `trace --save`, the trace of a run directory, or the text of blkparse (`#MAJOR,MINOR` after the path
/// chooses among several devices). Refuses traces with known losses or decreasing times.
pub fn load(source: &Path) -> Result<BlockTrace, Failure> {
    let (path, device) = split_device(source);
    let trace = if path.is_dir() { of_run(&path)? } else { of_file(&path, device)? };
    trace.valid()?;
    Ok(trace)
}

/// Reads the trace of a run without following links: another user may own the run, and a link could lead to any file.
fn of_run(directory: &Path) -> Result<BlockTrace, Failure> {
    Record::open(directory)?;
    let path = directory.join(TRACE_FILE);
    let bytes = input::within(directory, TRACE_FILE).map_err(failed("read", &path))?;
    Ok(BlockTrace::from_bytes(&bytes, &path)?)
}

fn of_file(path: &Path, device: Option<(u32, u32)>) -> Result<BlockTrace, Failure> {
    let mut beginning = Vec::new();
    let file = input::open_regular(path).map_err(failed_to_open(path))?;
    file.take(64).read_to_end(&mut beginning).map_err(failed("read", path))?;
    Ok(match BlockTrace::is_saved(&beginning) {
        true => BlockTrace::load(path)?,
        false => blkparse::import_complete(path, device)?,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialContent {
    /// Everything that the trace reads without writing it before, in the order of addresses.
    WhatIsRead,
    AsOptions,
}

impl InitialContent {
    fn history(self, requests: &[Request]) -> Vec<Request> {
        match self {
            Self::WhatIsRead => history_of_reads(requests),
            Self::AsOptions => Vec::new(),
        }
    }
}

pub fn simulate(
    model: &DeviceModel,
    trace: &BlockTrace,
    held: InitialContent,
    options: &Options,
) -> Result<Outcome, Failure> {
    Ok(simulate_requests(model, &trace.valid()?.for_models(), held, options)?)
}

/// Simulates the trace in a closed loop: think times of the host are kept, and each begins when the model is done.
/// Requires completions in the trace.
pub fn simulate_loop(
    model: &DeviceModel,
    trace: &BlockTrace,
    held: InitialContent,
    options: &Options,
) -> Result<Outcome, Failure> {
    let recorded = trace.valid()?.for_closed_loops();
    if recorded.iter().all(|one| one.completed_ns.is_none()) && !recorded.is_empty() {
        return Err(Failure::usage(
            "--closed: the trace has no completions, so the requests that the host waited for are unknown",
        ));
    }
    let requests: Vec<Request> = recorded.iter().map(|one| one.request).collect();
    Ok(simulate_closed(model, held.history(&requests), &recorded, options)?)
}

pub(crate) fn simulate_requests(
    model: &DeviceModel,
    requests: &[Request],
    held: InitialContent,
    options: &Options,
) -> Result<Outcome, senesce_devmodel::ModelError> {
    simulate_after(model, held.history(requests), requests, options, |_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::{Environment, ExitCode, Plan, RunDirectory, Seed};
    use senesce_volume::trace::Problem;
    use senesce_volume::{Operation, Request};
    use std::fs::File;

    fn read(index: u64, sector: u64) -> Request {
        Request { issue_ns: index * 1000, latency_ns: Some(500), ..Request::new(Operation::Read, sector, 64) }
    }

    fn outcome(model: &str, trace: &BlockTrace) -> Result<Outcome, Failure> {
        simulate(&DeviceModel::builtin(model).unwrap(), trace, InitialContent::WhatIsRead, &Options::default())
    }

    #[test]
    fn both_forms_of_a_trace_take_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let trace = BlockTrace::from_requests("8,0", 0, (0..200).map(|index| read(index, index * 64 * 7)).collect());
        let (saved, text) = (directory.path().join("saved"), directory.path().join("text"));
        trace.save(&saved).unwrap();
        blkparse::export(&trace, (8, 0), &mut File::create(&text).unwrap()).unwrap();
        for model in ["ssd:fast24", "hdd:st500dm002", "850-evo"] {
            let [one, other] = [&saved, &text].map(|file| outcome(model, &load(file).unwrap()).unwrap());
            assert_eq!(one, other, "{model}");
            assert!(one.seconds > 0.0 && one.requests == 200, "{one:?}");
        }
    }

    #[test]
    fn trace_of_a_run_must_not_be_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let [saved, run] = ["saved", "run"].map(|name| directory.path().join(name));
        BlockTrace::from_requests("8,0", 0, vec![read(0, 0)]).save(&saved).unwrap();
        drop(RunDirectory::open(&run, &Plan::default_of("trace", Seed(1)), &Environment::default()).unwrap());
        let inside = run.join(TRACE_FILE);
        std::os::unix::fs::symlink(&saved, &inside).unwrap();
        let failure = load(&run).unwrap_err();
        assert!(failure.to_string().contains("symbolic link"), "{failure}");
        std::fs::remove_file(&inside).unwrap();
        std::fs::copy(&saved, &inside).unwrap();
        assert_eq!(load(&run).unwrap().len(), 1);
    }

    #[test]
    fn data_read_by_a_trace_is_on_flash_in_address_order() {
        let of = |stride: u64| {
            let reads = (0..64).map(|index| read(index, index * stride)).collect();
            outcome("ssd:fast24", &BlockTrace::from_requests("sdx", 0, reads)).unwrap().collision_index
        };
        // Gaps between the reads are empty, so that the pages read still lie side by side.
        assert_eq!((of(64), of(640)), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn traces_that_cannot_be_timed_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trace");
        let mut holes = BlockTrace::from_requests("sdx", 0, vec![read(0, 0)]);
        holes.set_account(None, vec![Problem::Lost { events: 3 }]);
        holes.save(&file).unwrap();
        let failure = load(&file).unwrap_err();
        assert!(failure.to_string().contains("lost 3 events"), "{failure}");
        std::fs::write(&file, "\x7fELF").unwrap();
        assert_eq!(load(&file).unwrap_err().exit_code(), ExitCode::Usage);
        assert!(load(&directory.path().join("none")).unwrap_err().to_string().contains("open"));
        let large = BlockTrace::from_requests("sdx", 0, vec![read(0, 1 << 40)]);
        let failure = outcome("ssd:fast24", &large).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Usage);
        assert!(failure.to_string().contains("ends at byte"), "{failure}");
    }
}
