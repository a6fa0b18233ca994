//! Cross-checks of a run's counters.

use super::measure::Sample;
use super::program::Programs;
use super::shared::ActiveFileset;
use crate::model::FlowopKind;
use senesce_sys::mounted;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Allowed relative difference between the times of operations and of threads, for the time between two operations.
const TOLERANCE: f64 = 0.2;
/// Allowance for the start and end of a thread: kernel times have tick granularity, and wake-ups may be late by one or two ticks.
const BEGIN_AND_END_SECONDS: f64 = 0.01;
/// Maximum share of time that threads may spend elsewhere; beyond, lost time could not be detected.
const MOST_ELSEWHERE: f64 = 0.5;

pub(crate) struct Account<'a> {
    pub programs: &'a Programs,
    /// Counters and histograms, taken after every thread has ended.
    pub counted: &'a Sample,
    /// Measured time of all threads, each from its first execution.
    pub thread_seconds: f64,
    /// Part of it in operations that are not counted because they cross the measured time.
    pub cut_seconds: f64,
    /// Time that runnable threads waited for a processor; `None` if unknown.
    pub waiting: Option<Waiting>,
    pub cpu_seconds: (f64, f64),
    /// Whether every thread worked until the end of the measured time.
    pub threads_stayed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub seconds: f64,
    pub longest_seconds: f64,
}

impl Account<'_> {
    /// Returns the first contradiction between the measurements.
    pub(crate) fn contradiction(&self) -> Option<String> {
        self.histograms().or_else(|| self.thread_time())
    }

    /// Checks that every counted operation has a latency.
    fn histograms(&self) -> Option<String> {
        let names = self.programs.flowops.iter().zip(&self.counted.counters).enumerate();
        names
            .map(|(index, ((name, _), [count, ..]))| (name, *count, self.counted.latencies.flowop(index).count()))
            .find(|(_, count, latencies)| count != latencies)
            .map(|(name, count, latencies)| {
                format!("flowop {name} was counted {count} times, but {latencies} latencies were recorded")
            })
    }

    /// Checks Little's law: in a closed loop, throughput x latency is the concurrency (Operations Research 9:3, 1961).
    /// The time of all operations equals the time of all threads minus user time and waiting for processors. That
    /// includes waiting for a thread that waits for a processor.
    fn thread_time(&self) -> Option<String> {
        let (threads, whole, busy) = (self.closed_threads()?, self.thread_seconds, self.busy_seconds());
        let lost = self.allowance(threads).is_some_and(|allowance| busy + allowance < whole * (1.0 - TOLERANCE));
        (lost || busy > whole * 1.01).then(|| {
            format!(
                "operations took {busy:.3} s in total, but {threads} threads without other work had {whole:.3} s \
                 (throughput x latency against concurrency)"
            )
        })
    }

    /// Returns why the time of the threads cannot reveal uncounted operations, as it does in other runs.
    pub(crate) fn unchecked(&self) -> Option<String> {
        let (threads, whole) = (self.closed_threads()?, self.thread_seconds);
        match self.allowance(threads) {
            None => Some(
                "the threads' time was not checked: the kernel does not report how long they waited for a processor"
                    .into(),
            ),
            Some(allowance) if allowance > whole * MOST_ELSEWHERE => Some(format!(
                "the threads' time was not checked (throughput x latency against concurrency): {threads} threads had {whole:.3} s, of \
                 which they may have spent {allowance:.3} s elsewhere, mostly waiting for a processor; use fewer threads, a \
                 longer run or a quieter machine"
            )),
            Some(_) => None,
        }
    }

    /// Returns the time of all counted operations.
    fn busy_seconds(&self) -> f64 {
        let nanoseconds: u64 = self.counted.counters.iter().map(|[_, _, time]| time).sum();
        nanoseconds as f64 / 1e9
    }

    /// Returns the time that `threads` threads may have spent elsewhere; `None` if unknown.
    fn allowance(&self, threads: u64) -> Option<f64> {
        // A thread that waits for a processor may hold a resource that all others need.
        let waiting = self.waiting?;
        let waiting = waiting.seconds + waiting.longest_seconds * threads.saturating_sub(1) as f64;
        Some(waiting + self.cut_seconds + self.cpu_seconds.0 + BEGIN_AND_END_SECONDS * threads as f64)
    }

    /// Returns the number of threads, if all of them only execute timed operations in sequence.
    fn closed_threads(&self) -> Option<u64> {
        let timed =
            |kind: FlowopKind| kind.entry().counted && !matches!(kind, FlowopKind::AioWrite | FlowopKind::AioWait);
        let closed = self.threads_stayed && self.programs.flowops.iter().all(|(_, kind)| timed(*kind));
        closed.then(|| self.programs.list.iter().map(|program| program.instances).sum())
    }
}

/// Compares the expected number of files with the existing ones, in file sets with created or deleted files.
pub(crate) fn missing_files(programs: &Programs, filesets: &[ActiveFileset]) -> io::Result<Option<String>> {
    let changes = |kind: FlowopKind| matches!(kind, FlowopKind::CreateFile | FlowopKind::DeleteFile);
    if !programs.flowops.iter().any(|(_, kind)| changes(*kind)) {
        return Ok(None);
    }
    for fileset in filesets {
        let mounts = mounted::points_below(&fileset.path).into_iter().map(|path| fileset.path.join(path)).collect();
        let (believed, found) = (fileset.files.existing() as u64, files_below(&fileset.path, &mounts)?);
        if believed != found {
            return Ok(Some(format!(
                "file set {} has {found} files in {}, but its operations left {believed}",
                fileset.name,
                fileset.path.display()
            )));
        }
    }
    Ok(None)
}

fn files_below(directory: &Path, mounts: &BTreeSet<PathBuf>) -> io::Result<u64> {
    let mut files = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()? {
            _ if !mounts.is_empty() && mounts.contains(&entry.path()) => {}
            kind if kind.is_dir() => files += files_below(&entry.path(), mounts)?,
            kind if kind.is_file() => files += 1,
            _ => {}
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::latency::Latencies;

    fn programs(kinds: &[FlowopKind], threads: u64) -> Programs {
        let flowops = kinds.iter().map(|kind| (format!("{kind:?}"), *kind)).collect();
        let program = super::super::program::Program { instances: threads, ..Default::default() };
        Programs { flowops, list: vec![program], ..Programs::default() }
    }

    fn account<'a>(programs: &'a Programs, counted: &'a Sample, thread_seconds: f64, waiting: f64) -> Account<'a> {
        let waiting = Some(Waiting { seconds: waiting, longest_seconds: waiting });
        let (cut_seconds, cpu_seconds, threads_stayed) = (0.0, (0.0, 0.0), true);
        Account { programs, counted, thread_seconds, cut_seconds, waiting, cpu_seconds, threads_stayed }
    }

    fn one_short_read() -> Sample {
        let latencies = Latencies::new(1);
        latencies.record(0, 500_000);
        Sample { counters: vec![[1, 0, 500_000]], latencies: latencies.snapshot() }
    }

    #[test]
    fn short_runs_are_not_checked_by_tick_granularity() {
        let programs = programs(&[FlowopKind::ReadWholeFile], 2);
        let counted = one_short_read();
        let found = |thread_seconds| account(&programs, &counted, thread_seconds, 0.0);
        assert_eq!(found(0.011).contradiction(), None);
        assert!(found(0.011).unchecked().is_some_and(|said| said.contains("not checked")));
        assert!(found(0.2).contradiction().is_some());
        assert_eq!(found(0.2).unchecked(), None);
    }

    #[test]
    fn thread_waiting_for_a_processor_may_block_others() {
        let programs = programs(&[FlowopKind::ReadWholeFile], 4);
        let counted = one_short_read();
        let found = |waiting| account(&programs, &counted, 0.4, waiting);
        assert_eq!(found(0.1).contradiction(), None);
        assert!(found(0.1).unchecked().is_some_and(|said| said.contains("waiting for a processor")));
        assert!(found(0.05).contradiction().is_some());
        assert!(Account { waiting: None, ..found(0.05) }.unchecked().is_some());
    }

    /// Returns the contradiction in a run of 1 s with the number of executions and ns of each flowop.
    fn contradiction(programs: &Programs, executed: &[(u64, u64)], recorded: u64) -> Option<String> {
        let latencies = Latencies::new(executed.len());
        for (index, (_, nanoseconds)) in executed.iter().enumerate() {
            (0..recorded).for_each(|_| latencies.record(index, *nanoseconds));
        }
        let counters = executed.iter().map(|(count, nanoseconds)| [*count, 0, count * nanoseconds]).collect();
        let thread_seconds = programs.list[0].instances as f64;
        let counted = Sample { counters, latencies: latencies.snapshot() };
        let waiting = Some(Waiting { seconds: 0.1, longest_seconds: 0.03 });
        Account { waiting, cpu_seconds: (0.1, 0.9), ..account(programs, &counted, thread_seconds, 0.0) }.contradiction()
    }

    #[test]
    fn closed_loop_with_lost_time_or_operations_is_contradictory() {
        let read = programs(&[FlowopKind::Read], 4);
        assert_eq!(contradiction(&read, &[(1000, 3_900_000)], 1000), None);
        assert_eq!(contradiction(&read, &[(1000, 3_100_000)], 1000), None, "a quarter is the engine's");
        let half = contradiction(&read, &[(1000, 2_000_000)], 1000);
        assert!(half.is_some_and(|said| said.contains("concurrency")), "half of the time is nowhere");
        assert!(contradiction(&read, &[(1000, 4_100_000)], 1000).is_some(), "more time than there was");
        let lost = contradiction(&read, &[(1000, 3_900_000)], 999);
        assert!(lost.is_some_and(|said| said.contains("999 latencies")));
    }

    #[test]
    fn waiting_threads_are_not_a_closed_loop() {
        let waits = programs(&[FlowopKind::Read, FlowopKind::Delay], 4);
        assert_eq!(contradiction(&waits, &[(10, 1000), (10, 1000)], 10), None);
    }

    #[test]
    fn files_are_counted_below_every_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        for name in ["one", "a/two", "a/b/three"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(files_below(directory.path(), &BTreeSet::new()).unwrap(), 3);
    }
}
