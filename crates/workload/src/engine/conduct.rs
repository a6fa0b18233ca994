//! Watches and ends the threads of a run.

use super::account::{Account, Waiting};
use super::file_calls::FileCalls;
use super::intervals::IntervalSeries;
use super::measure::Sample;
use super::shared::{Ending, Shared, SystemCall, ThreadRecord};
use super::threads::{records, start};
use super::worker::FileId;
use crate::error::WorkloadError;
use crate::result::{Interval, Repetition};
use crate::wml::syntax::QuitMode;
use senesce_core::heartbeat::Heartbeat;
use senesce_core::interrupt::Interrupt;
use senesce_core::progress::Progress;
use senesce_sys::{clock, usage};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    Time(Duration),
    Operations(u64),
    /// Until the rate is steady (see [`senesce_stats::steady::is_steady`]), at most this long; the steady intervals are the result.
    Steady(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measure {
    pub length: Length,
    /// Time before counting begins.
    pub warm_up: Duration,
    pub interval: Duration,
    /// A longer system call is reported; also the time limit for threads at the end.
    pub stuck_after: Duration,
}

const TICK: Duration = Duration::from_millis(20);

/// Runs the workload and returns its result with final histograms. Errors only prevent a start.
pub(crate) fn conduct<B: FileCalls>(
    shared: Arc<Shared<B>>,
    semaphores: Vec<Vec<usize>>,
    measure: &Measure,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<(Repetition, Sample), WorkloadError> {
    let records = records(&shared);
    for (number, (record, semaphores)) in records.iter().zip(semaphores).enumerate() {
        if let Err(error) = start(shared.clone(), record.clone(), number, semaphores) {
            shared.waits.stop();
            shared.waits.open_gate();
            return Err(WorkloadError::Missing {
                what: format!("space for {} threads: thread {} could not start ({error})", records.len(), number + 1),
                remedy: "raise `ulimit -u` and the pids limit of the control group, or run fewer threads".into(),
            });
        }
    }
    while shared.ready.load(Ordering::SeqCst) < records.len() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut run =
        Run { shared: &shared, records: &records, measure, progress, reported: BTreeSet::new(), messages: Vec::new() };
    let outcome = run.measure(interrupt);
    Ok(finish(&shared, outcome))
}

/// Returns the user and system time of this process in seconds (getrusage(2)).
pub fn process_cpu_seconds() -> (f64, f64) {
    let used = usage::this_process();
    (used.user.as_secs_f64(), used.system.as_secs_f64())
}

struct MeasuredPhase {
    counted: Sample,
    seconds: f64,
    cpu: (f64, f64),
    intervals: Vec<Interval>,
    interrupted: bool,
    problem: Option<String>,
    messages: Vec<String>,
}

struct Run<'a, B: FileCalls> {
    shared: &'a Arc<Shared<B>>,
    records: &'a [Arc<ThreadRecord>],
    measure: &'a Measure,
    progress: &'a dyn Progress,
    reported: BTreeSet<usize>,
    messages: Vec<String>,
}

impl<B: FileCalls> Run<'_, B> {
    fn measure(&mut self, interrupt: &Interrupt) -> MeasuredPhase {
        let shared = self.shared.clone();
        let mut heartbeat = Heartbeat::begin();
        let begin_tick = self.open_window();
        let mut course = IntervalSeries::new(&shared.programs.flowops, Sample::take(&shared, self.records));
        let mut cpu = process_cpu_seconds();
        shared.waits.open_gate();
        let begin = Instant::now() + self.measure.warm_up;
        let mut warm = self.measure.warm_up.is_zero();
        let mut next = begin + self.measure.interval;
        let interrupted = loop {
            std::thread::sleep(TICK);
            let now = Instant::now();
            if !warm && now >= begin {
                (warm, cpu) = (true, process_cpu_seconds());
                heartbeat.forget_stolen();
            }
            self.watch();
            if self.longest().is_some_and(|time| now >= begin + time) || shared.waits.stopped() || self.all_ended() {
                break false;
            }
            if interrupt.requested() {
                break true;
            }
            if now >= next {
                next += self.measure.interval;
                self.show(course.close((now - begin).as_secs_f64(), Sample::take(&shared, self.records)));
                if matches!(self.measure.length, Length::Steady(_)) && course.is_steady() {
                    break false;
                }
            }
        };
        let threads_stayed = self.threads_stay();
        let end_tick = shared.stop_counting();
        let cpu_end = process_cpu_seconds();
        let window = self.window(begin_tick, end_tick);
        let watched = heartbeat.end();
        shared.waits.stop();
        // A thread may have completed an operation in time and count it only now.
        let left = self.wait_for_threads();
        let seconds = shared.clock.nanoseconds(end_tick.saturating_sub(begin_tick)) as f64 / 1e9;
        // A steady state is the final result; the time since then is not an interval.
        let steady = matches!(self.measure.length, Length::Steady(_)) && course.is_steady();
        if seconds > course.last_seconds() && !steady {
            course.close(seconds, Sample::take(&shared, self.records));
        }
        let cpu = (cpu_end.0 - cpu.0, cpu_end.1 - cpu.1);
        let all_ended = left.is_none();
        let counted_from =
            if steady { window.0 + Duration::from_secs_f64(course.steady().2.max(0.0)) } else { window.0 };
        let lost = match self.measure.warm_up.is_zero() {
            true => watched.lost_between(counted_from, window.1),
            false => watched.lost_in_warm_up_or_between(window.0, counted_from, window.1),
        };
        let mut measured = self.conclude(course, cpu, interrupted, left);
        // Lost time explains contradictions, so it takes precedence.
        measured.problem = measured.problem.or(lost.map(|lost| lost.to_string()));
        // A steady state is part of the run, and its latencies are counted slightly late.
        if B::EXECUTES && all_ended && !steady {
            let account = Account {
                programs: &shared.programs,
                counted: &measured.counted,
                thread_seconds: self.thread_seconds(begin_tick, end_tick),
                cut_seconds: self.cut_seconds(),
                waiting: self.waiting(),
                cpu_seconds: cpu,
                threads_stayed,
            };
            measured.messages.extend(account.unchecked());
            measured.problem = measured.problem.or(account.contradiction());
        }
        measured
    }

    /// Converts the measured time from ticks to CLOCK_MONOTONIC.
    fn window(&self, begin_tick: u64, end_tick: u64) -> (Duration, Duration) {
        let engine = self.shared.clock;
        let (tick, now) = (engine.now(), clock::monotonic());
        let ago = |then: u64| now.saturating_sub(Duration::from_nanos(engine.nanoseconds(tick.saturating_sub(then))));
        (ago(begin_tick), ago(end_tick))
    }

    fn thread_seconds(&self, begin_tick: u64, end_tick: u64) -> f64 {
        let ticks =
            |record: &Arc<ThreadRecord>| end_tick.saturating_sub(record.began.load(Ordering::Relaxed).max(begin_tick));
        self.shared.clock.nanoseconds(self.records.iter().map(ticks).sum()) as f64 / 1e9
    }

    fn cut_seconds(&self) -> f64 {
        let ticks = self.records.iter().map(|record| record.cut.load(Ordering::Relaxed)).sum();
        self.shared.clock.nanoseconds(ticks) as f64 / 1e9
    }

    fn waiting(&self) -> Option<Waiting> {
        let waits = self.records.iter().map(|record| record.waiting.load(Ordering::Relaxed));
        let waits: Option<Vec<f64>> =
            waits.map(|nanoseconds| (nanoseconds != u64::MAX).then_some(nanoseconds as f64 / 1e9)).collect();
        waits.map(|waits| Waiting {
            seconds: waits.iter().sum(),
            longest_seconds: waits.iter().copied().fold(0.0, f64::max),
        })
    }

    /// Returns whether no thread ended early. A thread ends early if it finds no file, or counts the last requested
    /// operation.
    fn threads_stay(&self) -> bool {
        let counts_operations = matches!(self.measure.length, Length::Operations(_));
        let none_left = self.shared.ended.load(Ordering::SeqCst) == 0;
        self.shared.ending().is_none() && (none_left || counts_operations && self.shared.quit_mode != QuitMode::AllDone)
    }

    /// Sets the time window in which operations count; returns the first tick.
    fn open_window(&self) -> u64 {
        let clock = self.shared.clock;
        let ticks = |time: Duration| clock.ticks(time.as_nanos().min(u128::from(u64::MAX / 4)) as u64);
        let begin = clock.now() + ticks(self.measure.warm_up);
        self.shared.count_from.store(begin, Ordering::SeqCst);
        if let Some(time) = self.longest() {
            self.shared.count_until.store(begin.saturating_add(ticks(time)), Ordering::SeqCst);
        }
        match self.measure.length {
            // A phase has whole units only.
            Length::Time(time) | Length::Steady(time) if time.subsec_nanos() > 0 => {
                self.progress.phase(&format!("running: {} s", time.as_secs_f64()), 0, "seconds")
            }
            Length::Time(time) | Length::Steady(time) => self.progress.phase("running", time.as_secs(), "seconds"),
            Length::Operations(count) => self.progress.phase("running", count, "operations"),
        }
        begin
    }

    fn longest(&self) -> Option<Duration> {
        match self.measure.length {
            Length::Time(time) | Length::Steady(time) => Some(time),
            Length::Operations(_) => None,
        }
    }

    fn show(&self, interval: &Interval) {
        let done = match self.measure.length {
            Length::Operations(_) => self.shared.places_taken.load(Ordering::Relaxed),
            _ => interval.seconds as u64,
        };
        let note = format!("{:.0} ops/s, {:.1} MB/s", interval.ops_per_second, interval.mb_per_second);
        self.progress.position(done, &note);
    }

    fn conclude(
        &mut self,
        course: IntervalSeries<'_>,
        cpu: (f64, f64),
        interrupted: bool,
        left: Option<String>,
    ) -> MeasuredPhase {
        let (mut counted, mut seconds) = course.whole();
        let mut problem = left;
        if let Length::Steady(most) = self.measure.length {
            if course.is_steady() {
                let (steady, length, begin) = course.steady();
                (counted, seconds) = (steady, length);
                self.messages.push(format!("steady after {begin:.1} s; the result is the {length:.1} s after it"));
            } else if !interrupted && self.shared.ending().is_none() {
                problem = Some(format!("no steady state within {} s", most.as_secs_f64()));
            }
        }
        let messages = std::mem::take(&mut self.messages);
        MeasuredPhase { counted, seconds, cpu, intervals: course.intervals, interrupted, problem, messages }
    }

    fn all_ended(&self) -> bool {
        self.shared.ended.load(Ordering::SeqCst) == self.records.len()
    }

    /// Reports threads whose system call takes too long, each call once.
    fn watch(&mut self) {
        let clock = self.shared.clock;
        let (limit, now) = (clock.ticks(self.measure.stuck_after.as_nanos() as u64), clock.now());
        for (number, record) in self.records.iter().enumerate() {
            let (activity, since) = (record.activity.load(Ordering::Relaxed), record.since.load(Ordering::Relaxed));
            let waiting = now.saturating_sub(since);
            if activity == 0 || waiting < limit {
                if !self.reported.is_empty() {
                    self.reported.remove(&number);
                }
                continue;
            }
            let Some(text) = describe(self.shared, record) else { continue };
            if self.reported.insert(number) {
                let text = format!("stuck for {} s: {text}", clock.nanoseconds(waiting) / 1_000_000_000);
                self.progress.say(&text);
                self.messages.push(text);
            }
        }
    }

    /// Waits until all threads have ended; returns the description of one that does not.
    fn wait_for_threads(&self) -> Option<String> {
        let end = Instant::now() + self.measure.stuck_after;
        while !self.all_ended() {
            if Instant::now() >= end {
                let stuck = self.records.iter().find(|record| !record.ended.load(Ordering::SeqCst))?;
                let what = describe(self.shared, stuck).unwrap_or_else(|| "a thread is between two flowops".into());
                return Some(format!("{} s after the end of the run, {what}", self.measure.stuck_after.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

/// Describes the activity of a thread; `None` if it waits as the workload requires, or does nothing.
fn describe<B: FileCalls>(shared: &Shared<B>, record: &ThreadRecord) -> Option<String> {
    let activity = record.activity.load(Ordering::Relaxed);
    let call = *SystemCall::ALL.get((activity >> 40 & 0xff) as usize)?;
    if activity == 0 || matches!(call, SystemCall::Wait | SystemCall::None) {
        return None;
    }
    let program = &shared.programs.list[record.program];
    let flowop = program.flowops().nth((activity >> 48) as usize - 1)?;
    let file = FileId { fileset: (activity >> 32 & 0xff) as u32, entry: activity as u32 };
    let fileset = shared.filesets.get(file.fileset as usize)?;
    let path =
        fileset.file_paths.get(file.entry as usize).map_or_else(String::new, |path| path.to_string_lossy().into());
    Some(format!(
        "flowop {} of thread {}-{} is in {} on {}",
        flowop.spec.name,
        program.thread,
        record.instance,
        call.name(),
        fileset.path.join(path).display()
    ))
}

fn finish<B: FileCalls>(shared: &Shared<B>, measured: MeasuredPhase) -> (Repetition, Sample) {
    let mut result = measured.counted.repetition(&shared.programs.flowops, measured.seconds);
    (result.user_cpu_seconds, result.system_cpu_seconds) = measured.cpu;
    result.over_time = measured.intervals;
    result.messages = shared.messages.lock().map(|messages| messages.clone()).unwrap_or_default();
    result.messages.extend(measured.messages);
    let ending = shared.ending();
    result.interrupted = measured.interrupted;
    let interrupted = measured
        .interrupted
        .then(|| format!("interrupted after {:.1} s; the numbers so far are kept", measured.seconds));
    let failure = match &ending {
        Some(Ending::Failed(why) | Ending::Invalid(why)) => Some(why.clone()),
        _ => interrupted.or(measured.problem),
    };
    let nothing =
        (result.ops == 0 && failure.is_none()).then(|| "no operation completed in the measured time".to_string());
    let failure = failure.or(nothing);
    result.valid = failure.is_none();
    result.io_failed = matches!(ending, Some(Ending::Failed(_)));
    if !result.valid && !result.interrupted {
        // The rate of an invalid run must not look like a result.
        (result.ops_per_second, result.mb_per_second) = (0.0, 0.0);
    }
    result.reason = failure.or(match ending {
        Some(Ending::Finished(why)) => Some(why),
        _ => None,
    });
    (result, measured.counted)
}
