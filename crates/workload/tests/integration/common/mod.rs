use senesce_core::interrupt::Interrupt;
use senesce_core::progress::{Progress, Silent};
use senesce_volume::ClaimedDirectory;
use senesce_workload::{Bench, FinishedBench, Length, Options, Repetition, Workload, WorkloadError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// A directory that is removed after the test, in memory if there is space.
pub struct TemporaryTarget {
    directory: tempfile::TempDir,
    claimed: ClaimedDirectory,
}

impl TemporaryTarget {
    pub fn new() -> Self {
        let place = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(place).unwrap();
        let claimed = ClaimedDirectory::claim(directory.path(), None).unwrap();
        Self { directory, claimed }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn claimed(&self) -> &ClaimedDirectory {
        &self.claimed
    }

    pub fn entry(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }
}

/// Runs a function once, as soon as an interval of the run has operations.
pub struct OnceAtWork<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> OnceAtWork<F> {
    pub fn new(act: F) -> Self {
        Self(Mutex::new(Some(act)))
    }
}

impl<F: FnOnce() + Send> Progress for OnceAtWork<F> {
    fn phase(&self, _name: &str, _total: u64, _unit: &str) {}
    fn say(&self, _message: &str) {}

    fn position(&self, _done: u64, note: &str) {
        if note.starts_with("0 ops/s") {
            return;
        }
        if let Some(act) = self.0.lock().unwrap().take() {
            act();
        }
    }
}

pub fn workload(text: &str) -> Workload {
    Workload::parse("test.f", text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn operations(count: u64) -> Options {
    Options { length: Some(Length::Operations(count)), stuck_after: Duration::from_secs(10), ..Options::default() }
}

pub fn time(milliseconds: u64) -> Options {
    let length = Some(Length::Time(Duration::from_millis(milliseconds)));
    Options {
        length,
        interval: Some(Duration::from_millis(100)),
        stuck_after: Duration::from_secs(10),
        ..Options::default()
    }
}

pub fn try_run(
    temporary: &TemporaryTarget,
    workload: &Workload,
    options: Options,
) -> Result<FinishedBench, WorkloadError> {
    let interrupt = Interrupt::new();
    Bench::prepare(workload, temporary.claimed(), options, &Silent, &interrupt)?.run(
        temporary.claimed(),
        &Silent,
        &interrupt,
    )
}

pub fn run(temporary: &TemporaryTarget, text: &str, options: Options) -> Repetition {
    try_run(temporary, &workload(text), options).unwrap_or_else(|error| panic!("{error}")).repetition
}

pub fn valid(repetition: Repetition) -> Repetition {
    assert!(repetition.valid, "{:?}", repetition.reason);
    repetition
}

pub fn count(repetition: &Repetition, flowop: &str) -> u64 {
    repetition.flowops.iter().find(|(name, _)| name == flowop).map_or(0, |(_, result)| result.count)
}
