//! Block traces on device models: what a drive makes of them, request by request.

use crate::import::block_trace::split_device;
use crate::trace::TRACE_FILE;
use senesce_core::{Failure, failure::failed, input};
use senesce_devmodel::simulate::{history_of_reads, simulate_after, simulate_closed};
use senesce_devmodel::{DeviceModel, Options, Outcome, Request};
use senesce_volume::BlockTrace;
use senesce_volume::trace::blkparse;
use std::io::Read;
use std::path::Path;

/// Reads what `trace --save` wrote, the trace of a run directory, or the text of blkparse (`#MAJOR,MINOR` behind the path
/// chooses among several devices).
///
/// # Errors
/// A file that is neither, is damaged, whose times run backwards, or from which requests are known to be missing.
pub fn load(source: &Path) -> Result<BlockTrace, Failure> {
    let (path, device) = split_device(source);
    let trace = if path.is_dir() { of_run(&path)? } else { of_file(&path, device)? };
    trace.valid()?;
    Ok(trace)
}

/// The run may be somebody else's: its trace is no link.
fn of_run(directory: &Path) -> Result<BlockTrace, Failure> {
    let path = directory.join(TRACE_FILE);
    let bytes = input::within(directory, TRACE_FILE).map_err(failed("read", &path))?;
    Ok(BlockTrace::from_bytes(&bytes, &path)?)
}

fn of_file(path: &Path, device: Option<(u32, u32)>) -> Result<BlockTrace, Failure> {
    let mut beginning = Vec::new();
    let file = input::open_regular(path).map_err(failed("open", path))?;
    file.take(64).read_to_end(&mut beginning).map_err(failed("read", path))?;
    Ok(match BlockTrace::is_saved(&beginning) {
        true => BlockTrace::load(path)?,
        false => blkparse::import_complete(path, device)?,
    })
}

/// What a drive held before a trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// What the trace reads without having written it, written in the order of addresses.
    WhatIsRead,
    /// What [`Options::before`] says, and nothing else.
    AsOptions,
}

impl Held {
    fn history(self, requests: &[Request]) -> Vec<Request> {
        match self {
            Self::WhatIsRead => history_of_reads(requests),
            Self::AsOptions => Vec::new(),
        }
    }
}

/// Times a trace on a model.
///
/// # Errors
/// A trace that is not valid, or that the model does not take.
pub fn simulate(model: &DeviceModel, trace: &BlockTrace, held: Held, options: &Options) -> Result<Outcome, Failure> {
    Ok(simulate_requests(model, &trace.valid()?.for_models(), held, options)?)
}

/// The same in a closed loop: think times of the host are kept, and each begins when the model is done.
///
/// # Errors
/// A trace that is not valid, that tells no completions, or that the model does not take.
pub fn simulate_loop(
    model: &DeviceModel,
    trace: &BlockTrace,
    held: Held,
    options: &Options,
) -> Result<Outcome, Failure> {
    let recorded = trace.valid()?.for_closed_loops();
    if recorded.iter().all(|one| one.completed_ns.is_none()) && !recorded.is_empty() {
        return Err(Failure::usage(
            "--closed: the trace tells no completions, so what the host waited for is not known",
        ));
    }
    let requests: Vec<Request> = recorded.iter().map(|one| one.request).collect();
    Ok(simulate_closed(model, held.history(&requests), &recorded, options)?)
}

/// The same of requests.
pub fn simulate_requests(
    model: &DeviceModel,
    requests: &[Request],
    held: Held,
    options: &Options,
) -> Result<Outcome, senesce_devmodel::ModelError> {
    simulate_after(model, held.history(requests), requests, options, |_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use senesce_core::ExitCode;
    use senesce_volume::trace::Problem;
    use senesce_volume::{Operation, Request};
    use std::fs::File;

    fn read(index: u64, sector: u64) -> Request {
        Request { issue_ns: index * 1000, latency_ns: Some(500), ..Request::new(Operation::Read, sector, 64) }
    }

    fn outcome(model: &str, trace: &BlockTrace) -> Result<Outcome, Failure> {
        simulate(&DeviceModel::builtin(model).unwrap(), trace, Held::WhatIsRead, &Options::default())
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
    fn the_trace_of_a_run_is_no_link() {
        let (run, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let saved = elsewhere.path().join("saved");
        BlockTrace::from_requests("8,0", 0, vec![read(0, 0)]).save(&saved).unwrap();
        let inside = run.path().join(TRACE_FILE);
        std::os::unix::fs::symlink(&saved, &inside).unwrap();
        let failure = load(run.path()).unwrap_err();
        assert!(failure.to_string().contains("symbolic link"), "{failure}");
        std::fs::remove_file(&inside).unwrap();
        std::fs::copy(&saved, &inside).unwrap();
        assert_eq!(load(run.path()).unwrap().len(), 1);
    }

    #[test]
    fn what_a_trace_reads_lies_on_the_flash_in_the_order_of_addresses() {
        let of = |stride: u64| {
            let reads = (0..64).map(|index| read(index, index * stride)).collect();
            outcome("ssd:fast24", &BlockTrace::from_requests("sdx", 0, reads)).unwrap().collision_index
        };
        // Gaps between the reads hold nothing, so that the pages read lie side by side all the same.
        assert_eq!((of(64), of(640)), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn traces_that_cannot_be_timed_are_told() {
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
